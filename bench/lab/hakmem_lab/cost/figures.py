"""The figures of a cost document, their ratios and geometric means.

A document: {"machine", "allocators": {name: about}, "base", "programs": {name: {"title", "cells":
{allocator: cell}}}}; a cell is what measure.Meter.cell returns.
"""

import math

# What one of each is taken to cost, in cycles of a current machine, and why:
# four instructions a cycle are issued at best, some two and a half are met in allocators;
# a miss of the first level waits for the second, one of the second for the third or for memory,
# half of it behind other work; a fault of a small page is the kernel's way in and out, and 4 KiB of
# zeros. They change only with a reason that is told here.
MODEL = {"instructions": 0.4, "l1": 8, "l2": 60, "faults": 1500}


def _instructions(part):
    return lambda cell: cell["instructions"][part] if "instructions" in cell else None


def _model(cell):
    if "l1" not in cell or "faults" not in cell:
        return None
    return (cell["instructions"]["total"] * MODEL["instructions"]
            + sum(cell[name] * MODEL[name] for name in ("l1", "l2", "faults")))  # fmt: skip


# key -> (title, of a cell); None where the cell has no such figure
FIGURES = {
    "instructions": ("instructions of the whole program", _instructions("total")),
    "allocator": ("instructions in the allocator", _instructions("allocator")),
    "copies": ("instructions that copy and set memory", _instructions("copies")),
    "l1": ("misses of a 32 KiB L1", lambda c: c.get("l1")),
    "l2": ("misses of a 1 MiB L2", lambda c: c.get("l2")),
    "faults": ("page faults", lambda c: c.get("faults")),
    "faults_small": ("page faults without huge pages", lambda c: c.get("faults_small")),
    "huge_pages": ("huge pages, at most", lambda c: c.get("huge_pages")),
    "syscalls": ("system calls", lambda c: c["syscalls"]["total"] if "syscalls" in c else None),
    "peak_rss_kb": ("peak RSS, KB", lambda c: c.get("peak_rss_kb")),
    "mean_rss_kb": ("mean RSS by the clock of calls, KB", lambda c: c.get("mean_rss_kb")),
    "model": ("cost model, cycles", _model),
}


def value(document, figure, program, allocator):
    """A figure of a cell; None where there is none."""
    cell = document["programs"][program]["cells"].get(allocator)
    return FIGURES[figure][1](cell) if cell else None


def ratio(document, figure, program, allocator):
    """The base's figure over the allocator's; None where one is missing or zero."""
    ours = value(document, figure, program, document["base"])
    theirs = value(document, figure, program, allocator)
    return ours / theirs if ours and theirs else None


def geomean(numbers):
    """None of none."""
    known = [number for number in numbers if number]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def others(document) -> list:
    return [name for name in document["allocators"] if name != document["base"]]


def geomeans(document) -> dict:
    """{figure: {allocator: geometric mean of the ratios over all programs}}."""
    return {
        figure: {
            name: geomean(ratio(document, figure, program, name) for program in document["programs"])
            for name in others(document)
        }
        for figure in FIGURES
    }  # fmt: skip


def merged(documents) -> dict:
    """One document of several; a later cell replaces an earlier one."""
    first, *rest = documents
    whole = {**first, "programs": {name: {**row, "cells": dict(row["cells"])}
                                   for name, row in first["programs"].items()}}  # fmt: skip
    whole["allocators"] = dict(first["allocators"])
    for document in rest:
        whole["allocators"].update(document["allocators"])
        for name, row in document["programs"].items():
            mine = whole["programs"].setdefault(name, {**row, "cells": {}})
            mine["cells"].update(row["cells"])
    return whole
