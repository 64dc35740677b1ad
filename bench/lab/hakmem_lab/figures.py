"""The charts of the HTML report, as SVG text that takes its colours from the page.

Everything is beside the base (HAKMEM): ratios above 1 mean faster, or bigger. Colours are
written as marks that no chart uses and then replaced by CSS variables, so that one drawing
serves the light and the dark scheme.
"""

import io
import math
import re

from . import stats
from .tables import LIMIT

INK, FAINT, LINE = "#010203", "#010204", "#010205"
BASE_BAR, BAR, LIMIT_BAR = "#010206", "#010207", "#010208"
BETTER, WORSE = "#010209", "#01020a"
VARIABLES = {
    INK: "ink", FAINT: "faint", LINE: "line", BASE_BAR: "base", BAR: "bar", LIMIT_BAR: "limit",
    BETTER: "loss", WORSE: "win",
}  # fmt: skip
SERIES = [f"#0103{number:02x}" for number in range(10)]  # --s0 ...
MARKERS = "osD^vP*Xhp"

WIDTH = 12.4  # inches; 1190 px
COLUMNS = 3
BAR_INCHES, PANEL_INCHES = 0.185, 0.52
INTERVAL_REACH = 1.25
CELL_INCHES = 0.25
LETTER_INCHES = 0.045  # that a letter of a leaning title needs upwards
FULL_SHADE = 1.0  # |log2 ratio| that has the strongest shade
SHADE = 0.78
NARROWEST, WIDEST = 0.05, 20.0  # ratios beyond are drawn at the edge


def _pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "hakmem", "font.size": 9, "text.color": INK,
        "axes.edgecolor": LINE, "axes.labelcolor": INK, "xtick.color": FAINT, "ytick.color": INK,
        "xtick.labelcolor": FAINT, "ytick.labelcolor": INK, "axes.titlecolor": INK,
        "axes.titlesize": 9.5, "figure.facecolor": "none", "axes.facecolor": "none",
    })  # fmt: skip
    return plt


def _svg(plt, figure, label) -> str:
    """The figure as an <svg> element of the page's width and colours."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for mark, name in VARIABLES.items():
        text = text.replace(mark, f"var(--{name})")
    for number, mark in enumerate(SERIES):
        text = text.replace(mark, f"var(--s{number})")
    size = re.search(r'width="([0-9.]+)pt" height="([0-9.]+)pt"', text)
    height = float(size.group(2)) / float(size.group(1))
    text = text.replace(
        size.group(0), f'role="img" aria-label="{label}" style="aspect-ratio:{1 / height:.4f}"', 1
    )
    return text


def _clip(value):
    return min(max(value, NARROWEST), WIDEST)


def _plain(axis):
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0)


def _panel(axis, row, order, base):
    """One row: a bar per allocator, fastest first, with its interval."""
    cells = row["allocators"]
    names = sorted((a for a in order if a in cells),
                   key=lambda n: -cells[n]["ops_per_s"])  # fmt: skip
    reach = max(cells[name].get("speed", {"value": 1.0})["value"] for name in names)
    reach = max(reach, 1.0) * INTERVAL_REACH  # a wide interval is cut off, not the bars made small
    for place, name in enumerate(names):
        ratio = cells[name].get("speed", {"value": 1.0, "low": math.nan, "high": math.nan})
        colour = BASE_BAR if name == base else LIMIT_BAR if name == LIMIT else BAR
        axis.barh(place, ratio["value"], height=0.72, color=colour)
        if ratio["low"] == ratio["low"]:
            ends = [ratio["low"], min(ratio["high"], reach)]
            axis.plot(ends, [place, place], color=INK, linewidth=1, solid_capstyle="butt")
        axis.text(1, place, f"{ratio['value']:.2f}", transform=axis.get_yaxis_transform(),
                  ha="right", va="center", fontsize=8, color=FAINT)  # fmt: skip
    axis.axvline(1.0, color=BASE_BAR, linewidth=1, zorder=0)
    axis.set_yticks(range(len(names)), [order[name] for name in names], fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, reach * 1.12)
    axis.set_xticks([])
    axis.set_title(row["title"], loc="left", fontweight="bold")
    _plain(axis)
    axis.spines["bottom"].set_visible(False)


def bars(rows, order, base, label) -> str:
    """Small multiples, one panel per row; `order` is {allocator: title}."""
    plt = _pyplot()
    lines = math.ceil(len(rows) / COLUMNS)
    most = max(len(row["allocators"]) for row in rows)
    height = lines * (most * BAR_INCHES + PANEL_INCHES)
    figure, axes = plt.subplots(
        lines, COLUMNS, figsize=(WIDTH, height), layout="constrained", squeeze=False
    )
    for axis, row in zip(axes.flat, rows):
        _panel(axis, row, order, base)
    for axis in axes.flat[len(rows) :]:
        axis.set_visible(False)
    return _svg(plt, figure, label)


def _shade(ratio, more_is_better):
    """(colour, opacity) of a cell: how much better than the base, or worse."""
    power = math.log2(_clip(ratio)) * (1 if more_is_better else -1)
    return (BETTER if power > 0 else WORSE), SHADE * min(abs(power) / FULL_SHADE, 1.0)


def _heat(axis, rows, names, order, field, more_is_better):
    for line, row in enumerate(rows):
        for column, name in enumerate(names):
            ratio = row["allocators"].get(name, {}).get(field)
            if ratio is None:
                axis.text(column + 0.5, line + 0.5, "\u2013", ha="center", va="center",
                          fontsize=8, color=FAINT)  # fmt: skip
                continue
            colour, opacity = _shade(ratio["value"], more_is_better)
            axis.add_patch(_rectangle(column, line, colour, opacity))
            axis.text(column + 0.5, line + 0.52, f"{ratio['value']:.2f}", ha="center",
                      va="center", fontsize=8)  # fmt: skip
    axis.set_xlim(0, len(names))
    axis.set_ylim(len(rows), 0)
    axis.xaxis.tick_top()
    axis.set_xticks([n + 0.5 for n in range(len(names))], [order[n] for n in names],
                    fontsize=8, rotation=35, ha="left", rotation_mode="anchor")  # fmt: skip
    axis.tick_params(axis="x", labelcolor=INK)
    for place in range(1, len(rows)):
        if rows[place]["group"] != rows[place - 1]["group"]:
            axis.axhline(place, color=FAINT, linewidth=0.9)
    _plain(axis)
    axis.spines["bottom"].set_visible(False)


def _rectangle(column, line, colour, opacity):
    from matplotlib.patches import Rectangle

    return Rectangle((column + 0.02, line + 0.04), 0.96, 0.92, facecolor=colour, alpha=opacity,
                     linewidth=0)  # fmt: skip


def heat_map(rows, order, base, title) -> str:
    """Speed and peak RSS of every other allocator beside the base's, a number in each cell."""
    plt = _pyplot()
    names = [name for name in order if name not in (base, LIMIT)]
    head = 1.5 + LETTER_INCHES * max((len(order[name]) for name in names), default=0)  # titles lean
    figure, axes = plt.subplots(
        1, 2, figsize=(WIDTH, len(rows) * CELL_INCHES + head), sharey=True, layout="constrained"
    )
    for axis, field, text, more in (
        (axes[0], "speed", f"speed / {title}'s", True),
        (axes[1], "rss", f"peak RSS / {title}'s", False),
    ):
        _heat(axis, rows, names, order, field, more)
        axis.set_title(text, loc="left", fontweight="bold")
    axes[0].set_yticks([n + 0.5 for n in range(len(rows))], [row["title"] for row in rows],
                       fontsize=8)  # fmt: skip
    return _svg(plt, figure, "Ratio of each allocator's speed and peak RSS to the base's")


