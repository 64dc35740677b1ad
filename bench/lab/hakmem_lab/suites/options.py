"""The options and environment variables that all scripts understand."""

import argparse
import os
import re
from pathlib import Path

from ..cli import Parser, number
from ..errors import BadInput

PATIENCE = 60  # seconds that a run may take beyond RUNTIME: against hangs, not against a busy machine
ENVIRONMENT = """environment (an option takes precedence):
  RUNTIME        seconds of one sample (-d)
  THREADS        thread counts, with commas or spaces between (-t)
  ROUNDS         samples of each cell (--rounds)
  COUNTS         0 leaves out the counted runs (--counts)
  BENCH_TIMEOUT  seconds after which one run is ended (RUNTIME + 60)
  KILL_GRACE     seconds between TERM and KILL (2)"""


def words(text) -> list:
    """The words of a list given with commas or spaces between."""
    found = [word for word in re.split(r"[,\s]+", str(text)) if word]
    if not found:
        raise argparse.ArgumentTypeError("names nothing")
    return found


def values(text) -> list:
    """Values of a knob."""
    for word in words(text):
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", word):
            raise argparse.ArgumentTypeError(f"'{word}' is no value of an option")
    return words(text)


def threads(text) -> list:
    """Thread counts."""
    return sorted({number(int, 1, 1024)(word) for word in words(text)})


def size(text) -> int:
    """Bytes; K and M are powers of 1024."""
    found = re.fullmatch(r"(\d+)([KkMm]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size (8, 64K, 1M)")
    factor = {"": 1, "k": 1 << 10, "m": 1 << 20}[found.group(2).lower()]
    return number(int, 1, 1 << 24)(str(int(found.group(1)) * factor))


def _variable(name, default):
    return os.environ.get(name) or default


def parser_for(suite) -> Parser:
    """The parser of one script."""
    parser = Parser(
        prog=f"scripts/{suite.name}.sh",
        description=suite.about,
        epilog=f"{ENVIRONMENT}\n\nexample:\n  {suite.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if suite.arguments:
        suite.arguments(parser)
    for axis in suite.axes:
        parser.add_argument(
            axis.flag, type=values, default=_variable(axis.variable, ",".join(axis.values)),
            metavar="LIST", dest=axis.variable,
            help=f"{axis.about} (HAKMEM_{axis.knob}; environment {axis.variable}; "
            f"default {','.join(axis.values)})",
        )  # fmt: skip
    parser.add_argument(
        "-d", "--runtime", type=number(float, 0.01, 3600), metavar="SECONDS",
        default=_variable("RUNTIME", suite.runtime), help=f"of one sample ({suite.runtime})",
    )  # fmt: skip
    parser.add_argument(
        "-t", "--threads", type=threads, metavar="LIST",
        default=_variable("THREADS", suite.threads), help=f"thread counts ({suite.threads})",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=number(int, 1, 1000), metavar="N",
        default=_variable("ROUNDS", str(suite.rounds)),
        help=f"samples of each cell ({suite.rounds}); with one there is no verdict",
    )  # fmt: skip
    if suite.alloc:
        parser.add_argument(
            "--alloc", type=words, default=suite.alloc, metavar="LIST",
            help=f"allocators ({suite.alloc})",
        )  # fmt: skip
    parser.add_argument("--lib", action="append", metavar="NAME=PATH", help="an allocator's .so")
    parser.add_argument("--build", help="CMake build folder (default: build/release)")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument(
        "--warm", type=number(int, 0, 65536), default=_variable("WARM_MIB", "1024"), metavar="MIB",
        help="huge pages touched before each run (1024; 0 = none)",
    )  # fmt: skip
    parser.add_argument(
        "--counts", type=number(int, 0, 1), metavar="0|1", default=_variable("COUNTS", "1"),
        help="1 counts instructions and cache misses too, in runs of their own (1)",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=number(float, 0.1, 86400), metavar="SECONDS",
        default=_variable("BENCH_TIMEOUT", None), help="limit of one run (RUNTIME + 60)",
    )  # fmt: skip
    parser.add_argument(
        "--grace", type=number(float, 0, 600), metavar="SECONDS",
        default=_variable("KILL_GRACE", "2"), help="between TERM and KILL (2)",
    )  # fmt: skip
    return parser


def parse(suite, argv):
    """The options of one call; what cannot be is one line and status 2."""
    parser = parser_for(suite)
    options = parser.parse_args(argv)
    least, most = getattr(options, "least", 0), getattr(options, "most", 0)
    if least > most:
        parser.error(f"MIN (-m {least}) is larger than MAX (-M {most})")
    if options.timeout is None:
        options.timeout = options.runtime + PATIENCE
    try:
        suite.rows(options)
    except BadInput as error:
        parser.error(str(error))
    return options
