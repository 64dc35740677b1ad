"""Names of files are bytes: a folder, a program, an argument or a profile may have one that is no UTF-8, also on a
terminal that takes UTF-8 only."""

import os
import subprocess
import sys

import pytest
from scripts import ROOT, environment
from test_heap import TEXT

ODD = os.fsdecode(b"odd\xff")


def lab(build, folder, *words):
    """The command in a process of its own, with the stdout that Python has under en_US.UTF-8."""
    return subprocess.run(
        [sys.executable, "-m", "hakmem_lab", *map(str, words)], cwd=folder, capture_output=True, timeout=300, check=False,
        env=environment(build, PYTHONPATH=str(ROOT / "bench/lab"), PYTHONIOENCODING="utf-8:strict"),
    )  # fmt: skip


def good(done):
    assert done.returncode == 0 and b"Traceback" not in done.stderr, f"{done.stderr.decode(errors='replace')[-1500:]}"


@pytest.fixture
def folder(tmp_path):
    """A folder of such a name, with a profile and a program of such names."""
    place = tmp_path / ODD
    place.mkdir()
    (place / f"{ODD}.heap").write_text(TEXT)
    (place / ODD).write_text("#!/bin/sh\nexit 0\n")
    (place / ODD).chmod(0o755)
    return place


def test_a_profile_becomes_a_file_and_a_page(build, folder):
    done = lab(build, folder, "prof", f"{ODD}.heap")
    good(done)
    assert done.stdout.startswith(b"odd\xff.heap.pb.gz: ")  # the name itself: one can copy it
    done = lab(build, folder, "heap_report", f"{ODD}.heap", "-o", f"{ODD}.html")
    good(done)
    assert (folder / f"{ODD}.html").exists()


def test_a_program_is_compared(build, folder):
    done = lab(build, folder, "compare", "--alloc", "system", "--lib", f"slow={build}/libslow.so", "--rounds", 1,
               "--counts", 0, "--build", build, "--out", f"{ODD}.out", "--", f"./{ODD}", ODD)  # fmt: skip
    good(done)
    assert b"odd\\xff" in done.stdout  # in tables and drawings it can be read
    assert "odd\\xff" in (folder / f"{ODD}.out" / "report.html").read_text()
