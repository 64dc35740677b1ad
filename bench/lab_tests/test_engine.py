"""The runner with a launcher that only pretends."""

import json
from pathlib import Path

import pytest
from hakmem_lab.engine import PATIENCE, Engine
from hakmem_lab.launch import Outcome
from hakmem_lab.placement import Copies
from hakmem_lab.runner import Runner
from hakmem_lab.settings import Settings
from hakmem_lab.tables import Allocator, Row

SYSTEM = Allocator("system", "glibc", kind="system")
FAST = Allocator("fast", "fast", library="/lib/fast.so")
LIMIT = Allocator("null", "null", library="/lib/null.so", kind="limit")
ROW = Row("g:r", "mixed", "r", "prog", ("{n}", "x"), count=100, headroom=1.5, null=True)
TIMED = Row("g:t", "threads", "t", "prog", ("{s}",))

# seconds per step of the pretended program, by library
COSTS = {None: 1e-6, "/lib/fast.so": 2e-7, "/lib/null.so": 1e-7}


class Pretender:
    """Answers as the programs would, `fail` names libraries whose program dies."""

    def __init__(self, fail=()):
        self.fail, self.runs = fail, []

    def run(self, command, library=None, limit=60.0, environment=None, folder=None):
        self.runs.append((command, library))
        bad = library in self.fail and "empty" not in str(command[0])
        cost = {"exit": 1 if bad else 0, "signal": 0, "timed_out": False, "user_s": 0.0,
                "sys_s": 0.0, "minor_faults": 1, "major_faults": 0}  # fmt: skip
        last = command[-2] if len(command) > 2 else command[-1]
        seconds = int(last) * COSTS[library] if str(last).isdigit() else 0.5
        out = f"Throughput = {1 / COSTS[library]:.0f} ops/s [a=1] time={seconds:.3f}s\n"
        return Outcome(cost, out.encode(), b"broken" if bad else b"[RSS] max_kb=1500\n")


class Listener:
    def __init__(self):
        self.total = self.finished = 0
        self.notes = []

    def start(self, total, left=None):
        self.total = total

    def more(self, count):
        self.total += count

    def done(self):
        self.finished += 1

    def note(self, text):
        self.notes.append(text)

    def step(self, text): ...

    def say(self, text): ...

    def end(self, seconds): ...


@pytest.fixture
def make(build, tmp_path, monkeypatch):
    monkeypatch.setattr("hakmem_lab.runner.built", lambda folder, name: folder / name)
    monkeypatch.setattr(Runner, "warm", lambda self: None)
    monkeypatch.setattr("hakmem_lab.machine.OtherLoad.stop", lambda self, own: 0.0)

    def engine(rows=(ROW,), allocators=(SYSTEM, FAST, LIMIT), fail=(), **settings):
        lines = (tmp_path / "samples.jsonl").open("w")
        wanted = Settings(**{"rounds": 3, "seconds": 0.3, "warm_mib": 0, **settings})
        return Engine(
            Pretender(fail), build, list(rows), list(allocators), wanted, Listener(), lines
        )

    return engine


def test_every_sample_has_the_wanted_length(make):
    engine = make()
    result = engine.run()
    assert len(result.samples) == 9
    assert min(s.seconds for s in result.samples) >= 0.3
    assert max(s.seconds for s in result.samples) < 1.2  # and is not needlessly long
    assert engine.listener.finished == engine.listener.total


def test_a_far_slower_allocator_gets_a_smaller_count(make, monkeypatch):
    monkeypatch.setitem(COSTS, "/lib/fast.so", 1e-4)
    result = make().run()
    slow = [s for s in result.samples if s.allocator == "fast"]
    assert slow[0].seconds > 10 and slow[1].seconds < 1
    assert result.counts["g:r"]["fast"] < result.counts["g:r"]["system"]


def test_every_round_has_every_allocator_in_shuffled_order(make):
    result = make(rounds=12).run()
    orders = set()
    for number in range(1, 13):
        order = tuple(s.allocator for s in result.samples if s.round == number)
        assert sorted(order) == ["fast", "null", "system"]
        orders.add(order)
    assert len(orders) > 2


