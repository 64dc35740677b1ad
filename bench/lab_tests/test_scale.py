"""`lab scale` on allocators whose transfers are known exactly."""

import json
import subprocess
import sys

import pytest
from hakmem_lab.errors import LabError
from hakmem_lab.paths import ROOT
from hakmem_lab.scale import build as scale_build
from hakmem_lab.scale import figures, show
from hakmem_lab.scale.options import LOADS, MACHINE
from hakmem_lab.scale.runs import Cell, Runner
from hakmem_lab.scale.symbols import Names

SOURCES = ROOT / "bench" / "scale"
OPS = 200


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("scale") / "scale"
    subprocess.run(
        ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fno-builtin", "-rdynamic", "-pthread",
         *sorted(SOURCES.glob("*.c")), "-o", target],
        check=True, timeout=300,
    )  # fmt: skip
    return target


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """{name: Library} of the small allocators."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name in ("private", "locked", "grouped", "broken", "constant"):
        path = scale_build.model(SOURCES / "models" / f"{name}.c", folder / f"lib{name}.so")
        found[name] = scale_build.Library(name, name, path)
    for mode, name in enumerate(("shared", "paired", "apart")):
        source = folder / f"{name}.c"
        text = (SOURCES / "models" / "counted.c").read_text().replace("MODEL_MODE", str(mode))
        source.write_text(text.replace('"model.h"', f'"{SOURCES}/models/model.h"'))
        path = scale_build.model(source, folder / f"lib{name}.so")
        found[name] = scale_build.Library(name, name, path)
    return found


@pytest.fixture
def runner(program, tmp_path):
    machine = {name: plain for name, (_, _, plain, _) in MACHINE.items()}
    return Runner(program, {**machine, "ops": OPS, "warm": OPS, "seats": 3}, tmp_path, 60.0)


def count(runner, library, load="mixed", cpus=2, seed=1):
    return runner.run(Cell(load, library, cpus, seed))


def total(counts, name, own=True):
    return sum(s[name] for s in counts["sites"] if not own or figures.is_own(s, counts))


def mallocs(counts):
    """Of a model that counts: its additions."""
    return total(counts, "updates")


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("cpus", [2, 5])
def test_an_allocator_that_shares_nothing_moves_nothing(runner, models, load, cpus):
    if load == "prodcons" and cpus % 2:
        pytest.skip("it has pairs of threads")
    counts = count(runner, models["private"], load, cpus)
    assert counts["operations"] > 0 and counts["ns"] > 0
    if load == "churn":  # a new thread's variables lie where those of one that ended lay
        assert total(counts, "updates") == total(counts, "mutexes") == 0
        return
    assert total(counts, "moves") == total(counts, "upgrades") == 0
    if load in ("mixed", "realloc", "large", "huge"):
        assert total(counts, "moves", own=False) == 0


def test_in_the_ring_each_block_moves_once_for_its_reader(runner, models):
    counts = count(runner, models["private"], "ring", 4)
    assert counts["operations"] == 4 * OPS
    assert total(counts, "moves", own=False) == counts["operations"]
    assert total(counts, "upgrades", own=False) == total(counts, "false_moves", own=False) == 0


def test_a_shared_counter_moves_with_each_turn(runner, models):
    """On two CPUs with a quantum of one access they take turns, and each addition is a move."""
    runner.machine["quantum-ns"] = 1
    counts = count(runner, models["shared"], "ring", 2)
    assert mallocs(counts) == 2 * OPS
    assert 2 * OPS - 2 <= total(counts, "moves") <= 2 * OPS
    assert total(counts, "invalidations") == total(counts, "moves")
    assert total(counts, "false_moves") == total(counts, "upgrades") == 0


def test_counters_in_one_line_are_false_sharing(runner, models):
    runner.machine["quantum-ns"] = 1
    counts = count(runner, models["paired"], "ring", 2)
    moves = total(counts, "moves")
    assert 2 * OPS - 4 <= moves <= 2 * OPS
    # the last move is not judged: its line is still there at the end
    assert moves - 2 <= total(counts, "false_moves") <= moves


def test_counters_in_lines_of_their_own_share_nothing(runner, models):
    counts = count(runner, models["apart"], "ring", 8)
    assert mallocs(counts) == 8 * OPS
    assert total(counts, "moves") == total(counts, "upgrades") == 0


def test_one_cpu_moves_nothing(runner, models):
    for load in ("mixed", "ring", "server"):
        counts = count(runner, models["shared"], load, 1)
        assert total(counts, "moves", own=False) == 0


def test_a_lock_is_counted_and_waited_for(runner, models):
    names = Names()
    found = figures.of_run(names, count(runner, models["locked"], "ring", 8))
    assert found["locks"] == 1
    assert found["wait_ns"] > 0 and found["failed"] > 0
    alone = figures.of_run(names, count(runner, models["locked"], "ring", 1))
    assert alone["locks"] == 1 and alone["wait_ns"] == alone["failed"] == 0


def test_locks_of_the_process_are_counted_apart(runner, models):
    def found(name, cpus):
        return figures.of_run(Names(), count(runner, models[name], "ring", cpus))

    assert found("locked", 8)["process_locks"] == 1
    groups = found("grouped", 8)
    assert groups["locks"] == 1 and groups["process_locks"] == 0
    assert found("grouped", 3)["process_locks"] == pytest.approx(2 / 3, rel=0.02)  # one of two locks
    assert found("locked", 1)["process_locks"] == 0


def test_a_bound_falls_with_what_is_shared(runner, models):
    def bound(name, cpus):
        return figures.of_run(Names(), count(runner, models[name], "mixed", cpus))["bound_mops"]

    assert bound("private", 8) == pytest.approx(4 * bound("private", 2), rel=0.1)
    assert bound("locked", 8) < 2 * bound("locked", 2)


def test_far_transfers_cost_more_and_are_counted(runner, models):
    near = count(runner, models["shared"], "ring", 4)
    runner.machine["node"] = 1
    far = count(runner, models["shared"], "ring", 4)
    assert total(near, "far", own=False) == 0
    assert total(far, "far") == total(far, "moves") > 0
    assert far["ns"] > 2 * near["ns"]


def test_a_full_cache_forgets(runner, models):
    large = count(runner, models["private"], "mixed", 2)
    runner.machine |= {"cache-kib": 16, "ways": 1}
    small = count(runner, models["private"], "mixed", 2)
    assert small["accesses"] == large["accesses"]
    assert small["fetches"] > large["fetches"] + OPS / 4


def test_what_nobody_writes_is_copied_and_not_moved(runner, models):
    """A line that a full cache has given up, and other CPUs still have."""
    runner.machine |= {"cache-kib": 16, "ways": 1, "warm": 3000, "ops": 3000}
    counts = count(runner, models["constant"], "ring", 4)
    assert counts["copies"] > counts["operations"] / 4
    assert total(counts, "moves") == total(counts, "false_moves") == 0
    assert count(runner, models["private"], "ring", 4)["copies"] == 0


def test_the_same_seed_gives_the_same_figures(runner, models):
    for load in ("pool", "churn", "server"):
        first, again = (count(runner, models["locked"], load, 4, seed=3) for _ in range(2))
        assert first == again
        assert first != count(runner, models["locked"], load, 4, seed=4)


def test_lines_and_places_have_names(runner, models):
    counts, names = count(runner, models["shared"], "ring", 2), Names()
    taken = figures.top_process_locks(names, count(runner, models["locked"], "ring", 8), 3)
    assert [row["locks"] for row in taken] == [1] and "lock" in taken[0]["line"]
    top = figures.top_lines(names, counts, 1)[0]
    assert "counters" in top["line"] and "model_take" in top["code"][0]
    assert top["transfers"] == pytest.approx(total(counts, "moves") / counts["operations"], rel=0.05)
    place = figures.top_places(names, counts, 200)
    assert any("model_take" in row["code"] for row in place)


def test_each_access_is_that_of_a_function(runner, models):
    counts, names = count(runner, models["shared"], "ring", 2), Names()
    assert total(counts, "accesses", own=False) == counts["accesses"]
    rows = figures.top_functions(names, counts, 100)
    found = {row["function"]: row["accesses"] for row in rows}
    assert found["model_take"] >= 1  # one addition for each block, at least
    assert sum(found.values()) == pytest.approx(counts["accesses"] / counts["operations"])


def test_an_allocator_that_gives_a_block_twice_is_found(runner, models):
    with pytest.raises(LabError, match="two users"):
        count(runner, models["broken"], "mixed", 2)


def test_an_allocator_that_is_not_there_is_found(runner, models, tmp_path):
    missing = scale_build.Library("missing", "missing", str(tmp_path / "no.so"))
    with pytest.raises(LabError, match="malloc is not"):
        count(runner, missing, "mixed", 2)


@pytest.mark.parametrize("words", [[], ["load=none"], ["load=ring", "cpus=0"], ["load=ring", "x=1"],
                                   ["load=ring", "cpus=2x"]])  # fmt: skip
def test_the_program_refuses_bad_words(program, words):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_the_program_knows_the_workloads_of_the_lab(program):
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == list(LOADS)


def test_the_machine_is_described(tmp_path):
    root = scale_build.describe(tmp_path, 10, 4)
    system = root / "sys/devices/system"
    assert (system / "cpu/online").read_text() == "0-9\n"
    assert (system / "node/node2/cpulist").read_text() == "8-9\n"
    assert (system / "cpu/cpu5/cache/index3/shared_cpu_list").read_text() == "4-7\n"
    assert not (system / "node/node3").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["--cpus", "2,500"], "not in 1..192"),
        (["--loads", "none"], "unknown workload 'none'"),
        (["--alloc", "best"], "unknown allocator 'best'"),
        (["--seeds", "0"], "not in 1..100"),
        (["--ways", "7"], "a multiple of --ways"),
        (["--publish"], "belong together"),
    ],
)
def test_bad_input_gives_one_line(words, said):
    done = subprocess.run([sys.executable, "-m", "hakmem_lab", "scale", *words],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.long
def test_table_and_page_are_written(program, models, tmp_path, monkeypatch, capsys):
    """The command from options to files, on two models in place of real allocators."""
    from hakmem_lab import front
    from hakmem_lab.scale import command

    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "scale").symlink_to(program)
    monkeypatch.setattr(command.build, "libraries",
                        lambda wanted: [models["shared"], models["private"]])  # fmt: skip
    words = ["--build", folder, "--loads", "ring,mixed", "--cpus", "2,4", "--seeds", "2", "--ops",
             "100", "--warm", "100", "--out", tmp_path / "out"]  # fmt: skip
    _, options = front.read(["scale", *map(str, words)])
    assert command.run(options) == 0
    document = json.loads((tmp_path / "out/scale.json").read_text())
    ring = document["loads"][0]
    assert ring["name"] == "ring" and len(ring["rows"]) == 4 and document["notes"] == []
    assert ring["tops"][0]["lines"][0]["line"].startswith("counters")
    page = (tmp_path / "out/scale.html").read_text()
    assert page.count("<svg") == 2 and "a bound" in page
    shown = capsys.readouterr().out
    assert "bound Mop/s" in shown and "counters" in shown
    assert show.digits(0.00004) == "4.0e-05"

    def refuse(cell):
        raise AssertionError(f"{cell} is counted already")

    monkeypatch.setattr(command.Runner, "run", lambda self, cell: refuse(cell))
    _, options = front.read(["scale", *map(str, words[:-2]), "--resume", str(tmp_path / "out")])
    assert command.run(options) == 0
    assert json.loads((tmp_path / "out/scale.json").read_text())["loads"] == document["loads"]


def test_the_page_keeps_what_is_written_by_hand(tmp_path):
    from hakmem_lab.scale import published

    def row(transfers):
        one = {name: {"median": transfers} for name in published.SHOWN}
        return {"allocator": "hakmem", "cpus": 4, "runs": 3, "figures": one}

    document = {
        "commit": "0123", "cpus": [2, 4], "machine": {name: 7 for name in MACHINE}, "seeds": 3,
        "allocators": {"hakmem": {"title": "HAKMEM"}, "null": {"title": "null"}},
        "loads": [{"name": "ring", "rows": [row(0.25)], "tops": []}],
    }  # fmt: skip
    page = tmp_path / "SCALE.md"
    page.write_text(f"old\n\n{published.BY_HAND}\n\nkept\n")
    published.write([document, document], page)
    text = page.read_text()
    assert text.count("| ring | 4 | 0.25 · 0.25 · 0.25 · 0.25 |") == 2 and "null" not in text.split("|")[3]
    assert text.endswith(f"{published.BY_HAND}\n\nkept\n") and "old" not in text
