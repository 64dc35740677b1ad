"""`python -m hakmem_lab NAME ...`: a script of scripts/, or else a command of the lab."""

import importlib
import os
import sys

from ..guard import guarded, mark
from . import ab, large, larson, sweep, whole
from .options import parse

SUITES = {
    suite.name: suite for module in (ab, large, larson, sweep, whole) for suite in module.SUITES
}
KEEPERS = ("save_prof_sweep",)  # suites that add to the notes of the day
# Modules with run(argv); imported when they are needed, since some bring much with them.
TOOLS = {
    "kill_bench": "suites.kill",
    "page": "page.command",
    "perf_report": "profile.command",
    "train": "train",
}
SCRIPTS = (*SUITES, "kill_bench", "perf_report")


def _module(name):
    return importlib.import_module(f"hakmem_lab.{name}")


def run_suite(name, argv) -> int:
    suite = SUITES[name]
    options = parse(suite, argv)
    # the engine's own bounds are read from the environment
    os.environ["BENCH_TIMEOUT"], os.environ["KILL_GRACE"] = str(options.timeout), str(options.grace)
    matrix = _module("suites.matrix")
    return (matrix.save if name in KEEPERS else matrix.run)(suite, options, argv)


def main(argv=None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    mark()
    name = argv[0] if argv else ""
    said = f"{name}.sh" if name in SCRIPTS else f"hakmem_lab {name}"
    if name in SUITES:
        return guarded(said, lambda: run_suite(name, argv[1:]))
    if name in TOOLS:
        return guarded(said, lambda: _module(TOOLS[name]).run(argv[1:]))
    from ..cli import main as lab

    return lab(argv)
