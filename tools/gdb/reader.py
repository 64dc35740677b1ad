"""Reads HAKMEM's heap from outside: in gdb, of a process or a core; without gdb, of a core.

In gdb (source this file, or let gdb load it beside the library):

    hakmem block ADDRESS      what lies there: a block in use, a free one and who has it, its size class and slab
    hakmem heap               what the heap consists of, by size class

`hakmem explain CORE` runs it as a program. It only reads, and nothing runs in the process. What it looks at is the map
of units, their descriptors, the caches of threads and the tables of huge blocks: src/README.md says where each of them
is described. Under HAKMEM_PROFILE=HARDENED blocks in quarantine count as in use.
"""

import os
import struct
import sys

from elf import SYMBOLS, Core, Elf, Unreadable  # make_reader.py has the text of elf.py here

# Filled in for one build of the library by make_reader.py.
LAYOUT = {}
KNOWN = {}  # build id -> addresses of SYMBOLS, for a library without a symbol table
CACHES_MOST = 1 << 20


def addresses_in(path, base, build_id=None):
    """Where the variables are, if a file that is mapped at `base` has HAKMEM in it; {} if not.

    Fails if the file is another one than was mapped.
    """
    try:
        elf = Elf(path)
        own = elf.build_id()
        found, first = elf.symbols() or KNOWN.get(own, {}), elf.first_address()
    except (OSError, Unreadable):
        own, found, first = None, KNOWN.get(build_id, {}), 0
    if found and own and build_id and own != build_id:
        found = KNOWN.get(build_id)
        if not found:
            raise Unreadable(f"{path} is not the file that the process had mapped")
    return {name: base - first + value for name, value in found.items()}


# ---- The heap ------------------------------------------------------------------------------------


