"""The profiling report: reading callgrind's files, and one real run of the script."""

import shutil

import pytest
from hakmem_lab.errors import LabError
from hakmem_lab.profile import cgfile, hardware, text, tools, work
from hakmem_lab.profile.shapes import TIMED, Profile
from scripts import fake_library, script

CALLGRIND = """\
# callgrind format
positions: instr line
events: Ir Dr Bcm
summary: 130 9 3

ob=(1) /lib/libx.so
fl=(1) x.c
fn=(1) malloc
0x100 10 10 5
+4 +1 20
+2 * 20 0 3
cob=(2) /lib/liby.so
cfi=(2) y.c
cfn=(2) helper
calls=4 0x50 1
* * 1000 500
-2 * 30

ob=(2)
fn=(2)
0x50 1 40 4
fn=(1)
+8 1 10

totals: 130 9 3
"""

PERF_STAT = """\
1234,,instructions:u,100,100.00,,
<not supported>,,cycles:u,0,100.00,,
77,,L1-dcache-load-misses:u,100,100.00,,
"""

PERF_REPORT = """\
# Overhead  Command  Shared Object  Symbol
    12.50%  prog     libc.so.6      [.] malloc
    41.51%  prog     prog           [.] run
"""


def test_costs_are_those_of_the_function_itself(tmp_path):
    file = tmp_path / "out"
    file.write_text(CALLGRIND)
    costs = cgfile.read(file)
    assert costs.total == [130, 9, 3]
    assert costs.functions["/lib/libx.so", "malloc"] == [80, 5, 3]
    assert costs.functions["/lib/liby.so", "helper"] == [40, 4, 0]
    code = costs.instructions["/lib/libx.so"]
    assert {address: c[0] for address, c in code.items()} == {0x100: 10, 0x104: 50, 0x106: 20}
    assert sum(costs.event("Ir", c) for c in costs.functions.values()) == 130
    assert costs.event("Nothing", [1]) == 0


def test_perf_output_is_read():
    assert hardware.counts(PERF_STAT) == {"instructions": 1234, "l1_misses": 77}
    found = hardware.shares(PERF_REPORT)
    assert [(name, where) for name, where, _ in found] == [("run", "prog"), ("malloc", "libc.so.6")]
    assert [share for _, _, share in found] == pytest.approx([0.4151, 0.125])


def test_missing_tools_and_unknown_work_are_named():
    with pytest.raises(LabError, match=r"no-such-tool is missing \(Debian package"):
        tools.need("no-such-tool")
    with pytest.raises(LabError, match="false: status 1"):
        tools.output(["false"])
    with pytest.raises(LabError, match="unknown workload"):
        work.find("none", None)


def test_findings_tell_losses_as_plainly_as_gains():
    timed = {**dict.fromkeys(TIMED, 1.0), "runs": 1}
    shares = [("run", "prog", 0.7), ("malloc", "libhakmem.so", 0.3)]
    ours = Profile("hakmem", "HAKMEM", "callgrind", 1, {"instructions": 30}, {"instructions": 30},
                   shares, timed=timed)  # fmt: skip
    theirs = Profile("system", "glibc", "callgrind", 1, {"instructions": 20}, {"instructions": 20},
                     timed={**timed, "ops_per_s": 2.0})  # fmt: skip
    said = " ".join(text.findings(ours, theirs))
    assert "30 against 20, 1.50 x (more)" in said and "(slower)" in said and "30%" in said
    chart = text.bars(ours, theirs)
    assert "#" * text.WIDTH in chart and "=" * round(text.WIDTH * 20 / 30) in chart


@pytest.mark.long
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_the_report_has_its_files(build, tmp_path):
    fake = fake_library(tmp_path / "libhakmem.so", "-g")
    done = script(
        build, "perf_report", "mixed:200K/32/1024", "--tool", "callgrind", "--lib",
        f"hakmem={fake}", "--out", tmp_path / "x", timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "x").iterdir()}
    assert names == {
        "PERF_ANALYSIS_EXECUTIVE_SUMMARY.md", "perf_analysis_summary.md",
        "perf_annotate_malloc.txt", "perf_malloc_annotate.txt", "perf_free_annotate.txt", "perf_comparison_chart.txt", "perf_hakmem_stats.txt",
        "perf_hakmem_hotspots.txt", "perf_hakmem_callgraph.txt", "perf_system_stats.txt",
        "perf_system_hotspots.txt", "perf_system_callgraph.txt",
    }  # fmt: skip
    assert "callgrind" in (tmp_path / "x" / "PERF_ANALYSIS_EXECUTIVE_SUMMARY.md").read_text()
    listing = (tmp_path / "x" / "perf_annotate_malloc.txt").read_text()
    for name, other in (("malloc", "free"), ("free", "malloc")):
        alone = (tmp_path / "x" / f"perf_{name}_annotate.txt").read_text()
        assert f"{name} of {fake}" in alone and f"{other} of {fake}" not in alone
    details = (tmp_path / "x" / "perf_analysis_summary.md").read_text()
    assert "`perf_phase2_*`" in details and "perf_free_annotate.txt" in details
    ours = next(line for line in listing.splitlines()[4:] if line.strip())
    assert int(ours.split()[0].replace(",", "")) > 50_000
    assert "run" in (tmp_path / "x" / "perf_system_hotspots.txt").read_text()
