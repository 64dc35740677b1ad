"""What all command lines have in common, and the options of bench, run and report.

The standard library only: see front.py.
"""

import argparse
import codecs
import errno
import os
import sys
from pathlib import Path

from .errors import BadInput
from .paths import PAGE
from .settings import SIZES
from .workloads import GROUPS, choose_rows, listing


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


RESULTS = ("setup.json", "tune.json")  # in the folder of a comparison, and of a search


def free_folder(folder) -> None:
    """BadInput for one that cannot be made or written, before anything is built for it, and for one with the
    results of an earlier run, which may be those of hours."""
    if not folder:
        return
    there = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
    if not there.is_dir():
        raise BadInput(f"--out {folder}: {'it' if there == Path(folder).absolute() else there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"--out {folder}: no permission to write in {there}")
    if any((Path(folder) / name).is_file() for name in RESULTS):
        raise BadInput(f"--out {folder}: it has the results of an earlier run; go on with --resume {folder},"
                       " or name another folder")  # fmt: skip


def of_run(folder) -> None:
    """BadInput for a folder without the results of a run."""
    if not (Path(folder) / "summary.json").is_file():
        raise BadInput(f"{folder} is not the folder of a run: no summary.json is in it")


def _bytes_or_escapes(error):
    """For stdout: a name of a file is written as the bytes that it is, what the terminal has no letter for as \\u...."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def whole(action) -> None:
    """Ends the process with action()'s status; output that cannot be written is one line, a reader
    that is gone none."""
    codecs.register_error("names", _bytes_or_escapes)
    if sys.stdout:
        sys.stdout.reconfigure(errors="names")
    if sys.stderr is None:  # closed by the caller
        sys.stderr = open(os.devnull, "w")
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        status = action()
        sys.stdout.flush()
    except OSError as error:
        status = 1
        if sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left of it
        if not isinstance(error, BrokenPipeError):
            name = os.environ.get("HAKMEM_BENCH_NAME") or "lab"  # what the user typed
            print(f"{name}: cannot write the output: {error.strerror}", file=sys.stderr)
    raise SystemExit(status)


class Parser(argparse.ArgumentParser):
    """One line on bad input, not a page of usage."""

    check = staticmethod(lambda options: None)  # BadInput where options do not fit together

    def error(self, message):
        print(f"{self.prog}: {message} (see --help)", file=sys.stderr)
        raise SystemExit(2)

    def print_help(self, file=None):  # argparse would pass over a full disk
        print(self.format_help(), end="", flush=True)


class WordsParser(Parser):
    """What stands behind -- is a command: `words`."""

    def parse_args(self, args=None, namespace=None):
        args = list(sys.argv[1:] if args is None else args)
        cut = args.index("--") if "--" in args else len(args)
        options = super().parse_args(args[:cut], namespace)
        options.words = args[cut + 1 :]
        return options

    def error(self, message):
        behind = message.startswith("unrecognized arguments: ") and not message.split(": ")[1].startswith("-")
        super().error(message + "; the program stands behind --" * behind)


def _common(parser):
    parser.add_argument("--build", help="CMake build folder (default: build/release)")
    parser.add_argument(
        "--alloc",
        help="allocators to compare, separated by commas; hakmem+NAME=VALUE sets an option",
    )
    parser.add_argument(
        "--lib", action="append", metavar="NAME=PATH", help="add an allocator, or replace NAME's"
    )


def add_lengths(parser):
    """How many samples, how long, within what time."""
    parser.add_argument("--rounds", type=number(int, 1, 1000), help="default 5")
    parser.add_argument(
        "--seconds", type=number(float, 0.01, 3600), help="minimum length of a sample, default 0.35"
    )
    parser.add_argument(
        "--minutes", type=number(float, 0.1, 100000),
        help="upper bound of the whole comparison; samples and rounds shrink to fit",
    )  # fmt: skip
    parser.add_argument(
        "--warm", type=number(int, 0, 65536), default=1024, metavar="MIB",
        help="huge pages touched before each run; 0 = none",
    )  # fmt: skip


def bench_parser() -> Parser:
    bench = Parser(description="Compares HAKMEM with its peers over the benchmark rows.")
    _common(bench)
    bench.add_argument("--rows", help=f"{','.join(GROUPS)}, or single rows (see --list)")
    bench.add_argument(
        "--size", choices=SIZES, help="quick: at most 3 minutes; standard: at most 40; full: everything"
    )
    add_lengths(bench)
    bench.add_argument(
        "--base", help="allocator to which ratios refer (default: HAKMEM, else the first allocator)"
    )
    bench.add_argument("--out", help="folder for the results (default: build/bench/<time>)")
    bench.add_argument("--resume", metavar="FOLDER", help="continue an interrupted comparison")
    bench.add_argument(
        "--syscalls", action="store_true", help="count system calls too (strace, untimed runs)"
    )
    bench.add_argument(
        "--instructions", action="store_true", help="count instructions too (callgrind, short runs)"
    )
    bench.add_argument("--list", action="store_true", help="name the rows and stop")

    def check(options):
        if options.list:
            print(listing(), flush=True)
            raise SystemExit(0)
        choose_rows(options.rows, options.size)
        if not options.resume:
            free_folder(options.out)

    bench.check = check
    return bench


def run_parser() -> Parser:
    run = Parser(description="Runs a real program on the system allocator and on HAKMEM.")
    _common(run)
    run.add_argument("--rounds", type=number(int, 1, 1000), default=5)
    run.add_argument(
        "--limit", type=number(float, 0.1, 86400), default=600, help="seconds one run may take"
    )
    run.add_argument("--out", help="JSON file for the figures")
    run.add_argument("command", nargs=argparse.REMAINDER, help="-- CMD: what to run")

    return run


def report_parser() -> Parser:
    again = Parser(description="Draws the HTML report of a comparison again, from its folder.")
    again.add_argument("folder", help="the results of a comparison")
    again.check = lambda options: of_run(options.folder)
    return again


def published_parser() -> Parser:
    own = Parser(description="Makes the README's table, or charts, from the table of a published run.")
    own.add_argument("--table", type=Path, help="table.tsv of the run (the newest of docs/benchmarks)")
    own.add_argument("--readme", action="store_true",
                     help="put the table into README.md instead of on stdout")  # fmt: skip
    own.add_argument("--draw", type=Path, metavar="FOLDER",
                     help="write speed.svg and memory.svg there instead")  # fmt: skip

    def check(options):
        if options.table is not None and not options.table.is_file():
            raise BadInput(f"--table {options.table}: no such file")

    own.check = check
    return own


def page_parser() -> Parser:
    page = Parser(description="Writes the comparison page, from a folder or a run of its own.")
    page.add_argument("--from", dest="source", type=Path, metavar="FOLDER",
                        help="the folder of a comparison; without it one is run")  # fmt: skip
    page.add_argument("--to", type=Path, default=PAGE, help=f"the page ({PAGE.name})")
    page.add_argument("--replace", action="store_true",
                      help="replace the existing page, even if this run is a smaller one")  # fmt: skip
    page.add_argument("--table", type=Path, help="folder for the table (docs/benchmarks/<day>_ALLOCATORS)")
    page.add_argument("--size", choices=SIZES, default="standard", help="size of the run (standard)")
    page.add_argument("--rows", help="rows of the run, as in 'lab bench'")
    page.add_argument("--alloc", help="allocators of the run (default: all, and HAKMEM's own variants)")
    add_lengths(page)
    page.add_argument("--lib", action="append", metavar="NAME=PATH")
    page.add_argument("--build")

    def check(options):
        choose_rows(options.rows, options.size)
        if options.source is not None:
            of_run(options.source)

    page.check = check
    return page
