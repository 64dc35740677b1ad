"""Which long doses a change asks for, by the folders of the files that it touches.

    changed.py SINCE                    a line "PRESET PATTERN" for each build that has any, and for the lab
    changed.py --check BUILD            every long dose of this build folder is in a row, and every short dose that
                                        it leaves to the sanitizer builds is one of theirs

Used by `make test-changed SINCE=commit`. The tests of the rows are those with the label "long" or "repeat".
"""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import touched

# What is touched, the builds, and the long doses.
ROWS = (
    (r"src/(shard|meta|pool|classes|os)/|tests/interleave/", ["release"],
     r"interleave\.(remote|warm)\.long"),
    (r"src/|tests/interleave/", ["release"],
     r"interleave\.(?!remote|warm)\w+\.long"),
    (r"src/|tests/(model|api|abort|support)/", ["release"], r"(model|api|abort)\..*"),
    (r"src/|tests/(unit|support)/", ["release"], r"unit\..*"),
    (r"src/|tests/(stress|support)/", ["release"], r"stress\..*"),
    (r"src/|tests/cross/", ["release"], r"cross\..*"),
    (r"src/|tests/(options|stats|command)/|tools/", ["release"], r"(options|stats|command|live)\..*"),
    (r"tools/|docs/guides/|scripts/guides", ["release"], r"command\.guides"),
    (r"src/|tests/(hardened|model|soak|support)/", ["release"], r"hardened\..*"),
    (r"src/|tests/(profile|model|soak|support)/", ["release"], r"profile\..*"),
    (r"include/|packaging/|bindings/|pyproject|cmake/|tests/packages/", ["release"], r"packages\..*"),
    # A second look at what does not depend on the kind of build.
    (r"src/debug/|tests/(api|interleave|programs|model|profile|soak|stress|command|hardened|record)/|tools/",
     ["debug"],
     r"(interleave|programs|model|record|hardened|export|debugger|interop)(\..*)?|api\.questions\.system|"
     r"(command|live)\.[^.]*|profile\.[^.]*(\.(reach|static|2000|524288))?|"
     r"stress\.([^.]*|limit\.[^.]*)|soak\.(finds_.*|shared|static)|options\.profile_rows"),
    # What make test leaves to the sanitizer builds.
    (r"src/|tests/(unit|api|model|soak|stats|stress|support)/", ["debug"],
     r"unit\..*|(api|model|stats|stress)\.[^.]*(\.([14]|all|mid|prefixed|hardened|profiled|records|small))?|soak(\..*)?"),
    (r"src/|tests/(unit|options|support|api|stats|model|command)/", ["asan", "tsan"],
     r"(unit|options|api|stats|command)\..*|model\..*\.(1|4|mid)"),
    (r"src/|tools/|tests/(fuzz|model|command)/", ["asan", "tsan"], r"fuzz\..*"),
    (r"src/(api|cache|shard|pool|large|thread)/|tests/soak/", ["release", "asan", "tsan"], r"soak\.long"),
    (r"src/(large|os|thread)/|tests/soak/", ["asan", "tsan"], r"soak\.(huge|many)"),
    (r"src/(large|os)/|tests/soak/", ["release"], r"soak\.(huge|limit)\.long"),
    (r"src/thread/|tests/soak/", ["release"], r"soak\.(many|shared|static)\.long"),
    # Tests of pytest, which are marked long.
    (r"bench/|scripts/|docs/", ["lab"], "long"),
)


def wanted(paths):
    """{preset: pattern} for these files."""
    found = {}
    for touched, presets, tests in ROWS:
        if any(re.match(touched, path) for path in paths):
            for preset in presets:
                found.setdefault(preset, []).append(tests)
    return {preset: f"^({'|'.join(tests)})$" for preset, tests in found.items()}


def labelled(build, label):
    """The tests of a build folder that have this label."""
    text = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-L", f"^{label}$"],
                          check=True, capture_output=True, text=True).stdout
    return {test["name"] for test in json.loads(text)["tests"]}


def check_repeats(build, names):
    """What this build leaves to the sanitizer builds beside it has to be there; where they were not made, nothing is
    known."""
    others = [folder for folder in (build.parent / "asan", build.parent / "tsan")
              if (folder / "CTestTestfile.cmake").exists()]
    if len(others) < 2:
        return "the sanitizer builds are not here"
    lost = names - set().union(*(labelled(folder, "short") for folder in others))
    if lost:
        sys.exit(f"FAIL changed: no sanitizer build has the short dose of {' '.join(sorted(lost))}")
    return f"{len(names)} short doses are the sanitizer builds'"


def check(build):
    """Every test that make test leaves out is in a row, and one that only repeats is in another build."""
    names, repeated = labelled(build, "long"), labelled(build, "repeat")
    if not names:
        sys.exit("FAIL changed: no test has the label long")
    lost = [name for name in names | repeated if not any(re.fullmatch(tests, name) for *_, tests in ROWS)]
    if lost:
        sys.exit(f"FAIL changed: no row of tests/changed.py runs {' '.join(sorted(lost))}")
    if wanted(["README.md"]) or "release" not in wanted(["src/shard/bin.c"]):
        sys.exit("FAIL changed: a page asks for long doses, or src/shard/bin.c for none")
    print(f"{len(names)} long doses, each in a row; {check_repeats(build, repeated) if repeated else 'no repeats'}")


def changed_since(commit):
    """The files that differ; all of them where there is no such commit, as at a branch's first push."""
    if touched.git(".", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"):
        return touched.files(".", commit)
    files = touched.git(".", "ls-files")
    if files is None:
        sys.exit("changed.py: this is no clone: git names no files")
    print(f"changed.py: there is no commit '{commit}' here: all long doses", file=sys.stderr)
    return files.split()


def main():
    if sys.argv[1:2] == ["--check"] and len(sys.argv) == 3:
        return check(pathlib.Path(sys.argv[2]))
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for preset, pattern in wanted(changed_since(sys.argv[1])).items():
        print(preset, pattern)


if __name__ == "__main__":
    main()
