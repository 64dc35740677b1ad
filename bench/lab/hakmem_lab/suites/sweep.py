"""The sweeps over block sizes."""

import dataclasses

from . import loads
from .large import ours_against_others
from .options import number, size
from .shapes import Entry, Suite


def _arguments(parser):
    parser.add_argument(
        "-s", "--steps", type=number(int, 1, 64), default=8, metavar="STEPS",
        help="size bands over MIN..MAX, of equal ratio (8)",
    )  # fmt: skip
    parser.add_argument(
        "-m", dest="least", type=size, default=str(loads.SMALLEST), metavar="MIN",
        help=f"smallest block ({loads.SMALLEST})",
    )  # fmt: skip
    parser.add_argument(
        "-M", dest="most", type=size, default=str(loads.LARGEST), metavar="MAX",
        help="largest block (4M)",
    )  # fmt: skip


def _rows(options):
    return loads.larson_rows(loads.bands(options.steps, options.least, options.most), options)


PROF_SWEEP = Suite(
    name="prof_sweep", suffix="SWEEP", title="Sweep of block sizes with larson", rounds=1, keep=False, alloc="hakmem,system,mimalloc",
    about="Larson in STEPS bands of block sizes (tiny, mid, large, big) x threads.",
    example="scripts/prof_sweep.sh -d 2 -t 1,4 -s 8",
    rows=_rows, entries=lambda options: [Entry(name) for name in options.alloc],
    pairs=ours_against_others, arguments=_arguments,
)  # fmt: skip

# matrix.save writes what it measures
SAVE_PROF_SWEEP = dataclasses.replace(
    PROF_SWEEP, name="save_prof_sweep", keep=True,
    about="prof_sweep, kept: <date>_SWEEP_NOTES.md and raw logs <date>/<label>_T<threads>.log.",
    example="scripts/save_prof_sweep.sh -d 2 -t 1,4 -s 8",
)  # fmt: skip

SUITES = (PROF_SWEEP, SAVE_PROF_SWEEP)
