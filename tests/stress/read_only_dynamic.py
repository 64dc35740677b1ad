"""A program whose dynamic section cannot be written to (ld.lld -z rodynamic): the loader leaves the addresses in it as
the linker wrote them.

    read_only_dynamic.py LIBRARY TEST_STRESS_FORK_FIRST
"""

import os
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

PT_DYNAMIC, PF_W = 2, 2


def make_read_only(path):
    """Clears the right to write in the program header of the section."""
    with open(path, "r+b") as file:
        head = file.read(64)
        (start,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for i in range(count):
            file.seek(start + i * size)
            kind, flags = struct.unpack("<II", file.read(8))
            if kind == PT_DYNAMIC:
                file.seek(start + i * size + 4)
                file.write(struct.pack("<I", flags & ~PF_W))
                return
    harness.fail(f"{path} has no dynamic section")


def main():
    library, program = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(program, os.path.join(folder, "program"))
        make_read_only(copy)
        print(harness.must_run([copy, "mutex", "20"], env={"LD_PRELOAD": library}).out.decode(), end="")


main()
