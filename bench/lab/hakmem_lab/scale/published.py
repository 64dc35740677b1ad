"""The page of the published runs: docs/benchmarks/SCALE.md."""

import json
from pathlib import Path

from ..errors import LabError
from ..paths import ROOT
from . import show

PAGE = ROOT / "docs" / "benchmarks" / "SCALE.md"
BY_HAND = "## Threads that outnumber the CPUs"  # from here on the page is kept as it is
SHOWN = ("transfers", "false_sharing", "locks", "bound_mops")
PLACES = 4
HEAD = """\
# Lines that pass between CPUs

Made by `scripts/lab scale --from FOLDER --publish`. How the figures are made, and what an operation is:
[bench/README.md](../../bench/README.md#more-cpus-than-there-are-lab-scale). A cell has transfers, false sharing
and locks of an operation, and the bound in million operations a second; medians of the runs. *null* never
reuses memory: what it moves is what the workload itself must move. The bound is no throughput.
"""


def read(folders) -> list:
    documents = []
    for folder in folders:
        path = Path(folder) / "scale.json"
        try:
            documents.append(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise LabError(f"cannot read {path}: {error}") from None
    return documents


def _cell(row) -> str:
    if not row:
        return "-"
    return " · ".join(show.digits(row["figures"][name]["median"]) for name in SHOWN)


def _table(document) -> list:
    names = [name for name in document["allocators"]
             if any(row["allocator"] == name for load in document["loads"] for row in load["rows"])]  # fmt: skip
    titles = [document["allocators"][name]["title"] for name in names]
    lines = ["| workload | CPUs | " + " | ".join(titles) + " |", "|---" * (len(names) + 2) + "|"]
    for load in document["loads"]:
        rows = {(row["allocator"], row["cpus"]): row for row in load["rows"]}
        for cpus in document["cpus"]:
            cells = [_cell(rows.get((name, cpus))) for name in names]
            if any(cell != "-" for cell in cells):
                lines.append(f"| {load['name']} | {cpus} | " + " | ".join(cells) + " |")
    return lines


def _places(document) -> list:
    """Where the subject's transfers are, at the largest number of CPUs."""
    lines = []
    for load in document["loads"]:
        for top in load["tops"][-1:]:
            code = "; ".join(
                f"`{place['code'].split('  ')[0].split(' < ')[0]}` {show.digits(place['transfers'])}"
                for place in top["places"][:PLACES]
            )
            lines.append(f"| {load['name']} | {top['cpus']} | {code or 'none'} |")
    return ["| workload | CPUs | code, transfers of an operation |", "|---|---|---|", *lines] if lines else []


def section(document) -> list:
    few = sorted({row["runs"] for load in document["loads"] for row in load["rows"]})
    cpus = ", ".join(map(str, document["cpus"]))
    runs = f"{few[0]} to {few[-1]}" if few[0] != few[-1] else str(few[0])
    return [
        f"## After {document['machine']['warm']:,} operations of each thread, {cpus} CPUs", "",
        f"Commit {document['commit']}; {show.settings_line({**document, 'seeds': runs})}.", "",
        *_table(document), "", "HAKMEM, the places that move most:", "", *_places(document), "",
    ]  # fmt: skip


def write(documents, page=PAGE) -> None:
    old = page.read_text() if page.is_file() else ""
    by_hand = old[old.index(BY_HAND):] if BY_HAND in old else ""
    sections = [line for document in documents for line in section(document)]
    page.write_text("\n".join([HEAD, *sections, by_hand]).rstrip() + "\n")
