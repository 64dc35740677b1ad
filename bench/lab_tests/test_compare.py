"""The engine as a function: commands as rows, what is skipped, what is resumed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hakmem_lab import compare, needs, samples
from hakmem_lab.errors import LabError
from hakmem_lab.settings import Settings
from hakmem_lab.tables import Allocator, Row

SYSTEM = Allocator("system", "glibc", kind="system")
SETTINGS = Settings(rounds=2, seconds=0.01, warm_mib=0, retries=0)
SHELL = Row("real:sh", "real", "a shell", "sh", ("-c", "echo x >file; test \"$WORD\" = '{ n }'"),
            kind="command", needs=(("sh", "dash"),), environment=(("WORD", "{ n }"),),
            memory="frag")  # fmt: skip


@pytest.fixture
def session(build, quiet):
    return compare.Session(build, console=quiet)


@pytest.fixture
def null(build):
    return Allocator("null2", "null", str(build / "libnull.so"))


def test_a_command_is_a_row(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = dataclasses.replace(SHELL, args=(SHELL.args[0], SHELL.args[1] + "; echo frag=1.25"))
    summary = session.run([row], [SYSTEM], SETTINGS, tmp_path / "out")
    cell = summary["rows"][0]["allocators"]["system"]
    for sample in samples.load(tmp_path / "out" / "samples.jsonl"):
        assert sample.ops_per_s * sample.cost["wall_s"] == pytest.approx(1)
    assert cell["rss_kb"] > 300 and cell["minor_faults"] > 10 and cell["frag"] == 1.25
    assert not (tmp_path / "file").exists()  # it had a folder of its own
    assert [s["kind"] for s in summary["rows"]] == ["command"]


def test_a_command_that_the_preload_does_not_reach_is_skipped_and_said(
    session, build, null, tmp_path
):
    row = Row("real:static", "real", "static", str(build / "static"), (), kind="command")
    summary = session.run([row], [SYSTEM, null], SETTINGS, tmp_path)
    assert "NOT active" in summary["skipped"][0]["reason"] and summary["rows"] == []
    assert "NOT active" in (tmp_path / "report.html").read_text()


@pytest.fixture
def no_installer(tmp_path, monkeypatch):
    """As on a machine where nothing can be installed."""
    (tmp_path / "installer").write_text("exit 1\n")
    monkeypatch.setattr(needs, "INSTALLER", tmp_path / "installer")


def test_a_missing_program_skips_its_row_only(session, tmp_path, no_installer):
    lost = dataclasses.replace(SHELL, key="real:no", needs=(("no-such", "no-such-package"),))
    here = dataclasses.replace(SHELL, needs=())
    summary = session.run([lost, here], [SYSTEM], SETTINGS, tmp_path)
    assert summary["skipped"] == [
        {"row": "real:no", "reason": "needs no-such (Debian: apt-get install no-such-package)"}
    ]
    assert [row["key"] for row in summary["rows"]] == ["real:sh"]
    assert "no-such-package" in (tmp_path / "report.html").read_text()
    assert "no-such-package" in session.console.file.getvalue()


def test_what_is_there_is_not_lacking():
    assert needs.lacking((("sh", "dash"), ("py:json", "python3"))) == ""


def test_a_measure_without_its_tool(no_installer):
    with pytest.raises(LabError, match="--x needs no-such .Debian: apt-get install no-such-pkg"):
        needs.require("no-such", "no-such-pkg", "--x")


def test_a_run_that_takes_too_long_is_a_failure(session, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_TIMEOUT", "0.2")
    row = Row("real:long", "real", "long", "sleep", ("600",), kind="command")
    summary = session.run([row], [SYSTEM], SETTINGS, tmp_path)
    assert "time limit" in summary["failures"][0]["reason"]


def test_an_unwritable_folder_is_one_line(session, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot write to .*file"):
        session.run([SHELL], [SYSTEM], SETTINGS, tmp_path / "file")


def drop_last_lines(folder, count):
    """As if it had been ended there, in the middle of a line."""
    path = folder / "samples.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-count]) + lines[-count][:20])
    return len(lines)


def test_resume_runs_only_what_is_missing(session, null, tmp_path):
    rows = [SHELL, Row("bulk:b", "bulk", "b", "bench_bulk", ("100", "64", "0", "{n}"), count=10)]
    session.run(rows, [SYSTEM, null], SETTINGS, tmp_path)
    before = samples.load(tmp_path / "samples.jsonl")
    assert drop_last_lines(tmp_path, 3) == len(before) == 8
    summary = session.run(rows, [SYSTEM, null], SETTINGS, tmp_path, resume=True)
    after = samples.load(tmp_path / "samples.jsonl")
    assert after[:5] == before[:5]
    wanted = {(r.key, a.name, n) for r in rows for a in (SYSTEM, null) for n in (1, 2)}
    assert sorted((s.row, s.allocator, s.round) for s in after) == sorted(wanted)
    assert summary["total_samples"] == 8 and not summary["interrupted"]


def test_resume_refuses_what_has_changed(session, build, null, tmp_path):
    session.run([SHELL], [SYSTEM, null], SETTINGS, tmp_path)

    def resume(row=SHELL, allocator=null):
        session.run([row], [SYSTEM, allocator], SETTINGS, tmp_path, resume=True)

    with pytest.raises(LabError, match="row real:sh is not what it was"):
        resume(row=dataclasses.replace(SHELL, args=("-c", "true")))
    with pytest.raises(LabError, match=r"null2 is not what it was \( -> 2\)"):
        resume(allocator=dataclasses.replace(null, version="2"))
    with pytest.raises(LabError, match="null2 is not what it was .file"):
        resume(allocator=dataclasses.replace(null, library=str(build / "libleak.so")))
    with pytest.raises(LabError, match="null2 is not what it was .environment"):
        resume(allocator=dataclasses.replace(null, environment={"A": "1"}))
    with pytest.raises(LabError, match="null2 is not what it was"):
        resume(allocator=dataclasses.replace(SYSTEM, name="other"))
    with pytest.raises(LabError, match="cannot resume: .*setup.json"):
        session.run([SHELL], [SYSTEM], SETTINGS, tmp_path / "new", resume=True)


def bench(build, *words):
    return [sys.executable, "-m", "hakmem_lab", "bench", "--build", str(build), *map(str, words)]


def test_ctrl_c_keeps_results_and_resume_ends_them(build, tmp_path):
    """From the command line: stopped in the middle, reported, gone on with."""
    process = subprocess.Popen(
        bench(build, "--alloc", "system,null", "--rows", "mixed:200K/32/1024,mixed:1M/512/256",
              "--rounds", 3, "--seconds", "0.3", "--warm", 0, "--out", tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines, begun = tmp_path / "samples.jsonl", time.monotonic()
    while time.monotonic() - begun < 300 and not (lines.exists() and lines.stat().st_size):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "stopped before the end" in out, err
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["interrupted"] and 0 < summary["total_samples"] < 12
    assert "Stopped before its end" in (tmp_path / "report.html").read_text()
    done = subprocess.run(bench(build, "--resume", tmp_path, "--rounds", 2),
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2 and "name no others" in done.stderr
    done = subprocess.run(bench(build, "--resume", tmp_path), capture_output=True, text=True,
                          timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert not summary["interrupted"] and summary["total_samples"] == 12


@pytest.mark.long
def test_counters_from_the_command_line(build, tmp_path):
    done = subprocess.run(
        bench(build, "--alloc", "system,null", "--rows", "bulk:1600/64/order", "--rounds", 1,
              "--seconds", "0.01", "--warm", 0, "--out", tmp_path, "--syscalls", "--instructions"),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    calls = summary["syscalls"]["bulk:1600/64/order"]["system"]
    assert calls["calls"]["execve"] == 1 and calls["total"] >= 10
    per_op = {
        name: cell["per_op"] for name, cell in summary["instructions"]["bulk:1600/64/order"].items()
    }
    assert 20 < per_op["null"] < per_op["system"] < 2000
