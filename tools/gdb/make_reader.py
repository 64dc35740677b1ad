"""Writes the debugger's reader of the heap for one build of the library.

    make_reader.py TEMPLATE LAYOUT LIBRARY OUT

OUT is TEMPLATE with elf.py in place of the line that imports it, and two tables: the layout, out of the section .hakmem_layout of a module that is never loaded, and the addresses
of the variables that the reader begins with, by the build id of the library. With them it reads a library that has
been stripped since.
"""

import pathlib
import pprint
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from elf import Elf  # noqa: E402

ROW = 64


def layout_of(path):
    data = Elf(path).section(".hakmem_layout")
    rows = (data[at:at + ROW] for at in range(0, len(data), ROW))
    return {row[:56].split(b"\0")[0].decode(): int.from_bytes(row[56:], "little") for row in rows if row[0]}


def main():
    template, layout, library, out = sys.argv[1:]
    elf = Elf(library)
    found = elf.symbols()
    if not found:  # it was linked with -s
        print(f"{library} has no symbols: a debugger will not be able to read its heap", file=sys.stderr)
    known = {elf.build_id() or "": found}
    text = pathlib.Path(template).read_text(encoding="utf-8")
    part = pathlib.Path(template).with_name("elf.py").read_text(encoding="utf-8").split("import struct\n", 1)[1]
    text, joined = re.subn(r"^from elf import .*$", lambda _: part.strip(), text, flags=re.M)
    if joined != 1:
        sys.exit(f"make_reader.py: {template} has no place for elf.py")
    for name, value in (("LAYOUT", layout_of(layout)), ("KNOWN", known)):
        text, count = re.subn(rf"^{name} = \{{\}}.*$", lambda _: f"{name} = {pprint.pformat(value, width=110)}",
                              text, flags=re.M)
        if count != 1:
            sys.exit(f"make_reader.py: {template} has no place for {name}")
    pathlib.Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
