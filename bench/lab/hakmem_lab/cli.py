"""The command line: python -m hakmem_lab bench | run | report."""

import argparse
import signal
import sys

from .errors import LabError
from .settings import SIZES
from .workloads import GROUPS, ROWS


def number(kind, low, high):
    """A parser of one number in a range."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not in {low}..{high}")
        return value

    return parse


class Parser(argparse.ArgumentParser):
    """One line on bad input, not a page of usage."""

    def error(self, message):
        print(f"{self.prog}: {message} (see --help)", file=sys.stderr)
        sys.exit(2)


def _common(parser):
    parser.add_argument("--build", help="CMake build folder (default: build/release)")
    parser.add_argument(
        "--alloc",
        help="allocators to take part, with commas between; hakmem+NAME=VALUE sets an option",
    )
    parser.add_argument(
        "--lib", action="append", metavar="NAME=PATH", help="add an allocator, or replace NAME's"
    )


def parser() -> Parser:
    top = Parser(
        prog="hakmem_lab", description="Compares memory allocators.",
        epilog="Also page and train (make bench-report, make pgo), and the names of scripts/*.sh.",
    )  # fmt: skip
    commands = top.add_subparsers(dest="action", required=True, parser_class=Parser)

    bench = commands.add_parser("bench", help="HAKMEM beside its peers over the benchmark rows")
    _common(bench)
    bench.add_argument("--rows", help=f"{','.join(GROUPS)}, or single rows (see --list)")
    bench.add_argument(
        "--size", choices=SIZES, help="defaults for a run of at most 3 or 40 minutes, or of all"
    )
    bench.add_argument("--rounds", type=number(int, 1, 1000), help="default 5")
    bench.add_argument(
        "--seconds", type=number(float, 0.01, 3600), help="least length of a sample, default 0.35"
    )
    bench.add_argument(
        "--minutes", type=number(float, 0.1, 100000),
        help="bound of the whole comparison: samples and rounds shrink to fit",
    )  # fmt: skip
    bench.add_argument(
        "--warm", type=number(int, 0, 65536), default=1024, metavar="MIB",
        help="huge pages touched before each run; 0 = none",
    )  # fmt: skip
    bench.add_argument(
        "--base", help="what ratios are to (default: HAKMEM, else the first allocator)"
    )
    bench.add_argument("--out", help="folder for the results (default: build/bench/<time>)")
    bench.add_argument("--resume", metavar="FOLDER", help="go on with an interrupted comparison")
    bench.add_argument(
        "--syscalls", action="store_true", help="count system calls too (strace, untimed runs)"
    )
    bench.add_argument(
        "--instructions", action="store_true", help="count instructions too (callgrind, short runs)"
    )
    bench.add_argument("--list", action="store_true", help="name the rows and stop")

    run = commands.add_parser("run", help="a real program on the system allocator and on HAKMEM")
    _common(run)
    run.add_argument("--rounds", type=number(int, 1, 1000), default=5)
    run.add_argument(
        "--limit", type=number(float, 0.1, 86400), default=600, help="seconds one run may take"
    )
    run.add_argument("--out", help="JSON file for the figures")
    run.add_argument("command", nargs=argparse.REMAINDER, help="-- CMD: what to run")

    again = commands.add_parser("report", help="draw the HTML report of a folder anew")
    again.add_argument("folder", help="the results of a comparison")
    return top


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


def main(argv=None) -> int:
    options = parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # so that children are ended and results kept
    try:
        if options.action == "run":
            from . import realrun

            if options.command[:1] == ["--"]:
                del options.command[0]
            return realrun.run(options)
        if options.action == "report":
            from . import html

            print(html.again(options.folder))
            return 0
        if options.list:
            print("\n".join(f"{row.key:28} {row.title}" for row in ROWS))
            return 0
        from . import bench

        return bench.run(options)
    except LabError as error:
        print(f"hakmem_lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("hakmem_lab: stopped", file=sys.stderr)
        return 130
