"""A/B scripts: the library's defaults (A) against every combination of some knobs (B)."""

import itertools

from ..tables import SUBJECT
from . import loads
from .shapes import DEFAULT, Axis, Entry, Suite

MID = (loads.Band("mid-2K-32K", 2049, 32 << 10),)
LARGE = (
    loads.Band("large-64K-256K", (64 << 10) + 1, 256 << 10),
    loads.Band("large-256K-1M", (256 << 10) + 1, 1 << 20),
)

ABOUT = "A is the library as it is; the value 'default' leaves an option alone."


def combinations(axes):
    """entries(options): the defaults, then every combination of the axes' values."""

    def entries(options):
        found = [Entry(SUBJECT)]
        for chosen in itertools.product(*(getattr(options, axis.variable) for axis in axes)):
            settings = tuple(
                (axis.knob, value) for axis, value in zip(axes, chosen) if value != DEFAULT
            )
            if Entry(SUBJECT, settings) not in found:
                found.append(Entry(SUBJECT, settings))
        return found

    return entries


def against_first(entries):
    """Every entry against the first."""
    return [(entries[0], entry) for entry in entries[1:]]


def _suite(name, suffix, bands, axes, about, example, **more):
    return Suite(
        name=name,
        suffix=suffix,
        about=f"{about} {ABOUT}",
        example=example,
        rows=lambda options: loads.larson_rows(bands, options),
        entries=combinations(axes),
        pairs=against_first,
        axes=axes,
        title=f"{' x '.join(axis.knob for axis in axes)} (B) against HAKMEM's defaults (A)",
        rounds=7,
        **more,
    )


PROBES = Axis("TRYLOCK_PROBES", "PROBES", ("1", "2", "4"), "shards tried before waiting")

SUITES = (
    _suite(
        "ab_sweep_mid", "MID_SWEEP_AB", MID,
        (Axis("POOL_RING_CAP", "CAPS", ("8", "16", "32"), "caps of the thread's ring"),
         Axis("POOL_MIN_BUNDLE", "MIN_BUNDLES", ("2", "4", "8"), "least blocks of a refill")),
        "Larson in the mid tier: ring cap x least bundle x threads.",
        'CAPS="8 16" MIN_BUNDLES=4 RUNTIME=1 THREADS=1,4 scripts/ab_sweep_mid.sh',
    ),
    _suite(
        "ab_fast_mid", "MID_FAST_AB", MID,
        (PROBES, Axis("RING_RETURN_DIV", "RETURNS", ("2", "4"), "1/N of a full ring goes back")),
        "Larson in the mid tier: shards probed x share of the ring given back.",
        'PROBES="1 2" RETURNS="2 4" scripts/ab_fast_mid.sh -t 1,4',
    ),
    _suite(
        "ab_rcap_probe_drain", "RCAP_PROBE_DRAIN_AB", MID,
        (Axis("POOL_RING_CAP", "RCAPS", ("8", "16"), "caps of the thread's ring"),
         Axis("TRYLOCK_PROBES", "PROBES", ("1", "4"), "shards tried before waiting"),
         Axis("POOL_DRAIN_MAX", "DRAINS", ("32", "64"), "most remote blocks of one drain"),
         Axis("TLS_LO_MAX", "LOMAX", ("0", "256"), "bound of the second level behind the ring")),
        "Larson in the mid tier: ring cap x shards probed x drain x second level.",
        'RCAPS="8 16" PROBES=2 DRAINS="32 64" LOMAX=256 scripts/ab_rcap_probe_drain.sh -t 4',
        threads="4",
    ),
    _suite(
        "ab_l25_tc", "L25_TC_AB", LARGE,
        (Axis("L25_RUN_FACTOR", "RUN_FACTORS", ("2", "4", "8"), "blocks per run"),
         Axis("L25_TC_SPILL", "SPILLS", ("0", "16", "64"), "blocks kept for transfer")),
        "Larson in the large tier: blocks per run x transfer-cache bound.",
        'RUN_FACTORS="2 4" SPILLS="16 32" scripts/ab_l25_tc.sh -d 1 -t 1,4',
    ),
)  # fmt: skip
