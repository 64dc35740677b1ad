"""Breaks the checked sources on purpose, one way after the other: the checker must see each.

    mutants.py GROUP [--heavy] --root DIR --work DIR --objects FILE... [--link=WORD] --compile WORD...

A mutant is a row of one of the files mutants_*.py: what is broken, the text
before and after, and, if it is named, the scenario that finds it; otherwise all are tried. Each is
compiled with the words of --compile, linked with the objects of the checker, and run. The test fails when a mutant
survives, when the sources as they are do not hold, and when a row no longer fits the sources: then
the row has to follow them. With --heavy it fails, too, when a mutant that breaks nothing is found.

The short dose tries the first row, and the mutants of what the last day of work touched (touched.py):
rows that are new, rows that break a touched file, and every eighth where the explorer or a scenario was;
of more than four, four that are spread over them, and two of the whole engine. With --heavy all are tried, and the unbroken
sources in the heavy scenarios, too.
"""

import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import mutants_large
import mutants_os
import mutants_rest
import mutants_shard
import mutants_thread
import mutants_whole

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import touched

# The checked sources and headers, what else is compiled with them, and an edit that every
# compilation gets.
GROUPS = {
    "remote": ("src/shard/*.[ch] src/meta/lazy_table.[ch] src/meta/room.[ch]", [], []),
    "warm": ("src/shard/*.[ch] src/meta/lazy_table.[ch] src/meta/room.[ch]", [], []),
    # One turn of the spin shows all there is to see; a hundred turns make 10^8 states.
    "lock": (
        "src/os/lock.[ch]",
        ["tests/interleave/lock.c"],
        [(r"SPIN_COUNT = \d+", "SPIN_COUNT = 1")],
    ),
    "gate": (
        "src/os/gate.[ch]",
        ["tests/interleave/gate.c"],
        [(r"SPIN_COUNT = \d+", "SPIN_COUNT = 0"), (r"ROUND_MS = \d+", "ROUND_MS = 1")],
    ),
    # Few grains of recent blocks, so that two are too many.
    "large": (
        "src/large/large.c src/large/waiting.h src/large/recent.h src/meta/lazy_table.c",
        ["tests/interleave/large.c"],
        [
            (r"HAK_RECENT_GRAINS = \d+", "HAK_RECENT_GRAINS = 18"),
            # A block is enough to look whether the heap has much.
            (r"NOTED_GRAINS = \d+", "NOTED_GRAINS = 17"),
            # The scenarios begin anew with it.
            (r"static _Atomic unsigned merged_last HAK_OWN_LINE;",
             "static _Atomic unsigned merged_last HAK_ALIGNED(HAK_LINE);\n"
             "_Atomic unsigned *merged_place(void) { return &merged_last; }"),
        ],
    ),
    "superslab_owner": (
        "src/large/heap*.c src/large/part.[ch] src/large/extent.[ch] src/meta/lazy_table.c src/region/superslab_list.c",
        ["tests/interleave/superslab_owner.c"],
        [],
    ),
    # Small tables and few places for what is kept, so that few blocks use them up.
    "huge": (
        "src/large/huge.[ch] src/large/huge_kept.[ch] src/large/huge_table.[ch] src/large/huge_stretches.[ch]",
        ["tests/interleave/huge.c"],
        [
            (r"LEAST_SLOTS = \d+", "LEAST_SLOTS = 2"),
            (r"EMPTIED_AT_ONCE = \d+", "EMPTIED_AT_ONCE = 3"),
            (r"HAK_STRETCHES_MAX = \d+", "HAK_STRETCHES_MAX = 2"),
            (r"HAK_FREED_MAX = \d+", "HAK_FREED_MAX = 3"),
            (r"HAK_KEPT_PARTS = \d+", "HAK_KEPT_PARTS = 2"),
            (r"HAK_HUGE_TABLE_MAX = \d+", "HAK_HUGE_TABLE_MAX = 2"),
            (r"BATCH_MAX = \d+", "BATCH_MAX = 2"),
        ],
    ),
    # A CPU on which the release of a lock is no fence.
    "helper": (
        "src/thread/helper_thread.[ch]",
        ["tests/interleave/helper.c"],
        [(rf"({before}\s*)hak_fence_after_update\(\);", r"\1atomic_thread_fence(memory_order_seq_cst);")
         for before in (r"void hak_helper_wake\(void\) \{", r"hak_helper_look_whose\(\);")],
    ),
    "commit": ("src/commit/commit.c", ["tests/interleave/commit.c"], []),
    "dyn": ("src/classes/*.[ch]", ["tests/interleave/dyn.c"], []),
    "open_files": ("src/os/open_files.[ch]", ["tests/interleave/open_files.c"], []),
    "clock": ("src/os/clock.c", ["tests/interleave/clock.c"], []),
    # A CPU on which a read-modify-write is no fence.
    "note": (
        "src/thread/purge_trigger.c src/thread/purge_pass.[ch] src/pool/purge_budget.[ch] src/base/base.h",
        ["tests/interleave/note.c"],
        [(r"atomic_signal_fence\(memory_order_seq_cst\)",
          "atomic_thread_fence(memory_order_seq_cst)")],
    ),
    "lazy_table": ("src/meta/lazy_table.[ch]", ["tests/interleave/lazy_table.c"], []),
    # A room for two pieces.
    "room": (
        "src/meta/room.[ch]",
        ["tests/interleave/room.c"],
        [
            (r"HAK_ROOM_SIZE = 64 \* 1024", "HAK_ROOM_SIZE = 192"),
            (r"HAK_ROOM_SMALL = 1024", "HAK_ROOM_SMALL = 64"),
        ],
    ),
    # A short stock, so that few units are enough.
    "stock": (
        "src/shard/stock.[ch] src/shard/bitmaps.[ch]",
        ["tests/interleave/stock.c"],
        [(r"\n    MOST = HAK_MAP_LINE_UNITS - 1", "\n    MOST = 3")],
    ),
    "lends": (
        "src/shard/table.c src/meta/lazy_table.[ch] src/classes/*.[ch]",
        ["tests/interleave/lends.c"],
        [],
    ),
    # Two shards a group, so that few make two groups; and places for the program to begin anew.
    "group": (
        "src/thread/home_group.[ch] src/thread/silent_exit.[ch] src/thread/cache_budget.[ch]",
        ["tests/interleave/group.c"],
        [
            (r"SHARDS = 8", "SHARDS = 2"),
            (r"static group_t first HAK_OWN_LINE;", "static group_t first HAK_ALIGNED(HAK_LINE);"),
            (r"hak_place_t hak_places\[HAK_PLACES\] HAK_APART;",
             "hak_place_t hak_places[HAK_PLACES] HAK_ALIGNED(HAK_LINE);"),
            (r"HAK_PLACES_SHIFT = 9", "HAK_PLACES_SHIFT = 3"),
            (r"static unsigned groups_of\(",
             "void *group_place(unsigned number, size_t *size) {\n"
             "*size = sizeof first;\nreturn number ? others : &first; }\n"
             "static unsigned groups_of("),
            (r"static _Atomic unsigned shared HAK_OWN_LINE;",
             "static _Atomic unsigned shared HAK_ALIGNED(HAK_LINE);"),
            (r"static _Atomic unsigned threads HAK_OWN_LINE;",
             "static _Atomic unsigned threads HAK_ALIGNED(HAK_LINE);"),
            (r"} sharing HAK_OWN_LINE;", "} sharing HAK_ALIGNED(HAK_LINE);"),
            (r"\nunsigned hak_thread_count\(void\) \{",
             "void *share_place(unsigned number, size_t *size) {\n"
             "*size = number ? sizeof(unsigned) : sizeof sharing;\n"
             "return number == 0 ? (void *)&sharing : number == 1 ? &shared : &threads; }\n"
             "unsigned hak_thread_count(void) {"),
        ],
    ),
    "record": ("src/debug_record/record.[ch] src/meta/once.[ch]", ["tests/interleave/record.c"], []),
    "state": (
        "src/hardened/state.[ch] src/hardened/empty.[ch] src/hardened/verify.[ch] src/api/hardened_spot.h "
        "src/meta/once.[ch]",
        ["tests/interleave/state.c"],
        [
            (r"SLOTS = 131072", "SLOTS = 256"),
            # A racing look is a step, and the explorer is told what was seen.
            (r"return hak_canary_holds\(block, used, info->size, [^;]*;",
             "bool look_at_canary(const char *, size_t, size_t); "
             "return look_at_canary(block, used, info->size);"),
            # The scenarios make them anew.
            (r"static (_Atomic uintptr_t range;)", r"\1"),
            (r"static (_Atomic uint64_t used\[WORDS\]) HAK_APART;", r"\1 HAK_ALIGNED(64);"),
        ],
    ),
    # The whole engine, without spins, and with the fast paths in C. Its constructor runs when a
    # scenario says so, and the explorer's threads differ though they are one to libc.
    "whole": (
        "src/*/*.[ch] src/*/*.def",
        [],
        [
            (r"#ifndef HAKMEM_PREFIXED_ONLY\n#define HAKMEM_PREFIXED_ONLY 0\n#endif",
             "#undef HAKMEM_PREFIXED_ONLY\n#define HAKMEM_PREFIXED_ONLY 1"),
            (r"#if defined\(__x86_64__\) && !HAKMEM_NO_ASM(\n#define HAK_STEP_UP)", r"#if 0\1"),
            (r"__attribute__\(\(constructor\(102\)\)\) static void prepare\(void\)",
             "void hak_start(void);\nvoid hak_start(void)"),
            (r"return \(uintptr_t\)&errno;",
             "extern unsigned explore_thread(void);\nreturn 16 * (explore_thread() + 1);"),
            (r"SPIN_COUNT = 1000", "SPIN_COUNT = 0"),
            (r"SPIN_COUNT = 100 }", "SPIN_COUNT = 0 }"),
            # What a large or old heap comes to is due at once.
            (r"YOUNG_CALLS = \d+", "YOUNG_CALLS = 0"),
            (r"HAK_TICK_INTERVAL = 64 \* HAK_TICK_CALL", "HAK_TICK_INTERVAL = 0"),
            (r"HEAP_UNITS = 512", "HEAP_UNITS = 1"),
            (r"HEAP_UNITS = 32,", "HEAP_UNITS = 1,"),
            (r"LOOK_INTERVAL = \d+", "LOOK_INTERVAL = 1"),
            (r"SAVED_LEAST = 256 \* 1024", "SAVED_LEAST = 1"),
            (r"PUBLISH_GRAINS = \d+", "PUBLISH_GRAINS = 1"),
            (r"SPARE_LEAST = 256 \* 1024", "SPARE_LEAST = 4096"),
            (r"VISIT_UNITS = \d+", "VISIT_UNITS = 1"),
            (r"HUGE_MIN_UNITS = \d+", "HUGE_MIN_UNITS = 1"),
            (r"SPARE_UNITS = \d+", "SPARE_UNITS = 0"),
            (r"EPOCH_EVENTS = \d+", "EPOCH_EVENTS = 1"),
            (r"STEP = 512 \* 1024", "STEP = 4096"),
            (r"LEAST = 16 \* 1024 \* 1024", "LEAST = 4096"),
            (r"SMALL_HEAP = \d+", "SMALL_HEAP = 1"),
            (r"hak_os_others_define\(\"_Znwm\", runtimes\)", "((void)runtimes, true)"),
            (r"SHORT_LEAST = \d+", "SHORT_LEAST = 1"),
            (r"SHORT_PART = \d+", "SHORT_PART = 1 << 20"),
            (r"POOL_PART = \d+", "POOL_PART = 1"),
            (r"REPORT_INTERVAL = \d+", "REPORT_INTERVAL = 1"),
            (r"return count > OWN ", "return count > 0 "),
            # Nearly all shards are made as they are used.
            (r"enum \{ SHARDS_OWN = 2 \}", "enum { SHARDS_OWN = 1 }"),
            (r"SHARDS_PLAIN = \d+", "SHARDS_PLAIN = 1"),
            (r"SLABS_EACH = \d+", "SLABS_EACH = 1"),
            # Bytes that are written at once are no step.
            (r"if \(block && is_late\) zero_late\(",
             "extern void heaps_write(void);\nif (block && is_late) heaps_write(), zero_late("),
            (r"if \(request->from\)\s+memcpy\(",
             "extern void heaps_write(void);\nif (request->from) heaps_write(), memcpy("),
            # Two bits of a peak's number.
            (r"GAP_BITS = 44", "GAP_BITS = 62"),
            # Both threads walk over the one kept walk.
            (r" WALKS = \d+", " WALKS = 1"),
            # A scenario looks at them; the trace says what they are.
            (r"bool hak_sample_start\(void\) \{",
             "size_t hak_sample_lists(void **start) {\n"
             "*start = (void *)lists; return sizeof *lists << LISTS_SHIFT; }\n"
             "bool hak_sample_start(void) {"),
            (r"void \*hak_user_heap_handle\(const hak_user_heap_t \*heap\) \{",
             "const volatile void *hak_user_heap_bits(unsigned level, size_t *size) {\n"
             "if (level >= LEVELS) return NULL;\n"
             "*size = all_words(slots_of(level)) * sizeof(uint64_t); return levels[level].used; }\n"
             "void *hak_user_heap_handle(const hak_user_heap_t *heap) {"),
            (r"void hak_cache_set_budget\(hak_tier_t tier, size_t bytes\) \{",
             "size_t hak_budget_of(hak_tier_t tier) { return budgets[tier]; }\n"
             "void hak_cache_set_budget(hak_tier_t tier, size_t bytes) {"),
        ],
    ),
}

