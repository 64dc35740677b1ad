"""What a search found, on the terminal."""

from rich.table import Table

from .. import judge
from . import search
from .measure import line

SHOWN = 12  # settings of the table, the best
LEAST_ALONE = 0.02  # of counted memory, where the peaks of the runs do not show it


def _percent(value) -> str:
    return f"{-100 * value:+.1f} %" if value > float("-inf") else "too dear"


def _change(cell, base, figure) -> str:
    return f"{100 * (cell[figure] / base[figure] - 1):+.1f} %" if base[figure] else "-"


def table(found, goal) -> Table:
    shown = Table(title=f"settings by {goal}: change to the defaults (noise {100 * found.noise:.2f} %)",
                  title_justify="left", pad_edge=False)  # fmt: skip
    shown.add_column("settings")
    for head in ("instructions", "faults", "peak RSS", "mean RSS", f"{goal} in all"):
        shown.add_column(head, justify="right")
    ordered = sorted(found.tried, key=lambda one: -one[2])
    for settings, cell, won in ordered[:SHOWN]:
        if cell:
            shown.add_row(line(settings), *(_change(cell, found.base, figure) for figure in
                          ("instructions", "faults", "peak_rss_kb", "mean_rss_kb")), _percent(won))  # fmt: skip
    return shown


def nothing(found, goal, count) -> str:
    """Why no setting has won."""
    text = (f"Nothing is better than the defaults: no setting gains {100 * found.threshold:.1f} %"
            f" of {goal} ({len(found.tried)} of {count} were counted).")  # fmt: skip
    dear = search.too_dear(found, goal)
    if dear:
        settings, saved, more = dear
        other = "memory" if goal == "time" else "time"
        text += (f" Left out: {line(settings)} takes {100 * saved:.1f} % less {goal} and {100 * more:.0f} % more {other};"
                 f" {100 * search.GOALS[goal][2] - 100:.0f} % is the bound.")  # fmt: skip
    return text


def verdict(goal, gain, threshold, speed, rss) -> tuple:
    """(whether the settings are better on the program, why): `gain` by counts on the program,
    ratios of the timed runs with their intervals."""
    counted = f"{'cost' if goal == 'time' else 'memory'} by counts {_percent(gain)}"
    ratio = speed if goal == "time" else rss
    worse, better = (-1, 1) if goal == "time" else (1, -1)
    if ratio is None:
        return gain > threshold, f"{counted}; not timed"
    figure = "speed" if goal == "time" else "peak RSS"
    timed = f"{figure} {judge.text(ratio, figure)}"
    sign = judge.sign(ratio)
    # Instructions are the same every time; resident memory is not, so a single count says less.
    needed = threshold if goal == "time" or sign == better else max(threshold, LEAST_ALONE)
    if gain <= needed or sign == worse:
        return False, f"{counted}, {timed}"
    sure = "both agree" if sign == better else "the runs alone do not show it"
    return True, f"{counted}, {timed}: {sure}"
