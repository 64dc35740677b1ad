#!/usr/bin/env python3
"""Draws the layers in docs/ARCHITECTURE.md from src/README.md and the includes of src/.

    scripts/architecture_doc.py           write them
    scripts/architecture_doc.py --check   fail when the page is out of date
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/ARCHITECTURE.md"
BEGIN = "<!-- made by scripts/architecture_doc.py from src/README.md -->\n"
END = "<!-- end -->\n"


def layers():
    """Folders, the uppermost first."""
    line = re.search(r"^Ladder: (.*)$", (ROOT / "src/README.md").read_text(), re.MULTILINE)
    return line.group(1).split(" < ")[::-1]


def contents():
    """What src/README.md says is in each folder."""
    texts = {}
    for row in (ROOT / "src/README.md").read_text().splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if row.startswith("| `") and len(cells) == 3:
            for folder in re.findall(r"`(\w+)/`", cells[0]):
                texts[folder] = cells[1]
    return texts


def includes(folder, order):
    """The other folders that its files include, the uppermost first."""
    found = set()
    for path in (ROOT / "src" / folder).glob("*.[ch]"):
        found.update(re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE))
    return [name for name in order if name in found and name != folder]


def drawn():
    order, texts = layers(), contents()
    rows = ["| layer | includes | what is in it |", "|---|---|---|"]
    for folder in order:
        rows.append(f"| `{folder}` | {' '.join(includes(folder, order)) or '-'} | {texts[folder]} |")
    return BEGIN + "\n" + "\n".join(rows) + "\n\n" + END


def main():
    old = PAGE.read_text()
    new = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: drawn(), old, flags=re.DOTALL)
    if sys.argv[1:] == ["--check"]:
        if new != old:
            sys.exit(f"{PAGE.name} is out of date: run scripts/architecture_doc.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
