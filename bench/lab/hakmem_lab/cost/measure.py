"""One program on one allocator: the runs that count it, each under a tool of its own.

All runs have the same addresses, time, random bytes and size of environment.
"""

import contextlib
import fcntl
import json
import shutil
import tempfile
from pathlib import Path

from .. import needs
from ..counters import parse_strace
from ..errors import LabError
from ..paths import built
from ..profile import cgfile
from ..profile.work import libc
from .parts import Judge

LIMIT = 1800.0  # seconds one run may take
CACHES = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
L1, L2 = ("I1mr", "D1mr", "D1mw"), ("ILmr", "DLmr", "DLmw")
ENVIRONMENT_BYTES = 3072  # of all variables together but LD_PRELOAD
PRELOAD_BYTES = 1024  # of LD_PRELOAD, at most
PLAIN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LC_ALL": "C", "TZ": "UTC"}
SLOTS = 8  # folders for runs at the same time; their names are of one length
CALLS = ("malloc", "calloc", "free")
KEPT = 40  # functions of a cell that are kept, the costliest


def need_tools() -> None:
    needs.require("valgrind", "valgrind", "cost")
    needs.require("strace", "strace", "cost")


@contextlib.contextmanager
def run_folder(base):
    """An empty folder of this run's own, always at one of the same few paths."""
    base.mkdir(parents=True, exist_ok=True)
    for slot in range(SLOTS):
        with open(base / f"{slot}.lock", "w") as lock:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder = base / str(slot)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                return
    raise LabError(f"{base}: {SLOTS} counted runs are under way already")


def padded(variables, size=ENVIRONMENT_BYTES) -> list:
    """NAME=VALUE words whose lengths add up to `size`."""
    words = [f"{name}={value}" for name, value in variables.items()]
    left = size - sum(len(word) + 1 for word in words) - len("PAD=") - 1
    if left < 0:
        raise LabError("the environment of the allocator is too long")
    return [*words, f"PAD={'x' * left}"]


def steady_environment(variables, libraries, size) -> list:
    """The same, with room for the LD_PRELOAD that `steady` adds: the stack begins below all of them,
    and some programs seed their hashes from its addresses."""
    if not libraries:
        return padded({**variables, "NO_PRELOAD": ""}, size + PRELOAD_BYTES)
    preload = "LD_PRELOAD=" + ":".join(libraries)
    return padded(variables, size + PRELOAD_BYTES - len(preload) - 1)


