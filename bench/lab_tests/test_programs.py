"""The benchmark programs: arguments, output, checksums, and nothing left running."""

import os
import re
import shutil
import subprocess
import sys

import psutil
import pytest
from conftest import PROGRAMS, compile_program
from hakmem_lab import parse
from hakmem_lab.paths import ROOT, WORKLOADS, build_folder
from hakmem_lab.workloads import ROWS
from scripts import wait_until

SCENARIOS = ("string-builder", "token-stream", "small-objects", "json", "mir", "vm")

# program -> arguments of a tiny run, and the figures that its line must have
TINY = {
    "bench_bulk": (["100", "64", "2", "10"], {"live_kb"}),
    "bench_larson": (["0.05", "8", "1000", "100", "10", "1", "2"], {"live_kb", "lives"}),
    "larson": (["0.05", "65536", "1048576", "10", "10", "1", "1"], {"live_kb"}),
    "bench_cross": (["0.05", "64", "16", "8", "3"], {"live_kb"}),
    "bench_churn": (["20", "10"], {"growth"}),
    "bench_prodcons": (["0.05", "16"], {"overhead", "live_kb"}),
    "bench_large": (["0.05", "65536", "100000", "10", "1", "7", "3"], {"live_kb", "ns_per_op"}),
    "bench_realloc": (["2", "100", "16"], {"copied_mb", "moved", "ns_per_realloc"}),
    "bench_calloc": (["2000", "16", "70000", "50"], {"touched", "live_kb"}),
    "bench_aligned": (["5000", "50", "16", "65536"], {"live_kb"}),
    "bench_idle": (["8", "0.05", "1"], {"kept", "returned", "lazyfree_kb"}),
    "bench_latency": (["0.05", "16", "65536", "4"], {"p50_ns", "p99_ns", "p999_ns", "max_ns"}),
    "bench_startup": (["5", "100"], {"faults", "us_per_start"}),
}
FRAG_FIGURES = {"frag", "live_kb", "floor_kb", "peak_kb", "end_kb"}
RUNS = {
    **{name: ([name, *args], figures) for name, (args, figures) in TINY.items()},
    **{f"bench_scenario {name}": (["bench_scenario", name, "30000"], {"checksum", "ns_per_op"})
       for name in SCENARIOS},
    "bench_scenario mir": (["bench_scenario", "mir", "200"], {"checksum"}),
    **{f"bench_frag {name}": (["bench_frag", name, "4"], FRAG_FIGURES)
       for name in ("phase", "drift", "cache")},
    "bench_frag hour": (["bench_frag", "hour", "1"], {"growth", *FRAG_FIGURES}),
    "bench_calloc new": (["bench_calloc", "1000", "65536", "1048576", "0"], {"touched"}),
}  # fmt: skip

