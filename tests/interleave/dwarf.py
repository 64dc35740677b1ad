"""Variables and types of an ELF file, as far as coverage.py asks, from what readelf prints (DWARF 5)."""

import os
import re
import subprocess

TRANSPARENT = {"typedef", "const_type", "volatile_type"}
AGGREGATES = {"structure_type", "union_type"}

# Half of all entries, and most attributes: nobody asks for them.
UNASKED = {"inlined_subroutine", "lexical_block", "call_site"}
UNASKED_LEAVES = tuple(f"(DW_TAG_{tag})" for tag in (
    "enumerator", "formal_parameter", "label", "call_site_parameter", "unspecified_parameters"))
ASKED = {"abstract_origin", "byte_size", "data_member_location", "decl_file", "decl_line", "declaration", "external",
         "location", "name", "specification", "stmt_list", "type", "upper_bound"}

DIE = re.compile(r"^ <(\d+)><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
INDIRECT = re.compile(r"^\((?:indirect|alt indirect|indexed|string)[^)]*\)(?::)? ?")


def number(text):
    """The number of an attribute: newer versions of readelf print its form before it."""
    text = re.sub(r"^\([^)]*\)\s*", "", text) if text.startswith("(") else text
    return int(text.split(None, 1)[0], 0)


class Die:
    """One entry: its tag, its attributes as readelf prints them, its parent and children."""

    def __init__(self, debug, offset, tag, parent, unit):
        self.debug, self.offset, self.tag, self.parent = debug, offset, tag, parent
        self.unit = unit or self
        self.attributes, self.children = {}, []

    def name(self):
        return INDIRECT.sub("", self.attributes.get("name", ""))

    def number(self, attribute, otherwise=None):
        text = self.attributes.get(attribute)
        return otherwise if text is None else number(text)

    def link(self, attribute):
        text = self.attributes.get(attribute)
        if not text:
            return None
        start = text.index("<0x") + 3
        return self.debug.dies.get(int(text[start:text.index(">", start)], 16))

    def type(self):
        return self.link("type")

    def address(self):
        """Of a variable that has a fixed one."""
        found = re.search(r"\(DW_OP_addr: ([0-9a-f]+)\)", self.attributes.get("location", ""))
        return int(found[1], 16) if found else None

    def place(self):
        """(path from src/ or tests/ on, line) of the declaration, or None."""
        index = self.number("decl_file")
        if index is None:
            return None
        name = self.debug.files[self.unit.number("stmt_list")][index]
        for part in ("src", "tests"):
            if f"/{part}/" in name:
                return part + "/" + name.rpartition(f"/{part}/")[2], self.number("decl_line")
        return None

    def bare(self):
        """The type behind names and qualifiers, _Atomic being none of those."""
        die = self
        while die is not None and die.tag in TRANSPARENT:
            die = die.type()
        return die

    def element(self):
        """The same, and behind arrays."""
        die = self.bare()
        while die is not None and die.tag == "array_type":
            die = die.type().bare()
        return die

    def size(self):
        """Of a type, in bytes."""
        die = self.bare()
        if die is None:
            return 0
        if "byte_size" in die.attributes:
            return die.number("byte_size")
        if die.tag == "atomic_type":
            return die.type().size()
        if die.tag == "array_type":
            size = die.type().size()
            for child in die.children:
                size *= child.number("upper_bound", -1) + 1
            return size
        return 0


class Debug:
    """The entries of a file."""

    def __init__(self, path):
        self.dies, self.typedefs, self.by_name = {}, {}, {}
        self.files = {}
        self._read_files(path)
        self._read_entries(path)
        for die in self.dies.values():
            if die.tag == "typedef" and die.type() is not None:
                self.typedefs.setdefault(die.type().offset, die.name())
            if die.tag in AGGREGATES | {"typedef"} and "declaration" not in die.attributes:
                self.by_name.setdefault(die.name(), die)

    def _read_files(self, path):
        """The names of source files, for each line table by its offset."""
        table, folders, names = None, [], None
        for line in readelf("--debug-dump=rawline", path):
            if line.startswith("  Offset:"):
                folders, names, table = [], self.files.setdefault(number(line.split(":")[1]), []), None
            elif "Directory Table" in line:
                table = folders
            elif "File Name Table" in line:
                table = names
            elif not line.strip():
                table = None
            elif table is not None and re.match(r"^  \d+\t", line):
                fields = line.strip().split("\t")
                text = INDIRECT.sub("", fields[-1])
                folder = folders[number(fields[1])] if table is names else (folders or [""])[0]
                table.append(os.path.normpath(os.path.join(folder, text)))

    def _read_entries(self, path):
        open_dies, die, unit = [], None, None
        for line in readelf("--debug-dump=info", path):
            if not line.startswith(" <"):
                if die is not None:
                    name, _, value = line.partition(":")
                    name = name[name.find("DW_AT_") + 6:].rstrip()
                    if name in ASKED:
                        die.attributes[name] = value.strip()
                continue
            if line.endswith(UNASKED_LEAVES):
                die = None
                continue
            head = DIE.match(line)
            if not head:
                continue
            level, offset = int(head[1]), int(head[2], 16)
            del open_dies[level:]
            if head[3] in UNASKED:
                die = None
                open_dies.append(die)
                continue
            parent = open_dies[level - 1] if level else None
            if not level:
                unit = None
            die = Die(self, offset, head[3], parent, unit)
            unit = die.unit
            if parent is not None:
                parent.children.append(die)
            open_dies.append(die)
            self.dies[offset] = die

    def of(self, *tags):
        return [die for die in self.dies.values() if die.tag in tags]

    def variables(self):
        """(entry that declares, entry that defines) of each variable."""
        for die in self.of("variable"):
            origin = die.link("specification") or die.link("abstract_origin") or die
            if origin.name() and origin.type() is not None:
                yield origin, die


def readelf(*words):
    done = subprocess.run(["readelf", *map(str, words)], check=True, capture_output=True,
                          text=True, env={**os.environ, "LC_ALL": "C"})
    return done.stdout.splitlines()


def symbol(path, name):
    """The address of a symbol."""
    for line in readelf("-W", "--symbols", path):
        fields = line.split()
        if len(fields) == 8 and fields[7] == name:
            return int(fields[1], 16)
    raise LookupError(f"{path} has no symbol {name}")
