"""What many threads write shares a cache line with nothing else, and not with what all read.

    lines.py LIBRARY SOURCES

Each variable that the sources declare with HAK_OWN_LINE, or HAK_MAP_LINE, is alone in its lines.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

LINE = 64
DECLARED = re.compile(r"(\w+) HAK_(?:OWN|MAP)_LINE\b")


def declared(folder):
    """Names of the variables that ask for a line of their own."""
    names = set()
    for root, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".c"):
                with open(os.path.join(root, name), encoding="utf-8") as source:
                    names.update(DECLARED.findall(source.read()))
    return names


def variables(library):
    """(first line, last line, name) of each variable of the library."""
    found = []
    for row in harness.must_run(["nm", "-S", library]).out.decode().splitlines():
        words = row.split()
        if len(words) == 4 and words[2] in "bBdD":
            start, size = int(words[0], 16), int(words[1], 16)
            found.append((start // LINE, (start + max(size, 1) - 1) // LINE, words[3].split(".")[0]))
    return found


def main():
    alone, found = declared(sys.argv[2]), variables(sys.argv[1])
    missing = alone - {name for _, _, name in found}
    if not alone or missing:
        harness.fail(f"not in the library: {sorted(missing)}")
    for first, last, name in found:
        if name not in alone:
            continue
        beside = {other for begin, end, other in found
                  if begin <= last and end >= first and other != name}
        if beside:
            harness.fail(f"{name} shares a cache line with {', '.join(sorted(beside))}")


main()