def _log_axis(axis, values):
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = min([*values, 0.9]) / 1.08, max([*values, 1.12]) * 1.08
    ticks = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20)
    axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return low, high


def points(rows, name) -> list:
    """(time, RSS) of one allocator beside the base's, a pair per row."""
    cells = [row["allocators"].get(name, {}) for row in rows]
    return [
        (_clip(1 / cell["speed"]["value"]), _clip(cell["rss"]["value"]))
        for cell in cells
        if "speed" in cell and "rss" in cell
    ]


def scatter(rows, order, base, title) -> str:
    """Time against peak RSS: a faint point per row, a large one for the geometric mean."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(WIDTH, 5.6), layout="constrained")
    every = []
    axis.set_xscale("log")
    axis.set_yscale("log")
    names = [name for name in order if name not in (base, LIMIT)]
    for number, name in enumerate(names):
        found = points(rows, name)
        if not found:
            continue
        every += found
        times, sizes = zip(*found)
        colour, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
        axis.scatter(times, sizes, s=20, color=colour, marker=marker, alpha=0.38, linewidths=0)
        axis.scatter(stats.geomean(times), stats.geomean(sizes), s=150, color=colour,
                     marker=marker, edgecolors=INK, linewidths=1, zorder=4,
                     label=order[name])  # fmt: skip
    axis.scatter([1], [1], s=170, color=BASE_BAR, marker="o", edgecolors=INK, zorder=5, label=title)
    axis.axvline(1, color=BASE_BAR, linewidth=1, zorder=0)
    axis.axhline(1, color=BASE_BAR, linewidth=1, zorder=0)
    axis.set_xlim(*_log_axis(axis.xaxis, [x for x, _ in every]))
    axis.set_ylim(*_log_axis(axis.yaxis, [y for _, y in every]))
    axis.tick_params(axis="y", labelcolor=FAINT)
    axis.set_xlabel(f"time / {title}'s  (right: slower)")
    axis.set_ylabel(f"peak RSS / {title}'s  (up: bigger)")
    axis.grid(color=LINE, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    _plain(axis)
    axis.spines["bottom"].set_visible(False)
    return _svg(plt, figure, "Time against peak RSS of each allocator beside the base")
