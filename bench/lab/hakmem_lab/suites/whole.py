"""The whole lab's rows as a head-to-head."""

import dataclasses

from ..workloads import choose_rows
from .large import ours_against_others
from .shapes import Entry, Suite

ROWS = "mixed,scenarios,threads"
LARSON_KEY = "threads:larson-"


def _arguments(parser):
    parser.add_argument("--rows", default=ROWS, help=f"of 'lab bench --list' ({ROWS})")


def _with_threads(row, options):
    """A larson row once per thread count; others as they are."""
    if not row.key.startswith(LARSON_KEY):
        return [dataclasses.replace(row, key=row.key.replace("/", "-"))]
    return [
        dataclasses.replace(
            row, key=f"larson_T{count}", args=(*row.args[:-1], str(count)), threads=count > 1,
            title=f"larson 8-1000 B, {count} thread{'s' * (count > 1)}",
        )
        for count in options.threads
    ]  # fmt: skip


def _rows(options):
    found = {}
    for row in choose_rows(options.rows):
        found.update({new.key: new for new in _with_threads(row, options)})
    return list(found.values())


SUITES = (
    Suite(
        name="run_bench_suite", suffix="HEAD2HEAD", title="HAKMEM head to head",
        alloc="hakmem,system,mimalloc",
        about="HAKMEM beside other allocators over the lab's rows (see --rows).",
        example="RUNTIME=1 scripts/run_bench_suite.sh -t 1,2,4",
        rows=_rows, entries=lambda options: [Entry(name) for name in options.alloc],
        pairs=ours_against_others, arguments=_arguments,
    ),
)  # fmt: skip
