"""Test suites of real programs, on HAKMEM and on the system's allocator.

    suites.py LIBRARY WITNESS short                    some parts of CPython's, for each change
    suites.py LIBRARY WITNESS finds                    made-up suites: what must be noticed is
    suites.py LIBRARY WITNESS all [--table FILE] [--kept FOLDER] [--parts N] [--profile NAME] [SUITE[:PART]...]

A suite is a row of suite_rows.py. Each part runs on both allocators. A test that fails on HAKMEM only is run
twice more on both: what then fails on HAKMEM each time, and never on the system's allocator, is an error; the
rest is unsteady, and counted. Where fewer tests ran on HAKMEM, those that did not have failed. Suites whose
program or sources are missing are named. --table puts a row for each suite into a file, in place of the suite's
old one; --parts takes every Nth part; --profile is HAKMEM_PROFILE, and has rows of its own. What is downloaded and
built stays in --kept, else it is removed.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import compare  # noqa: E402
import harness  # noqa: E402
from suite_rows import SUITES, Suite, lines_of, read_tap  # noqa: E402

PYTHON_SHORT = ("test_dict", "test_json", "test_struct")
HEAD = ("| suite | version | parts run | tests | fail on the system | fail on HAKMEM | unsteady | on HAKMEM only |\n"
        "|---|---|---|---|---|---|---|---|\n")


class Runner:
    def __init__(self, library, witness, kept, profile=None):
        self.preloads = {"system": witness, "HAKMEM": f"{witness}:{library}"}
        self.library, self.kept, self.profile = library, kept, profile

    def run(self, suite, part, where):
        """{test: good} of one part, and what it printed."""
        with tempfile.TemporaryDirectory() as folder:
            seen, work = f"{folder}/witness", f"{folder}/work"
            os.mkdir(work)
            os.chmod(folder, 0o755)  # a suite may become another user
            with open(seen, "wb"):
                os.chmod(seen, 0o666)
            env = {"LC_ALL": "C.UTF-8", "PYTHONMALLOC": "malloc", "LD_PRELOAD": self.preloads[where],
                   "TEST_WITNESS": seen, **({"HAKMEM_PROFILE": self.profile} if self.profile else {})}
            argv = ["timeout", "-k", "5", str(suite.seconds), *suite.command(part, self.kept)]
            result = harness.run(argv, seconds=suite.seconds + 30, env=env, cwd=work)
            ours = {os.path.realpath(provider) == self.library for program, provider in compare.Run.read(seen)
                    if os.path.basename(program).startswith(suite.program)}
        if ours != {where == "HAKMEM"}:
            harness.fail(f"{part}: {suite.program} was not seen on {where}" if not ours else
                         f"{part}: a process of {suite.program} has the other malloc on {where}")
        output = (result.out + b"\n" + result.err).decode(errors="replace")
        return suite.read(result.status, output), output

    def part(self, suite, part):
        """Counts of tests, and of those that fail on each; what fails on HAKMEM only: errors, unsteady."""
        results = {where: self.run(suite, part, where) for where in ("system", "HAKMEM")}
        failed = {where: {name for name, good in tests.items() if not good}
                  for where, (tests, _) in results.items()}
        if len(results["HAKMEM"][0]) < len(results["system"][0]):
            failed["HAKMEM"] |= results["system"][0].keys() - results["HAKMEM"][0].keys()
        only = failed["HAKMEM"] - failed["system"]
        errors = set(only)
        for _ in range(2):
            for where in ("HAKMEM", "system") if errors else ():
                tests, _ = self.run(suite, part, where)
                bad = {name for name in errors if not tests.get(name, False)}
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
        known = suite.parts(self.kept)
        if not known:
            return None, []
        if set(parts or []) - set(known):
            harness.fail(f"{name} has no part {', '.join(sorted(set(parts) - set(known)))}")
        parts = (parts or known)[::every]
        totals, errors = [0, 0, 0, 0], []
        for part in parts:
            count, system, ours, wrong, unsteady = self.part(suite, part)
            for i, more in enumerate((count, system, ours, len(unsteady))):
                totals[i] += more
            errors += [f"{name} {part}: {test}" for test in sorted(wrong)]
            print(f"{name} {part}: {count} tests, failed {system} on the system, {ours} on HAKMEM, "
                  f"only on HAKMEM {len(wrong)}{', unsteady ' + str(sorted(unsteady)) if unsteady else ''}", flush=True)
        if totals[0] <= len(parts) and name != "stress-ng":
            harness.fail(f"{name}: its output is not understood")
        version = re.search(r"\d+\.\d[\w.]*", lines_of(suite.version)[0])[0]
        print(f"{name}: {(time.monotonic() - begun) / 60:.0f} minutes")
        return (f"| {row_name(name, self.profile)} | {version} | {len(parts)} | {totals[0]:,} | {totals[1]} | "
                f"{totals[2]} | {totals[3]} | {len(errors)} |\n"), errors


# What a made-up suite prints on each allocator, or in turn, how it ends, and what must be found.
MADE_UP = (
    ("right", "ok 1 - a", "ok 1 - a", 0, set()),
    ("wrong", "ok 1 - a", "not ok 1 - a", 0, {"1 - a"}),
    ("wrong on both", "not ok 1 - a", "not ok 1 - a", 1, set()),
    ("ends early", "ok 1 - a\nok 2 - b", "ok 1 - a", 1, {"2 - b"}),
    ("unsteady", "ok 1 - a", "$(test -e $0 && echo ok || echo not ok; touch $0) 1 - a", 0, set()),
)


def finds(runner):
    for name, system, ours, status, wanted in MADE_UP:
        with tempfile.TemporaryDirectory() as folder:
            script = f'case $LD_PRELOAD in *:*) echo "{ours}";; *) echo "{system}";; esac; exit {status}'
            words = ["sh", "-c", script, f"{folder}/flag"]
            suite = Suite("", [], None, lambda *_, words=words: words, read_tap)
            *_, errors, _ = runner.part(suite, name)
        if errors != wanted:
            harness.fail(f"{name}: found {errors}, not {wanted}")
    print(f"{len(MADE_UP)} made-up suites")


def short_parts(kept):
    """If they are there: distributions have Python's tests, or some of them, in a package of their own."""
    missing = set(PYTHON_SHORT) - set(SUITES["CPython"].parts(kept))
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)} (Debian: libpython3-testsuite)")
        sys.exit(77)
    return list(PYTHON_SHORT)


