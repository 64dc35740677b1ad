"""What the page says, computed from summary.json."""

from dataclasses import dataclass

from .. import judge, stats
from ..tables import LIMIT, SUBJECT
from ..workloads import GROUPS

RIVALS = ("peer", "system")
SMALL = 1.02  # a row that needs up to this much more RSS is not called a loss


@dataclass(frozen=True)
class Loss:
    """A row on which another allocator is ahead of HAKMEM."""

    group: str
    row: str
    rival: str
    ratio: dict  # HAKMEM / rival
    short: bool  # a sample was too short to rely on


def groups(summary) -> dict:
    """{title: rows} in the order of the lab's groups, others behind."""
    keys = list(dict.fromkeys(row["group"] for row in summary["rows"]))
    order = [g for g in GROUPS if g in keys] + [g for g in keys if g not in GROUPS]
    return {
        GROUPS.get(key, key): [row for row in summary["rows"] if row["group"] == key]
        for key in order
    }


def names(summary, kinds=None) -> list:
    """Allocators that were measured, in the summary's order; `kinds` limits them."""
    measured = {name for row in summary["rows"] for name in row["allocators"]}
    return [
        name
        for name, about in summary["allocators"].items()
        if name in measured and (kinds is None or about["kind"] in kinds)
    ]


def title(summary, name) -> str:
    return summary["allocators"][name]["title"]


def means(rows, name, field) -> float:
    """Geometric mean of an allocator's figure over HAKMEM's, where both are; None without rows."""
    ratios = [
        row["allocators"][name][field] / row["allocators"][SUBJECT][field]
        for row in rows
        if name in row["allocators"]
        and SUBJECT in row["allocators"]
        and row["allocators"][name][field] > 0
        and row["allocators"][SUBJECT][field] > 0
    ]
    return stats.geomean(ratios) if ratios else None


def losses(summary, figure) -> list:
    """Rows on which a rival is faster ("speed") or leaner ("rss"), the worst first.

    One row of speed names the fastest rival, one of RSS the leanest.
    """
    found = []
    for group, rows in groups(summary).items():
        for row in rows:
            one = _worst(summary, row, figure)
            if one is not None:
                name, ratio = one
                found.append(Loss(
                    group, row["title"], title(summary, name), judge.turned(ratio),
                    judge.is_short(row["allocators"][name], row["allocators"][SUBJECT]),
                ))  # fmt: skip
    return sorted(found, key=lambda loss: loss.ratio["value"] * (1 if figure == "speed" else -1))


def _worst(summary, row, figure):
    """(rival, its ratio to HAKMEM) of the rival that is furthest ahead, None when none is."""
    ahead = {
        name: row["allocators"][name][figure]
        for name in names(summary, RIVALS)
        if figure in row["allocators"].get(name, {})
    }
    if figure == "speed":
        best = max(ahead, key=lambda n: ahead[n]["value"], default=None)
        return (best, ahead[best]) if best and ahead[best]["value"] > 1 else None
    best = min(ahead, key=lambda n: ahead[n]["value"], default=None)
    return (best, ahead[best]) if best and ahead[best]["value"] < 1 / SMALL else None


def compared(summary) -> list:
    """Everything but HAKMEM and the limit line."""
    return [name for name in names(summary) if name not in (SUBJECT, LIMIT)]