def _size(program) -> int:
    """Bytes of the environment: the same on every allocator."""
    if not program.folder:
        return ENVIRONMENT_BYTES
    own = sum(len(name) + len(value) + 2 for name, value in program.environment)
    return ENVIRONMENT_BYTES * (2 + own // ENVIRONMENT_BYTES)


class Meter:
    """Runs programs under the tools."""

    def __init__(self, session, whole=True, limit=LIMIT):
        self.launcher, self.whole, self.limit = session.launcher, whole, limit
        self.base = session.build / "cost"
        self.steady = str(built(session.build, "steady"))
        # The kernel also counts the page faults of the launcher's child and of `env`, before the program
        # begins. They depend on addresses (two runs of one program differed by up to 7) and on the
        # locale (19). So the launcher has steady addresses and an empty environment.
        self.before = ("env", "-i", self.steady, "--")
        self.fixed = str(built(session.build, "libfixed.so"))
        self.calls = str(built(session.build, "libcalls.so"))
        self.again = str(built(session.build, "libagain.so"))
        self.build = session.build

    @contextlib.contextmanager
    def _folder(self, program):
        if program.folder:
            yield program.folder
            return
        with run_folder(self.base) as folder:
            program.prepare(folder)
            yield folder

    def _words(self, program) -> list:
        first, *rest = program.words
        ours = self.build / first
        return [str(ours) if "/" not in first and ours.is_file() else first, *rest]

    def _run(self, program, allocator, tool=(), before=(), options=(), more=None, last=()):
        """The Outcome of one run. `tool` runs `steady`, which starts `last` and the program."""
        library = allocator.library or (libc() if program.linked else None)
        libraries = [*before, *([library] if library else [])]
        libraries += [] if program.folder else [self.fixed]
        ours = {} if program.folder else PLAIN
        variables = {**ours, **dict(program.environment), **allocator.environment, **(more or {})}
        environment = steady_environment(variables, libraries, _size(program))
        with self._folder(program) as folder:
            preload = ["-p", ":".join(libraries)] if libraries else []
            words = [
                "env", "-i", *environment, *tool, self.steady, *options, *preload, "--",
                *last, *self._words(program),
            ]  # fmt: skip
            outcome = self.launcher.run(
                words, None, self.limit, folder=str(folder), before=self.before
            )
        if not outcome.good:
            raise LabError(f"{program.name} on {allocator.title}: {outcome.reason()}")
        return outcome

    def instructions(self, program, allocator) -> dict:
        """Instructions by part and function, and simulated misses."""
        with tempfile.TemporaryDirectory(prefix="hakmem-cost-") as out:
            tool = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes",
                    f"--callgrind-out-file={out}/out.%p", *(CACHES if self.whole else ())]  # fmt: skip
            self._run(program, allocator, last=tool)
            functions, misses = {}, {"l1": 0, "l2": 0}
            for file in Path(out).iterdir():
                costs = cgfile.read(file)
                for key, spent in costs.functions.items():
                    functions[key] = functions.get(key, 0) + costs.event("Ir", spent)
                for kind, events in (("l1", L1), ("l2", L2)):
                    misses[kind] += sum(costs.event(event, costs.total) for event in events)
        if not functions:
            raise LabError(f"{program.name} on {allocator.title}: callgrind counted nothing")
        parts, named = Judge(allocator.library).split(functions)
        return {
            "instructions": {"total": sum(functions.values()), **parts},
            **(misses if self.whole else {}),
            "functions": dict(list(named.items())[:KEPT]),
        }

    def plain(self, program, allocator):
        """The Outcome of a run without a tool."""
        return self._run(program, allocator)

    def faults(self, program, allocator) -> dict:
        """Page faults with the machine's huge pages and without, and the peak resident set."""
        plain = self.plain(program, allocator)
        small = self._run(program, allocator, options=["-s"])
        return {
            "faults": plain.cost["minor_faults"], "faults_small": small.cost["minor_faults"],
            "peak_rss_kb": plain.cost["max_rss_kb"],
        }  # fmt: skip

    def system_calls(self, program, allocator) -> dict:
        with tempfile.NamedTemporaryFile("r", prefix="hakmem-cost-") as table:
            self._run(program, allocator, tool=["strace", "-f", "-c", "-o", table.name, "--"])
            return {"syscalls": parse_strace(table.read())}

    def _with_calls(self, program, allocator, more=None):
        """(the Outcome of a run, what libcalls wrote, statistics of the library), each of all processes."""
        with tempfile.TemporaryDirectory(prefix="hakmem-cost-") as out:
            outcome = self._run(program, allocator, before=[self.calls],
                                more={"COST_CALLS": f"{out}/calls", **(more and more(out) or {})})  # fmt: skip
            files = {file.name: json.loads(file.read_text()) for file in sorted(Path(out).iterdir())}
        calls = [found for name, found in files.items() if name.startswith("calls")]
        return outcome, calls, [found for name, found in files.items() if name.startswith("stats")]

    def memory(self, program, allocator) -> dict:
        """Calls of the malloc family, mean resident set by their clock, most huge pages: those of
        the process with the most calls."""
        found = self._with_calls(program, allocator)[1]
        if not found:
            raise LabError(f"{program.name} on {allocator.title}: its calls were not counted")
        most = max(found, key=lambda one: sum(one[name] for name in CALLS))
        mean, huge = most.pop("mean_rss_kb"), most.pop("huge_kb")
        most.pop("peak_rss_kb")
        return {"mean_rss_kb": mean, "huge_pages": huge // 2048, "calls": most}

    def given_back(self, program, allocator) -> dict:
        """Anonymous pages that the allocator gave back, and how often one of them was touched again, of
        all processes, without huge pages. Nothing where its calls are not to be seen: within libc."""
        if not allocator.library:
            return {}
        with tempfile.TemporaryDirectory(prefix="hakmem-cost-") as out:
            self._run(program, allocator, before=[self.again], options=["-s"],
                      more={"AGAIN_FILE": f"{out}/again"})  # fmt: skip
            found = [json.loads(file.read_text()) for file in Path(out).iterdir()]
        if not found:
            raise LabError(f"{program.name} on {allocator.title}: its pages were not counted")
        return {"given_back": sum(one["given"] for one in found),
                "touched_again": sum(one["again"] for one in found)}  # fmt: skip

    def at_full_speed(self, program, allocator) -> dict:
        """Faults, memory, and the library's own statistics, of one run without a tool."""
        outcome, calls, statistics = self._with_calls(program, allocator, lambda out: {
            "HAKMEM_STATS": "json", "HAKMEM_STATS_FILE": f"{out}/stats.%p"})  # fmt: skip
        cost, peak = outcome.cost, outcome.cost["max_rss_kb"]
        # By calls: which of two like processes is the busiest would be chance.
        weights = [sum(one[name] for name in CALLS) for one in calls]
        weighted = sum(one["mean_rss_kb"] * each for one, each in zip(calls, weights))
        mean = weighted / sum(weights) if sum(weights) else peak
        return {"wall_s": cost["wall_s"], "user_s": cost["user_s"], "faults": cost["minor_faults"],
                "peak_rss_kb": peak, "mean_rss_kb": mean, "statistics": statistics}  # fmt: skip

    def cell(self, program, allocator) -> dict:
        """All figures, or the instructions only."""
        found = {}
        rest = (self.faults, self.given_back, self.system_calls, self.memory) if self.whole else ()
        for count in (self.instructions, *rest):
            found.update(count(program, allocator))
        return found