TABLES = (mutants_shard, mutants_large, mutants_os, mutants_thread, mutants_rest, mutants_whole)

MOST = 4  # rows of a group that the short dose tries
MOST_OF = {"whole": 2}  # dear ones
SAMPLE = 8  # of so many mutants the short dose tries one where the explorer or a scenario was touched

NONE_SECONDS = 60  # for the mutant that breaks nothing
RUN_SECONDS = 800  # less than CTest allows; on a loaded machine an exploration takes its time


def edited(files, pattern, replacement):
    """The name and the new text of the one file that has the one match."""
    hits = []
    for name, text in files.items():
        new, count = re.subn(pattern, replacement, text, flags=re.DOTALL)
        hits += [(name, new)] * count
    if len(hits) != 1:
        raise LookupError(f"the row has {len(hits)} matches; it has to follow the source")
    return hits[0]


def checked_files(root, group):
    """{name: text} of a group's sources, as they stand."""
    return {str(path.relative_to(root)): path.read_text()
            for pattern in GROUPS[group][0].split() for path in sorted(root.glob(pattern))
            # What looks at everything at rest.
            if path.name != "verify.c" or group in ("state", "whole")}


def with_edits(files, edits):
    files = dict(files)
    for row in edits:
        file, text = edited(files, *row)
        files[file] = text
    return files


