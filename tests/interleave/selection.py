"""Which mutants the short dose tries, in a made-up repository; and that every row of every group fits the sources,
also those that no short dose tries: selection.py ROOT"""

import os
import pathlib
import subprocess
import sys
import tempfile
import types

import mutants
from mutants import touched

TABLE = '"old and untouched" "old, of the file that changes"'
ROWS = [("room", "old and untouched", "word", "other"),
        ("room", "old, of the file that changes", "size", "other"),
        ("room", "new", "word", "third")]
SOURCES = {"src/meta/room.c": "word\n", "src/meta/room.h": "size\n"}
failures = 0


def check(what, found, wanted):
    global failures
    if found != wanted:
        failures += 1
        print(f"FAIL selection: {what}: {found}, not {wanted}")


def commit(root, day):
    when = {name: f"{1_800_000_000 + day * touched.DAY} +0000"
            for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")}
    for words in (["add", "."], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", root, *words], check=True, env={**os.environ, **when})


def write(root, file, text):
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)


def names(root, **options):
    args = types.SimpleNamespace(group="room", root=root, heavy=False, **options)
    unbroken = types.SimpleNamespace(files={file: (root / file).read_text() for file in SOURCES})
    rows, count = mutants.Selection(args, unbroken).rows("room")
    check("rows of the group", count, len(ROWS))
    return [name for name, *_ in rows]


def days(root):
    """A commit every other day: each stands alone in its day."""
    for file, text in SOURCES.items():
        write(root, file, text)
    write(root, "tests/interleave/mutants_made_up.py", TABLE)
    every = [name for _, name, *_ in ROWS]
    first = every[:1]  # always, so that the test can fail
    check("without git", names(root), every)
    subprocess.run(["git", "init", "-q", root], check=True)
    commit(root, 0)
    check("without a commit of the day before", names(root), every)
    write(root, "README.md", "a day on which no source changed\n")
    commit(root, 2)
    check("what is new", names(root), first + ["new"])
    write(root, "src/meta/room.h", "size /* but */\n\n")
    check("a comment", names(root), first + ["new"])
    write(root, "src/meta/room.h", "size, but\n")
    check("what is not committed", names(root), every)
    commit(root, 4)
    write(root, "tests/interleave/mutants_made_up.py", TABLE + '"new"')
    commit(root, 6)
    write(root, "README.md", "another\n")
    commit(root, 8)
    check("nothing", names(root), first)
    write(root, "src/meta/room.h", "size and\n")
    commit(root, 10)
    check("what is committed", names(root), every[:2])
    write(root, "tests/interleave/explore.c", "of all groups\n")
    commit(root, 12)
    mutants.SAMPLE = 2
    check("the explorer", names(root), every[::2])
    write(root, "src/meta/room.h", "size or\n")
    mutants.MOST = 1
    check("more than there is time for", names(root), first)


def fit(root, tables):
    """Each row of the tables has its one place in the sources."""
    sources = {group: mutants.with_edits(mutants.checked_files(root, group), edits)
               for group, (_, _, edits) in mutants.GROUPS.items()}
    for group, name, *edit in (row for table in tables for row in table.MUTANTS):
        try:
            mutants.edited(sources[group], *edit[:2])
        except LookupError as problem:
            yield f"{group}: {name}: {problem}"


def rows_fit(root):
    for problem in fit(root, mutants.TABLES):
        check("a row", problem, "")
    stale = types.SimpleNamespace(MUTANTS=[("room", "stale", "no such text", "")])
    check("rows that do not fit", len(list(fit(root, (stale,)))), 1)


def main():
    rows_fit(pathlib.Path(sys.argv[1]))
    mutants.TABLES = (types.SimpleNamespace(__name__="mutants_made_up", MUTANTS=ROWS),)
    with tempfile.TemporaryDirectory() as root:
        days(pathlib.Path(root))
    print(f"selection: {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
