"""Real programs give the same output on HAKMEM as on the system's allocator.

    compare.py LIBRARY WITNESS PROGRAM [OTHER...]   one program of the table below
    compare.py --list                               their names

Each program runs twice in an empty folder of its own: as it is, and with libhakmem preloaded. Exit
status, stdout and stderr must be equal. A second preloaded library, the witness, makes every process
of a run name the library its malloc comes from: in the first run that is never HAKMEM, in the second
always, and the programs of the row must be among them. OTHER libraries are preloaded with libhakmem.
"""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness  # noqa: E402
from suite_rows import postgres_folders  # noqa: E402

INPUTS = os.path.join(HERE, "inputs")
ROOT = os.path.dirname(os.path.dirname(HERE))
ENGINE_FLAGS = f"-D_GNU_SOURCE -DHAKMEM_DEBUG=0 -DHAKMEM_CHECKS=1 -DHAKMEM_PREFIXED_ONLY=0 " \
               f"-I{ROOT}/src -I{ROOT}/include"

# name: command, programs that must be seen on HAKMEM, additions to the environment.
# {inputs}, {root} and {postgres} stand for folders; a program is named by the start of its file name.
PROGRAMS = {
    "python3": (["{python}", "{inputs}/workload.py"], ["python"],
                {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}),
    "git": (["sh", "{inputs}/git.sh", "{root}/tests"], ["git"], {}),
    "perl": (["perl", "{inputs}/workload.pl"], ["perl"], {}),
    "gcc": (["sh", "{inputs}/compile.sh", "gcc", ENGINE_FLAGS, "{root}/src"],
            ["cc1", "as", "x86_64-linux-gnu-as", "aarch64-linux-gnu-as"], {}),
    "g++": (["sh", "{inputs}/compile.sh", "g++", "-std=c++17 -O0", "{inputs}"], ["cc1plus"], {}),
    "sqlite3": (["sh", "{inputs}/sqlite.sh", "{inputs}/workload.sql"], ["sqlite3"], {}),
    "redis": (["{python}", "{inputs}/redis_session.py"],
              ["redis-server", "redis-check-rdb", "redis-benchmark"], {}),
    "node": (["node", "{inputs}/workload.js"], ["node"], {}),
    "postgres": (["sh", "{inputs}/postgres.sh", "{postgres}", "{inputs}/workload_postgres.sql"],
                 ["postgres"], {}),
    "java": (["java", "-Xmx512m", "{inputs}/Workload.java"], ["java"], {}),
}

# What would make a run differ from the next one, or from one machine to another.
STEADY = {"LC_ALL": "C", "TZ": "UTC", "HOME": "{folder}", "GIT_CONFIG_NOSYSTEM": "1"}


class Run:
    """One run of a program: its result, and who was seen with which malloc."""

    def __init__(self, name, libraries):
        command, _, environment = PROGRAMS[name]
        with tempfile.TemporaryDirectory() as folder:
            places = {"inputs": INPUTS, "root": ROOT, "python": harness.real_python(),
                      "postgres": postgres_folders()[0],
                      "folder": os.path.join(folder, "run")}
            os.mkdir(places["folder"])
            witness = os.path.join(folder, "witness")
            env = {key: value.format(**places) for key, value in {**STEADY, **environment}.items()}
            env.update(LD_PRELOAD=":".join(libraries), TEST_WITNESS=witness)
            self.result = harness.run([word.format(**places) for word in command], seconds=150,
                                      env=env, cwd=places["folder"])
            self.seen = self.read(witness)

    @staticmethod
    def read(witness):
        """The set of (program, library) pairs."""
        if not os.path.exists(witness):
            return set()
        with open(witness, encoding="utf-8", errors="replace") as lines:
            return {tuple(line.rstrip("\n").split("\t")) for line in lines}


def check_witness(name, run, library, wanted):
    """All of the processes, and the right ones, used the library (or none did, when not wanted)."""
    if not run.seen:
        harness.fail(f"{name}: no process was seen by the witness")
    for program, provider in run.seen:
        if (os.path.realpath(provider) == library) != wanted:
            harness.fail(f"{name}: malloc of {program} comes from {provider}")
    names = {os.path.basename(program) for program, _ in run.seen}
    if not any(seen.startswith(part) for seen in names for part in PROGRAMS[name][1]):
        harness.fail(f"{name}: none of {PROGRAMS[name][1]} was seen, only {sorted(names)}")


def first_difference(left, right):
    """The first line in which two outputs differ."""
    lines = zip(left.splitlines() + [b"(end)"], right.splitlines() + [b"(end)"])
    for number, (one, other) in enumerate(lines, 1):
        if one != other:
            return f"line {number}: {one[:200]!r} on the system, {other[:200]!r} on HAKMEM"
    return f"{len(left)} bytes on the system, {len(right)} on HAKMEM"


def compare(name, library, witness, others):
    """Runs one program twice and compares."""
    plain = Run(name, [witness])
    if plain.result.status != 0:
        harness.fail(f"{name} fails on the system's allocator, status {plain.result.status}: "
                     f"{plain.result.last_words()}")
    if len(plain.result.out) < 20:
        harness.fail(f"{name} printed next to nothing: {plain.result.out!r}")
    check_witness(name, plain, library, False)
    ours = Run(name, [witness, library, *others])
    if ours.result.status != 0:
        harness.fail(f"{name} fails on HAKMEM, status {ours.result.status}: "
                     f"{ours.result.last_words()}")
    check_witness(name, ours, library, True)
    for what in ("out", "err"):
        one, other = getattr(plain.result, what), getattr(ours.result, what)
        if one != other:
            harness.fail(f"{name}: std{what} differs, {first_difference(one, other)}")
    print(f"{name}: {len(plain.result.out)} bytes of output are the same, "
          f"{len(ours.seen)} programs were on HAKMEM")


def skip_without_postgres(library):
    """Its package is large and starts a server when it is installed: where it is missing, nothing installs it."""
    if not postgres_folders()[0]:
        print("skipped: there is no /usr/lib/postgresql/*/bin/postgres (Debian: postgresql)")
    elif os.getuid() == 0 and not (shutil.which("setpriv") and harness.nobody_runs(library)):
        print("skipped: the server refuses root, and nobody cannot take its place here")
    else:
        return
    sys.exit(77)


def main():
    if sys.argv[1:] == ["--list"]:
        print(" ".join(PROGRAMS))
        return
    library, witness, name, *others = sys.argv[1:]
    if name not in PROGRAMS:
        harness.fail(f"no program {name}; there are {' '.join(PROGRAMS)}")
    if name == "postgres":
        skip_without_postgres(library)
    compare(name, os.path.realpath(library), os.path.realpath(witness), others)


if __name__ == "__main__":
    main()
