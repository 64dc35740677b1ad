"""`lab scale --validate`: does the ranking at N = 2 agree with time on two real CPUs?

The program's workloads exist only on the simulated machine, so three of them stand beside the
benchmark program that does the same on real CPUs. Both rank the allocators; Kendall's tau says how
well the rankings agree: 1 = the same, 0 = unrelated, -1 = reversed.
"""

import tempfile
from pathlib import Path

from scipy.stats import kendalltau

from .. import allocators as allocator_finder
from ..errors import LabError
from ..launch import Launcher
from ..machine import LineProbe
from ..parse import throughput
from ..paths import build_folder, built
from . import figures
from .options import machine_of
from .runs import Cell, Runner
from .symbols import Names

PAIRS = {  # workload -> program and arguments; {s} seconds
    "ring": ("bench_cross", ["{s}", "64", "16", "256", "2"]),
    "larson": ("bench_larson", ["{s}", "8", "1000", "256", "100", "4141", "2"]),
    "mixed": ("bench_random_mixed_system", ["4000000", "512", "1", "16", "1024"]),
}
SECONDS, ROUNDS = "0.7", 5


def simulated(runner, names, library, load, seeds) -> dict:
    runs = [figures.of_run(names, runner.run(Cell(load, library, 2, seed)))
            for seed in range(1, seeds + 1)]  # fmt: skip
    return figures.combine(runs)


def timed(launcher, build, allocator, load) -> float:
    """The best of some rounds, in operations a second."""
    program, words = PAIRS[load]
    best = 0.0
    for _ in range(ROUNDS):
        command = [built(build, program), *(word.replace("{s}", SECONDS) for word in words)]
        outcome = launcher.run(command, allocator.library, 120.0, dict(allocator.environment))
        if not outcome.good:
            raise LabError(f"{allocator.name}: {outcome.reason()}")
        best = max(best, throughput(outcome.stdout)["ops_per_s"])
    return best


def run(options, program, libraries, output) -> int:
    build = build_folder(options.build)
    plain = {library.name: library for library in libraries if not library.environment}
    plain.pop("null", None)  # it does not reuse memory, so its time is the kernel's
    real, _ = allocator_finder.find(list(plain), {}, build)
    launcher, names = Launcher(built(build, "launch")), Names()
    probe = LineProbe(built(build, "linedist"))
    with tempfile.TemporaryDirectory(prefix="hakmem-scale-") as described:
        runner = Runner(program, machine_of(options), Path(described), options.limit)
        for load in PAIRS:
            before = probe.measure()
            rows = [(a.name, simulated(runner, names, plain[a.name], load, options.seeds),
                     timed(launcher, build, a, load)) for a in real]  # fmt: skip
            after = probe.measure()
            output.print(f"\n{load}: line round trip {before} ns before, {after} ns after",
                         style="bold")  # fmt: skip
            for name, found, speed in sorted(rows, key=lambda row: -row[2]):
                output.print(f"  {name:12} {speed / 1e6:8.1f} Mop/s real   bound "
                             f"{found['bound_mops']['median']:8.1f}   transfers "
                             f"{found['transfers']['median']:.3f}")  # fmt: skip
            if len(rows) > 1:
                tau = kendalltau([r[2] for r in rows],
                                 [r[1]["bound_mops"]["median"] for r in rows]).statistic  # fmt: skip
                output.print(f"  rankings by time and by bound: Kendall's tau {tau:.2f}")
    return 0