def row_name(name, profile):
    return f"{name}, {profile}" if profile else name


def put_row(path, name, row):
    """Into the table of a file, in place of the suite's old row; a new file begins with the table's head."""
    lines = open(path, encoding="utf-8").readlines() if os.path.exists(path) else HEAD.splitlines(True)
    rule = HEAD.splitlines(True)[1]
    if rule not in lines:
        harness.fail(f"{path} has no table of suites")
    last = first = lines.index(rule) + 1
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    rows = [line for line in lines[first:last] if not line.startswith(f"| {name} |")] + [row]
    rows.sort(key=lambda line: list(SUITES).index(line.split("|")[1].split(",")[0].strip()))
    with open(path, "w", encoding="utf-8") as to:
        to.writelines(lines[:first] + rows + lines[last:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("witness")
    parser.add_argument("dose", choices=("short", "all", "finds"))
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--table")
    parser.add_argument("--kept")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--profile")
    words = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # a suite may become another user
        kept = os.path.abspath(words.kept or folder)
        os.makedirs(kept, exist_ok=True)
        runner = Runner(os.path.realpath(words.library), os.path.realpath(words.witness), kept, words.profile)
        if words.dose == "finds":
            return finds(runner)
        chosen = {"CPython": short_parts(kept)} if words.dose == "short" else {}
        for word in words.suites or ([] if chosen else SUITES):
            name, _, part = word.partition(":")
            if name not in SUITES:
                harness.fail(f"no suite {name}; there are {' '.join(SUITES)}")
            chosen.setdefault(name, []).extend([part] if part else [])
        errors, count = [], 0
        for name, parts in chosen.items():
            row, wrong = runner.suite(name, parts, words.parts)
            print(row.strip() if row else f"{name}: not here: no program, or no sources of its tests", flush=True)
            if row and words.table:
                put_row(words.table, row_name(name, words.profile), row)
            count += row is not None
            errors += wrong
    if not count or errors:
        harness.fail(f"on HAKMEM only: {', '.join(errors) or 'no suite ran'}")


if __name__ == "__main__":
    main()
