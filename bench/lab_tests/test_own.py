"""lab compare: which allocators, the program as the user typed it, its page, Ctrl-C and going on."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hakmem_lab import compare, override, setup
from hakmem_lab.cost.measure import ENVIRONMENT_BYTES, _size, padded
from hakmem_lab.cost import programs
from hakmem_lab.cost.programs import Program
from hakmem_lab.errors import BadInput, LabError
from hakmem_lab.front import main
from hakmem_lab.launch import Launcher
from hakmem_lab.own import charts, find, measure, options, show
from hakmem_lab.own.command import row_of
from hakmem_lab.runner import Runner
from scripts import ROOT, marked, wait_until

# Keeps more and more, for some 40 looks of 20 ms.
GROWS = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 20; i++) {
        memset(malloc(200000), 1, 200000);
        for (int j = 0; j < 1000; j++) free(malloc(100));
        usleep(40000);
    }
    return 0;
}
"""


@pytest.fixture
def grows(tmp_path):
    path = tmp_path / "grows.c"
    path.write_text(GROWS)
    program = tmp_path / "grows"
    subprocess.run(["cc", "-O0", "-o", program, path], check=True, timeout=300)
    return [str(program)]


def run(build, *words, **more):
    return main(["compare", "--build", str(build), *map(str, words)])


def test_libraries_are_the_distributions_or_the_labs_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(find, "folders", lambda: [tmp_path])
    peer = tmp_path / "hakmem/peers/jemalloc-0.7.1-aa/libjemalloc.so"
    other = tmp_path / "hakmem/peers/jemalloc-scale-0.7.1-bb/libjemalloc.so"
    for path in (peer, other):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert find.library_of("jemalloc") == peer and find.library_of("tcmalloc") is None
    (tmp_path / "libjemalloc.so.2").write_text("")
    assert find.library_of("jemalloc") == tmp_path / "libjemalloc.so.2"
    found, missing = find.find("system,tcmalloc,jemalloc,mimalloc", {}, tmp_path)
    assert [one.name for one in found] == ["system", "jemalloc"]
    assert missing.startswith("left out, not on this machine: tcmalloc, mimalloc (Debian: ")
    with pytest.raises(LabError, match="none of these"):
        find.find("tcmalloc", {}, tmp_path)


def test_a_path_and_a_name_of_the_users_are_allocators(tmp_path):
    library = tmp_path / "libother.so.2"
    library.write_text("")
    found, _ = find.find(f"system,{library},mine+A=1", {"mine": str(library)}, tmp_path)
    assert [one.name for one in found] == ["system", "libother", "mine+A=1", "mine"]
    assert found[2].environment == {"A": "1"} and found[1].library == str(library)
    for text, said in (("emacs", "unknown allocator"), ("/no/such.so", "does not exist"),
                       (f"{library},{tmp_path}/../{tmp_path.name}/libother.so.2", "two allocators")):  # fmt: skip
        with pytest.raises(BadInput, match=said):
            find.find(text, {}, tmp_path)


def test_words_of_the_user_are_not_ours_and_its_folder_is_kept(build, launcher, tmp_path):
    row = row_of(["sh", "-c", "echo {n} {s} $PWD"], str(tmp_path))
    runner = Runner(launcher, build, [row], compare.Settings())
    assert runner.command(row, 7)[1:] == ["-c", "echo {n} {s} $PWD"]
    system, _ = find.find("system", {}, build)
    outcome, _ = runner.launch(row, system[0], 0)
    assert outcome.stdout.decode().split() == ["{n}", "{s}", str(tmp_path)]
    assert tmp_path.is_dir()  # and nobody removed it


