"""ELF files and core files, for the debugger's reader of the heap: make_reader.py puts them into it, since gdb loads
one file.
"""

import os
import struct

# The variables that the reader begins with.
SYMBOLS = ("hak_map", "hak_classes", "all_caches", "hak_huge_table", "hak_huge_stats")


class Unreadable(Exception):
    """Memory that is not there, or a heap that is none of this build's."""


class Elf:
    """An ELF file of 64 bits, little-endian: the libraries, programs and cores of our machines."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "rb")  # noqa: SIM115  kept open: a core is large
        self.length = os.fstat(self.file.fileno()).st_size
        head = self.file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            raise Unreadable(f"{path} is no ELF file of 64 bits")
        self.kind, self.machine = struct.unpack_from("<HH", head, 16)
        segments, sections = struct.unpack_from("<QQ", head, 32)
        size, count, self.section_size, self.section_count, names = struct.unpack_from("<HHHHH", head, 54)
        self.segments = [struct.unpack("<IIQQQQQQ", self.at(segments + i * size, 56)) for i in range(count)]
        self.sections = [struct.unpack("<IIQQQQIIQQ", self.at(sections + i * self.section_size, 64))
                         for i in range(self.section_count)]
        self.names = names

    def at(self, place, size):
        if place + size > self.length:
            raise Unreadable(f"{self.path} is cut off")
        self.file.seek(place)
        return self.file.read(size)

    def section_named(self, wanted):
        if not self.sections:
            return None
        names = self.at(self.sections[self.names][4], self.sections[self.names][5])
        for section in self.sections:
            if names[section[0]:names.index(b"\0", section[0])] == wanted.encode():
                return section
        return None

    def section(self, wanted):
        section = self.section_named(wanted)
        return self.at(section[4], section[5]) if section else b""

    def symbols(self):
        """Addresses of the variables that the reader begins with; {} where the file has no symbol table."""
        table, section = self.section(".symtab"), self.section_named(".symtab")
        if not section:
            return {}
        names = self.at(self.sections[section[6]][4], self.sections[section[6]][5])
        found = {}
        for name, _, _, shndx, value, _ in struct.iter_unpack("<IBBHQQ", table):
            if shndx == 0:
                continue
            text = names[name:names.index(b"\0", name)].decode(errors="replace").split(".")[0]
            if text in SYMBOLS:
                found[text] = value
        return found if len(found) == len(SYMBOLS) else {}

    def notes(self, kind, data=None):
        """The contents of the notes of a kind."""
        for segment in self.segments if data is None else ():
            if segment[0] == 4:
                yield from self.notes(kind, self.at(segment[2], segment[5]))
        place = 0
        while data and place + 12 <= len(data):
            name_size, size, found = struct.unpack_from("<III", data, place)
            place += 12 + (name_size + 3 & -4)
            if found == kind:
                yield data[place:place + size]
            place += size + 3 & -4

    def build_id(self):
        return next((note.hex() for note in self.notes(3)), None)

    def first_address(self):
        """Where the file's beginning is mapped, by its own addresses."""
        return min(segment[3] - segment[2] for segment in self.segments if segment[0] == 1)


class Core:
    """A core file: memory, and the files that were mapped."""

    def __init__(self, path):
        self.elf = Elf(path)
        if self.elf.kind != 4:
            raise Unreadable(f"{path} is no core file")
        self.loads = sorted((segment[3], segment[5], segment[2]) for segment in self.elf.segments if segment[0] == 1)
        status = next(self.elf.notes(1), b"")
        self.signal = struct.unpack_from("<h", status, 12)[0] if len(status) > 14 else 0
        info = next(self.elf.notes(3), b"")
        self.pid = struct.unpack_from("<i", info, 24)[0] if len(info) > 56 else 0
        self.name = info[40:56].split(b"\0")[0].decode(errors="replace") if len(info) > 56 else "?"
        self.files = list(self.mapped_files())

    def mapped_files(self):
        """(start, file) of each mapping of the beginning of a file."""
        for note in self.elf.notes(0x46494C45):
            count, page = struct.unpack_from("<QQ", note)
            names = note[16 + count * 24:].split(b"\0")
            for i in range(count):
                start, _, offset = struct.unpack_from("<QQQ", note, 16 + i * 24)
                if offset * page == 0:
                    yield start, os.fsdecode(names[i])

    def read(self, address, size):
        out = b""
        while size:
            for start, length, place in self.loads:
                if start <= address < start + length:
                    part = self.elf.at(place + address - start, min(size, start + length - address))
                    break
            else:
                raise Unreadable(f"the core does not have the memory at {address:#x}")
            out, address, size = out + part, address + len(part), size - len(part)
        return out

    def build_id_at(self, start):
        """That of the file whose beginning is mapped there, out of the core itself."""
        try:
            head = self.read(start, 4096)
            place, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            for i in range(count):
                kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, place + i * size)
                if kind == 4:
                    found = next(self.elf.notes(3, head[offset:offset + length]), None)
                    if found:
                        return found.hex()
        except (Unreadable, struct.error):
            pass
        return None
