"""`python -m hakmem_lab NAME ...`: a script of scripts/, or else a command of the lab."""

import importlib
import os
import sys

from .. import train
from ..guard import guarded
from . import ab, kill, large, larson, matrix, sweep, whole
from .options import parse

SUITES = {
    suite.name: (suite, matrix.run)
    for module in (ab, large, larson, whole)
    for suite in module.SUITES
}
SUITES["prof_sweep"] = (sweep.PROF_SWEEP, matrix.run)
SUITES["save_prof_sweep"] = (sweep.SAVE_PROF_SWEEP, sweep.save)
TOOLS = {
    "kill_bench": kill.run,
    "page": lambda argv: _later("page.command").run(argv),
    "perf_report": lambda argv: _later("profile.report").run(argv),
    "train": train.run,
}


def _later(name):
    """A module that is imported when it is needed."""
    return importlib.import_module(f"hakmem_lab.{name}")



def run_suite(name, argv) -> int:
    suite, run = SUITES[name]
    options = parse(suite, argv)
    # the engine's own bounds are read from the environment
    os.environ["BENCH_TIMEOUT"], os.environ["KILL_GRACE"] = str(options.timeout), str(options.grace)
    return run(suite, options, argv)


def main(argv=None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    name = argv[0] if argv else ""
    if name in SUITES:
        return guarded(f"{name}.sh", lambda: run_suite(name, argv[1:]))
    if name in TOOLS:
        return guarded(name, lambda: TOOLS[name](argv[1:]))
    from ..cli import main as lab

    return lab(argv)
