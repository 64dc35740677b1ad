"""The library is marked for control-flow protection: a program that has it keeps it beside HAKMEM.

    protection.py FILE...

x86-64: shadow stacks. AArch64: branch targets and signed addresses.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

MARKS = {"X86-64": {"SHSTK"}, "AArch64": {"BTI", "PAC"}}


def main():
    for path in sys.argv[1:]:
        machine = re.search(r"Machine:.*?(X86-64|AArch64)",
                            harness.must_run(["readelf", "-hW", path]).out.decode())
        if not machine:
            harness.fail(f"{path} is for another machine")
        notes = harness.must_run(["readelf", "-nW", path]).out.decode()
        found = re.search(r"(?:x86|AArch64) feature: (.*)", notes)
        marks = set(found.group(1).replace(" ", "").split(",")) if found else set()
        if not MARKS[machine.group(1)] <= marks:
            harness.fail(f"{path} is marked for {sorted(marks)}, not {MARKS[machine.group(1)]}")


main()
