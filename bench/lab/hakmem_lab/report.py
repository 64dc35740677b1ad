"""The terminal's tables of a comparison."""

import math

from rich.table import Table
from rich.text import Text

from . import judge
from .tables import SUBJECT
from .workloads import GROUPS

WIDTH, ROW_WIDTH, CELL_WIDTH = 100, 32, 20  # columns: of a table, of its first column, of a cell
SCENARIOS = "scenarios"
COUNTED = {"instructions": "instructions per operation (of a command: millions in all)",
           "misses": "first-level data misses per operation (of a command: millions in all)",
           "syscalls": "system calls"}  # fmt: skip

# the figure in question on rows that are about memory
MEMORY_FIGURES = {
    "overhead": "(peak - floor) / live",
    "growth": "end / after a tenth",
    "frag": "RSS / live",
}


def groups_of(rows) -> dict:
    """group -> title, in the order of the table; a group that is not there has its own name."""
    there = [row["group"] for row in rows]
    known = {group: title for group, title in GROUPS.items() if group in there}
    return {**known, **{group: group for group in there if group not in known}}


def digits(value) -> str:
    """Three significant digits, never in powers of ten: 0.0123, 1.23, 12.3, 123, 1234."""
    size = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{min(max(2 - size, 0), 6)}f}"


def speed_text(row, cell) -> str:
    """What a row's speed is, with its unit: s of a command, ns of a scenario's operation."""
    if row.get("kind") == "command":
        return f"{digits(cell['seconds'])} s"
    if row["group"] == SCENARIOS:
        return f"{digits(1e9 / cell['ops_per_s'])} ns"
    return f"{digits(cell['ops_per_s'] / 1e6)} M/s"


def memory_text(row, cell) -> str:
    """Peak RSS, that net of floor and live blocks, the figure that the row is about."""
    text = f"{cell['rss_kb'] / 1024:.1f}"
    text += f" ({cell['net_rss_kb'] / 1024:.1f})" if "net_rss_kb" in cell else ""
    return text + (f" x{digits(cell[row['memory']])}" if row.get("memory") in cell else "")


def faults_text(_row, cell) -> str:
    number = cell["minor_faults"]
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:.0f}"


def _table(title, first="row") -> Table:
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column(first, max_width=ROW_WIDTH)
    return table


def ratio_table(title, rows, titles) -> Table:
    """Who is ahead, by how much, how sure."""
    table = _table(title)
    for name in ("HAKMEM", "best of the others", "HAKMEM / it", "", "peak RSS / its"):
        table.add_column(name, justify="left" if name in ("", "best of the others") else "right")
    for row in rows:
        ours, best = row["allocators"][SUBJECT], row["allocators"][row["best"]]
        memory = ours["rss_kb"] / best["rss_kb"] if best["rss_kb"] else 0
        sign = judge.sign(row["ratio"])
        table.add_row(
            row["title"], speed_text(row, ours), f"{titles[row['best']]} {speed_text(row, best)}",
            judge.number(row["ratio"], judge.is_short(ours, best)),
            Text(judge.word(row["ratio"]), {1: "green", -1: "red"}.get(sign, "")),
            f"{memory:.2f}" if memory else "-",
        )  # fmt: skip
    return table


def figure_tables(title, rows, allocators, text, missing=lambda row, name: "-") -> list:
    """One figure of all allocators: as many tables as fit a terminal's width, side by side no more."""
    columns = []
    for allocator in allocators:
        name = allocator.name
        cells = [text(row, row["allocators"][name]) if name in row["allocators"]
                 else missing(row, name) for row in rows]  # fmt: skip
        width = max(map(len, [*cells, *allocator.title.split()]))
        columns.append((allocator, cells, min(width, CELL_WIDTH)))
    tables = []
    while columns:
        table, room = _table(title), WIDTH - min(ROW_WIDTH, max(len(r["title"]) for r in rows)) - 3
        lines = [[row["title"]] for row in rows]
        taken = 0
        while columns and (not taken or room >= columns[0][2] + 3):
            allocator, cells, width = columns.pop(0)
            room, taken = room - width - 3, taken + 1
            style = "bold" if allocator.name == SUBJECT else ""
            table.add_column(allocator.title, justify="right", style=style, max_width=width)
            for line, cell in zip(lines, cells):
                line.append(cell)
        for line in lines:
            table.add_row(*line)
        tables.append(table)
    return tables


