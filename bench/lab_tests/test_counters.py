"""What strace and callgrind print."""

import pytest
from hakmem_lab import cli, counters, needs
from hakmem_lab.errors import LabError

STRACE = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 62.10    0.001244           3       400           madvise
 30.00    0.000601          20        30         2 mmap
  0.00    0.000000           0         1           execve
------ ----------- ----------- --------- --------- ----------------
100.00    0.001845           4       431         2 total
"""


def test_strace():
    found = counters.parse_strace(STRACE)
    assert found == {"total": 431, "calls": {"madvise": 400, "mmap": 30, "execve": 1}}
    with pytest.raises(LabError, match="counted nothing"):
        counters.parse_strace("")


def test_callgrind():
    plain = counters.parse_callgrind("events: Ir\nsummary: 123456\n\nfn=(1)\n")
    assert plain == {"instructions": 123456, "misses": 0}
    text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nfn=(1)\ntotals: 99 30 20 5 3 4 0 0 0\n"
    assert counters.parse_callgrind(text) == {"instructions": 99, "misses": 7}
    with pytest.raises(LabError, match="no total"):
        counters.parse_callgrind("")


@pytest.mark.parametrize("option, tool", [("--syscalls", "strace"), ("--instructions", "valgrind")])
def test_a_missing_tool_is_named_before_anything_runs(monkeypatch, option, tool):
    monkeypatch.setattr(needs, "lacking", lambda pairs: "not there")
    options = cli.bench_parser().parse_args([option])
    with pytest.raises(LabError, match=f"{option} needs {tool} .Debian: apt-get install {tool}"):
        counters.chosen(options)