def test_counted_runs_have_the_users_environment_in_one_size(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("LONG", "x" * ENVIRONMENT_BYTES)
    environ = measure.environment()
    assert environ["PYTHONHASHSEED"] == "7" and environ["PERL_HASH_SEED"] == "0"
    assert "LD_PRELOAD" not in environ
    program = Program("command", "x", ("true",), environment=tuple(environ.items()), folder="/")
    assert padded({**environ, "A": "1"}, _size(program))
    assert _size(Program("perl", "x", ("perl",), environment=(("A", "1"),))) == ENVIRONMENT_BYTES


def test_bad_input_is_known_before_anything_runs():
    for words, said in (([], "no program given"), (["--", "no-such-program"], "no program 'no-such"),
                        (["--resume", "x", "--rounds", "3"], "name no others"),
                        (["--resume", "x", "--", "true"], "name no others")):  # fmt: skip
        parser = options.parser()
        with pytest.raises(BadInput, match=said):
            parser.check(parser.parse_args(words))


def test_means_and_the_fastest_quarter():
    assert measure.mean_kb([(0, 10), (1, 20), (3, 99)]) == pytest.approx((10 + 40) / 3)
    assert measure.mean_kb([]) == 0 and measure.mean_kb([(1, 5)]) == 5
    assert show.fastest_quarter([5, 1, 2, 3, 4, 9, 9, 9]) == 1.5 and show.fastest_quarter([3]) == 3


def test_figures_that_one_allocator_lacks_are_shown_as_such():
    costs = {"a": {"faults": 3, "instructions": {"total": 9, "allocator": 2, "copies": 1}},
             "b": {"faults": 4}}  # fmt: skip
    lines = {line["key"]: line["values"] for line in charts.values(costs, ["a", "b", "c"])}
    assert lines["faults"] == [3, 4, None]


def test_time_memory_counts_and_a_page(build, tmp_path, grows, capsys):
    out = tmp_path / "out"
    assert run(build, "--alloc", "system", "--lib", f"slow={build}/libslow.so", "--rounds", 3,
               "--out", out, "--", *grows) == 0  # fmt: skip
    said = capsys.readouterr().out
    for part in ("fastest quarter", "mean RSS", "counted, one run each", "instructions of the whole",
                 "system calls", "report.html"):  # fmt: skip
        assert part in said, part
    samples = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    order = [(one["round"], one["allocator"]) for one in samples]
    assert [number for number, _ in order] == [1, 1, 2, 2, 3, 3]  # interleaved
    lines = json.loads((out / "timeline.json").read_text())
    for points in lines.values():
        half = [size for at, size in points if at > points[-1][0] / 2]
        # 4 MB in all; on a busy machine few of the looks come in time.
        assert len(points) > 3 and max(half) - points[0][1] > 1000, points
    costs = json.loads((out / "costs.json").read_text())
    assert costs["slow"]["instructions"]["total"] > 1.01 * costs["system"]["instructions"]["total"]
    page = (out / "report.html").read_text()
    for part in ('id="resident"', 'id="counted"', 'data-chart="resident"', 'data-chart="counted"'):
        assert part in page, part
    assert "<script src" not in page and "<link" not in page


def test_a_program_with_an_allocator_of_its_own_is_told_of(build, tmp_path, capsys):
    source = tmp_path / "own.c"
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(10)); return 0; }\n")
    program = tmp_path / "own"
    subprocess.run(["cc", "-O0", "-o", program, source, "-Wl,--no-as-needed", build / "libslow.so"],
                   check=True, timeout=300)  # fmt: skip
    for words, said in ((["--", program], True), (["--", "/bin/true"], False)):
        assert run(build, "--alloc", "system", "--rounds", 1, "--counts", 0, "--out", tmp_path / str(said),
                   *words) == 0  # fmt: skip
        shown = capsys.readouterr()
        assert ("allocator of its own, libslow.so" in shown.err) is said
        assert ("its own (libslow.so)" in shown.out) is said


@pytest.mark.parametrize("kept", [False, True])
def test_a_full_disk_is_one_line_with_the_folder(tmp_path, kept):
    folder = tmp_path / "out"
    with pytest.raises(LabError, match=f"cannot write to {folder}: No space left"):
        with compare.begun(folder):
            if kept:
                (folder / setup.NAME).write_text("{}")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert folder.exists() is kept
    with pytest.raises(FileNotFoundError):  # not the disk's
        with compare.begun(folder):
            open(tmp_path / "none").close()


def test_a_process_that_starts_after_the_first_look_is_seen_by_the_next():
    look = measure.Resident()
    with subprocess.Popen(["sh", "-c", "read line; sleep 60 & read line; kill $!"],
                          stdin=subprocess.PIPE, text=True, bufsize=1) as launcher:  # fmt: skip
        look(launcher.pid)
        assert look.points == []
        launcher.stdin.write("\n")
        for _ in range(600):
            if psutil.Process(launcher.pid).children():
                break
            time.sleep(0.05)
        look(launcher.pid)
        launcher.stdin.write("\n")
    assert len(look.points) == 1


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server")
def test_redis_server(with_hakmem, tmp_path, capsys, monkeypatch):
    """The server replays a log, which ends it; its own allocator is beside HAKMEM."""
    server = programs.choose("redis")[0]
    server.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = [word.replace("appendonly.aof", "work.aof") for word in server.words]
    log = (tmp_path / "appendonly.aof").read_bytes()
    commands, last = log[: log.rindex(b"*3")], log[log.rindex(b"*3") :]
    log = 4 * commands + last  # it lasts long enough to be looked at on a machine under load
    (tmp_path / "appendonly.aof").write_bytes(log)
    assert run(with_hakmem, "--alloc", "hakmem,system", "--rounds", 1, "--counts", 0, "--out", "out", "--",
               "sh", "-c", 'rm -rf append*dir; cp appendonly.aof work.aof; exec "$@"', "sh", *words) == 0  # fmt: skip
    shown = capsys.readouterr()
    (own,) = override.servers(Launcher(with_hakmem / "launch"), ["redis-server", "--version"], 20)
    assert ("allocator of its own" in shown.err) is ("libc." not in Path(own).name)
    cells = json.loads((tmp_path / "out/summary.json").read_text())["rows"][0]["allocators"]
    assert len(cells) == 2 and all(cell["rss_kb"] > 10_000 for cell in cells.values())
    lines = json.loads((tmp_path / "out/timeline.json").read_text())
    assert all(max(size for _, size in points) > 8_000 for points in lines.values())
    assert (tmp_path / "appendonly.aof").read_bytes() == log


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind")
def test_a_program_that_ends_by_exit_alone_is_counted(build, tmp_path):
    """Its calls are not: what counts them tells at the end."""
    assert run(build, "--alloc", "system", "--rounds", 1, "--out", tmp_path / "out", "--",
               "sh", "-c", "true") == 0  # fmt: skip
    cell = json.loads((tmp_path / "out/costs.json").read_text())["system"]
    assert cell["instructions"]["total"] > 1000 and cell["syscalls"]["total"] > 5


