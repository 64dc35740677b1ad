"""The table of shared words against the explorer's scenarios: no word without one.

    coverage.py --root DIR --traces DIR --output FILE.md --whole GROUP

A shared word is an _Atomic variable, an _Atomic field, a lock, or what a pointer to _Atomic points to;
but not a field of a type that only thread-local variables have, and nothing points to.
The debug information of the program of GROUP, which has all sources in src/, lists them all. The checker notes which addresses the
threads of each scenario touch (trace.h), and the debug information of its program says which words
lie there. A word counts as covered where two threads of one scenario touch it and one of them
writes. Read are the traces that the runs of mutants.py on the unbroken sources left behind.

A figure needs no scenario: every write adds to it or stores it relaxed, by HAK_ADD_OWNED, hak_add_relaxed
or hak_store_relaxed with nothing made of the old value, and only src/stats/ and src/live_stats/ read it.
The text of the sources decides that, for every use of the name.

The test fails for any other word. It fails, too, when it would not miss the traces of GROUP: so it shows
that it can fail.
"""

import argparse
import functools
import pathlib
import re
import sys

from dwarf import AGGREGATES, Debug, symbol


def is_lock(kind):
    return kind.debug.typedefs.get(kind.offset) == "hak_lock_t"


def is_word(kind):
    """Is this type, or an array of it, a shared word?"""
    kind = kind.element()
    return kind is not None and (kind.tag == "atomic_type" or is_lock(kind))


def points_to_words(kind):
    kind = kind.element()
    if kind is not None and kind.tag == "atomic_type":
        kind = kind.type().bare()
    target = kind.type() if kind is not None and kind.tag == "pointer_type" else None
    target = target.bare() if target is not None else None
    return target is not None and target.tag == "atomic_type"


def variable_name(die):
    """A global name is one word wherever it is declared, a static one belongs to its file."""
    return die.name() if "external" in die.attributes else f"{die.place()[0]}: {die.name()}"


def field_name(die):
    """structure.field; of a nameless structure in another, that one's."""
    owner = die.parent
    while owner is not None and owner.tag in AGGREGATES:
        name = owner.name() or die.debug.typedefs.get(owner.offset)
        if name:
            return f"{name}.{die.name()}"
        owner = owner.parent
    return f"{die.place()[0]}: {die.name()}"


def is_ours(die):
    return die.place() is not None and die.place()[0].startswith("src/")


def type_name(kind):
    kind = kind.element() if kind is not None else None
    return kind and (kind.name() or kind.debug.typedefs.get(kind.offset))


def types_of(debug):
    """The types of thread-local variables, and those of whatever else could reach another thread's."""
    own, others = set(), set()
    for _, die in debug.variables():
        if "tls_address" in die.attributes.get("location", ""):
            own.add(type_name(die.type() or die.link("specification").type()))
        elif "declaration" not in die.attributes:
            others.add(type_name(die.type()))
    for die in debug.of("member", "pointer_type"):
        others.add(type_name(die.type()))
    return own, others


# ---- the words of the sources -------------------------------------------------------------------


def all_words(debug):
    """{word: where it is declared}; but not the fields of types that only thread-local variables have."""
    words = {}

    def note(name, die, kind):
        if is_word(kind):
            words.setdefault(name, die.place())
        if points_to_words(kind):
            words.setdefault(name + "[]", die.place())

    for die in debug.of("member"):
        if die.name() and is_ours(die):
            note(field_name(die), die, die.type())
    for origin, die in debug.variables():
        if is_ours(origin) and ("external" in origin.attributes or die.address() is not None):
            note(variable_name(origin), origin, die.type() or origin.type())
    for die in debug.of("subprogram"):
        # A function of a header that makes words of plain memory.
        kind = die.type()
        if kind is not None and is_ours(die) and die.place()[0].endswith(".h"):
            if points_to_words(kind):
                words.setdefault(die.name() + "()[]", die.place())
    own, others = types_of(debug)
    return {word: place for word, place in words.items()
            if word.partition(".")[0] not in own - others}


# ---- what the scenarios touched -----------------------------------------------------------------


class Program:
    """Finds the words at an address of a checker's program."""

    def __init__(self, path):
        self.anchor = symbol(path, "trace_anchor")
        self.debug = Debug(path)
        self.variables = []
        for origin, die in self.debug.variables():
            if die.address() is not None:
                kind = die.type() or origin.type()
                self.variables.append((die.address(), kind.size(), origin, kind))
        # Scenarios touch the same places.
        self.words_held, self.words_at = map(functools.cache, (self.find_held, self.find_at))

    def find_held(self, offset, what):
        """Those at an offset in memory that the trace says the type of, or the word."""
        found = {what} if what.endswith("[]") or "." in what else set()
        if not found:
            descend(self.debug.by_name[what], offset, found)
        return found

    def find_at(self, address):
        found = set()
        for start, size, die, kind in self.variables:
            if start <= address < start + size:
                if is_ours(die) and is_word(kind):
                    found.add(variable_name(die))
                descend(kind, address - start, found)
        return found


def descend(kind, offset, found):
    """Enters the fields at this offset that are words, and what lies in them."""
    is_array = kind.bare().tag == "array_type"
    kind = kind.element()
    if kind is None or kind.tag not in AGGREGATES:
        return
    if is_array:
        offset %= kind.size()
    for field in kind.children:
        if field.tag != "member" or field.type() is None:
            continue
        start = field.number("data_member_location", 0)
        # The last field may be an array of no fixed length.
        if start <= offset and (offset < start + field.type().size() or
                                field.type().bare().tag == "array_type" and
                                not field.type().size()):
            if field.name() and is_word(field.type()) and is_ours(field):
                found.add(field_name(field))
            descend(field.type(), offset - start, found)


