"""Test suites of real programs, on HAKMEM and on the system's allocator.

    suites.py LIBRARY WITNESS short                    some parts of CPython's, for each change
    suites.py LIBRARY WITNESS all [--table FILE] [--parts N] [SUITE[:PART]...]

A suite is a row of SUITES: its parts, the command of a part, and how its output is read. Each part runs on
both allocators. A test that fails on HAKMEM only is run twice more on both: what then fails on HAKMEM each
time, and never on the system's allocator, is an error; the rest is unsteady, and counted. Suites whose
program or sources are missing are named. --table appends a row for each suite; --parts takes every Nth part.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import compare  # noqa: E402
import harness  # noqa: E402

SECONDS = 400  # of a part
PYTHON_SHORT = ("test_dict", "test_json", "test_struct")
# What takes very long, needs a network or a screen, or is about one allocator.
PYTHON_LEFT_OUT = {"test_tools", "test_peg_generator", "test_tkinter", "test_ttk_guionly", "test_idle",
                   "test_gdb", "test_asyncio", "test_multiprocessing_spawn", "test_concurrent_futures",
                   "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_lib2to3",
                   "test_embed", "test_distutils", "test_ensurepip", "test_venv"}
STRESSORS = ("malloc", "bsearch", "qsort", "heapsort", "mergesort", "radixsort", "tree", "skiplist", "list",
             "hsearch", "judy", "str", "wcs", "zlib", "sparsematrix", "matrix", "shellsort", "tsearch")
REDIS_UNITS = ("dump", "auth", "protocol", "keyspace", "scan", "info", "type/string", "type/incr",
               "type/list", "type/list-2", "type/list-3", "type/set", "type/zset", "type/hash", "type/stream",
               "sort", "expire", "other", "multi", "quit", "aofrw", "pubsub", "slowlog", "scripting",
               "introspection", "limits", "obuf-limits", "bitops", "bitfield", "geo", "memefficiency",
               "hyperloglog", "lazyfree", "pendingquerybuf", "querybuf", "tracking", "functions", "maxmemory")


@dataclass
class Suite:
    program: str  # seen by the witness
    version: list  # command
    parts: Callable  # folder -> names
    command: Callable  # part, folder -> words
    read: Callable  # status, output -> {test: good}


def lines_of(argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, check=True, **options).stdout.splitlines()


# ---- CPython ----

def python_parts(_folder):
    names = lines_of([harness.real_python(), "-m", "test", "--list-tests"])
    return [name for name in names if name not in PYTHON_LEFT_OUT]


def python_command(part, folder):
    return [harness.real_python(), "-m", "test", "-v", "--timeout", str(SECONDS - 50), "--tempdir", folder, part]


def python_read(status, output):
    """Each test of the module; the module itself by its status."""
    tests = {"module": status in (0, 4)}  # 4: nothing to run here
    for name, result in re.findall(r"^(\S+ \([\w.]+\)).* \.\.\. (ok|FAIL|ERROR)$", output, re.M):
        tests[name] = tests.get(name, True) and result == "ok"
    return tests


# ---- redis ----

def debian_source(package, folder):
    """Downloads and unpacks the sources of the distribution's package; None without them."""
    release = open("/etc/os-release", encoding="utf-8").read()
    codename = re.search(r"^VERSION_CODENAME=(\w+)", release, re.M)
    if not codename or not shutil.which("apt-get") or not shutil.which("dpkg-source"):
        return None
    os.makedirs(f"{folder}/apt/lists/partial", exist_ok=True)
    with open(f"{folder}/source.list", "w", encoding="ascii") as to:
        for base, suite in (("debian", codename[1]), ("debian-security", f"{codename[1]}-security")):
            to.write(f"deb-src http://deb.debian.org/{base} {suite} main\n")
    options = ["-q", "-o", f"Dir::Etc::SourceList={folder}/source.list", "-o", "Dir::Etc::SourceParts=-",
               "-o", f"Dir::State::Lists={folder}/apt/lists"]
    for words in (["update"], ["source", package]):
        if subprocess.run(["apt-get", *options, *words], cwd=folder, capture_output=True,
                          timeout=300, check=False).returncode != 0:
            return None
    found = [name for name in os.listdir(folder) if os.path.isdir(f"{folder}/{name}/src")]
    return f"{folder}/{found[0]}" if found else None


def redis_parts(folder):
    """The tests of the source package, on the programs that are installed."""
    source = debian_source("redis", folder) if shutil.which("tclsh") else None
    if not source:
        return []
    os.rename(source, f"{folder}/redis")
    for name in ("redis-server", "redis-cli", "redis-benchmark", "redis-sentinel", "redis-check-aof",
                 "redis-check-rdb"):
        os.symlink(shutil.which(name) or "/usr/bin/redis-server", f"{folder}/redis/src/{name}")
    return [unit for unit in REDIS_UNITS if os.path.exists(f"{folder}/redis/tests/unit/{unit}.tcl")]


def redis_command(part, folder):
    port = 21111 + os.getpid() % 200 * 100  # two runs do not meet
    return ["sh", "-c", f"cd {folder}/redis && exec tclsh tests/test_helper.tcl --clients 1 --baseport {port} "
                        f"--single unit/{part}"]


