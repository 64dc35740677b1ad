"""`lab compare`: its options. The standard library only: see front.py."""

import argparse
import shutil

from ..allocators import parse_libraries
from ..cli import WordsParser, free_folder, number
from ..errors import BadInput
from . import find

ABOUT = """\
Runs a program of yours on several allocators in turn and compares time (with intervals), resident
memory over time, instructions, page faults and system calls. mimalloc, jemalloc and tcmalloc are
those of the distribution, or those that the lab has built; a word with a slash is the path of a library.
The program runs in the current folder with an empty stdin; its output is discarded."""
DEFAULT = "hakmem,mimalloc,jemalloc,tcmalloc,system"
EXAMPLES = """\
examples:
  hakmem compare -- python3 app.py
  hakmem compare --alloc=hakmem,jemalloc,system --rounds 9 -- ./prog input
  hakmem compare --alloc=hakmem,hakmem+HAKMEM_PURGE_DELAY_MS=0 -- ./prog
  hakmem compare --alloc=hakmem,/opt/lib/libother.so -- ./prog
  hakmem compare --resume build/compare/2026-01-01_120000"""


def program_of(words) -> str:
    """The program's file; BadInput when there is none."""
    if not words:
        raise BadInput("no program given: -- PROGRAM [ARGUMENT]...")
    found = shutil.which(words[0])
    if found is None:
        raise BadInput(f"there is no program '{words[0]}'")
    return found


def add_run_options(made: WordsParser, command: str, what: str):
    """Options of every command that runs a program of the user's: its limit, build, results, resume."""
    made.add_argument("--limit", type=number(float, 0.1, 86400),
                      help="seconds that one run may take, default 600")  # fmt: skip
    made.add_argument("--build", help="CMake build folder (default: build/release)")
    made.add_argument("--out", help=f"folder for the results (default: build/{command}/<time>)")
    made.add_argument("--resume", metavar="FOLDER", help=f"continue an interrupted {what}")


def resumes(options, what: str) -> bool:
    """True for --resume, which stands alone: BadInput when another option is named beside it."""
    if options.resume and [name for name, value in vars(options).items() if value and name != "resume"]:
        raise BadInput(f"--resume goes on with the options of the {what}: name no others")
    free_folder(options.out)
    return bool(options.resume)


def parser() -> WordsParser:
    made = WordsParser(description=ABOUT, epilog=EXAMPLES,
                       formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--alloc", help=f"allocators, separated by commas ({DEFAULT})")
    made.add_argument("--lib", action="append", metavar="NAME=PATH", help="add an allocator")
    made.add_argument("--base", help="allocator to which ratios refer (default: HAKMEM, else the first)")
    made.add_argument("--rounds", type=number(int, 1, 1000),
                      help="how often each allocator runs, default 7")  # fmt: skip
    made.add_argument("--minutes", type=number(float, 0.1, 100000),
                      help="upper bound of the timed runs; rounds are left out to fit")  # fmt: skip
    made.add_argument("--counts", type=number(float, 0, 100000), metavar="MINUTES",
                      help="count instructions if that takes at most this long (15; 0: count nothing)")  # fmt: skip
    made.add_argument("--warm", type=number(int, 0, 65536), metavar="MIB",
                      help="huge pages touched before each run, default 0")  # fmt: skip
    add_run_options(made, "compare", "comparison")

    def check(options):
        if not resumes(options, "comparison"):
            program_of(options.words)
            find.check(options.alloc or DEFAULT, parse_libraries(options.lib))

    made.check = check
    return made
