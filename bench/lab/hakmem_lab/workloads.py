"""The rows: every workload that a comparison can have, and how they are chosen. Data only.

A row whose full length is too long for every day comes twice: scaled down in `standard` runs, and
under the same key with its length appended in `full` ones.
"""

import sys

from .errors import BadInput
from .paths import WORKLOADS
from .settings import PLAIN_ROWS
from .tables import Row

GROUPS = {
    "mixed": "random mixed (iterations / working set / sizes)",
    "scenarios": "what real programs do, in small",
    "bulk": "bulk phases (blocks x size, order of frees)",
    "threads": "threads",
    "ring": "blocks passed round a ring of threads",
    "prodcons": "memory under producers, consumers and short threads",
    "mid": "2 KiB to 64 KiB",
    "large": "64 KiB and more",
    "calls": "realloc, calloc, aligned blocks; latency and start-up",
    "memory": "memory kept for what is alive, and given back",
    "real": "real programs",
}

QUICK = ("quick", "standard", "full")
STANDARD = ("standard",)
FULL = ("full",)

MIXED = (
    ("200K/32/1024", 200_000, 32, 1024, 1024),
    ("1M/256/129-1024", 1_000_000, 256, 129, 1024),
    ("1M/256/16-1024", 1_000_000, 256, 16, 1024),
    ("200K/400/8-128", 200_000, 400, 8, 128),
    ("1M/512/256", 1_000_000, 512, 256, 256),
    ("1M/400/16-1040", 1_000_000, 400, 16, 1040),
    ("2M/4000/16-1024", 2_000_000, 4000, 16, 1024),
    ("2M/20000/16-1024", 2_000_000, 20_000, 16, 1024),
)

# name -> operations that take about 20 ms
SCENARIOS = {
    "string-builder": 1_000_000,
    "token-stream": 300_000,
    "small-objects": 500_000,
    "json": 200_000,
    "mir": 1_000,
    "vm": 500_000,
}

ORDERS = ("in order", "in reverse", "at random")

# seconds, min, max, chunks, rounds, seed, threads
LARSON = ("{s}", "8", "1000", "5000", "100", "4141")


def _both(key, group, title, program, standard, length, full, **rest):
    """The row as `standard` runs have it, and the one with its full length."""
    yield Row(key, group, title, program, standard, **rest, sizes=STANDARD)
    yield Row(f"{key}-{length}", group, f"{title}, {length}", program, full, **rest, sizes=FULL)


def _mixed_rows():
    for title, count, working_set, low, high in MIXED:
        yield Row(
            f"mixed:{title}", "mixed", title, "bench_random_mixed_system",
            ("{n}", str(working_set), "1234567", str(low), str(high)),
            count=count, headroom=1.5, null=True, sizes=QUICK,
        )  # fmt: skip


def _scenario_rows():
    for name, count in SCENARIOS.items():
        yield Row(
            f"scenarios:{name}", "scenarios", name, "bench_scenario", (name, "{n}"),
            count=count, headroom=1.5,
        )  # fmt: skip


