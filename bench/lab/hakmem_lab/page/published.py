"""A comparison's summary as it is published: what the page and its drawings need, a row a line."""

import json
from pathlib import Path

# Of a row, and of an allocator in it: what only a closer look at the run itself asks for.
NOT_OF_ROWS = {"counts"}
NOT_OF_CELLS = {
    "disturbed", "involuntary", "major_faults", "printed", "spread", "voluntary",
}  # fmt: skip
DIGITS = 7


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def _without(fields, names):
    return {name: value for name, value in fields.items() if name not in names}


def _row(row):
    cells = {name: _without(cell, NOT_OF_CELLS) for name, cell in row["allocators"].items()}
    return {**_without(row, NOT_OF_ROWS), "allocators": cells}


def _without_places(summary) -> dict:
    """No folder of the machine it was made on."""
    machine = dict(summary.get("machine", {}))
    machine["environment"] = _without(machine.get("environment", {}), {"HAKMEM_BENCH_SUITE"})
    words = summary.get("command", "").split(" ")
    if "--out" in words:
        del words[words.index("--out") : words.index("--out") + 2]
    found = {
        name: {**allocator, "library": allocator.get("library") and Path(allocator["library"]).name}
        for name, allocator in summary.get("allocators", {}).items()
    }
    return {**summary, "machine": machine, "command": " ".join(words), "allocators": found}


def text(summary) -> str:
    head = _rounded(_without(_without_places(summary), {"rows"}))
    rows = [json.dumps(_rounded(_row(row)), separators=(",", ":")) for row in summary["rows"]]
    return json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + ",\n".join(rows) + "\n]}\n"
