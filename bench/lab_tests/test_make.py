"""The Makefile's steps, seen by what make would run."""

import shutil
import subprocess

import pytest
from hakmem_lab.paths import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*words):
    """The output of make -n; nothing of a make that runs these tests may reach it."""
    return subprocess.run(
        ["env", "-u", "MAKEFLAGS", "-u", "MFLAGS", "-u", "MAKELEVEL", "make", "-n", "-C", ROOT,
         *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "goals, linked",
    [([], "release"), (["all"], "release"), (["debug"], "debug"), (["-j4", "debug"], "debug"),
     (["release"], None), (["debug", "release"], None), (["asan"], None)],
)  # fmt: skip
def test_the_names_in_the_root_are_those_of_the_build_asked_for(goals, linked):
    """`make -j4 debug`, then HAKMEM_TIMING=1 LD_PRELOAD=./libhakmem.so prog, works as typed."""
    done = make(*goals)
    assert done.returncode == 0, done.stderr
    found = {name for name in ("release", "debug") if f"ln -sfn build/{name}/" in done.stdout}
    assert found == ({linked} if linked else set())


def test_a_program_linked_in_the_root_finds_its_library_there():
    """`gcc prog.c -L. -lhakmem; LD_LIBRARY_PATH=. ./a.out`: the loader asks for the SONAME, which git leaves alone."""
    named = next(line for line in make("all").stdout.splitlines() if "ln -sfn build/release/" in line)
    assert "libhakmem.so.1" in named.split()
    assert "/libhakmem.so.1" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_wrong_pattern_or_commit_is_told_in_one_line(tmp_path):
    """`make check T='unit.cache('`, and a commit with a typing error, which has hours of tests run."""
    (tmp_path / "CTestTestfile.cmake").write_text("")
    done = subprocess.run(["python3", ROOT / "tests/support/targets.py", tmp_path, "unit.cache("],
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "'unit.cache('" in done.stderr, done.stderr
    done = subprocess.run(["python3", "tests/changed.py", "no-such-commit"], cwd=ROOT,
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0 and done.stdout, done.stderr  # a branch's first push has no commit before it
    assert done.stderr.count("\n") == 1 and "no commit 'no-such-commit'" in done.stderr, done.stderr


def test_a_pattern_keeps_its_dollars():
    """`make check T='a$|b$'`: make would read $| as a variable of its own, and another test would run."""
    pattern = "unit.cache$|unit.dyn$"
    lines = [line for line in make("check", f"T={pattern}").stdout.splitlines() if "unit.cache" in line]
    assert len(lines) == 3 and all(f"'{pattern}'" in line for line in lines), lines
