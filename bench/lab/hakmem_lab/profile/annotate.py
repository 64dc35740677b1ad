"""malloc and free, instruction by instruction, with what each cost."""

import re
from pathlib import Path

from . import tools

FUNCTIONS = ("malloc", "free")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
COLUMNS = (("Ir", "times"), ("Bcm", "mispred."), ("D1mr", "D1 misses"))


def ranges(library) -> dict:
    """{function: (address, size)} of the exported functions."""
    found = {}
    for line in tools.output(["readelf", "-W", "--dyn-syms", str(library)]).splitlines():
        words = line.split()
        if len(words) >= 8 and words[3] in ("FUNC", "IFUNC") and words[6] != "UND":
            found.setdefault(words[7].split("@")[0], (int(words[1], 16), int(words[2], 0)))
    return found


def listing(library, start, size) -> list:
    """[(address, instruction)]."""
    text = tools.output([
        "objdump", "-d", "--no-show-raw-insn", f"--start-address={start:#x}",
        f"--stop-address={start + size:#x}", str(library),
    ])  # fmt: skip
    matches = (LINE.match(line) for line in text.splitlines())
    return [(int(m.group(1), 16), m.group(2)) for m in matches if m]


def of_object(costs, library) -> dict:
    """{address: costs} of the library's code, by whatever name callgrind knows the file."""
    target = Path(library).resolve()
    found = {}
    for name, code in costs.instructions.items():
        if name and Path(name).resolve() == target:
            found.update(code)
    return found


def function(costs, library, name) -> str:
    """One function's listing."""
    where = ranges(library).get(name)
    if where is None or not where[1]:
        return f"{name}: not an exported function of {library}\n"
    code, lines = of_object(costs, library), []
    lines.append(f"{name} of {library}, {where[1]} bytes at {where[0]:#x}")
    lines.append("".join(f"{title:>12}" for _, title in COLUMNS) + "  instruction")
    for address, text in listing(library, *where):
        here = code.get(address)
        cells = [costs.event(event, here) if here else 0 for event, _ in COLUMNS]
        shown = "".join(f"{value:>12,}" if value else f"{'':>12}" for value in cells)
        lines.append(f"{shown}  {address:x}: {text}")
    return "\n".join(lines) + "\n"


def both(costs, library) -> dict:
    """{function: listing} of malloc and free."""
    return {name: function(costs, library, name) for name in FUNCTIONS}
