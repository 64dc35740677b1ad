"""The options of `hakmem prof` and `hakmem report`. The standard library only: see front.py."""

import os
import stat
from pathlib import Path

from ..cli import Parser
from ..errors import BadInput
from . import output, sources
from .sources import is_process

PROFILE = (b"heap profile:",)  # how the files begin


def profile_for(source) -> Path:
    """What `hakmem prof` writes, unless told otherwise."""
    source = Path(source)
    return source.with_name(source.name + ".pb.gz")


def _is_device(path) -> bool:
    """A terminal, or /dev/zero: what is read there may have no end."""
    return stat.S_ISCHR(os.stat(path).st_mode) or stat.S_ISBLK(os.stat(path).st_mode)


def _beginning(path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(64).lstrip()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


def _check(named, beginnings) -> None:
    """Before anything is built or installed for them. A pipe is not opened, since it gives its text once."""
    if not named:
        raise BadInput("no process or file given")
    for source in named:
        if is_process(source):
            if not os.path.exists(f"/proc/{source}"):
                raise BadInput(f"there is no process {source}")
        elif not os.path.exists(source):
            why = "; a program that allocates little, or ends by a signal or _exit, leaves no profile" if "*" in source else ""
            raise BadInput(f"{source}: no such file{why}")
        elif os.path.isdir(source) or _is_device(source) or not os.access(source, os.R_OK):
            raise BadInput(f"{source} is not a file that can be read")
        elif os.path.isfile(source) and not _beginning(source).startswith(beginnings):
            raise BadInput(f"{source} is no heap profile of HAKMEM")


def _without_packed(named) -> list:
    """Without what `hakmem prof` has written beside profiles, which a pattern for these fits, too."""
    packed = [source for source in named if source.endswith((".pb.gz", ".pb.gz.old"))]
    if not packed or len(packed) == len(named):
        return named
    print(f"left out: {', '.join(packed)}: written by `hakmem prof` for pprof")
    return [source for source in named if source not in packed]


def _look(named) -> dict:
    """What the files of a report have, before packages are installed to draw it: {name: what was read}."""
    for source in filter(is_process, named):
        sources.check(int(source))
    return {source: sources.of_file(source) for source in named if not is_process(source) and os.path.isfile(source)}


def prof_parser():
    parser = Parser(
        usage="%(prog)s [-h] [-o OUT] PID|FILE",
        description="Converts a heap profile to pprof's profile.proto (gzip), with the names of functions."
    )  # fmt: skip
    # Optional for argparse, which would otherwise name it before an option that is not known.
    parser.add_argument("source", metavar="PID|FILE", nargs="?",
                        help="a process that runs with HAKMEM_PROF=1, or a file that it wrote")  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, help="the file to write (default: FILE.pb.gz); an existing one is kept as FILE.pb.gz.old")

    def check(options):
        _check([options.source] if options.source else [], PROFILE)
        if options.out or not is_process(options.source):
            output.check(options.out or profile_for(options.source), [options.source])

    parser.check = check
    return parser


def report_parser():
    parser = Parser(usage="%(prog)s [-h] [-o OUT] PID|FILE...",
                    description="Draws a running process, heap profiles and JSON of `hakmem stat` as one HTML page"
                    " that opens from disk.")  # fmt: skip
    parser.add_argument("sources", metavar="PID|FILE", nargs="*",
                        help="a process; a profile (of several profiles, the page shows the last, how it differs from"
                        " the first, and all of them over time); JSON of `hakmem stat PID --json --map`, or lines"
                        " of JSON over time (--every)")  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, default=Path("heap.html"),
                        help="the page to write (default: heap.html); an existing one is kept as heap.html.old")  # fmt: skip

    def check(options):
        options.sources = _without_packed(options.sources)
        _check(options.sources, (*PROFILE, b"{"))
        output.check(options.out, options.sources)
        options.looked_at = _look(options.sources)

    parser.check = check
    return parser
