"""perf_report.sh: its options."""

import argparse
from pathlib import Path

from ..cli import Parser

ABOUT = """\
Profiles a workload on HAKMEM and on the system allocator: counters, hot spots, call graph,
annotated malloc and free, an ASCII chart, a summary. perf is used if the machine gives it
hardware counters, callgrind where not; the report says which."""


def parser() -> Parser:
    parser = Parser(
        description=ABOUT,
        epilog="example:\n  scripts/perf_report.sh mixed\n\nresults: "
        "docs/benchmarks/<stamp>_PERF",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "workload", nargs="?", default="mixed",
        help="mixed, tiny, larson, large, a scenario (json, vm ...) or a row of "
        "'lab bench --list' (mixed)",
    )  # fmt: skip
    parser.add_argument("--tool", choices=("perf", "callgrind"), help="instead of the best one")
    parser.add_argument("--lib", action="append", metavar="NAME=PATH", help="an allocator's .so")
    parser.add_argument("--build", help="CMake build folder (default: build/release)")
    parser.add_argument("--out", type=Path, help="folder for the report")
    return parser


def run(options) -> int:
    from . import report  # here, since it brings the statistics with it

    return report.run(options)
