"""The command line as a user has it: bad input, files, clean end."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from hakmem_lab import bench, override, realrun
from hakmem_lab.errors import LabError
from hakmem_lab.paths import ROOT
from hakmem_lab.workloads import ROWS


def lab(*arguments, timeout=300):
    return subprocess.run(
        [sys.executable, "-m", "hakmem_lab", *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "no command"),
        (["paint"], "no command 'paint'"),
        (["bench", "--rounds", "0"], "not in 1..1000"),
        (["bench", "--rounds", "many"], "not a number"),
        (["bench", "--seconds", "-1"], "not in"),
        (["bench", "--rows", "nothing"], "unknown row 'nothing'"),
        (["bench", "--alloc", "best"], "unknown allocator 'best'"),
        (["bench", "--lib", "x"], "needs name=path"),
        (["bench", "--lib", "x=/no/such.so"], "does not exist"),
        (["run", "--limit", "0"], "not in"),
        (["run", "--", "'unclosed quote"], "No closing quotation"),
        (["run", "--alloc", "system", "--", "no-such-program"], "no-such-program"),
        (["run", "--alloc", "system", "--", "false"], "exit status 1"),
        (["run", "--alloc", "system", "--lib", "x=NULL", "--", "false"], "system allocator either"),
    ],
)
def test_bad_input_gives_one_line(build, arguments, said):
    if len(arguments) > 1:
        arguments = [arguments[0], "--build", build, *arguments[1:]]
    done = lab(*(f"x={build}/libnull.so" if word == "x=NULL" else word for word in arguments))
    assert done.returncode != 0
    assert said in done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_no_build_folder_names_the_remedy(tmp_path):
    done = lab("bench", "--build", tmp_path)
    assert done.returncode == 1 and "run 'make' first" in done.stderr


def test_comparison_writes_samples_summary_and_chart(build, tmp_path):
    done = lab(
        "bench", "--build", build, "--alloc", "system,null", "--lib", f"hakmem={build}/libnull.so",
        "--rows", "mixed:200K/32/1024,bulk:1600/64/order", "--rounds", "2", "--seconds", "0.02",
        "--warm", "0", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "200K/32/1024" in done.stdout and "verdict" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [row["key"] for row in summary["rows"]] == [
        "mixed:200K/32/1024",
        "bulk:1600/64/order",
    ]
    assert summary["rows"][0]["best"] == "system"
    assert summary["rows"][0]["ratio"]["value"] > 0
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == 2 * 2 * 3
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "chart.svg").read_text()[:1000]


def test_run_proves_the_override_and_compares(build, tmp_path):
    report = tmp_path / "run.json"
    done = lab(
        "run", "--build", build, "--lib", f"hakmem={build}/libnull.so", "--rounds", "2", "--out",
        report, "--", build / "bench_bulk", "100", "64", "0", "100",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"HAKMEM is active: malloc, free, calloc, realloc bound to {build}" in done.stderr
    assert "peak RSS MB" in done.stdout and "page faults" in done.stdout
    times = next(line for line in done.stdout.splitlines() if "time s" in line)
    assert "~" in times and "[" not in times  # runs of milliseconds, and two of them
    assert len(json.loads(report.read_text())["runs"]) == 2


def test_run_refuses_a_program_that_the_override_does_not_reach(build):
    done = lab(
        "run", "--build", build, "--lib", f"hakmem={build}/libnull.so", "--", build / "static",
    )  # fmt: skip
    assert done.returncode == 1
    assert "the override is NOT active" in done.stderr and "static" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing_running(build, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "hakmem_lab", "run", "--build", str(build), "--alloc", "system",
         "--", "sleep", "601"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    begun, children = time.monotonic(), []
    while time.monotonic() - begun < 300 and len(children) < 2:  # the launcher and sleep
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.05)
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130 and "stopped before the end" in out
    assert len(children) == 2
    assert not any(child.is_running() for child in children)


def test_rows_are_those_that_were_agreed():
    groups = [row.group for row in ROWS]
    assert groups.count("mixed") == 8 and groups.count("bulk") == 18
    assert groups.count("threads") == 5 and groups.count("prodcons") == 2
    assert len({row.key for row in ROWS}) == len(ROWS)
    assert [row.key for row in bench.choose_rows("threads:cross,threads")] == [
        "threads:cross", "threads:larson-1", "threads:larson-2", "threads:larson-4",
        "threads:churn",
    ]  # fmt: skip
    with pytest.raises(LabError):
        bench.choose_rows(",")


def test_bindings_are_read_per_process(tmp_path):
    bound = "binding file {} [0] to {} [0]: normal symbol `{}' [GLIBC_2.2.5]\n"
    (tmp_path / "loader.1").write_text(
        bound.format("prog", "/lib/x.so", "malloc") + bound.format("prog", "/lib/x.so", "free")
    )
    (tmp_path / "loader.2").write_text(
        bound.format("prog", "/lib/x.so", "malloc") + bound.format("prog", "/lib/libc.so", "free")
    )
    assert override.bindings(tmp_path, "/lib/x.so") == {"malloc": 2, "free": 1}


def test_commands_as_words_or_as_one_string():
    for words in (["python3", "-c", "print(1)"], ["python3 -c 'print(1)'"]):
        job = realrun.jobs_for(words)[0]
        assert job.command == ("python3", "-c", "print(1)") and not job.fixed
    ours = realrun.jobs_for([])
    assert len(ours) >= 2 and all(job.fixed for job in ours)
    assert all(job.environment["PYTHONMALLOC"] == "malloc" for job in ours)


@pytest.mark.parametrize(
    "arguments, environment, said",
    [
        (["--size", "huge"], {}, "invalid choice"),
        (["--minutes", "0"], {}, "not in"),
        (["--alloc", "system+X"], {}, "needs +NAME=VALUE"),
        (["--alloc", "system+HAKMEM_X=1"], {}, "the system allocator has no option HAKMEM_X"),
        (["--alloc", "hakmem-pgo"], {}, "make pgo"),
        (["--alloc", "system", "--base", "hakmem"], {}, "--base hakmem: not among"),
        (["--alloc", "system"], {"BENCH_TIMEOUT": "long"}, "BENCH_TIMEOUT must be seconds"),
        (["--alloc", "system", "--out", "/proc/none"], {}, "cannot write to /proc/none"),
        (["--resume", "/no/such"], {}, "cannot resume"),
    ],
)
def test_bad_options_of_a_comparison(build, monkeypatch, arguments, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if said == "make pgo" and (ROOT / "build/pgo/libhakmem.so").exists():
        pytest.skip("it is built here")
    done = lab("bench", "--build", build, *arguments)
    assert done.returncode != 0 and said in done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
