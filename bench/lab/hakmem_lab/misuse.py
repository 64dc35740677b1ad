"""`lab misuse`: which misuse of blocks each allocator notices.

`misuse` (bench/programs/misuse.c) commits every kind at every size in a process of its own. It is run
once on each allocator, and says of each trial whether the process ended in the wrong call.
"""

import argparse
import sys
import time
from pathlib import Path

from .cli import Parser
from .errors import LabError
from .paths import ROOT

PAGE = ROOT / "docs" / "benchmarks" / "MISUSE.md"
HARDENED = "hakmem+HAKMEM_PROFILE=HARDENED"
DEFAULT = f"hakmem,{HARDENED},copies,system,mimalloc-secure,scudo,hardened-malloc"
COPIES = "copies"  # hardened, with libhakmem_copies.so beside it
LIMIT = 900.0
OUTCOMES = ("call", "later", "missed", "none")
HEAD = """\
# Which misuse an allocator notices

Made by `scripts/lab misuse --publish`. Each kind is committed at sizes from 8 bytes to 4 MiB, in a process
of its own (`bench/programs/misuse.c`). A cell has the trials in which the process ended in the wrong call or
access, and after + those in which it ended later: while blocks of that size came and went, when caches were
flushed, or as its thread ended. Without a plus none ended later. A process that broke by chance counts as one
that noticed; one whose allocator passes over a wrong call in silence, or hangs, as one that did not.

"""


def parser() -> Parser:
    made = Parser(description=__doc__.partition("\n")[0],
                  formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--alloc", default=DEFAULT, help=f"allocators, as in 'lab bench', and "
                      f"'{COPIES}': hardened with checked copies ({DEFAULT})")  # fmt: skip
    made.add_argument("--lib", action="append", metavar="NAME=PATH", help="add an allocator")
    made.add_argument("--build", help="CMake build folder (default: build/release)")
    made.add_argument("--publish", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    made.add_argument("--out", type=Path, help="folder for the table (build/misuse/<time>)")
    return made


def read(text) -> dict:
    """{kind: {size: outcome}} of what the program printed."""
    kinds = {}
    for line in text.splitlines():
        kind, size, outcome = line.split("\t")
        if outcome not in OUTCOMES:
            raise LabError(f"misuse says '{outcome}' of {kind}")
        kinds.setdefault(kind, {})[int(size)] = outcome
    return kinds


def counted(outcomes) -> tuple:
    """(in the call, later, trials) of some outcomes."""
    tried = [one for one in outcomes if one != "none"]
    return tried.count("call"), tried.count("later"), len(tried)


def _cell(outcomes) -> str:
    call, later, tried = counted(outcomes)
    if not tried:
        return "-"
    return f"{call}{f' + {later}' if later else ''} of {tried}"


def table(found) -> str:
    """The page of {title: {kind: {size: outcome}}}."""
    kinds = list(next(iter(found.values())))
    rows = [["misuse", *found]]
    rows += [[kind, *(_cell(one[kind].values()) for one in found.values())] for kind in kinds]
    everything = [[outcome for sizes in one.values() for outcome in sizes.values()]
                  for one in found.values()]  # fmt: skip
    rows.append(["all", *(_cell(outcomes) for outcomes in everything)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


def headed(title, version) -> str:
    """The head of a column; the version of glibc begins with its name."""
    return f"{title} {version.removeprefix(title)}".replace("  ", " ").strip()


def _allocators(session, names) -> list:
    import dataclasses

    from . import allocators as finder
    from .paths import built

    wanted = [name for name in names if name != COPIES]
    found = session.allocators(wanted + [HARDENED] * (COPIES in names))
    by_name = {one.name: one for one in found}
    if COPIES in names:
        hardened = by_name[HARDENED]
        both = f"{hardened.library}:{built(session.build, 'libhakmem_copies.so')}"
        by_name[COPIES] = dataclasses.replace(
            finder.variant(hardened, {}, COPIES, "the same, checked copies"), library=both
        )
    return [by_name[name] for name in names if name in by_name]


def run(options) -> int:
    from . import allocators as finder
    from .compare import Session
    from .paths import built

    session = Session(options.build, finder.parse_libraries(options.lib))
    names = [name for name in options.alloc.split(",") if name]
    program, found = built(session.build, "misuse"), {}
    for allocator in _allocators(session, names):
        outcome = session.launcher.run([program], allocator.library, LIMIT, allocator.environment)
        if not outcome.good:
            print(f"lab misuse: {allocator.title} is left out: {outcome.reason()}", file=sys.stderr)
            continue
        found[headed(allocator.title, allocator.version)] = read(outcome.stdout.decode())
        print(f"{allocator.title}: done", file=sys.stderr, flush=True)
    if not found:
        raise LabError("no allocator was tried")
    page = table(found)
    folder = options.out or ROOT / "build" / "misuse" / time.strftime("%Y-%m-%d_%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "misuse.md").write_text(page)
    print(page)
    if options.publish:
        PAGE.write_text(HEAD + page)
    print(f"files: {folder}", file=sys.stderr)
    return 0
