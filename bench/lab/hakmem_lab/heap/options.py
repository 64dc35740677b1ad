"""The options of `hakmem prof` and `hakmem report`. The standard library only: see front.py."""

from pathlib import Path

from ..cli import Parser
from ..errors import BadInput


def prof_parser():
    parser = Parser(
        description="Writes a heap profile as pprof's profile.proto (gzip), with the names of functions."
    )
    parser.add_argument(
        "source", metavar="PID|FILE", help="a process under HAKMEM_PROF=1, or a file that one wrote"
    )
    parser.add_argument("-o", "--out", type=Path, help="the file to write (default: FILE.pb.gz)")
    return parser


def report_parser():
    parser = Parser(description="Draws heap profiles as one HTML page that opens from disk.")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+",
                        help="a profile; with two, also what the second has more")  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, default=Path("heap.html"),
                        help="the page to write (default: heap.html)")  # fmt: skip

    def check(options):
        if len(options.files) > 2:
            raise BadInput("one profile, or two to compare")

    parser.check = check
    return parser