class Build:
    """One set of edits, compiled and linked. A mutant is one edit more than `like`: what it has in
    common with that is taken from there, also what was compiled from it."""

    def __init__(self, args, name, edits, like=None):
        others = GROUPS[args.group][1]
        self.work = args.work / re.sub(r"\W+", "_", name)
        # A mutant is compiled for longer than it runs, and so is a whole engine. The debug information
        # of the unbroken sources is for coverage.py, which asks a whole engine for all types.
        whole = ["-O0", "-gdwarf-5", "-fno-eliminate-unused-debug-types"]
        self.quick = ["-O0", "-g0"] if like else whole if args.group == "whole" else []
        self.program = self.work / "program"
        self.files = with_edits(like.files if like else checked_files(args.root, args.group), edits)
        changed = {file for file, text in self.files.items() if not like or like.files[file] != text}
        self.write(changed)
        # The copies stand before the headers.
        self.folders = [self.work / "src", *([like.work / "src"] if like else [])]
        included = "".join((args.root / other).read_text() for other in others)
        # A header, or a .c file that a test includes, is a part of all.
        alone = {file for file in self.files
                 if file.endswith(".c") and f'"{file.removeprefix("src/")}"' not in included}
        everything = not changed <= alone
        self.objects = []
        for i, source in enumerate([*others, *sorted(alone)]):
            if everything or source in changed:
                place = args.root if source not in alone else self.work if source in changed else like.work
                self.compile(args, place / source, self.work / f"{i}.o")
            else:
                self.objects.append(like.objects[i])
        link = [args.link] if args.link else []
        words = [args.compile[0], *link, *self.objects, *args.objects, "-o", self.program]
        subprocess.run(words, check=True)

    def write(self, changed):
        shutil.rmtree(self.work, ignore_errors=True)
        for file in changed:
            (self.work / file).parent.mkdir(parents=True, exist_ok=True)
            (self.work / file).write_text(self.files[file])

    def compile(self, args, source, output):
        words = [args.compile[0], *(word for folder in self.folders for word in ("-I", folder)),
                 *args.compile[1:], "-w", *self.quick]
        subprocess.run([*words, "-c", source, "-o", output], check=True)
        self.objects.append(output)


