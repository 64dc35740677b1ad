"""A suite's result as Markdown, for the terminal and for the folder."""

import time

from .. import stats
from ..verdict import clean
from .statements import FIGURES


def table(head, lines) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def of_row(row, result) -> list:
    """The samples of a row that can be compared."""
    return clean([s for s in result.samples if s.row == row.key], result.shortest_trip)


def cells(rows, entries, result):
    """{row key: {entry: (ops/s, peak RSS in KB)}}, medians."""
    found = {}
    for row in rows:
        kept = of_row(row, result)
        found[row.key] = {
            entry.name: (
                stats.median([s.ops_per_s for s in kept if s.allocator == entry.name]),
                stats.median([s.rss_kb for s in kept if s.allocator == entry.name]),
            )
            for entry in entries
            if any(s.allocator == entry.name for s in kept)
        }
    return found


def figures(rows, entries, result) -> str:
    """The table of medians: entries down when there are many of them, else rows down."""
    medians = cells(rows, entries, result)

    def cell(row, entry):
        speed, rss = medians[row.key].get(entry.name, (None, None))
        return "-" if speed is None else f"{speed / 1e6:.2f} ({rss / 1024:.1f})"

    if len(entries) > len(rows):
        lines = [[e.name, *(cell(r, e) for r in rows)] for e in entries]
        return table(["settings", *(r.title for r in rows)], lines)
    lines = [[r.title, *(cell(r, e) for e in entries)] for r in rows]
    return table(["load", *(e.name for e in entries)], lines)


def statements_table(statements) -> str:
    """Every comparison in words, grouped by row."""
    lines, last = [], None
    for place in range(0, len(statements), len(FIGURES)):
        group = statements[place : place + len(FIGURES)]
        title = group[0].row if group[0].row != last else ""
        last = group[0].row
        lines.append([title, *(s.text for s in group)])
    return table(["load", *FIGURES], lines)


def page(title, suite, command, facts, rows, entries, result, statements) -> str:
    """The whole report."""
    done = time.strftime("%Y-%m-%d %H:%M")
    parts = [
        f"# {title}",
        f"{done}, `{command}`; {facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, "
        f"huge pages {facts['huge_pages']}.",
        suite.about,
        "Million operations per second, in brackets peak RSS in MB; medians.",
        figures(rows, entries, result),
    ]
    if statements:
        parts += [
            "Ratios of medians with their 95 % intervals; \"no difference seen\" where the "
            f"interval holds 1. Of {len(statements)} such statements about one in twenty is "
            "wrong by chance.",
            statements_table(statements),
        ]
    dropped = len(result.samples) - sum(len(of_row(row, result)) for row in rows)
    if dropped:
        parts.append(f"{dropped} samples are left out: the CPUs were not as far apart as mostly.")
    disturbed = sum(bool(s.disturbed) for s in result.samples)
    if disturbed:
        parts.append(f"{disturbed} of {len(result.samples)} samples were disturbed by others.")
    for (row, entry), reason in result.failures.items():
        parts.append(f"**Failed:** {row} on {entry}: {reason}")
    if result.interrupted:
        parts.append("**Stopped before the end**: the figures are of what was done.")
    return "\n\n".join(parts) + "\n"
