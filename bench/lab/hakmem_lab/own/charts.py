"""What the report of a program of the user's has besides: memory over time, counted costs."""

from .. import figures as page
from ..cost.figures import FIGURES

# of cost.figures, what a reader of the page is shown
SHOWN = ("instructions", "allocator", "copies", "l1", "l2", "faults", "faults_small", "huge_pages",
         "syscalls", "peak_rss_kb", "mean_rss_kb", "model")  # fmt: skip
DRAWN = ("instructions", "allocator", "l2", "faults", "syscalls", "mean_rss_kb")
COLUMNS = 3


def values(costs, names) -> list:
    """[{"key", "title", "values"}]: a line for each figure that one of the allocators has."""
    lines = []
    for key in SHOWN:
        title, of_cell = FIGURES[key]
        found = [of_cell(costs[name]) if name in costs else None for name in names]
        if any(value is not None for value in found):
            lines.append({"key": key, "title": title, "values": found})
    return lines


def resident(timeline, order, base) -> str:
    """An <svg> element: one line for each allocator; "" of nothing."""
    shown = [name for name in order if len(timeline.get(name, ())) > 1]
    if not shown:
        return ""
    plt = page._pyplot()
    figure, axis = plt.subplots(figsize=(page.WIDTH, 4.2), layout="constrained")
    for number, name in enumerate(shown):
        at, sizes = zip(*timeline[name])
        colour = page.BASE_BAR if name == base else page.SERIES[number % len(page.SERIES)]
        axis.plot(at, [size / 1024 for size in sizes], color=colour, label=order[name],
                  linewidth=2.2 if name == base else 1.4)  # fmt: skip
    axis.set_xlabel("seconds")
    axis.set_ylabel("resident, MiB")
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)
    axis.tick_params(axis="y", labelcolor=page.FAINT)
    axis.grid(color=page.LINE, linewidth=0.6)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    page._plain(axis)
    return page._svg(plt, figure, "Resident memory over time on each allocator")


def counted(lines, names, order, base) -> str:
    """An <svg> element: a panel of bars for each drawn figure; "" of nothing."""
    shown = [line for line in lines if line["key"] in DRAWN]
    if not shown:
        return ""
    plt = page._pyplot()
    rows = -(-len(shown) // COLUMNS)
    height = rows * (len(names) * page.BAR_INCHES + page.PANEL_INCHES)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(page.WIDTH, height), layout="constrained",
                                squeeze=False)  # fmt: skip
    for axis, line in zip(axes.flat, shown):
        _bars(axis, line, names, order, base)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    return page._svg(plt, figure, "Counted costs on each allocator")


def _bars(axis, line, names, order, base):
    found = [(name, value) for name, value in zip(names, line["values"]) if value is not None]
    for place, (name, value) in enumerate(found):
        axis.barh(place, value, height=0.72, color=page.BASE_BAR if name == base else page.BAR)
        axis.text(1, place, f"{value:,.0f}", transform=axis.get_yaxis_transform(), ha="right",
                  va="center", fontsize=8, color=page.FAINT)  # fmt: skip
    axis.set_yticks(range(len(found)), [order[name] for name, _ in found], fontsize=8)
    axis.set_ylim(len(found) - 0.4, -0.6)
    axis.set_xlim(0, max([value for _, value in found] + [1]) * 1.35)
    axis.set_xticks([])
    axis.set_title(line["title"], loc="left", fontweight="bold")
    page._plain(axis)
    axis.spines["bottom"].set_visible(False)


def parts(summary, order, base) -> dict:
    """Everything of this kind that a summary has; empty of any other comparison."""
    costs = summary.get("costs", {})
    names = [name for name in order if name in costs]
    lines = values(costs, names)
    return {"resident": resident(summary.get("timeline", {}), order, base), "names": names,
            "lines": lines, "counted": counted(lines, names, order, base)}  # fmt: skip