def test_each_round_has_its_own_copies(tmp_path):
    """Of the library and of the program: no round depends on where one file's pages lie."""
    library, build = tmp_path / "fast.so", tmp_path / "build"
    build.mkdir()
    library.write_bytes(b"code")
    copies = Copies(build)
    first = copies.of(library, 0)
    assert [copies.of(library, 0), copies.of(library, 1), copies.of(library, 1)].count(first) == 1
    rounds = [copies.of(library, number) for number in (2, 3, 3, 0, 4)]
    assert len(set(rounds)) == 3 and rounds[1] == rounds[2] == rounds[3]
    assert Path(rounds[-1]).read_bytes() == Path(rounds[-2]).read_bytes() == b"code"
    assert not Path(rounds[0]).exists() and Path(rounds[-1]).name == "fast.so"
    assert copies.of(None, 5) is None and copies.of("/lib/none.so", 5) == "/lib/none.so"


def test_the_runner_starts_the_copies(make, build, tmp_path, monkeypatch):
    library = tmp_path / "fast.so"
    library.write_bytes(b"code")
    program = tmp_path / "prog"
    program.write_bytes(b"code")
    engine = make(allocators=(SYSTEM, Allocator("fast", "fast", library=str(library))))
    engine.runner.programs["prog"] = program
    used = []
    run = engine.runner.launcher.run
    engine.runner.launcher.run = lambda command, library=None, *rest, **more: (
        used.append((command[0], library)), run(command, library and "/lib/fast.so", *rest, **more)
    )[1]  # fmt: skip
    engine.run()
    timed = [(str(p), lib) for p, lib in used if str(p).endswith("prog")]
    assert len({p for p, _ in timed}) >= 3 and len({lib for _, lib in timed if lib}) == 3
    assert str(program) not in {p for p, _ in timed}


def test_rows_without_null_leave_it_out(make):
    result = make(rows=(TIMED,)).run()
    assert {s.allocator for s in result.samples} == {"system", "fast"}
    assert set(result.counts["g:t"].values()) == {0}


def test_a_failing_allocator_is_noted_once_and_the_rest_goes_on(make):
    engine = make(fail=("/lib/fast.so",))
    result = engine.run()
    assert result.failures == {("g:r", "fast"): "exit status 1: broken"}
    assert len(engine.listener.notes) == 1
    assert {s.allocator for s in result.samples} == {"system", "null"}


def test_interrupt_keeps_what_is_done(make, tmp_path):
    engine = make()
    kept = engine._keep

    def keep(sample):
        kept(sample)
        if len(engine.result.samples) == 2:
            raise KeyboardInterrupt

    engine._keep = keep
    result = engine.run()
    assert result.interrupted and len(result.samples) == 2
    lines = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"] for line in lines] == ["g:r"] * 2


def test_disturbed_runs_are_repeated_up_to_a_bound(make, monkeypatch):
    monkeypatch.setattr("hakmem_lab.machine.OtherLoad.stop", lambda self, own: 1.5)
    engine = make(rows=(TIMED,), rounds=8)
    result = engine.run()
    assert len(result.samples) == 16
    assert all(s.disturbed == "others used the CPUs" for s in result.samples)
    assert result.samples[0].retries == Settings().retries
    assert result.samples[-1].retries == 0  # patience is at its end
    assert len(engine.listener.notes) == 1
    floors = 2 * 3
    assert len(engine.runner.launcher.runs) <= floors + 16 + PATIENCE


def test_a_sample_is_taken_again_when_the_cpus_moved(make, monkeypatch):
    trips = iter([50, 50, 50, 300, 55, 52] + [50] * 100)
    row = Row("g:m", "threads", "m", "prog", ("{s}",), threads=True)
    engine = make(rows=(row,), rounds=1)
    engine.probe.shortest = 50
    monkeypatch.setattr(engine.probe, "measure", lambda: next(trips))
    result = engine.run()
    assert [s.retries for s in result.samples] == [0, 1]
    assert not any(s.disturbed for s in result.samples)


def test_what_would_be_left_out_is_taken_again_within_the_time(make, monkeypatch):
    """With one round a cell must not stay empty because the CPUs stood apart for a while."""
    row = Row("g:m", "threads", "m", "prog", ("{s}",), threads=True)

    def outcome(**more):
        trips = iter([50] * 2 + [300] * 2 * (1 + Settings().retries) + [50] * 100)
        engine = make(rows=(row,), rounds=1, **more)
        engine.probe.shortest = 50
        monkeypatch.setattr(engine.probe, "measure", lambda: next(trips))
        return engine, engine.run()

    engine, result = outcome()
    assert sorted(s.allocator for s in result.samples) == ["fast", "system"]
    assert {s.distance_before for s in result.samples} == {50}
    assert engine.listener.finished == engine.listener.total == 3
    monkeypatch.setattr("hakmem_lab.plan.Plan.has_time", lambda self, row: False)
    _, late = outcome()
    assert {s.distance_before for s in late.samples} == {50, 300}