BAD = [
    ["bench_scenario"],
    ["bench_scenario", "xml"],
    ["bench_scenario", "json", "0"],
    ["bench_scenario", "json", "1", "2", "3"],
    ["bench_frag"],
    ["bench_frag", "spots"],
    ["bench_frag", "phase", "-1"],
    ["bench_aligned", "10", "10", "16", "100"],
    ["bench_aligned", "10", "10", "64", "16"],
    ["bench_calloc", "10", "100", "50"],
    ["bench_larson", "1", "9", "8"],
    ["larson", "x"],
    ["bench_large", "0"],
    ["bench_large", "1", "2", "1"],
    ["bench_realloc", "1", "1"],
    ["bench_idle", "1", "1", "2"],
    ["bench_latency", "1", "8"],
    ["bench_startup", "none"],
    ["bench_prodcons", "1", "0"],
    ["bench_churn", "1", "1", "7"],
    ["bench_cross", "1", "64", "64", "0"],
    ["bench_cross", "1", "64", "64", "1", "1"],
    ["bench_bulk", "1", "1", "3"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All programs, built here with the flags that matter."""
    built = tmp_path_factory.mktemp("programs")
    extra = [str(path) for path in sorted(PROGRAMS.glob("scenario_*.c"))]
    for name in {*TINY, "bench_frag", "bench_scenario"}:
        source = "bench_larson.c" if name == "larson" else f"{name}.c"
        compile_program(source, built / name, "-pthread", "-fno-builtin", "-Wall", "-Wextra",
                        *(extra if name == "bench_scenario" else ()))  # fmt: skip
    return built


@pytest.fixture(scope="module")
def hakmem():
    path = build_folder() / "libhakmem.so"
    if not path.exists():
        pytest.fail(f"{path} does not exist; run 'make' first")
    return path


def run(command, library=None, **options):
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = str(library)
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, check=False,
        env={**environment, **options},
    )  # fmt: skip


@pytest.mark.parametrize("command", BAD, ids=" ".join)
def test_bad_arguments_give_one_line_and_status_2(folder, command):
    done = run([folder / command[0], *command[1:]])
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and command[0] in done.stderr


@pytest.mark.parametrize("name", RUNS)
def test_a_tiny_run_prints_what_the_engine_reads(folder, hakmem, name):
    """On both allocators: the lines, the figures, and the same checksum."""
    (program, *args), figures = RUNS[name]
    checksums = set()
    for library in (None, hakmem):
        done = run([folder / program, *args], library)
        assert done.returncode == 0, done.stderr
        found = parse.throughput(done.stdout)
        assert found["ops_per_s"] > 0 and figures <= set(found["extra"])
        assert parse.peak_rss_kb(done.stderr) > 500
        checksums.add((found["extra"].get("checksum"), found["extra"].get("ops")))
    assert len(checksums) == 1


def test_quantiles_are_in_order(folder):
    extra = parse.throughput(run([folder / "bench_latency", "0.1"]).stdout)["extra"]
    assert 0 <= extra["p50_ns"] <= extra["p99_ns"] <= extra["p999_ns"]
    assert extra["p999_ns"] <= 1.07 * extra["max_ns"] and extra["max_ns"] > 0


def test_a_scenario_depends_on_its_seed(folder):
    def checksum(*seed):
        done = run([folder / "bench_scenario", "json", "5000", *seed])
        return parse.throughput(done.stdout)["extra"]["checksum"]

    assert checksum("1") == checksum("1") != checksum("2")


def test_realloc_sees_a_copy(folder, tmp_path):
    """An allocator whose realloc always copies is found out; glibc's does not."""
    source = tmp_path / "copying.c"
    source.write_text(
        """
        #include <malloc.h>
        #include <stdlib.h>
        #include <string.h>
        void *realloc(void *old, size_t size) {
            size_t before = malloc_usable_size(old);
            void *block = malloc(size);
            memcpy(block, old, before < size ? before : size);
            free(old);
            return block;
        }
        """
    )
    library = tmp_path / "copying.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", library, source], check=True)
    plain, copying = (
        parse.throughput(run([folder / "bench_realloc", "1", "4096", "64"], lib).stdout)["extra"]
        for lib in (None, library)
    )
    assert plain["copied_mb"] == 0
    assert copying["copied_mb"] == 2 + 4 + 8 + 16 + 32


def test_idle_tells_what_stays(folder, tmp_path):
    """A free that does nothing keeps all of it."""
    source, library = tmp_path / "leaking.c", tmp_path / "leaking.so"
    source.write_text("void free(void *block) { (void)block; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", library, source], check=True)
    extra = parse.throughput(run([folder / "bench_idle", "16", "0.05"], library).stdout)["extra"]
    assert extra["kept"] > 0.99 and extra["returned"] < 0.01


