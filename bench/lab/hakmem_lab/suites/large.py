"""The large tier: profiles against the defaults, and against other allocators."""

from ..tables import SUBJECT
from . import loads
from .ab import LARGE, against_first
from .options import values
from .shapes import DEFAULT, Entry, Suite

PROFILES = "LARGE_P1,LARGE_P2_TC"


def _arguments(parser):
    parser.add_argument(
        "--profiles", type=values, default=PROFILES, metavar="LIST",
        help=f"values of HAKMEM_PROFILE ({PROFILES}); 'default' is the library as it is",
    )  # fmt: skip


def _ours(options):
    return [
        Entry(SUBJECT, () if name == DEFAULT else (("PROFILE", name),)) for name in options.profiles
    ]


def _others_and_ours(options):
    return [*(Entry(name) for name in options.alloc), *_ours(options)]


def _defaults_and_ours(options):
    plain = Entry(SUBJECT)
    return [plain, *(entry for entry in _ours(options) if entry != plain)]


def ours_against_others(entries):
    """Each of our entries against each other allocator."""
    return [(a, b) for b in entries if b.ours for a in entries if not a.ours]


SUITES = (
    Suite(
        name="head_to_head_large", suffix="HEAD2HEAD_LARGE",
        title="HAKMEM's large profiles beside other allocators, 64 KiB to 1 MiB",
        about="HAKMEM's large profiles beside the system allocator and mimalloc, 64 KiB..1 MiB.",
        example="scripts/head_to_head_large.sh -d 1 -t 1,4",
        rows=lambda options: loads.larson_rows(LARGE, options),
        entries=_others_and_ours, pairs=ours_against_others,
        arguments=_arguments, alloc="system,mimalloc",
    ),
    Suite(
        name="bench_large_profiles", suffix="LARGE_PROFILES_AB",
        title="HAKMEM's large profiles (B) against its defaults (A), 64 KiB to 1 MiB",
        about="HAKMEM's large profiles (B) against its defaults (A), 64 KiB..1 MiB.",
        example="scripts/bench_large_profiles.sh -d 1 -t 1,4",
        rows=lambda options: loads.larson_rows(LARGE, options),
        entries=_defaults_and_ours, pairs=against_first, arguments=_arguments,
    ),
)  # fmt: skip
