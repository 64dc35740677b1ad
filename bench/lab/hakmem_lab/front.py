"""`scripts/lab COMMAND ...`: the commands, their options, and what each needs.

Nothing but the standard library is imported until a command runs, so that help and bad input need
neither a build nor the lab's own Python.
"""

import importlib
import os
import sys
from dataclasses import dataclass

from .errors import BadInput, LabError
from .guard import guarded, mark
from .suites import ab, large, larson, sweep, whole
from .suites import options as suite_options

SUITES = {
    suite.name: suite for module in (ab, large, larson, sweep, whole) for suite in module.SUITES
}
KEEPERS = ("save_prof_sweep",)  # suites that add to the notes of the day
SCRIPTS = (*SUITES, "kill_bench", "perf_report")
PACKAGES = ("rich", "psutil", "numpy", "scipy", "matplotlib", "jinja2")
# What a command needs: what `make` builds and the lab's packages; the packages; only Python.
BUILD, PACKAGES_ONLY, PYTHON = "build", "packages", "python"
NAME = "HAKMEM_BENCH_NAME"  # in the environment: what the user typed, when it is make


@dataclass(frozen=True)
class Command:
    """A command that is no suite: `parser` is MODULE:FUNCTION, `run` takes the options."""

    parser: str
    run: str
    about: str
    needs: str = BUILD


COMMANDS = {
    "bench": Command("cli:bench_parser", "bench:run", "compares HAKMEM with other allocators over the benchmark rows"),
    "cost": Command("cost.command:parser", "cost.command:run",
                    "counts instructions, misses, faults, system calls and RSS"),
    "compare": Command("own.options:parser", "own.command:run",
                       "runs a program of yours on several allocators: time, counts, memory"),
    "tune": Command("tune.options:parser", "tune.command:run",
                    "searches for the options of HAKMEM that suit a program of yours best"),
    "prof": Command("heap.options:prof_parser", "heap.command:prof",
                    "converts the heap profile of a process or a file for pprof", PYTHON),
    "heap_report": Command("heap.options:report_parser", "heap.command:report",
                           "draws heap profiles as an HTML page: flame graph, sites, classes",
                           PACKAGES_ONLY),
    "run": Command("cli:run_parser", "realrun:run",
                   "runs a real program on the system allocator and on HAKMEM"),
    "page": Command("cli:page_parser", "page.command:run",
                    "writes the comparison page, from a run of its own or from a folder"),
    "published": Command("cli:published_parser", "page.readme:run",
                         "makes the README's table and the charts, from a published run", PACKAGES_ONLY),
    "report": Command("cli:report_parser", "html:run",
                      "draws the HTML report of a folder again", PACKAGES_ONLY),
    "perf_report": Command("profile.command:parser", "profile.command:run",
                           "profiles malloc and free: counters, hot spots, call graph, annotated code"),
    "kill_bench": Command("suites.kill:parser", "suites.kill:run",
                          "ends processes that benchmarks left running", PACKAGES_ONLY),
    "misuse": Command("misuse:parser", "misuse:run",
                      "shows which double frees, overflows and other misuse each allocator detects"),
    "scale": Command("scale.options:parser", "scale.command:run",
                     "counts cache lines that pass between CPUs, on a simulated machine of up to 192 CPUs"),
    "train": Command("train:parser", "train:run", "trains a profile-guided build (make pgo)"),
}  # fmt: skip


def _part(text):
    module, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(f"hakmem_lab.{module}"), name)
    except ModuleNotFoundError as error:  # of an installed lab, which has no Python of its own
        if error.name.startswith("hakmem_lab"):
            raise
        raise LabError(f"it needs the Python packages {' '.join(PACKAGES)}; {error.name} is not there "
                       f"(Debian: apt-get install {' '.join('python3-' + p for p in PACKAGES)})") from None


def overview() -> str:
    """All commands, a line each."""
    lines = ["usage: scripts/lab COMMAND [options]; scripts/lab COMMAND -h explains one", ""]
    lines += [f"  {name:22} {command.about}" for name, command in COMMANDS.items()]
    lines += [f"  {name:22} {suite.about.split('. ')[0].rstrip('.')}" for name, suite in
              SUITES.items()]  # fmt: skip
    return "\n".join(lines)


def said(name) -> str:
    """How the user knows the command."""
    own = f"scripts/{name}.sh" if name in SCRIPTS else f"lab {name}".strip()
    return os.environ.get(NAME) or own


def read(argv):
    """(name, options) of a command line; help and bad input end the process."""
    name, words = (argv[0], argv[1:]) if argv else ("", [])
    if name in ("-h", "--help"):
        print(overview(), flush=True)
        raise SystemExit(0)
    if name in SUITES:
        return name, suite_options.parse(SUITES[name], words)
    if name not in COMMANDS:
        what = f"there is no command '{name}'" if name else "no command given"
        print(f"lab: {what}; scripts/lab -h lists them", file=sys.stderr)
        raise SystemExit(2)
    parser = _part(COMMANDS[name].parser)()
    parser.prog = said(name)
    options = parser.parse_args(words)
    try:
        if hasattr(parser, "check"):
            parser.check(options)
    except BadInput as error:
        parser.error(str(error))
    except LabError as error:  # what it names has nothing for it
        print(f"{parser.prog}: {error}", file=sys.stderr)
        raise SystemExit(error.status) from None
    return name, options


def needs(name, options) -> str:
    if name == "page" and options.source is not None:  # from a folder
        return PACKAGES_ONLY
    return BUILD if name in SUITES else COMMANDS[name].needs


def run_suite(name, options, argv) -> int:
    # the engine's own bounds are read from the environment
    os.environ["BENCH_TIMEOUT"], os.environ["KILL_GRACE"] = str(options.timeout), str(options.grace)
    matrix = importlib.import_module("hakmem_lab.suites.matrix")
    return (matrix.save if name in KEEPERS else matrix.run)(SUITES[name], options, argv)


def main(argv=None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    mark()
    name, options = read(argv)
    if name in SUITES:
        return guarded(said(name), lambda: run_suite(name, options, argv[1:]))
    return guarded(said(name), lambda: _part(COMMANDS[name].run)(options))