class Selection:
    """Which rows of a group the short dose tries."""

    def __init__(self, args, unbroken):
        self.root = args.root
        self.unbroken = unbroken
        self.most = sys.maxsize if args.heavy else MOST_OF.get(args.group, MOST)
        self.commit = None if args.heavy else touched.base(args.root)
        self.files = touched.sources(args.root, self.commit) if self.commit else set()
        self.all = self.commit is None
        # A part of the rows shows that the explorer and the scenarios still find something.
        self.step = SAMPLE if any(file.startswith("tests/interleave/") for file in self.files) else sys.maxsize

    def wants(self, table, name, pattern, replacement, *_):
        if self.all or f'"{name}"' not in touched.old_text(self.root, self.commit, table):
            return True
        try:
            file, _ = edited(self.unbroken.files, pattern, replacement)
        except LookupError:
            return True  # the row fails, and says why
        return file in self.files

    def rows(self, group):
        """The rows to try, and how many the group has. One at least: a test must be able to fail."""
        own = [(f"tests/interleave/{table.__name__}.py", *row)
               for table in TABLES for owner, *row in table.MUTANTS if owner == group]
        wanted = [row for i, (table, *row) in enumerate(own)
                  if i % self.step == 0 or self.wants(table, *row)]
        most = min(self.most, len(wanted))
        return [wanted[i * len(wanted) // most] for i in range(most)], len(own)


@functools.cache
def still():
    """Words that keep addresses the same in each run, where that is allowed: so a run can be repeated."""
    words = ["setarch", "-R"]
    try:
        return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []
    except OSError:
        return []


def explore(program, words, seconds=RUN_SECONDS, **notes):
    return subprocess.run([*still(), program, *words], capture_output=True, text=True, timeout=seconds,
                          env={**os.environ, **notes})


def try_mutant(args, unbroken, name, pattern, replacement, scenario=None):
    """True and a line to print when the mutant is found."""
    try:
        program = Build(args, name, [(pattern, replacement)], unbroken).program
        done = explore(program, ["--broken", *([scenario] if scenario else [])])
    except (LookupError, subprocess.SubprocessError) as problem:
        return False, f"FAIL {name}: {problem}"
    if done.returncode < 0:
        return True, f"{name}: crashes"
    return done.returncode == 0, f"{name}: {done.stdout.strip()}"


def try_none(args, unbroken):
    """An edit that changes nothing, compiled as a mutant is, must not be found: else every mutant would be."""
    file = next(name for name in unbroken.files if name.endswith(".c"))
    done = "not found in time"
    try:
        program = Build(args, "nothing is broken", [(r"\A" + re.escape(unbroken.files[file]), lambda found: found[0] + "\n")],
                        unbroken).program
        done = explore(program, ["--broken"], NONE_SECONDS).stdout.strip()
    except subprocess.TimeoutExpired:
        pass
    return "SURVIVED" in done or done == "not found in time", f"nothing is broken: {done}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--heavy", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--objects", nargs="+", required=True)
    parser.add_argument("--link", help="a word for the linker's command line")
    parser.add_argument("--compile", nargs=argparse.REMAINDER, required=True)
    args = parser.parse_args()
    unbroken = Build(args, "unbroken", GROUPS[args.group][2])
    rows, count = Selection(args, unbroken).rows(args.group)
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # What the unbroken sources do in the short dose is noted for coverage.py.
        holds = (pool.submit(explore, unbroken.program, ["--heavy"], None) if args.heavy else
                 pool.submit(explore, unbroken.program, [],
                             INTERLEAVE_TRACE=str(unbroken.work / "trace")))
        right, line = try_none(args, unbroken) if args.heavy else (True, "")
        failures += not right
        print(line)
        for found, line in pool.map(lambda row: try_mutant(args, unbroken, *row), rows):
            print(line, flush=True)
            failures += not found
        print(holds.result().stdout.rstrip())
        failures += holds.result().returncode != 0
    print(f"interleave: {len(rows)} of {count} mutants, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
