"""The chart of a comparison: every row's speed and memory beside HAKMEM's."""

from .report import groups_of
from .tables import LIMIT, SUBJECT, SYSTEM

# Colour-blind safe (Okabe and Ito); HAKMEM is the line at 1
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#8C6D31", "#000000")
MARKERS = "osD^vP*X"
ROW_INCHES = 0.24


def _base(rows, names):
    """What the figures are relative to: HAKMEM, or the system when HAKMEM is not there."""
    for name in (SUBJECT, SYSTEM, *names):
        if all(name in row["allocators"] for row in rows):
            return name
    return None


def _points(rows, name, base, field):
    """(y, value / base's value) of one allocator."""
    for place, row in enumerate(rows):
        cell, reference = row["allocators"].get(name), row["allocators"].get(base)
        if cell and reference and cell[field] > 0 and reference[field] > 0:
            yield place, cell[field] / reference[field]


def _panel(axes, rows, allocators, base, field, title):
    colours = iter(zip(COLOURS, MARKERS))
    for allocator in allocators:
        limit = allocator.name == LIMIT
        colour, marker = ("#999999", "|") if limit else next(colours, ("#000000", "."))
        if allocator.name == base:
            continue
        points = list(_points(rows, allocator.name, base, field))
        if points:
            axes.scatter(
                [x for _, x in points], [y for y, _ in points], color=colour, marker=marker,
                s=60 if limit else 26, label=allocator.title, alpha=0.85, linewidths=1.2, zorder=3,
            )  # fmt: skip
    axes.axvline(1.0, color="#222222", linewidth=1.4, zorder=2)
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.7, which="both")
    axes.set_axisbelow(True)


def _plain(value, _position):
    return f"{value:g}"


def _log_axis(axes, low, high):
    """A log scale with plain numbers, as many as fit."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ticks = [
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1,
        1.1,
        1.2,
        1.5,
        2,
        3,
        4,
        5,
        7,
        10,
        20,
        50,
    ]
    if high / low > 3:
        ticks = [t for t in ticks if t in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50)]
    axes.set_xscale("log")
    axes.set_xlim(low / 1.05, high * 1.05)
    axes.xaxis.set_major_locator(FixedLocator([t for t in ticks if low / 1.05 <= t <= high * 1.05]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))


def _extent(rows, allocators, base, field):
    values = [x for a in allocators for _, x in _points(rows, a.name, base, field)] + [1.0]
    return max(min(values), 0.05), min(max(values), 60.0)


def draw(summary, allocators, machine, path) -> list:
    """Writes <path>.png and <path>.svg; returns their names, none when there is nothing to show."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = groups_of(summary["rows"])
    rows = [row for group in groups for row in summary["rows"] if row["group"] == group]
    base = _base(rows, [a.name for a in allocators]) if rows else None
    if base is None:
        return []
    title = next(a.title for a in allocators if a.name == base)
    figure, panels = plt.subplots(
        1, 2, figsize=(13, 1.9 + ROW_INCHES * len(rows)), sharey=True, layout="constrained"
    )
    for axes, field, text in (
        (panels[0], "ops_per_s", f"speed / {title}'s  (right of the line: faster than {title})"),
        (panels[1], "rss_kb", f"peak RSS / {title}'s  (right of the line: needs more)"),
    ):
        _panel(axes, rows, allocators, base, field, text)
        _log_axis(axes, *_extent(rows, allocators, base, field))
    panels[0].set_yticks(range(len(rows)), [row["title"] for row in rows], fontsize=8)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    for place in range(1, len(rows)):
        if rows[place]["group"] != rows[place - 1]["group"]:
            for axes in panels:
                axes.axhline(place - 0.5, color="#888888", linewidth=0.8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=8, fontsize=9, frameon=False)
    figure.suptitle(
        f"{title} (line) beside its peers, medians; {machine['cpu']}, {machine['cpus']} CPUs, "
        f"Linux {machine['kernel']}, huge pages: {machine['huge_pages']}",
        fontsize=10,
    )
    names = []
    for ending in ("png", "svg"):
        figure.savefig(f"{path}.{ending}", dpi=130)
        names.append(f"{path}.{ending}")
    plt.close(figure)
    return names
