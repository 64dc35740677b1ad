"""The scripts as a user calls them: help, bad input, refused knobs, results, clean ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from hakmem_lab.front import SCRIPTS, SUITES
from scripts import MARK, ROOT, command, environment, fake_library, marked, name_of, script, wait_until

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

AXES = {name: suite.axes for name, suite in SUITES.items() if suite.axes}
ALL_KNOBS = " ".join(axis.knob for axes in AXES.values() for axis in axes) + " PROFILE TINY_PROFILE"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A library without these options and without hakmem_option_get."""
    return fake_library(tmp_path_factory.mktemp("old") / "libhakmem.so")


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """A library with all of them that can be asked."""
    return fake_library(
        tmp_path_factory.mktemp("new") / "libhakmem.so", "-DANSWERS", f'-DKNOWN=" {ALL_KNOBS} "'
    )


def test_every_script_of_the_table_is_there():
    wanted = {
        "prof_sweep", "save_prof_sweep", "run_bench_suite", "ab_sweep_mid", "ab_fast_mid",
        "ab_rcap_probe_drain", "run_larson", "larson", "head_to_head_large", "ab_l25_tc",
        "bench_large_profiles", "kill_bench", "perf_report",
    }  # fmt: skip
    assert set(SCRIPTS) == wanted
    for name in wanted:
        path = ROOT / "scripts" / f"{name}.sh"
        assert os.access(path, os.X_OK), path
        assert len(path.read_text().splitlines()) <= 5


@pytest.mark.parametrize(
    "name, arguments, variables, said",
    [
        ("prof_sweep", ["-t", "1,0"], {}, "0 is not in 1..1024"),
        ("ab_sweep_mid", [], {"CAPS": "8;16"}, "'8;16' is no value"),
        ("perf_report", ["no-such-workload"], {}, "unknown workload"),
        ("run_larson", ["--alloc", "best"], {}, "unknown allocator 'best'"),
    ],
)
def test_bad_values_are_one_line(build, name, arguments, variables, said):
    done = script(build, name, *arguments, **variables)
    assert done.returncode != 0 and said in done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", AXES)
def test_a_knob_that_the_library_lacks_is_refused_by_name(build, old, tmp_path, name):
    done = script(build, name, "--lib", f"hakmem={old}", "--out", tmp_path / "x")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "this libhakmem has no option" in done.stderr
    assert all(f"HAKMEM_{axis.knob}" in done.stderr for axis in AXES[name])
    assert not (tmp_path / "x").exists()