def _bulk_rows():
    for blocks in (1600, 100_000):
        for size in (16, 64, 512):
            for number, order in enumerate(ORDERS):
                title = f"{blocks} x {size} B {order}"
                yield Row(
                    f"bulk:{blocks}/{size}/{order.split()[-1]}", "bulk", title, "bench_bulk",
                    (str(blocks), str(size), str(number), "{n}"),
                    count=max(2, 1_000_000 // blocks), headroom=1.5, null=True,
                )  # fmt: skip


def _plural(threads):
    return f"{threads} thread{'s' * (threads > 1)}"


def _thread_rows():
    for threads in (1, 2, 4):
        yield Row(
            f"threads:larson-{threads}", "threads", f"larson 8-1000 B, {_plural(threads)}",
            "bench_larson", (*LARSON, str(threads)), threads=threads > 1,
        )  # fmt: skip
    yield Row(
        "threads:cross", "threads", "2 threads free each other's 64 B blocks", "bench_cross",
        ("{s}", "64"), threads=True,
    )  # fmt: skip
    yield Row(
        "threads:churn", "threads", "short threads allocate and exit", "bench_churn",
        ("{n}", "200", "0"), count=2000, headroom=1.5, threads=True,
    )  # fmt: skip


def _ring_rows():
    yield Row("ring:4", "ring", "ring of 4 threads, 64 B", "bench_cross",
              ("{s}", "64", "64", "64", "4"), threads=True)  # fmt: skip
    yield Row("ring:2-mid", "ring", "ring of 2 threads, 4 KiB", "bench_cross",
              ("{s}", "4096", "16", "64", "2"), threads=True)  # fmt: skip


def _prodcons_rows():
    yield Row(
        "prodcons:4", "prodcons", "4 producers, a free-only consumer", "bench_prodcons",
        ("{s}", "4"), threads=True, memory="overhead",
    )  # fmt: skip
    yield Row(
        "prodcons:handed", "prodcons", "40,000 short threads hand blocks to main", "bench_churn",
        ("40000", "200", "1"), threads=True, memory="growth",
    )  # fmt: skip


def _larson(key, group, title, sizes, chunks, counts):
    """larson with blocks of these sizes: 10 s in `full` runs, the length of a sample else."""
    for threads in counts:
        rest = (*map(str, sizes), str(chunks), "100", "4141", str(threads))
        yield from _both(
            f"{key}-{threads}", group, f"larson {title}, {_plural(threads)}", "bench_larson",
            ("{s}", *rest), "10s", ("10", *rest), threads=threads > 1,
        )  # fmt: skip


def _mid_rows():
    yield from _larson("mid:larson", "mid", "2-32 KiB", (2048, 32768), 1000, (1, 2, 4))
    yield from _larson("mid:off-class", "mid", "13000-15000 B", (13000, 15000), 1000, (1, 2))


def _large_rows():
    yield from _larson("large:larson", "large", "64 KiB-1 MiB", (65536, 1048576), 200, (1, 2, 4))
    for threads in (1, 2, 4):
        rest = ("65536", "1048576", "100", "1", "4141", str(threads))
        yield from _both(
            f"large:pages-{threads}", "large",
            f"64 KiB-1 MiB, all pages used, {_plural(threads)}", "bench_large",
            ("{s}", *rest), "10s", ("10", *rest), threads=threads > 1,
        )  # fmt: skip
    huge = (str(5 << 20), str(25 << 20), "20")
    yield Row("large:malloc-large", "large", "malloc-large, 5-25 MiB", "bench_large",
              ("{s}", *huge, "0"))  # fmt: skip
    yield Row("large:malloc-large-pages", "large", "malloc-large, 5-25 MiB, all pages used",
              "bench_large", ("{s}", *huge, "1"))  # fmt: skip


def _call_rows():
    yield Row("calls:realloc", "calls", "realloc doubling to 1 GiB", "bench_realloc", ("1",),
              memory="copied_mb")  # fmt: skip
    for name, low, high, slots, count in (
        ("small", 16, 512, 4096, 500_000),
        ("mid", 2048, 32768, 1000, 50_000),
        ("large", 65536, 1 << 20, 100, 2_000),
        ("huge", 2 << 20, 16 << 20, 8, 50),
    ):
        yield Row(
            f"calls:calloc-{name}", "calls", f"calloc, {name}, reused memory", "bench_calloc",
            ("{n}", str(low), str(high), str(slots)), count=count, headroom=1.5,
        )  # fmt: skip
    yield Row("calls:calloc-new-small", "calls", "calloc, small, new memory", "bench_calloc",
              ("2000000", "16", "512", "0"), memory="touched")  # fmt: skip
    yield Row("calls:calloc-new-large", "calls", "calloc, large, new memory", "bench_calloc",
              ("1000", "65536", "1048576", "0"), memory="touched")  # fmt: skip
    yield Row("calls:aligned", "calls", "aligned blocks, 16 B-4 KiB", "bench_aligned", ("{n}",),
              count=500_000, headroom=1.5)  # fmt: skip
    yield Row("calls:aligned-large", "calls", "aligned blocks, 8 KiB-256 KiB", "bench_aligned",
              ("{n}", "200", "8192", "262144"), count=50_000, headroom=1.5)  # fmt: skip
    yield from _both(
        "calls:latency", "calls", "malloc's latency under churn, 16 B-64 KiB", "bench_latency",
        ("{s}",), "10s", ("10",), memory="p999_ns",
    )  # fmt: skip
    yield Row("calls:startup", "calls", "start of a process", "bench_startup", ("{n}",), count=100,
              memory="faults")  # fmt: skip


def _memory_rows():
    yield from _both(
        "memory:producers-16", "memory", "16 producers, a free-only consumer", "bench_prodcons",
        ("{s}", "16"), "60s", ("60", "16"), threads=True, memory="overhead",
    )  # fmt: skip
    yield Row(
        "memory:churn-1M", "memory", "1,000,000 short threads", "bench_churn",
        ("1000000", "20", "0"), threads=True, memory="growth", sizes=FULL,
    )  # fmt: skip
    yield Row("memory:phase", "memory", "500 MB of 64 B blocks, then of 4 KiB blocks", "bench_frag",
              ("phase", "500"), memory="frag")  # fmt: skip
    yield from _both(
        "memory:drift", "memory", "drifting sizes, three generations", "bench_frag",
        ("drift", "32"), "256MB", ("drift", "256"), memory="frag",
    )  # fmt: skip
    yield from _both(
        "memory:hour", "memory", "sizes that drift on and on", "bench_frag",
        ("hour", "16"), "1h", ("hour", "32", "4141", "9000"), memory="growth",
    )  # fmt: skip
    yield from _both(
        "memory:cache", "memory", "cache whose values get longer", "bench_frag",
        ("cache", "48"), "256MB", ("cache", "256"), memory="frag",
    )  # fmt: skip
    for key, title, words, figure in (
        ("memory:crowd", "threads keep 10 blocks and rest", ("10", "10", "64"), "overhead"),
        ("memory:resting", "threads free 10 blocks and rest", ("10", "0", "64"), "per_thread"),
        ("memory:crowd-1000", "threads keep 1,000 blocks and rest", ("1000", "1000", "64"),
         "overhead"),
    ):
        few, many = ("500", "5000") if "1000" in key else ("2000", "20000")
        yield from _both(
            key, "memory", title, "bench_crowd", (few, *words), many, (many, *words),
            threads=True, memory=figure,
        )  # fmt: skip
    for key, title, blocked in (
        ("memory:idle", "all freed, then idle for 2 s", "0"),
        ("memory:idle-blocked", "all freed, then idle for 2 s, a second thread blocked", "1"),
    ):
        yield from _both(
            key, "memory", title, "bench_idle", ("256", "2", blocked), "1GiB",
            ("1024", "2", blocked), memory="kept",
        )  # fmt: skip


# key, title, command, Debian package, arguments (a file name with @ is one of bench/workloads)
REAL = (
    ("sqlite3", "sqlite3: a shop's tables, joins, windows", "sqlite3", "sqlite3",
     (":memory:", ".read @orders.sql")),
    ("gcc", "gcc -O2: a file of 290 functions", "gcc", "gcc", ("-O2", "-S", "-o", "-", "@maps.c")),
    ("z3", "z3: factors of a product", "z3", "z3", ("@factors.smt2",)),
    ("ruby", "ruby: pages from templates", "ruby", "ruby", ("@template.rb",)),
    ("lua", "lua: a world of tables and closures", "lua5.4", "lua5.4", ("@entities.lua",)),
    ("perl", "perl: a report from a log", "perl", "perl", ("@report.pl",)),
    ("node", "node: buffers, compression, JSON", "node", "nodejs", ("@service.js",)),
    ("ghostscript", "ghostscript: pages of curves and text", "gs", "ghostscript",
     ("-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=pgmraw", "-r36", "-o", "-", "@page.ps")),
)  # fmt: skip

# without its own pool, so that every Python object is a malloc of ours
PYTHON_ENVIRONMENT = (("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0"))


def _real_rows():
    for name, title in (("index", "a search index"), ("parse", "syntax trees")):
        yield Row(
            f"real:python3-{name}", "real", f"python3: {title}", sys.executable,
            (str(WORKLOADS / f"{name}_stdlib.py"),), kind="command",
            environment=PYTHON_ENVIRONMENT,
        )  # fmt: skip
    for key, title, command, package, args in REAL:
        yield Row(
            f"real:{key}", "real", title, command,
            tuple(word.replace("@", f"{WORKLOADS}/") for word in args), kind="command",
            needs=((command, package),),
        )  # fmt: skip
    # a rate, from a program that gives the allocator to the server only
    yield Row(
        "real:redis", "real", "redis-server under redis-benchmark", sys.executable,
        (str(WORKLOADS / "redis" / "load.py"), "{n}"), count=20_000, threads=True,
        needs=(("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")),
    )  # fmt: skip


ROWS = (
    *_mixed_rows(), *_scenario_rows(), *_bulk_rows(), *_thread_rows(), *_ring_rows(),
    *_prodcons_rows(), *_mid_rows(), *_large_rows(), *_call_rows(), *_memory_rows(), *_real_rows(),
)  # fmt: skip


QUICK_GROUP = "mixed"  # the seed rows: a quick run has these until rows name it themselves


def listing() -> str:
    """All rows by their keys."""
    return "\n".join(f"{row.key:28} {row.title}" for row in ROWS)


def _group(name, size) -> list:
    rows = [row for row in ROWS if row.group == name]
    return [r for r in rows if size in r.sizes] or [r for r in rows if PLAIN_ROWS in r.sizes]


def choose_rows(text, size=None) -> list:
    """Rows for "mixed,bulk" or single keys like "threads:cross"; None = all of the size.

    A group has the rows of the size that is run, or those of a plain run when it has none there.
    """
    size = size or PLAIN_ROWS
    if text is None:
        return [row for row in ROWS if size in row.sizes] or _group(QUICK_GROUP, size)
    chosen = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        found = _group(word, size) or [row for row in ROWS if word == row.key]
        if not found:
            raise BadInput(
                f"unknown row '{word}'; groups are {', '.join(GROUPS)}, "
                f"single rows {ROWS[0].key} ... {ROWS[-1].key} (see --list)"
            )
        chosen += [row for row in found if row not in chosen]
    if not chosen:
        raise BadInput("--rows names no row")
    return chosen
