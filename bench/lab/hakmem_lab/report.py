"""The terminal's tables of a comparison."""

import math

from rich.table import Table
from rich.text import Text

from .tables import LIMIT, SUBJECT
from .workloads import GROUPS

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
    """Million operations per second, or the seconds that a command took."""
    if row.get("kind") == "command":
        return f"{digits(cell['seconds'])} s"
    return digits(cell["ops_per_s"] / 1e6)


def ratio_text(ratio, ahead=None) -> Text:
    """ "1.05 [1.03, 1.07]", green when ahead, red when not."""
    text = f"{ratio['value']:.2f}"
    if ratio["low"] == ratio["low"]:  # not NaN: there was more than one sample
        text += f" [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    style = "" if ahead is None else "green" if ahead else "red"
    return Text(text, style)


def _columns(table, allocators):
    for allocator in allocators:
        style = "bold" if allocator.name == SUBJECT else "dim" if allocator.name == LIMIT else ""
        table.add_column(allocator.title, justify="right", style=style)


def speed_table(group, rows, allocators) -> Table:
    """Million operations per second; the best rival of a row is underlined."""
    commands = sum(row.get("kind") == "command" for row in rows)
    unit = ["million operations per second"] if commands < len(rows) else []
    unit += ["seconds"] if commands else []
    table = Table(title=f"{groups_of(rows)[group]}: {', '.join(unit)}", title_justify="left")
    table.add_column("row", no_wrap=True)
    _columns(table, allocators)
    table.add_column("HAKMEM / best", no_wrap=True)
    for row in rows:
        cells = [Text(row["title"])]
        for allocator in allocators:
            cell = row["allocators"].get(allocator.name)
            text = speed_text(row, cell) if cell else "-"
            cells.append(Text(text, "underline" if allocator.name == row.get("best") else ""))
        cells.append(ratio_text(row["ratio"], row["ahead"]) if "ratio" in row else Text("-"))
        table.add_row(*cells)
    return table


def memory_table(group, rows, allocators) -> Table:
    """Peak RSS, net RSS where the row knows its live bytes, page faults."""
    net = any("net_rss_kb" in cell for row in rows for cell in row["allocators"].values())
    parts = ["peak RSS in MB", "(net of floor and live)" if net else ""]
    figures = dict.fromkeys(row["memory"] for row in rows if "memory" in row)
    parts += [f"x {MEMORY_FIGURES.get(name, name)}" for name in figures]
    title = f"{groups_of(rows)[group]}: {' '.join(filter(None, parts))}, minor faults"
    table = Table(title=title, title_justify="left")
    table.add_column("row", no_wrap=True)
    _columns(table, allocators)
    for row in rows:
        cells = [Text(row["title"])]
        for allocator in allocators:
            cell = row["allocators"].get(allocator.name)
            if cell is None:
                cells.append(Text("-"))
                continue
            net = f" ({cell['net_rss_kb'] / 1024:.1f})" if "net_rss_kb" in cell else ""
            net += f" x{digits(cell[row['memory']])}" if row.get("memory") in cell else ""
            cells.append(Text(f"{cell['rss_kb'] / 1024:.1f}{net} {_count(cell['minor_faults'])}"))
        table.add_row(*cells)
    return table


def _count(number) -> str:
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:.0f}"


def verdict_table(lines) -> Table:
    table = Table(title="verdict", title_justify="left", show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", ratio=1)
    table.add_column("")
    for line in lines:
        mark = Text("yes", "green") if line["ok"] else Text("NO", "bold red")
        table.add_row(mark, Text(line["text"]), Text(line["figure"]))
    return table


def show(console, summary, allocators) -> None:
    """All tables of a summary."""
    for group in groups_of(summary["rows"]):
        rows = [row for row in summary["rows"] if row["group"] == group]
        there = [a for a in allocators if any(a.name in row["allocators"] for row in rows)]
        console.print(speed_table(group, rows, there), "")
        console.print(memory_table(group, rows, there), "")
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
