"""The cost table that the tree keeps, and what moved since it was made."""

import json

from ..errors import LabError
from ..paths import ROOT
from . import figures, show
from .programs import PROGRAMS

FOLDER = ROOT / "docs" / "benchmarks"
FILE, PAGE = FOLDER / "cost.json", FOLDER / "COST.md"
MOVED = 0.001  # what a second run may differ by
WATCHED = ("instructions", "allocator", "l1", "l2", "faults_small", "syscalls")


def compact(document) -> str:
    """JSON with a cell a line, so that a change of one is a change of one line."""
    lines = ["{"]
    for key, part in document.items():
        if key != "programs":
            lines.append(f" {json.dumps(key)}: {json.dumps(part)},")
    lines.append(' "programs": {')
    rows = []
    for name, row in document["programs"].items():
        cells = ",\n".join(
            f"   {json.dumps(allocator)}: "
            f"{json.dumps({key: one for key, one in cell.items() if key != 'functions'})}"
            for allocator, cell in row["cells"].items()
        )
        rows.append(f'  {json.dumps(name)}: {{"title": {json.dumps(row["title"])}, "cells": {{\n'
                    f"{cells}}}}}")  # fmt: skip
    return "\n".join([*lines, ",\n".join(rows), " }", "}"]) + "\n"


def load(path=FILE) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise LabError(f"cannot read the published costs: {path}: {error}") from None


def write(document, command, file=FILE, page=PAGE) -> None:
    """Makes this document the published one, with the programs in their order."""
    machine, rows = document["machine"], document["programs"]
    order = [program.name for program in PROGRAMS if program.name in rows]
    order += [name for name in rows if name not in order]
    machine = {name: fact for name, fact in machine.items() if name != "environment"}
    document = {**document, "machine": machine, "programs": {name: rows[name] for name in order}}
    head = [
        "# What an allocator costs", "",
        f"Made by `{command}` at commit {machine['commit']};",
        f"{machine['cpu']}, Linux {machine['kernel']}, huge pages {machine['huge_pages']}.",
        "How the figures are made: [bench/README.md](../../bench/README.md#lab-cost). Columns with /",
        "are HAKMEM's figure over the other's: below 1 HAKMEM needs less.", "", "",
    ]  # fmt: skip
    file.write_text(compact(document))
    page.write_text("\n".join(head) + show.page(document))


def moved(old, new, least=MOVED) -> list:
    """[(program, allocator, figure, old, new)] of all watched figures that moved by more."""
    found = []
    for program, row in new["programs"].items():
        if program not in old["programs"]:
            continue
        for allocator in row["cells"]:
            for figure in WATCHED:
                before = figures.value(old, figure, program, allocator)
                after = figures.value(new, figure, program, allocator)
                if before and after and abs(after / before - 1) > least:
                    found.append((program, allocator, figure, before, after))
    return found


def told(changes) -> str:
    """The changes in words; the null allocator's tell that it is the program that moved."""
    if not changes:
        return f"nothing moved by more than {MOVED:.1%} since the published run"
    lines = [
        f"{program}: {allocator}: {figure}: {before:,.0f} -> {after:,.0f} ({after / before - 1:+.2%})"
        for program, allocator, figure, before, after in changes
    ]
    if any(allocator == "null" and figure == "instructions" for _, allocator, figure, *_ in changes):
        lines.append("the null allocator's count moved: the programs or the machine are not those "
                     "of the published run")  # fmt: skip
    return "\n".join(lines)