@pytest.mark.long
def test_the_same_script_works_once_the_library_has_the_knobs(build, new, tmp_path):
    done = script(
        build, "ab_fast_mid", "--lib", f"hakmem={new}", "--out", tmp_path, PROBES="1 2",
        RETURNS="2", ROUNDS="3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    names = {s["b"] for s in summary["statements"]}
    both = "hakmem+TRYLOCK_PROBES={}+RING_RETURN_DIV=2"
    assert names == {both.format(1), both.format(2)}
    assert {s["a"] for s in summary["statements"]} == {"hakmem"}
    assert all(s["low"] <= s["value"] <= s["high"] for s in summary["statements"])
    page = (tmp_path / "MID_FAST_AB.md").read_text()
    assert "# TRYLOCK_PROBES x RING_RETURN_DIV (B) against HAKMEM's defaults (A)" in page
    assert "| 1 / 2 | " in page and "| 2 / 2 | " in page and "Made of 1 row, 3 rounds" in page
    assert "TRYLOCK_PROBES / RING_RETURN_DIV" in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100
    assert (tmp_path / "hakmem_mid-2K-32K_T1.log").read_text().count("Throughput = ") == 3


@pytest.mark.long
def test_profiles_beside_other_allocators(build, new, tmp_path):
    done = script(
        build, "head_to_head_large", "--alloc", "system", "--lib", f"hakmem={new}", "--out",
        tmp_path, "-t", "1,2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "HEAD2HEAD_LARGE.md").read_text()
    assert "PROFILE LARGE_P1" in page and "PROFILE LARGE_P2_TC" in page
    assert "no verdict" in page and "1 round: no intervals and no verdicts" in page
    assert len(list(tmp_path.glob("*_T2.log"))) == 2 * 3


@pytest.mark.long
@pytest.mark.parametrize("name", ["head_to_head_large", "bench_large_profiles"])
def test_the_library_has_the_large_profiles(with_hakmem, tmp_path, name):
    """A profile that it lacks ends the script with the library's own words."""
    words = ("--alloc", "system") if name == "head_to_head_large" else ()
    library = with_hakmem / "libhakmem.so"
    done = script(with_hakmem, name, *words, "--lib", f"hakmem={library}", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    profiles = {entry for s in summary["statements"] for entry in (s["a"], s["b"])}
    assert {"hakmem+PROFILE=LARGE_P1", "hakmem+PROFILE=LARGE_P2_TC"} <= profiles


@pytest.mark.long
def test_sweep_is_kept_by_date_and_added_to(build, old, tmp_path):
    arguments = ("-t", "1,2", "-s", "1", "--alloc", "hakmem", "--lib", f"hakmem={old}", "-m", "3K", "-M", "4K")
    for _ in range(2):
        done = script(build, "save_prof_sweep", *arguments, "--out", tmp_path)
        assert done.returncode == 0, done.stderr
    day = time.strftime("%Y-%m-%d")
    assert (tmp_path / f"{day}_SWEEP_NOTES.md").read_text().count("# Sweep of ") == 2
    logs = sorted(path.name for path in (tmp_path / day).iterdir())
    assert logs == [f"hakmem_mid-3072-4096_T{n}.log" for n in (1, 2)]


@pytest.mark.long
def test_larson_by_hand_by_name_and_the_whole_suite(build, old, tmp_path):
    ours = ("--alloc", "hakmem", "--lib", f"hakmem={old}", "--out", tmp_path)
    by_hand = script(build, "run_larson", "-d", "0.05", "-p", "burst", "-m", "8", "-M", "64", *ours)
    assert by_hand.returncode == 0, by_hand.stderr
    assert (tmp_path / "hakmem_larson-burst-8-64_T1.log").exists()
    guard = script(build, "larson", "guard", *ours)
    assert guard.returncode == 1 and "no option HAKMEM_TINY_PROFILE" in guard.stderr
    assert not list(tmp_path.glob("*guard*"))
    whole = script(build, "run_bench_suite", "--rows", "mixed:200K/32/1024", *ours)
    assert whole.returncode == 0 and (tmp_path / "HEAD2HEAD.md").exists()


@pytest.mark.parametrize("name", ["prof_sweep", "save_prof_sweep"])
def test_a_folder_that_cannot_be_written_is_one_line(build, old, tmp_path, name):
    (tmp_path / "file").write_text("")
    done = script(build, name, "--out", tmp_path / "file" / "x", "--lib", f"hakmem={old}")
    assert done.returncode == 1 and "cannot write to" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_crash_is_reported_and_the_rest_is_kept(build, tmp_path):
    bad = fake_library(tmp_path / "libbad.so", "-DCRASHES=3000")
    done = script(
        build, "prof_sweep", "-s", "2", "-M", "4096", "--alloc", "hakmem,system", "--lib",
        f"hakmem={bad}", "--out", tmp_path / "x",
    )  # fmt: skip
    assert done.returncode == 1
    assert "SIGABRT" in done.stderr and "Traceback" not in done.stderr
    assert "**Failed:**" in (tmp_path / "x" / "SWEEP.md").read_text()
    assert "failed: " in (tmp_path / "x" / "hakmem_mid-2049-4096_T1.log").read_text()
    assert "Throughput" in (tmp_path / "x" / "system_mid-2049-4096_T1.log").read_text()


def test_every_run_is_bounded(build, old, tmp_path):
    done = script(
        build, "run_larson", "-d", "600", "--alloc", "hakmem", "--lib", f"hakmem={old}", "--out",
        tmp_path, BENCH_TIMEOUT="0.3", KILL_GRACE="0.2",
    )  # fmt: skip
    assert done.returncode == 1 and "time limit" in done.stderr


def _long_run(build, old, tmp_path, mark):
    process = subprocess.Popen(
        command("run_larson", "-d", "600", "--alloc", "hakmem", "--lib", f"hakmem={old}", "--out",
                tmp_path),
        env=environment(build, **{MARK: mark}), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    started = wait_until(lambda: "bench_larson" in map(name_of, marked(mark)))
    if not started:
        os.killpg(process.pid, signal.SIGKILL)
    assert started
    return process


def test_interrupt_leaves_nothing_running(build, old, tmp_path):
    mark = f"test-int-{os.getpid()}"
    process = _long_run(build, old, tmp_path / "x", mark)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "stopped" in err
    assert wait_until(lambda: not marked(mark))


def test_kill_bench_ends_this_suite_and_nothing_else(build, old, tmp_path):
    mark = f"test-kill-{os.getpid()}"
    process = _long_run(build, old, tmp_path / "x", mark)
    deaf = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN);"
         "print('ready', flush=True); time.sleep(600)"],
        env={**os.environ, MARK: mark}, stdout=subprocess.PIPE,
    )  # fmt: skip
    deaf.stdout.readline()
    namesake = shutil.copy("/bin/sleep", tmp_path / "bench_larson")
    others = [
        subprocess.Popen([namesake, "600"], env={**os.environ, MARK: f"{mark}-other"}),
        subprocess.Popen([namesake, "600"]),
    ]
    try:
        alone = script(build, "kill_bench", "-n", **{MARK: mark})
        assert alone.stdout.startswith(f"spared: {process.pid} (") and process.poll() is None
        done = script(build, "kill_bench", "--all", KILL_GRACE="3", **{MARK: mark})
        assert done.returncode == 0, done.stderr
        assert re.search(r"ended [4-9] processes, [1-9] of them by KILL", done.stdout)
        assert not marked(mark)
        assert process.wait(300) in (130, -signal.SIGKILL)
        assert deaf.wait(300) == -signal.SIGKILL
        assert all(other.poll() is None for other in others)
        again = script(build, "kill_bench", **{MARK: mark})
        assert "no benchmark" in again.stdout
    finally:
        for other in (*others, deaf):
            other.kill()
            other.communicate()


def test_kill_bench_leaves_a_run_of_another_session_alone(build, old, tmp_path):
    """Someone else's report in the same checkout; what such a run leaves behind is ended."""
    mark = f"test-others-{os.getpid()}"
    process = _long_run(build, old, tmp_path / "x", mark)  # in a session of its own
    try:
        done = script(build, "kill_bench", **{MARK: mark})
        assert done.returncode == 0 and "no benchmark of this checkout is left" in done.stdout
        assert f"spared: {process.pid} (" in done.stdout and "--all" in done.stdout
        assert process.poll() is None and len(marked(mark)) >= 3
        process.kill()
        process.communicate()
        done = script(build, "kill_bench", **{MARK: mark})
        assert "spared" not in done.stdout and not marked(mark)
    finally:
        process.kill()
        script(build, "kill_bench", "--all", **{MARK: mark})


def test_no_variable_of_a_script_looks_like_an_option():
    """Exported, it reaches the library, which warns of every HAKMEM_ name but these."""
    read = re.compile(r'(?:getenv\("|environ(?:\.get\(|\[)"|\$\{)(HAKMEM_[A-Z_]+)')
    files = [*ROOT.glob("scripts/*"), *ROOT.glob("bench/lab/**/*.py"), *ROOT.glob("tools/hakmem/*.c")]
    names = {name for file in files if file.is_file() for name in read.findall(file.read_text())}
    assert {"HAKMEM_BENCH_BUILD", "HAKMEM_BENCH_NO_INSTALL"} <= names
    assert [name for name in names if not name.startswith("HAKMEM_BENCH_")] == []


def test_nothing_of_these_tests_is_left():
    ours = [p for p in psutil.Process().children(recursive=True) if "bench_" in name_of(p)]
    assert ours == []