def leftovers(session):
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def test_nothing_is_left_running(folder):
    for command in (
        ["larson", "0.1", "8", "100", "10", "1", "1", "4"],
        ["bench_idle", "4", "0.05", "1"],
        ["bench_startup", "5"],
    ):
        process = subprocess.Popen(
            [folder / command[0], *command[1:]], start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.wait(300) == 0
        assert not leftovers(process.pid)


# --- real programs -------------------------------------------------------------

REAL = [row for row in ROWS if row.group == "real"]
LOAD = WORKLOADS / "redis" / "load.py"


def there(row):
    return all(shutil.which(command) for command, _ in row.needs)


# Of these the CTests `programs.*` compare what the same program prints for another input.
TWINS = ("python3", "gcc", "node", "perl", "sqlite3")
DEAR = ("z3", "ruby", "ghostscript")  # for seconds; other interpreters are tried each time


@pytest.mark.parametrize("row", [
    pytest.param(row, id=row.key, marks=[pytest.mark.long] if row.key.split(":")[1].startswith((*TWINS, *DEAR)) else [])
    for row in REAL if row.kind == "command"
])  # fmt: skip
def test_real_programs_print_the_same_on_hakmem(row, hakmem, tmp_path):
    if not there(row):
        pytest.skip(f"needs {', '.join(command for command, _ in row.needs)}")
    both = [
        subprocess.Popen(
            [row.program, *row.args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env={**os.environ, **dict(row.environment), **preload}, cwd=tmp_path,
        )
        for preload in ({}, {"LD_PRELOAD": str(hakmem)})
    ]  # fmt: skip
    outputs = {process.communicate(timeout=300)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(outputs) == 1 and outputs != {b""}
    assert not list(tmp_path.iterdir())


redis_only = pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("redis-benchmark")), reason="needs redis"
)


@redis_only
def test_redis_gives_the_server_the_allocator(hakmem):
    for library in (None, hakmem):
        process = subprocess.Popen(
            [sys.executable, LOAD, "500"], start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **({"LD_PRELOAD": str(library)} if library else {})},
        )  # fmt: skip
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert parse.throughput(out)["ops_per_s"] > 0 and parse.peak_rss_kb(err) > 1000
        assert not leftovers(process.pid)


def processes_with(text):
    found = []
    for process in psutil.process_iter():
        try:
            if text in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@redis_only
def test_redis_ends_with_its_launcher(launcher, tmp_path):
    """The server and the load both name their socket, which is in our folder."""
    seen = [0]

    def look(_pid):
        seen.append(len(processes_with(str(tmp_path))))

    for limit in (1, 10, 100):  # on a busy machine it may be seconds until both are there
        outcome = launcher.run(
            [sys.executable, LOAD, "100000000"], limit=limit, environment={"TMPDIR": str(tmp_path)},
            while_running=look,
        )  # fmt: skip
        assert outcome.cost["timed_out"]
        if max(seen) >= 2:
            break
    assert max(seen) >= 2
    assert wait_until(lambda: not processes_with(str(tmp_path)))


@pytest.mark.parametrize("words", [["x"], ["0"], ["1", "2"]])
def test_redis_refuses_bad_arguments(words):
    done = run([sys.executable, LOAD, *words])
    assert done.returncode == 2 and done.stderr.count("\n") == 1


# --- the table -----------------------------------------------------------------


def test_rows_name_what_exists():
    built = (ROOT / "bench" / "CMakeLists.txt").read_text()
    for row in ROWS:
        if row.kind == "rate" and not os.path.isabs(row.program):
            assert re.search(rf"\b{row.program}\b", built), row.key
        for word in row.args:
            for path in re.findall(rf"{re.escape(str(WORKLOADS))}\S*", word):
                assert os.path.exists(path), row.key


def test_rows_of_the_sizes():
    quick = [row for row in ROWS if "quick" in row.sizes]
    assert [row.group for row in quick] == ["mixed"] * 8
    titles = [row.title for row in ROWS]
    assert len(set(titles)) == len(titles)
    groups = {row.group for row in ROWS if "standard" in row.sizes}
    assert groups == {row.group for row in ROWS if "full" in row.sizes}
