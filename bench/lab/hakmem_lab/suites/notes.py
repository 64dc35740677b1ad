"""A suite's result as Markdown, for the terminal and for the folder."""

import math
import time

from .statements import FIGURES


def table(head, lines) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def figures(summary, entries) -> str:
    """The medians: settings down when there are more of them than rows, else rows down."""
    rows = summary["rows"]

    def cell(row, entry):
        found = row["allocators"].get(entry.name)
        return f"{found['ops_per_s'] / 1e6:.2f} ({found['rss_kb'] / 1024:.1f})" if found else "-"

    if len(entries) > len(rows):
        lines = [[e.name, *(cell(r, e) for r in rows)] for e in entries]
        return table(["settings", *(r["title"] for r in rows)], lines)
    lines = [[r["title"], *(cell(r, e) for e in entries)] for r in rows]
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


def _remarks(summary):
    if summary["dropped_samples"]:
        yield f"{summary['dropped_samples']} samples are left out: the CPUs' distance was another."
    if summary["disturbed_samples"]:
        yield (
            f"{summary['disturbed_samples']} of {summary['total_samples']} samples were disturbed "
            "by other programs."
        )
    yield from (f"**Skipped:** {one['row']}: {one['reason']}" for one in summary["skipped"])
    for one in summary["failures"]:
        yield f"**Failed:** {one['row']} on {one['allocator']}: {one['reason']}"
    if summary["interrupted"]:
        yield "**Stopped before the end**: the figures are of what was done."


def _preface(statements) -> str:
    judged = sum(not math.isnan(statement.low) for statement in statements)
    if not judged:
        return "Ratios; one sample each, so nothing is said of a difference."
    return (
        'Ratios of medians with their 95 % intervals; "no difference seen" where the interval '
        f"holds 1. About one in twenty of {judged} such statements is wrong by chance."
    )


def page(title, suite, command, summary, entries, statements) -> str:
    """The whole report."""
    facts = summary["machine"]
    parts = [
        f"# {title}",
        f"{time.strftime('%Y-%m-%d %H:%M')}, `{command}`; {facts['cpu']}, {facts['cpus']} CPUs, "
        f"Linux {facts['kernel']}, huge pages {facts['huge_pages']}.",
        suite.about,
        "Million operations per second, in brackets peak RSS in MB; medians.",
        figures(summary, entries),
    ]
    if statements:
        parts += [_preface(statements), statements_table(statements)]
    return "\n\n".join([*parts, *_remarks(summary)]) + "\n"
