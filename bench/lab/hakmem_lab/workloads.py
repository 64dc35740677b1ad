"""The rows: every workload that a comparison can have. Data only."""

from .tables import Row

GROUPS = {
    "mixed": "random mixed (iterations / working set / sizes)",
    "bulk": "bulk phases (blocks x size, order of frees)",
    "threads": "threads",
    "prodcons": "memory under producers, consumers and short threads",
}

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

ORDERS = ("in order", "in reverse", "at random")

# seconds, min, max, chunks, rounds, seed, threads
LARSON = ("{s}", "8", "1000", "5000", "100", "4141")


def _mixed_rows():
    for title, count, working_set, low, high in MIXED:
        yield Row(
            f"mixed:{title}", "mixed", title, "bench_random_mixed_system",
            ("{n}", str(working_set), "1234567", str(low), str(high)),
            count=count, headroom=1.5, null=True,
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


def _thread_rows():
    for threads in (1, 2, 4):
        yield Row(
            f"threads:larson-{threads}", "threads", f"larson 8-1000 B, {threads} thread{'s' * (threads > 1)}",
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


def _memory_rows():
    yield Row(
        "prodcons:4", "prodcons", "4 producers, a free-only consumer", "bench_prodcons",
        ("{s}", "4"), threads=True, memory="overhead",
    )  # fmt: skip
    yield Row(
        "prodcons:handed", "prodcons", "40,000 short threads hand blocks to main", "bench_churn",
        ("40000", "200", "1"), threads=True, memory="growth",
    )  # fmt: skip


ROWS = (*_mixed_rows(), *_bulk_rows(), *_thread_rows(), *_memory_rows())