def verdict_table(lines) -> Table:
    table = Table(title="verdict", title_justify="left", show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", ratio=1)
    table.add_column("")
    for line in lines:
        mark = Text("yes", "green") if line["ok"] else Text("NO", "bold red")
        table.add_row(mark, Text(line["text"]), Text(line["figure"]))
    return table


def _missing(summary):
    """missing(row, allocator): why a cell is empty."""
    failed = {(f["row"], f["allocator"]) for f in summary["failures"]}

    def missing(row, name):
        return "failed" if (row["key"], name) in failed else row.get("lacking", {}).get(name, "not run")

    return missing


def _group(console, summary, title, rows, allocators) -> None:
    titles = {name: about["title"] for name, about in summary["allocators"].items()}
    there = [a for a in allocators if any(a.name in row["allocators"] for row in rows)]
    judged = [row for row in rows if "ratio" in row]
    if judged:
        console.print(ratio_table(title, judged, titles), "")
    net = any("net_rss_kb" in cell for row in rows for cell in row["allocators"].values())
    kinds = dict.fromkeys(row["memory"] for row in rows if "memory" in row)
    memory = "peak RSS in MB" + " (net of floor and live)" * net
    memory += "".join(f", x {MEMORY_FIGURES.get(name, name)}" for name in kinds)
    for what, text in (("speed", speed_text), (memory, memory_text), ("minor faults", faults_text)):
        for table in figure_tables(f"{title}: {what}", rows, there, text, _missing(summary)):
            console.print(table, "")
    for name, text in COUNTED.items():
        found = summary.get(name, {})
        counted = [{**row, "allocators": found[row["key"]]} for row in rows if row["key"] in found]
        if counted:
            for table in figure_tables(f"{title}: {text}", counted, there, _counted(name)):
                console.print(table, "")


def _counted(name):
    def text(_row, cell):
        if name == "syscalls":
            return str(cell["total"])
        return digits(cell["per_op"]) if "per_op" in cell else f"{cell['total'] / 1e6:.0f} M"

    return text


def show(console, summary, allocators) -> None:
    """All tables of a summary."""
    console.print(judge.made_of(summary).replace("**", ""), "")
    for group, title in groups_of(summary["rows"]).items():
        rows = [row for row in summary["rows"] if row["group"] == group]
        _group(console, summary, title, rows, allocators)
    if any("ratio" in row for row in summary["rows"]):
        console.print(f"HAKMEM is {judge.summed_up(summary['rows'])}.")
        console.print(judge.LEGEND.replace("*", ""), "")
    if summary["net_geomean_ns"]:
        means = summary["net_geomean_ns"].items()
        text = ", ".join(f"{name} {value:.2f}" for name, value in means)
        console.print(f"random mixed, geomean of the net cost over the null allocator, ns: {text}")
    floors = ", ".join(f"{name} {kb} KB" for name, kb in summary["floors_kb"].items())
    if floors:
        console.print(f"peak RSS of a program that allocates nothing: {floors}")
    for failure in summary["failures"]:
        console.print(
            f"failed: {failure['row']} on {failure['allocator']}: {failure['reason']}", style="red"
        )
    for skipped in summary["skipped"]:
        console.print(f"skipped: {skipped['row']}: {skipped['reason']}", style="yellow")
    for text in summary["notes"]:
        console.print(f"note: {text}")
    if summary["dropped_samples"]:
        console.print(f"{summary['dropped_samples']} samples left out: other CPU distance")
    if summary["verdict"]:
        console.print("", verdict_table(summary["verdict"]))
    if summary["interrupted"]:
        console.print("stopped before the end: figures are of what was done", style="yellow")
