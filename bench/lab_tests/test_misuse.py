"""`lab misuse`: what it makes of the program's lines, and the program on the system's allocator."""

import subprocess

import pytest
from hakmem_lab import misuse
from hakmem_lab.errors import LabError
from hakmem_lab.paths import ROOT

LINES = "a\t8\tcall\na\t16\tlater\na\t24\tmissed\nb\t8\tnone\nb\t16\tmissed\nb\t24\tnone\n"


def test_counts_and_table():
    kinds = misuse.read(LINES)
    assert misuse.counted(kinds["a"].values()) == (1, 1, 3)
    assert misuse.counted(kinds["b"].values()) == (0, 0, 1)
    page = misuse.table({"one": kinds, "two": misuse.read(LINES.replace("later", "call"))})
    assert "| a | 1 + 1 of 3 | 2 of 3 |" in page
    assert "| b | 0 of 1 | 0 of 1 |" in page
    assert "| all | 1 + 1 of 4 | 2 of 4 |" in page


def test_a_name_stands_once_in_the_head_of_a_column():
    assert misuse.headed("glibc", "glibc 2.36") == "glibc 2.36"
    assert misuse.headed("HAKMEM", "1.0.0") == "HAKMEM 1.0.0"
    assert misuse.headed("null", "") == "null"


def test_an_outcome_that_nobody_knows():
    with pytest.raises(LabError):
        misuse.read("a\t8\tperhaps\n")


def test_glibc_finds_a_double_free_and_no_mismatch(tmp_path):
    program = tmp_path / "misuse"
    subprocess.run(
        ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fno-builtin-malloc", "-fno-builtin-free",
         "-pthread", ROOT / "bench/programs/misuse.c", "-o", program],
        check=True, timeout=300,
    )  # fmt: skip
    kinds = {}
    for kind in ("double free", "new, free"):
        done = subprocess.run([program, kind], capture_output=True, text=True, check=True, timeout=300)
        kinds.update(misuse.read(done.stdout))
    assert set(kinds["double free"].values()) == {"call"}
    assert not {"call", "later"} & set(kinds["new, free"].values())
