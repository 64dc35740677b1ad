"""The tables of a comparison on the terminal."""

from rich.table import Table
from rich.text import Text

from .. import judge, stats
from .charts import values
from .measure import mean_kb

FASTEST = 0.25  # share of the runs, the fastest


def fastest_quarter(seconds) -> float:
    """The mean of the fastest quarter of the runs, at least of one."""
    kept = sorted(seconds)[: max(1, round(len(seconds) * FASTEST))]
    return sum(kept) / len(kept)


def _table(title) -> Table:
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column("allocator")
    return table


def _ratio(ratio, figure, short, good):
    """Two cells: the ratio with its interval, and what it says."""
    if ratio is None:
        return "-", ""
    sign = judge.sign(ratio)
    style = {good: "green", -good: "red"}.get(sign, "")
    return judge.number(ratio, short), Text(judge.word(ratio, figure), style)


def times(row, samples, order, base) -> Table:
    """Time of each allocator; ratios to the base's."""
    table = _table(f"time; ratios to {order[base]}'s speed: above 1 is faster")
    for head in ("median s", "fastest quarter s", "speed", "", "runs"):
        table.add_column(head, justify="left" if head == "" else "right")
    cells = row["allocators"]
    for name in (name for name in order if name in cells):
        cell, mine = cells[name], [s.seconds for s in samples if s.allocator == name]
        short = judge.is_short(cell, cells.get(base, {}))
        table.add_row(
            order[name], f"{cell['seconds']:.3f}", f"{fastest_quarter(mine):.3f}",
            *_ratio(cell.get("speed"), "speed", short, 1), str(cell["samples"]),
        )  # fmt: skip
    return table


def memory(row, timeline, order, base) -> Table:
    """Resident memory of each allocator; ratios to the base's peak."""
    table = _table(f"memory; ratios to {order[base]}'s peak: above 1 is more")
    for head in ("peak RSS MB", "peak", "", "mean RSS MB", "minor faults"):
        table.add_column(head, justify="left" if head == "" else "right")
    for name, cell in ((n, row["allocators"][n]) for n in order if n in row["allocators"]):
        points = timeline.get(name)
        table.add_row(
            order[name], f"{cell['rss_kb'] / 1024:.1f}",
            *_ratio(cell.get("rss"), "peak RSS", False, -1),
            f"{mean_kb(points) / 1024:.1f}" if points else "-", f"{cell['minor_faults']:,.0f}",
        )  # fmt: skip
    return table


def counted(costs, order) -> Table:
    names = [name for name in order if name in costs]
    table = _table("counted, one run each")
    table.columns[0].header = "figure"
    for name in names:
        table.add_column(order[name], justify="right")
    for line in values(costs, names):
        table.add_row(line["title"], *("-" if v is None else f"{v:,.0f}" for v in line["values"]))
    return table


def show(console, summary, samples) -> None:
    row = summary["rows"][0]
    order = {n: a["title"] for n, a in summary["allocators"].items() if n in row["allocators"]}
    base = summary["base"] if summary["base"] in order else next(iter(order))
    console.print(row["title"], style="bold", highlight=False)
    console.print(times(row, samples, order, base))
    console.print(memory(row, summary.get("timeline", {}), order, base))
    if summary.get("costs"):
        console.print(counted(summary["costs"], order))
    for failure in summary["failures"]:
        console.print(f"failed: {failure['allocator']}: {failure['reason']}", style="red")
    for text in summary["notes"]:
        console.print(f"note: {text}")
    few = stats.median([cell["samples"] for cell in row["allocators"].values()]) < judge.LEAST_ROUNDS
    console.print("Fewer than three runs: no intervals and no verdict." if few
                  else judge.LEGEND.replace("*", ""))  # fmt: skip
    if summary["interrupted"]:
        console.print("stopped before the end: figures are of what was done", style="yellow")
