"""A suite's result: Markdown for its folder, and the same in a terminal's width."""

import math
import textwrap
import time

from .. import judge
from ..report import WIDTH, digits, faults_text, speed_text

GAP = "  "


def table(head, lines) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def aligned(head, lines) -> str:
    """The same for a terminal; a first cell that is too long has a line of its own."""
    rows = [list(map(str, row)) for row in (head, *lines)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    widths[0] -= max(0, sum(widths) + len(GAP) * (len(widths) - 1) - WIDTH)
    found = []
    for first, *cells in rows:
        if len(first) > widths[0]:
            found.append(first)
            first = ""
        found.append(GAP.join([first.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip())
    return "\n".join(found)


def wrapped(text) -> str:
    """The page for a terminal: its sentences in lines that fit."""
    lines = text.splitlines()
    return "\n".join(textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in lines)


class Comparison:
    """The tables of a suite: {title: (head, lines)}, in what a reader asks for first."""

    def __init__(self, summary, entries, statements):
        self.summary, self.entries = summary, entries
        self.rows = {row["key"]: row for row in summary["rows"]}
        self.said = {(s.row, s.a, s.b, s.figure): s for s in statements}
        self.pairs = list(dict.fromkeys((s.a, s.b) for s in statements))
        self.failed = {(f["row"], f["allocator"]): "failed" for f in summary["failures"]}

    def _cell(self, row, name, text) -> str:
        """A figure, or why there is none."""
        cell = row["allocators"].get(name)
        if cell:
            return text(row, cell)
        reason = row.get("lacking", {}).get(name)
        return self.failed.get((row["key"], name)) or reason or "not run"

    def _counted(self, row, name, kind) -> str:
        """B's count over A's, or B's own."""
        cell = self.summary.get(kind, {}).get(row["key"], {}).get(name, {})
        return digits(cell["per_op"]) if "per_op" in cell else ""

    def _line(self, label, row, a, b) -> list:
        speed = self.said.get((row["key"], a, b, "speed"))
        memory = self.said.get((row["key"], a, b, "peak RSS"))
        ours = row["allocators"].get(b)
        line = [label, self._cell(row, a, speed_text), self._cell(row, b, speed_text)]
        line += [speed.text if speed else "-"]
        line += [f"{memory.value:.2f} {memory.verdict}" if memory else "-"]
        line += [faults_text(row, ours) if ours else "-"]
        return line + [self._counted(row, b, kind) for kind in self._kinds()]

    def _kinds(self):
        return [kind for kind in ("instructions", "misses") if self.summary.get(kind)]

    def _head(self, first, a, b):
        counts = {"instructions": "instr.", "misses": "misses"}
        return [first, a, b, f"{b} / {a}", "RSS", "faults", *(counts[k] for k in self._kinds())]

    def tables(self):
        """A table per load where one A meets many B; else one per pair, a line per load."""
        if not self.pairs:
            lines = [[row["title"], *(self._cell(row, e.name, speed_text) for e in self.entries)]
                     for row in self.rows.values()]  # fmt: skip
            yield "", ["load", *(e.short for e in self.entries)], lines
            return
        first = self.pairs[0][0]
        short = {entry.name: entry.short for entry in self.entries}
        if self.is_one_against_many():
            knobs, labels = self.labels()
            for row in self.rows.values():
                lines = [[f"{knobs.get(first, 'A')}", *self._own(row, first)]]
                lines += [[labels[b], *self._line("", row, a, b)[2:]] for a, b in self.pairs]
                head = self._head(" / ".join(self.knobs()) or "B", "A", "B")
                yield row["title"], [head[0], "speed", *head[3:]], lines
            return
        for a, b in self.pairs:
            lines = [self._line(row["title"], row, a, b) for row in self.rows.values()]
            yield f"{short[b]} (B) beside {short[a]} (A)", self._head("load", "A", "B"), lines

    def is_one_against_many(self) -> bool:
        return bool(self.pairs) and self.pairs[0][0] == self.entries[0].name and all(
            a == self.pairs[0][0] for a, _ in self.pairs) and self.entries[0].ours  # fmt: skip

    def knobs(self) -> list:
        """The options that B sets, when all B set the same ones."""
        found = {tuple(name for name, _ in entry.options) for entry in self.entries[1:]}
        return list(found.pop()) if len(found) == 1 else []

    def labels(self):
        """({A: its own label}, {B: its label}): values alone where the head names the options."""
        if not self.knobs():
            return {}, {entry.name: entry.short for entry in self.entries}
        return {self.entries[0].name: f"A: {self.summary.get('defaults') or 'defaults'}"}, {
            entry.name: " / ".join(value for _, value in entry.options) for entry in self.entries
        }

    def _own(self, row, name):
        """A's line: what B's are compared with."""
        cell = row["allocators"].get(name)
        line = [self._cell(row, name, speed_text), "1", "1", faults_text(row, cell) if cell else "-"]
        return line + [self._counted(row, name, kind) for kind in self._kinds()]

    def in_short(self):
        """Who is ahead, where: a sentence for each pair."""
        short = {entry.name: entry.short for entry in self.entries}
        if self.is_one_against_many():
            short[self.entries[0].name] = "the defaults"
        for a, b in self.pairs:
            said = [s for key, s in self.said.items() if key[1:] == (a, b, "speed")]
            words = {word: [s for s in said if s.verdict == word] for word in
                     judge.WORDS["speed"].values()}  # fmt: skip
            parts = [f"{word} on {len(found)}" for word, found in words.items() if found]
            judged = [s.value for s in said]
            mean = math.exp(sum(map(math.log, judged)) / len(judged)) if judged else math.nan
            yield (f"{short[b]} beside {short[a]}: {', '.join(parts)} of {len(said)} loads; "
                   f"geometric mean of the speed {mean:.2f}")  # fmt: skip


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
    yield from summary.get("notes", ())
    if summary["interrupted"]:
        yield "**Stopped before the end**: the figures are of what was done."


def page(title, suite, command, summary, entries, statements, draw=table) -> str:
    """The whole report; `draw` makes a table of a head and lines."""
    facts, found = summary["machine"], Comparison(summary, entries, statements)
    judged = sum(s.verdict != judge.WORDS["speed"][None] for s in statements)
    parts = [
        f"# {title}",
        judge.made_of(summary),
        f"{time.strftime('%Y-%m-%d %H:%M')}, `{command}`; {facts['cpu']}, {facts['cpus']} CPUs, "
        f"Linux {facts['kernel']}, huge pages {facts['huge_pages']}.",
        suite.about,
        "\n".join(f"- {line}" for line in found.in_short()),
        "Speed: M/s is million operations per second, ns is per operation. RSS: B's peak over A's; "
        "faults: of B's process; instr., misses: B's instructions and first-level data misses per "
        "operation, counted apart." if statements else "Medians.",
    ]
    for heading, head, lines in found.tables():
        parts += [f"## {heading}"] if heading else []
        parts.append(draw(head, lines))
    if statements:
        parts.append(judge.LEGEND)
    if judged:
        parts.append(f"About one in twenty of the {judged} verdicts is wrong by chance.")
    return "\n\n".join(part for part in [*parts, *_remarks(summary)] if part) + "\n"