def test_a_static_program_is_told_of(build, tmp_path, capsys):
    status = run(build, "--alloc", "system", "--lib", f"slow={build}/libslow.so", "--rounds", 1,
                 "--out", tmp_path / "out", "--", build / "static")  # fmt: skip
    assert status == 1 and "NOT active" in capsys.readouterr().err.splitlines()[-1]


def test_results_that_are_there_are_not_written_over(tmp_path, capsys):
    for command, name in (("compare", "setup.json"), ("tune", "tune.json"), ("bench", "setup.json")):
        folder = tmp_path / command
        folder.mkdir()
        (folder / name).write_text("{}")
        with pytest.raises(SystemExit) as end:
            main([command, "--out", str(folder), *([] if command == "bench" else ["--", "true"])])
        said = capsys.readouterr().err
        assert end.value.code == 2 and said.count("\n") == 1 and f"--resume {folder}" in said, said
        assert os.listdir(folder) == [name]


def _stop(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", [(find, "with_own_malloc"), (compare.Engine, "plan_ahead")])
def test_an_end_before_the_set_up_leaves_nothing(build, tmp_path, grows, monkeypatch, place):
    monkeypatch.setattr(*place, _stop)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes").write_text("x")
    for out in (tmp_path / "out", mine):
        assert run(build, "--alloc=system", "--out", out, "--", *grows) == 130
    assert not (tmp_path / "out").exists()
    assert [file.name for file in mine.iterdir()] == ["notes"]


@pytest.mark.long
def test_an_interrupt_shows_what_there_is_and_resume_goes_on(build, tmp_path, grows):
    out, mark = tmp_path / "out", f"test-own-{os.getpid()}"
    environ = {**os.environ, "HAKMEM_BENCH_SUITE": mark, "PYTHONPATH": str(ROOT / "bench/lab")}
    words = [sys.executable, "-m", "hakmem_lab", "compare"]
    first = subprocess.Popen(
        [*words, "--build", build, "--alloc", "system", "--lib", f"slow={build}/libslow.so",
         "--rounds", "4", "--counts", "0", "--out", out, "--", *grows],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ,
    )  # fmt: skip
    lines = out / "samples.jsonl"
    assert wait_until(lambda: lines.is_file() and lines.read_text().count("\n") >= 3, 60)
    first.send_signal(signal.SIGINT)
    said, err = first.communicate(timeout=300)
    assert first.returncode == 130, err
    assert "stopped before the end" in said and f"compare --resume {out}" in said
    assert wait_until(lambda: not marked(mark)), "something was left running"
    before = lines.read_text().splitlines()
    again = subprocess.run([*words, "--resume", out], capture_output=True, text=True, env=environ,
                           timeout=300, check=False)  # fmt: skip
    assert again.returncode == 0, again.stderr
    after = lines.read_text().splitlines()
    assert after[: len(before)] == before and len(after) == 8
    assert set(json.loads((out / "timeline.json").read_text())) == {"system", "slow"}


def test_a_lab_without_its_packages_says_which():
    """As an installed one, which has the Python of the machine."""
    code = ("import sys; sys.path.insert(0, sys.argv.pop(1)); from hakmem_lab.front import main; "
            "sys.exit(main(['compare', '--', 'true']))")  # fmt: skip
    done = subprocess.run([sys.executable, "-S", "-c", code, ROOT / "bench/lab"], capture_output=True,
                          text=True, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "needs the Python packages rich" in done.stderr and "python3-scipy" in done.stderr