class Heap:
    """The heap in a memory; `read(address, size)` gives bytes of it."""

    def __init__(self, read, addresses):
        self.read, self.addresses = read, addresses
        place = addresses["hak_map"]
        self.entries = self.word(place + LAYOUT["map.entries"])
        self.units = self.word(place + LAYOUT["map.units"])
        self.supers = self.word(place + LAYOUT["map.supers"])
        self.unit_end = self.word(place + LAYOUT["map.unit_end"])
        self.super_shift = self.word(place + LAYOUT["map.super_shift"], 4)
        if not self.entries or self.super_shift not in (3, 4, 5):
            raise Unreadable("the process has allocated nothing yet, or is of another build")
        size = LAYOUT["class"]
        rows = read(addresses["hak_classes"], size * LAYOUT["HAK_CLASS_LIMIT"])
        self.classes = [self.class_of_row(rows[at:at + size]) for at in range(0, len(rows), size)]
        self.cached = self.read_caches()

    def word(self, address, size=8):
        return int.from_bytes(self.read(address, size), "little")

    @staticmethod
    def class_of_row(row):
        def field(name, size):
            at = LAYOUT["class." + name]
            return int.from_bytes(row[at:at + size], "little")

        return {"size": field("size", 4), "count": field("count", 2), "words": field("words", 1),
                "colours": field("colours", 2), "step": field("step_shift", 2)}

    # -- units

    def unit_number(self, address):
        unit = address - self.entries >> LAYOUT["HAK_UNIT_SHIFT"]
        return unit if 0 <= unit < self.unit_end else None

    def class_of_entry(self, entry):
        return entry % LAYOUT["HAK_SAMPLER_AT"] >> LAYOUT["HAK_MAGAZINE_SHIFT"]

    def unit_class(self, unit):
        return self.class_of_entry(self.word(self.entries + 2 * unit, 2))

    def unit_field(self, unit, name, size):
        return self.word(self.units + unit * LAYOUT["unit"] + LAYOUT["unit." + name], size)

    def super_field(self, unit, name, size):
        place = self.supers + (unit >> self.super_shift) * LAYOUT["superslab"]
        return self.word(place + LAYOUT["superslab." + name], size)

    def unit_start(self, unit):
        return self.entries + (unit << LAYOUT["HAK_UNIT_SHIFT"])

    def first_block(self, start, info):
        mixed = (start >> 16) * 40503 & 0xFFFF
        return start + (mixed * info["colours"] >> 16 << info["step"])

    # -- caches

    def blocks_of(self, magazine):
        """The free blocks of a magazine, the oldest first."""
        top, base = (self.word(magazine + LAYOUT["magazine." + name]) for name in ("top", "base"))
        slots = self.word(magazine + LAYOUT["magazine.slots"], 2)
        if not base or not slots or not base < top < base + 8 * slots:
            return ()
        return struct.unpack(f"<{(top - base) // 8}Q", self.read(base + 8, top - base))

    def read_caches(self):
        """{block: thread's number} of all free blocks in caches."""
        found, cache, seen = {}, self.word(self.addresses["all_caches"]), 0
        size = LAYOUT["magazine"]
        while cache and seen < CACHES_MOST:
            seen += 1
            tid = self.word(cache + LAYOUT["cache.tid"], 4)
            magazines = [cache + size * index for index in range(LAYOUT["HAK_CLASS_LIMIT"])]
            if self.word(cache + LAYOUT["cache.has_sampler"], 1):
                shares = cache + LAYOUT["HAK_SAMPLER_AT"]
                magazines += [shares + size * index for index in range(LAYOUT["HAK_CLASS_SMALL"] + 1)]
            for magazine in magazines:
                found.update(dict.fromkeys(self.blocks_of(magazine), tid))
            cache = self.word(cache + LAYOUT["cache.next"])
        return found

    # -- huge blocks

    def huge(self):
        """(start, size) of each huge block."""
        row, table_size = LAYOUT["mapping"], LAYOUT["huge_table"]
        for index in range(LAYOUT["HAK_HUGE_TABLE_MAX"]):
            table = self.addresses["hak_huge_table"] + index * table_size
            for part in ("current", "former"):
                place = table + LAYOUT["huge_table." + part]
                slots, count = self.word(place + LAYOUT["slots.slots"]), self.word(place + LAYOUT["slots.size"], 4)
                data = self.read(slots, count * row) if slots and count else b""
                for at in range(0, len(data), row):
                    start = int.from_bytes(data[at + LAYOUT["mapping.start"]:][:8], "little")
                    if start:
                        yield start, int.from_bytes(data[at + LAYOUT["mapping.size"]:][:8], "little")

    # -- one block

    def block(self, address):
        """What lies at an address, as lines."""
        unit = self.unit_number(address)
        class_index = self.unit_class(unit) if unit is not None else 0
        if class_index == LAYOUT["HAK_CLASS_LARGE"]:
            return self.large_block(address, unit)
        if class_index:
            return self.small_block(address, unit, class_index)
        for start, size in self.huge():
            if start <= address < start + size:
                return self.described(address, start, size, "in use", "a mapping of its own")
        if unit is not None:
            try:
                if self.super_field(unit, "units", 8) and self.super_field(unit, "mapped", 1):
                    return [f"{address:#x} lies in a free unit of HAKMEM's heap"]
            except Unreadable:
                pass
        return [f"{address:#x} is not HAKMEM's"]

    @staticmethod
    def described(address, start, size, state, where):
        inside = f"{address - start} bytes inside " if address != start else ""
        return [f"{address:#x} lies {inside}a block of {size} bytes at {start:#x}" if inside else
                f"{address:#x} is a block of {size} bytes", f"  {state}", f"  {where}"]

    def small_block(self, address, unit, class_index):
        info, start = self.classes[class_index], self.unit_start(unit)
        first = self.first_block(start, info)
        index = (address - first) // info["size"]
        owner = self.unit_field(unit, "owner", 2)
        where = f"slab {start:#x} of shard {owner >> 8}, size class {info['size']}, " \
                f"{self.unit_field(unit, 'free_count', 2)} of {info['count']} free"
        if address < first or index >= info["count"]:
            return [f"{address:#x} lies in no block", f"  {where}"]
        block = first + index * info["size"]
        return self.described(address, block, info["size"], self.state_of(block, unit, index, info), where)

    def state_of(self, block, unit, index, info):
        if block in self.cached:
            tid = self.cached[block]
            return f"free, in the cache of thread {tid}" if tid else "free, in a cache that waits for a thread"
        bits = self.unit_field(unit, "bits", 8) & ~LAYOUT["HAK_SLAB_MARKS"]
        if self.word(bits + index // 64 * 8) >> index % 64 & 1:
            return "free, in its slab"
        remote = bits + 8 * (1 << (info["words"] - 1).bit_length())
        if self.word(remote + index // 64 * 8) >> index % 64 & 1:
            return "free, by a thread of another shard; the slab has not merged it yet"
        return "in use"

    def large_block(self, address, unit):
        if self.unit_field(unit, "owner", 2) == LAYOUT["HAK_FINE_OWNER"]:
            return [f"{address:#x} lies in a chunk of blocks that are cut to measure",
                    "  of a heap of the program, sampled ones, or any where addresses are short"]
        grain = LAYOUT["HAK_GRAIN_SIZE"]
        for back in range(unit, max(unit - 33, -1), -1):
            if self.unit_class(back) != LAYOUT["HAK_CLASS_LARGE"]:
                break
            run = self.unit_field(back, "large", 4)
            start, size = self.unit_start(back) + (run & 15) * grain, (run >> 5) * grain
            if run and start <= address < start + size:
                freed = run & LAYOUT["HAK_LARGE_FREED"]
                return self.described(address, start, size, "free, waits to be merged" if freed else "in use",
                                      "a large block")
        return [f"{address:#x} lies in free memory of a large heap"]

    # -- all of it

    def walk(self):
        """Sums: {class: [slabs, free in slabs, pending]}, large [blocks, bytes], units [free, dirty, large, cut to measure]."""
        slabs, large, units = {}, [0, 0], [0, 0, 0, 0]
        entries = struct.unpack(f"<{self.unit_end}H", self.read(self.entries, 2 * self.unit_end))
        count = 1 << self.super_shift
        used = [at for at in range(0, self.unit_end, count) if any(entries[at:at + count])]
        first = self.first_superslab(used[0]) if used else self.unit_end
        for at in range(first, self.unit_end, count):
            if not self.super_field(at, "mapped", 1) or not self.super_field(at, "units", 8):
                continue
            free, dirty = self.super_field(at, "free", 4), self.super_field(at, "dirty", 4)
            units[0] += bin(free).count("1")
            units[1] += bin(free & dirty).count("1")
            rows = self.read(self.units + at * LAYOUT["unit"], count * LAYOUT["unit"])
            for unit in range(at, min(at + count, self.unit_end)):
                class_index = self.class_of_entry(entries[unit])
                if class_index:
                    self.add_unit(rows[(unit - at) * LAYOUT["unit"]:], class_index, slabs, large, units)
        return slabs, large, units

    def first_superslab(self, unit):
        """The first unit of the heap: a superslab before one in use may be wholly free."""
        count = 1 << self.super_shift
        try:
            while unit >= count and self.super_field(unit - count, "units", 8) == \
                    self.units + (unit - count) * LAYOUT["unit"]:
                unit -= count
        except Unreadable:
            pass
        return unit

    def add_unit(self, row, class_index, slabs, large, units):
        def field(name, size):
            at = LAYOUT["unit." + name]
            return int.from_bytes(row[at:at + size], "little")

        if class_index == LAYOUT["HAK_CLASS_LARGE"]:
            is_fine = field("owner", 2) == LAYOUT["HAK_FINE_OWNER"]
            units[3 if is_fine else 2] += 1
            run = field("large", 4)
            if not is_fine and run and not run & LAYOUT["HAK_LARGE_FREED"]:
                large[0] += 1
                large[1] += (run >> 5) * LAYOUT["HAK_GRAIN_SIZE"]
            return
        sums = slabs.setdefault(class_index, [0, 0, 0])
        sums[0] += 1
        sums[1] += field("free_count", 2)
        remote = field("remote_words", 8)
        if remote:
            words = self.classes[class_index]["words"]
            place = (field("bits", 8) & ~LAYOUT["HAK_SLAB_MARKS"]) + 8 * (1 << (words - 1).bit_length())
            sums[2] += bin(int.from_bytes(self.read(place, 8 * words), "little")).count("1")

    def report(self):
        """What the heap consists of, as lines."""
        slabs, large, units = self.walk()
        cached = {}
        for block in self.cached:
            unit = self.unit_number(block)
            class_index = self.unit_class(unit) if unit is not None else 0
            cached[class_index] = cached.get(class_index, 0) + 1
        huge = list(self.huge())
        kept = self.word(self.addresses["hak_huge_stats"] + LAYOUT["huge_stats.kept_bytes"])
        lines, sums = [f"{'class':>8} {'live':>10} {'live_bytes':>14} {'cached':>10} {'free':>10} {'slabs':>8}"], [0] * 4
        for index in sorted(slabs, key=lambda index: self.classes[index]["size"]):
            size, (count, free, pending) = self.classes[index]["size"], slabs[index]
            free += pending
            live = count * self.classes[index]["count"] - free - cached.get(index, 0)
            lines.append(f"{size:>8} {live:>10} {live * size:>14} {cached.get(index, 0):>10} {free:>10} {count:>8}")
            sums = [a + b for a, b in zip(sums, (live * size, cached.get(index, 0) * size, free * size, count))]
        unit = 1 << LAYOUT["HAK_UNIT_SHIFT"]
        huge_bytes = sum(size for _, size in huge)
        parts = (("live, small", sums[0], "blocks up to 64 KiB"),
                 ("live, large", large[1], f"{large[0]} blocks up to 1 MiB"),
                 ("live, huge", huge_bytes, f"{len(huge)} blocks with a mapping each"),
                 ("thread caches", sums[1], "free blocks that threads keep at hand"),
                 ("free in slabs", sums[2], "also blocks that were never used, whose pages are not resident"),
                 ("free, large", units[2] * unit - large[1], "of large heaps"),
                 ("cut to measure", units[3] * unit, "of heaps of the program, and sampled blocks; used and free"),
                 ("free units", units[0] * unit, f"of them {amount(units[1] * unit)} still have their pages"),
                 ("kept", kept, "freed mappings, kept for reuse"))
        lines.append("")
        lines += [f"  {name:<15}{amount(size):>12}  {text}" for name, size, text in parts]
        return lines


def amount(size):
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


# ---- Without gdb ---------------------------------------------------------------------------------


def heap_of_core(core):
    for start, path in core.files:
        if addresses := addresses_in(path, start, core.build_id_at(start)):
            return Heap(core.read, addresses)
    raise Unreadable("the process did not run on HAKMEM, or on another build of it than this command is of")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: hakmem explain CORE")
    try:
        core = Core(sys.argv[1])
        lines = heap_of_core(core).report()
    except (struct.error, ValueError, LookupError, ArithmeticError):
        sys.exit(f"hakmem: explain: {sys.argv[1]} is damaged")
    except (Unreadable, OSError) as error:
        where = "" if sys.argv[1] in str(error) else f"{sys.argv[1]}: "
        sys.exit(f"hakmem: explain: {where}{error}")
    ended = f", ended by signal {core.signal}" if core.signal else ""
    print(f"process {core.pid} ({core.name}){ended}: heap\n")
    print("\n".join(lines))


# ---- In gdb --------------------------------------------------------------------------------------


def exported(path):
    """The address of hakmem_version by the file itself, to find where it is mapped."""
    elf = Elf(path)
    for table, names in ((".symtab", ".strtab"), (".dynsym", ".dynstr")):
        text = elf.section(names)
        for name, _, _, shndx, value, _ in struct.iter_unpack("<IBBHQQ", elf.section(table)):
            if shndx and text[name:text.find(b"\0", name)] == b"hakmem_version":
                return value - elf.first_address()
    return None


class Program:
    """The process or core that gdb has."""

    def __init__(self, gdb):
        self.gdb = gdb

    def read(self, address, size):
        try:
            return bytes(self.gdb.selected_inferior().read_memory(address, size))
        except self.gdb.error as error:
            raise Unreadable(str(error)) from None

    def number(self, expression):
        return int(self.gdb.parse_and_eval(expression)) & (1 << 64) - 1

    def heap(self):
        for objfile in self.gdb.objfiles():
            path = objfile.filename
            if not path or not os.path.exists(path) or objfile.owner:
                continue
            try:
                offset = exported(path)
            except (OSError, Unreadable, struct.error, ValueError, LookupError, ArithmeticError):
                continue
            if offset is None:
                continue
            try:
                base = self.number("(long)&hakmem_version") - offset
            except self.gdb.error:
                continue
            if addresses := addresses_in(path, base):
                return Heap(self.read, addresses)
        raise self.gdb.GdbError(
            "the program does not run on HAKMEM, or its library has no symbols and is of another build")

    def show(self, make):
        """Writes the lines that `make` makes."""
        try:
            self.gdb.write("\n".join(make()) + "\n")
        except (Unreadable, struct.error, self.gdb.error) as error:
            raise self.gdb.GdbError(f"hakmem: {error}") from None
        except (ValueError, LookupError, ArithmeticError):
            raise self.gdb.GdbError("hakmem: the memory of the process is damaged") from None


def add_commands(gdb):
    program = Program(gdb)

    class Hakmem(gdb.Command):
        """What lies in the heap of the HAKMEM allocator."""

        def __init__(self):
            super().__init__("hakmem", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    class Block(gdb.Command):
        """hakmem block ADDRESS: the block there: its size, whether it is in use, and where it lies."""

        def __init__(self):
            super().__init__("hakmem block", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

        def invoke(self, argument, from_tty):
            if not argument:
                raise gdb.GdbError("hakmem block needs an address")
            program.show(lambda: program.heap().block(program.number(f"(unsigned long)({argument})")))

    class Whole(gdb.Command):
        """hakmem heap: what the heap consists of, by size class."""

        def __init__(self):
            super().__init__("hakmem heap", gdb.COMMAND_DATA, gdb.COMPLETE_NONE)

        def invoke(self, argument, from_tty):
            program.show(lambda: program.heap().report())

    Hakmem(), Block(), Whole()


class Printer:
    """A descriptor of a unit, or a magazine, in one line."""

    def __init__(self, value, text):
        self.value, self.text = value, text

    def to_string(self):
        return self.text(self.value)


def add_printers(gdb):
    def unit_text(value):
        owner = int(value["owner"])
        if not owner:
            return f"unit {int(value['base']):#x}, free"
        if owner & 0x7F == LAYOUT["HAK_CLASS_LARGE"]:
            return f"unit {int(value['base']):#x} of a large heap"
        size = int(gdb.parse_and_eval(f"hak_classes[{owner & 0x7F}].size"))
        return f"slab {int(value['base']):#x} of shard {owner >> 8}, size class {size}, {int(value['free_count'])} free"

    def magazine_text(value):
        base = int(value["base"])
        blocks = (int(value["top"]) - base) // 8 if base else 0
        return f"magazine of {blocks} blocks, room for {max(int(value['slots']) - 1, 0)}"

    def printer(value):
        name = str(value.type.strip_typedefs().unqualified()) if value.type.name is None else value.type.name
        texts = {"hak_unit_t": unit_text, "hak_unit": unit_text, "struct hak_unit": unit_text,
                 "hak_magazine_t": magazine_text}
        return Printer(value, texts[name]) if name in texts else None

    gdb.pretty_printers.append(printer)


if __name__ == "__main__":
    try:
        import gdb as _gdb
    except ImportError:
        main()
    else:
        add_commands(_gdb)
        add_printers(_gdb)