def redis_read(status, output):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    tests = {"unit": status == 0}
    for result, name in re.findall(r"^\[(ok|err|exception)\]: (.*?)(?: \(\d+ ms\))?$", plain, re.M):
        tests[name] = tests.get(name, True) and result == "ok"
    return tests


# ---- stress-ng ----

def stress_command(part, folder):
    return ["stress-ng", f"--{part}", "2", f"--{part}-ops", "200", "--verify", "--timeout", "4",
            "--temp-path", folder]


SUITES = {
    "CPython": Suite("python", [harness.real_python(), "-V"], python_parts, python_command, python_read),
    "redis": Suite("redis-server", ["redis-server", "--version"], redis_parts, redis_command, redis_read),
    "stress-ng": Suite("stress-ng", ["stress-ng", "--version"], lambda _folder: list(STRESSORS),
                       stress_command, lambda status, _output: {"verified": status == 0}),
}


# ---- Runs ----

class Runner:
    def __init__(self, library, witness):
        self.preloads = {"system": witness, "HAKMEM": f"{witness}:{library}"}
        self.library = library

    def run(self, suite, part, folder, where):
        """{test: good} of one part."""
        seen = f"{folder}/witness"
        if os.path.exists(seen):
            os.remove(seen)
        env = {"LC_ALL": "C.UTF-8", "PYTHONMALLOC": "malloc", "LD_PRELOAD": self.preloads[where],
               "TEST_WITNESS": seen}
        work = tempfile.mkdtemp(dir=folder)
        argv = ["timeout", "-k", "5", str(SECONDS), *suite.command(part, folder)]
        result = harness.run(argv, seconds=SECONDS + 30, env=env, cwd=work)
        shutil.rmtree(work, ignore_errors=True)
        for program, provider in compare.Run.read(seen):
            if os.path.basename(program).startswith(suite.program) and \
                    (os.path.realpath(provider) == self.library) != (where == "HAKMEM"):
                harness.fail(f"{part}: malloc of {program} comes from {provider} on {where}")
        output = (result.out + b"\n" + result.err).decode(errors="replace")
        return suite.read(result.status, output), output

    def part(self, suite, part, folder):
        """Tests, those that fail on each, and those that fail on HAKMEM only: (errors, unsteady)."""
        results = {where: self.run(suite, part, folder, where) for where in ("system", "HAKMEM")}
        failed = {where: {name for name, good in tests.items() if not good}
                  for where, (tests, _) in results.items()}
        only = failed["HAKMEM"] - failed["system"]
        errors = set(only)
        for _ in range(2):
            for where in ("HAKMEM", "system") if errors else ():
                tests, output = self.run(suite, part, folder, where)
                bad = {name for name in errors if not tests.get(name, True)}
                errors = errors & bad if where == "HAKMEM" else errors - bad
        if errors:
            print(results["HAKMEM"][1][-3000:])
        tests = {*results["system"][0], *results["HAKMEM"][0]}
        return len(tests), len(failed["system"]), len(failed["HAKMEM"]), errors, only - errors

    def suite(self, name, parts=None, every=1):
        """A row of the table, or None without the program; and the errors."""
        suite, begun = SUITES[name], time.monotonic()
        if not shutil.which(suite.version[0]):
            return None, []
        with tempfile.TemporaryDirectory() as folder:
            parts = (parts or suite.parts(folder))[::every]
            if not parts:
                return None, []
            totals, errors = [0, 0, 0, 0], []
            for part in parts:
                count, system, ours, wrong, unsteady = self.part(suite, part, folder)
                for i, more in enumerate((count, system, ours, len(unsteady))):
                    totals[i] += more
                errors += [f"{name} {part}: {test}" for test in sorted(wrong)]
                print(f"{name} {part}: {count} tests, failed {system} on the system, {ours} on HAKMEM, "
                      f"only on HAKMEM {len(wrong)}", flush=True)
        if totals[0] <= len(parts) and name == "CPython":
            harness.fail(f"{name}: its output is not understood")
        version = " ".join(lines_of(suite.version)[0].split()[:3])
        minutes = (time.monotonic() - begun) / 60
        return (f"| {version} | {len(parts)} | {totals[0]:,} | {totals[1]} | {totals[2]} | {totals[3]} | "
                f"{len(errors)} | {minutes:.0f} |"), errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("witness")
    parser.add_argument("dose", choices=("short", "all"))
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--table")
    parser.add_argument("--parts", type=int, default=1)
    words = parser.parse_intermixed_args()
    runner = Runner(os.path.realpath(words.library), os.path.realpath(words.witness))
    chosen = {"CPython": list(PYTHON_SHORT)} if words.dose == "short" else {}
    for word in words.suites or ([] if chosen else SUITES):
        name, _, part = word.partition(":")
        if name not in SUITES:
            harness.fail(f"no suite {name}; there are {' '.join(SUITES)}")
        chosen.setdefault(name, []).extend([part] if part else [])
    errors, rows = [], []
    for name, parts in chosen.items():
        row, wrong = runner.suite(name, parts, words.parts)
        print(row or f"{name}: not here: no program, or no sources of its tests")
        rows += [row] if row else []
        errors += wrong
    if words.table:
        with open(words.table, "a", encoding="utf-8") as to:
            to.writelines(f"{row}\n" for row in rows)
    if not rows or errors:
        harness.fail(f"on HAKMEM only: {', '.join(errors) or 'no suite ran'}")


if __name__ == "__main__":
    main()