def read_trace(program, path, group, covered):
    """Enters the scenarios of one trace: {word: {group: {scenario}}}."""
    slide, scenario = 0, None
    for line in path.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "anchor":
            slide = int(rest, 0) - program.anchor
        elif kind == "scenario":
            scenario = rest
        else:
            place, _, what = rest.partition(" ")
            words = (program.words_held(int(place, 0), what) if kind == "held"
                     else program.words_at(int(place, 0) - slide))
            for word in words:
                covered.setdefault(word, {}).setdefault(group, set()).add(scenario)


def all_programs(traces):
    """{group: (program, trace)} of the unbroken sources."""
    found = sorted(traces.glob("*/unbroken/trace"))
    if not found:
        sys.exit(f"FAIL coverage: no traces in {traces}")
    return {trace.parts[-3]: (Program(trace.with_name("program")), trace) for trace in found}


# ---- figures ------------------------------------------------------------------------------------

READERS = ("src/stats/", "src/live_stats/", "src/api/mallinfo.c", "src/api/stats.c")
WRITE = (r"(?:^|[;{{}})]|\belse)\s*(?:\(void\))?(?:HAK_ADD_OWNED|hak_add_relaxed|hak_store_relaxed|"
         r"count_call)\(\s*&?[^,;]*?{use}(?:\[[^,;]*\])*[,)]")
RETURNED = r"\b(\w+)\([^()]*\)\s*\{{\s*return hak_load_relaxed\(&{use}\);\s*\}}"


def without_comments(text):
    """The code alone, with its line breaks."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', blank, text, flags=re.DOTALL)


def figures(args, words):
    """The words that are only added to and read for statistics, by the text of the sources."""
    texts = {str(path.relative_to(args.root)): without_comments(path.read_text())
             for path in (args.root / "src").glob("*/*.[ch]")}
    return {word for word in words if not word.endswith("[]") and is_figure(word, texts)}


def is_figure(word, texts):
    name = re.split(r"[.: ]+", word)[-1]
    own = word.partition(": ")[0] if ": " in word else None
    is_field = own is None and "." in word or own is not None and own.endswith(".h")
    use = (r"(?:\.|->)\s*" if is_field else r"(?<![.>\w])") + name + r"\b"
    writes = 0
    for path, text in texts.items():
        if name not in text or path.startswith(READERS):
            continue
        if own is not None and not is_field and path != own:
            continue
        spans = [found.span() for found in
                 re.finditer(WRITE.format(use=use), text, flags=re.MULTILINE)]
        writes += len(spans)
        for found in re.finditer(RETURNED.format(use=use), text):
            if only_readers_call(found[1], texts):
                spans.append(found.span())
        for found in re.finditer(use, text):
            inside = any(start <= found.start() < end for start, end in spans)
            if not inside and not in_declaration(text, found.start()):
                return False
    return writes > 0


def only_readers_call(function, texts):
    """Is the function named elsewhere than where it is declared and defined?"""
    for path, text in texts.items():
        if not path.startswith(READERS):
            for line in re.findall(rf"^.*\b{function}\b.*$", text, flags=re.MULTILINE):
                if not re.match(r"^[A-Za-z_].*\)\s*(?:;|\{.*)$", line):
                    return False
    return True


def in_declaration(text, at):
    """Is this place between the word _Atomic and the end of its declaration?"""
    start = max(text.rfind(mark, 0, at) for mark in ";{}")
    return "_Atomic" in text[start + 1:at]


# ---- the table ----------------------------------------------------------------------------------


def write_table(path, words, covered, figure_words):
    lines = ["# Shared words and the scenarios that explore them", "",
             "Made by tests/interleave/coverage.py: what two threads of a scenario touch, one of "
             "them writing.", "", "| word | declared | scenarios |", "|---|---|---|"]
    for word in sorted(words):
        file, line = words[word]
        if word in covered:
            text = "; ".join(f"{group}: {len(names)}" for group, names in
                             sorted(covered[word].items()))
        elif word in figure_words:
            text = "figure: added to relaxed, read for statistics only"
        else:
            text = "NONE"
        lines.append(f"| `{word}` | {file}:{line} | {text} |")
    path.write_text("\n".join(lines) + "\n")


def all_problems(words, covered, figure_words):
    bare = set(words) - set(covered) - figure_words
    return [f"{word} ({words[word][0]}:{words[word][1]}) has no scenario" for word in sorted(bare)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--traces", type=pathlib.Path, required=True)
    parser.add_argument("--whole", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    programs, covered = all_programs(args.traces), {}
    for group, (program, trace) in programs.items():
        read_trace(program, trace, group, covered)
    words = all_words(programs[args.whole][0].debug)
    rest = {word: groups for word, groups in covered.items() if set(groups) != {args.whole}}
    figure_words = figures(args, set(words) - set(rest))
    write_table(args.output, words, covered, figure_words)
    problems = all_problems(words, covered, figure_words)
    if len(all_problems(words, rest, figure_words)) <= len(problems):
        problems.append(f"the scenarios of {args.whole} are not missed when they are left out")
    for problem in problems:
        print(f"FAIL coverage: {problem}")
    print(f"coverage: {len(words)} words, {len(set(covered) & set(words))} in scenarios, "
          f"{len(figure_words - set(covered))} figures; {args.output}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
