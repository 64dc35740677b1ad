"""`lab tune`: its options. The standard library only: see front.py."""

import argparse
from pathlib import Path

from ..cli import WordsParser, number
from ..errors import BadInput
from ..own.options import add_run_options, program_of, resumes

ABOUT = """\
Searches for the options of HAKMEM that suit a program of yours best, by counts: instructions and page
faults, or resident memory. First, the program runs once with each setting at full speed while the library
counts. Promising settings are then counted under callgrind, alone and together. Finally, the program runs with
the best setting and with the defaults; the setting is called better only if it is better there. The program must
end by itself: for a server, give a script that starts, loads and ends it. With --trace the search repeats a trace
of `hakmem record` instead of running the program, which is then needed only for the final check."""
EXAMPLES = """\
examples:
  hakmem tune -- ./prog input
  hakmem tune --goal memory -- python3 app.py
  hakmem tune -- sh redis_load.sh
  hakmem tune --trace app.trace -- python3 app.py
  hakmem tune --resume build/tune/2026-01-01_120000"""
GOALS = ("time", "memory")


MAGIC = b"HAKTRC1\n"  # how a trace begins


def _check_trace(path) -> None:
    try:
        with path.open("rb") as file:
            is_trace = file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise BadInput(f"--trace {path}: {error.strerror}") from None
    if not is_trace:
        raise BadInput(f"--trace {path}: it is no trace of `hakmem record`")


def parser() -> WordsParser:
    made = WordsParser(description=ABOUT, epilog=EXAMPLES,
                       formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--goal", choices=GOALS,
                      help="time: lower cost, with at most 10 %% more memory (the default); memory: less "
                      "memory, with at most 5 %% more cost")  # fmt: skip
    made.add_argument("--trace", help="search on this trace")
    made.add_argument("--rounds", type=number(int, 3, 1000),
                      help="timed runs of the final check, default 7")  # fmt: skip
    made.add_argument("--minutes", type=number(float, 0.1, 100000),
                      help="upper bound of the search, default 30: fewer settings are counted")  # fmt: skip
    add_run_options(made, "tune", "search")

    def check(options):
        if resumes(options, "search"):
            return
        if options.trace:
            _check_trace(Path(options.trace))
        if options.words or not options.trace:
            program_of(options.words)

    made.check = check
    return made
