"""The library is marked for control-flow protection: a program that has it keeps it beside HAKMEM.

    protection.py COMPILER FILE...

x86-64: shadow stacks. AArch64: branch targets and signed addresses; the linker marks a library only if
the compiler's start files are marked, too, as Debian's are not.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

MARKS = {"X86-64": {"SHSTK"}, "AArch64": {"BTI", "PAC"}}


def marks_of(path):
    notes = harness.must_run(["readelf", "-nW", path]).out.decode()
    found = re.search(r"(?:x86|AArch64) feature: (.*)", notes)
    return set(found.group(1).replace(" ", "").split(",")) if found else set()


def start_files_are_marked(compiler):
    for name in ("crti.o", "crtbeginS.o"):
        path = harness.must_run([compiler, f"-print-file-name={name}"]).out.decode().strip()
        if not MARKS["AArch64"] <= marks_of(path):
            return False
    return True


def main():
    compiler = sys.argv[1]
    for path in sys.argv[2:]:
        head = harness.must_run(["readelf", "-hW", path]).out.decode()
        machine = re.search(r"Machine:.*?(X86-64|AArch64)", head)
        if not machine:
            harness.fail(f"{path} is for another machine")
        if machine.group(1) == "AArch64" and re.search(r"Type:\s+DYN", head) and \
                not start_files_are_marked(compiler):
            print(f"{path}: {compiler} links start files without a mark")
            continue
        marks = marks_of(path)
        if not MARKS[machine.group(1)] <= marks:
            harness.fail(f"{path} is marked for {sorted(marks)}, not {MARKS[machine.group(1)]}")


main()
