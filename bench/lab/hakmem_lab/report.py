"""The terminal's tables of a comparison."""

from rich.table import Table
from rich.text import Text

from .tables import LIMIT, SUBJECT
from .workloads import GROUPS

# the figure in question on rows that are about memory
MEMORY_FIGURES = {"overhead": "(peak - floor) / live", "growth": "end / after a tenth"}


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
    table = Table(title=f"{GROUPS[group]}: million operations per second", title_justify="left")
    table.add_column("row", no_wrap=True)
    _columns(table, allocators)
    table.add_column("HAKMEM / best", no_wrap=True)
    for row in rows:
        cells = [Text(row["title"])]
        for allocator in allocators:
            cell = row["allocators"].get(allocator.name)
            text = f"{cell['ops_per_s'] / 1e6:.1f}" if cell else "-"
            cells.append(Text(text, "underline" if allocator.name == row.get("best") else ""))
        cells.append(ratio_text(row["ratio"], row["ahead"]) if "ratio" in row else Text("-"))
        table.add_row(*cells)
    return table


def memory_table(group, rows, allocators) -> Table:
    """Peak RSS, net RSS where the row knows its live bytes, page faults."""
    net = any("net_rss_kb" in cell for row in rows for cell in row["allocators"].values())
    parts = ["peak RSS in MB", "(net of floor and live)" if net else ""]
    parts += [f"x {MEMORY_FIGURES[row['memory']]}" for row in rows if "memory" in row]
    title = f"{GROUPS[group]}: {' '.join(filter(None, parts))}, minor faults"
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
            net += f" x{cell[row['memory']]:.2f}" if "memory" in row else ""
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
    for group in GROUPS:
        rows = [row for row in summary["rows"] if row["group"] == group]
        if not rows:
            continue
        there = [a for a in allocators if any(a.name in row["allocators"] for row in rows)]
        console.print(speed_table(group, rows, there), "")
        console.print(memory_table(group, rows, there), "")
    if summary["net_geomean_ns"]:
        means = sorted(summary["net_geomean_ns"].items(), key=lambda item: item[1])
        text = ", ".join(f"{name} {value:.2f}" for name, value in means)
        console.print(f"random mixed, geomean of the net cost over the null allocator, ns: {text}")
    floors = ", ".join(f"{name} {kb} KB" for name, kb in summary["floors_kb"].items())
    if floors:
        console.print(f"peak RSS of a program that allocates nothing: {floors}")
    for failure in summary["failures"]:
        console.print(
            f"failed: {failure['row']} on {failure['allocator']}: {failure['reason']}", style="red"
        )
    if summary["dropped_samples"]:
        console.print(f"{summary['dropped_samples']} samples left out: other CPU distance")
    if summary["verdict"]:
        console.print("", verdict_table(summary["verdict"]))
    if summary["interrupted"]:
        console.print("stopped before the end: figures are of what was done", style="yellow")
