#!/usr/bin/env python3
"""Draws the layers in docs/ARCHITECTURE.md from src/README.md.

    scripts/architecture_doc.py           write them
    scripts/architecture_doc.py --check   fail when the page is out of date
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/ARCHITECTURE.md"
README = (ROOT / "src/README.md").read_text()
BEGIN = "<!-- made by scripts/architecture_doc.py from src/README.md -->\n"
END = "<!-- end -->\n"


def drawn():
    """A line for each folder, the uppermost first: its name, and the first words of its row."""
    ladder = re.search(r"^Ladder: (.*)$", README, re.MULTILINE).group(1)
    texts = dict(re.findall(r"^\| `(\w+)/` \| ([^|;]+?)(?:;[^|]*)? \|", README, re.MULTILINE))
    lines = [f"{folder:<13}{texts[folder]}" for folder in ladder.split(" < ")[::-1]]
    return BEGIN + "```\n" + "\n".join(lines) + "\n```\n" + END


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
