"""What a ratio may be called. Text, page and terminal take their verdicts from here, and agree.

A verdict needs an interval, an interval needs three rounds, and the whole of it must lie on one side
of 1. A ratio that rests on a sample shorter than 0.3 s is marked with "~".
"""

import math
import re

LEAST_ROUNDS = 3
SHORT = 0.3  # seconds
MARK = "~"

# figure -> what a sign is called; None: too few rounds for an interval
WORDS = {
    "speed": {1: "faster", -1: "slower", 0: "even", None: "no verdict"},
    "peak RSS": {1: "more", -1: "less", 0: "even", None: "no verdict"},
}
LEGEND = (
    "In brackets: 95 % confidence intervals. *faster*, *more*: the whole interval lies above 1; *slower*, *less*: "
    "below 1; *even*: it contains 1. Fewer than three rounds give no interval and no verdict. "
    "~: a sample was shorter than 0.3 s."
)


def sign(ratio):
    """1 above 1, -1 below, 0 the interval holds 1, None no verdict; of a dictionary."""
    low, high = ratio["low"], ratio["high"]
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return None
    return 1 if low > 1 else -1 if high < 1 else 0


def word(ratio, figure="speed") -> str:
    return WORDS[figure][sign(ratio)]


def is_short(*cells) -> bool:
    """Whether one of these figures of summary.json rests on a sample that was too short."""
    return any(cell.get("shortest_s", math.inf) < SHORT for cell in cells)


def interval(ratio, digits=2) -> str:
    """ "[1.02, 1.08]", "" without one."""
    if sign(ratio) is None:
        return ""
    return f"[{ratio['low']:.{digits}f}, {ratio['high']:.{digits}f}]"


def number(ratio, short=False) -> str:
    """ "1.05 [1.02, 1.08]"."""
    return f"{MARK * short}{ratio['value']:.2f} {interval(ratio)}".rstrip()


def text(ratio, figure="speed", short=False) -> str:
    """ "1.05 [1.02, 1.08] faster"."""
    return f"{number(ratio, short)} {word(ratio, figure)}"


def turned(ratio) -> dict:
    """A / B of B / A."""
    value, low, high = (1 / ratio[k] if ratio[k] else math.nan for k in ("value", "high", "low"))
    return {"value": value, "low": low, "high": high}


def tally(rows) -> dict:
    """{sign: rows} of HAKMEM beside the best of the others."""
    found = {1: [], 0: [], -1: [], None: []}
    for row in rows:
        if "ratio" in row:
            found[sign(row["ratio"])].append(row)
    return found


def summed_up(rows) -> str:
    """ "ahead of the best of the others on 5 of 8 rows, even on 2, behind on 1"."""
    found = tally(rows)
    parts = [f"ahead of the best of the others on {len(found[1])} of {sum(map(len, found.values()))} "
             f"rows, even on {len(found[0])}, behind on {len(found[-1])}"]  # fmt: skip
    if found[None]:
        parts.append(f"no verdict on {len(found[None])} (fewer than three rounds)")
    return ", ".join(parts)


def made_of(summary) -> str:
    """What a report is made of, in a sentence for its top; `size_of` reads it again."""
    settings, facts = summary["settings"], summary["machine"]
    count = len(summary["rows"])
    names = {name for row in summary["rows"] for name in row["allocators"]}
    cells = [cell for row in summary["rows"] for cell in row["allocators"].values()]
    short = sum(is_short(cell) for cell in cells)
    taken = sorted(cell.get("samples", settings["rounds"]) for cell in cells) or [0]
    rounds = taken[len(taken) // 2]
    text = (
        f"Made of {count} row{'s' * (count != 1)}, {rounds} round{'s' * (rounds != 1)}, "
        f"{len(names)} allocators, {summary['total_samples']} samples of {settings['seconds']:g} s"
    )
    if taken[0] < taken[-1]:
        text += f" (rows have {taken[0]} to {taken[-1]} rounds)"
    commit = facts.get("commit")
    text += f", {facts.get('date', 'no date')[:16]}" if facts.get("date") else ""
    text += f", commit {commit}{' with changes' * bool(facts.get('dirty'))}" if commit else ""
    text += f"; {short} of {len(cells)} cells have samples below {SHORT:g} s" if short else ""
    text += "; **stopped before its end**" if summary.get("interrupted") else ""
    if rounds < LEAST_ROUNDS:
        text += f". {rounds} round{'s' * (rounds != 1)}: no intervals and no verdicts"
    return text + "."


def size_of(page):
    """{"rows", "rounds", "allocators"} that a page was made of, by its own words; None if it has none."""
    found = re.search(r"Made of (\d+) rows?, (\d+) rounds?, (\d+) allocators", page)
    return dict(zip(("rows", "rounds", "allocators"), map(int, found.groups()))) if found else None
