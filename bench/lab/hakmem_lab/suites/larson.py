"""Larson: one load at will, and the front door with loads by name."""

from . import loads
from .large import ours_against_others
from .options import size
from .shapes import Entry, Suite

# phase -> (blocks per thread, rounds): how long a thread lives before its successor takes over
PHASES = {"burst": (10_000, 1), "loop": (1024, 10_000)}
LOADS = {"burst": "many blocks, threads that end soon", "loop": "fewer blocks, long-lived threads"}


def _band(options, label="larson"):
    chunks, rounds = PHASES[options.phase]
    low, high = options.least, options.most
    chunks = max(loads.LEAST_CHUNKS, min(chunks, loads.LIVE_BYTES // high))
    return loads.Band(f"{label}-{options.phase}-{low}-{high}", low, high, chunks, rounds)


def _arguments(parser):
    parser.add_argument(
        "-p", dest="phase", choices=tuple(PHASES), default="burst",
        help="; ".join(f"{name}: {text}" for name, text in LOADS.items()),
    )  # fmt: skip
    parser.add_argument("-m", dest="least", type=size, default="8", metavar="MIN", help="8")
    parser.add_argument("-M", dest="most", type=size, default="64", metavar="MAX", help="64")


# name -> (phase, smallest, largest block, library options)
PROFILES = {
    "tiny": ("burst", 8, 128, ()),
    "mixed": ("burst", 8, 1024, ()),
    "mid": ("burst", 2049, 32 << 10, ()),
    "large": ("burst", (64 << 10) + 1, 1 << 20, ()),
    "loop": ("loop", 8, 1024, ()),
    "guard": ("burst", 8, 1024, (("TINY_PROFILE", "larson_guard"),)),
    "MIXED_TINYV3_C7_SAFE": ("burst", 16, 1024, (("PROFILE", "MIXED_TINYV3_C7_SAFE"),)),
    "MIXED_TINYV3_C7_BALANCED": ("burst", 16, 1024, (("PROFILE", "MIXED_TINYV3_C7_BALANCED"),)),
    "C6_HEAVY": ("burst", 257, 512, (("PROFILE", "C6_HEAVY"),)),
    "LARGE_P1": ("burst", (64 << 10) + 1, 1 << 20, (("PROFILE", "LARGE_P1"),)),
    "LARGE_P2_TC": ("burst", (64 << 10) + 1, 1 << 20, (("PROFILE", "LARGE_P2_TC"),)),
    "LOWMEM": ("burst", 8, 1024, (("PROFILE", "LOWMEM"),)),
    "SERVER": ("burst", 8, 1024, (("PROFILE", "SERVER"),)),
}


def _profile_arguments(parser):
    parser.add_argument("profile", choices=tuple(PROFILES), metavar="PROFILE",
                        help=", ".join(PROFILES))  # fmt: skip


def _profile_rows(options):
    options.phase, options.least, options.most, _ = PROFILES[options.profile]
    return loads.larson_rows([_band(options, options.profile)], options)


def _profile_entries(options):
    settings = PROFILES[options.profile][3]
    return [Entry(n, settings if Entry(n).ours else ()) for n in options.alloc]


SUITES = (
    Suite(
        name="run_larson", suffix="LARSON", title="Larson: HAKMEM beside other allocators", rounds=3, runtime="10", alloc="hakmem,system,mimalloc",
        about="Larson, a server whose threads pass their blocks on, with blocks of MIN..MAX bytes.",
        example="scripts/run_larson.sh -d 10 -p burst -m 8 -M 64 -t 1,4",
        rows=lambda options: loads.larson_rows([_band(options)], options),
        entries=lambda options: [Entry(name) for name in options.alloc],
        pairs=ours_against_others, arguments=_arguments,
    ),
    Suite(
        name="larson", suffix="LARSON", title="Larson by name: HAKMEM beside other allocators", runtime="2", alloc="hakmem,system,mimalloc",
        about="Larson by name: PROFILE selects block sizes and options of the library.",
        example="scripts/larson.sh mixed -d 2 -t 1,4",
        rows=_profile_rows, entries=_profile_entries, pairs=ours_against_others,
        arguments=_profile_arguments,
    ),
)  # fmt: skip
