"""Time: what is planned, and what gives way."""

import pytest
from hakmem_lab import bench, cli
from hakmem_lab.errors import LabError
from hakmem_lab.plan import Plan
from hakmem_lab.settings import SIZES, Settings, bounds
from hakmem_lab.tables import Row
from hakmem_lab.workloads import ROWS

FAST = [Row(f"g:{n}", "g", str(n), "prog", ("{n}",), count=100) for n in range(10)]
SLOW = Row("g:slow", "g", "slow", "prog", (), kind="command")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def plan_of(rows, allocators=8, **settings):
    clock = Clock()
    plan = Plan(rows, lambda row: allocators, Settings(**settings), clock)
    plan.fit()
    return plan, clock


def test_no_bound_changes_nothing():
    plan, _ = plan_of(FAST, seconds=1.0, rounds=5)
    assert plan.changes() == [] and set(plan.rounds.values()) == {5}
    assert plan.settings.seconds == 1.0
    # 10 rows, 8 allocators, 4 rounds and a longer first one, 1.25 s and what a start costs
    assert plan.total() == pytest.approx(10 * 8 * 5.4 * 1.45)


def test_a_row_that_says_its_length_is_planned_with_it():
    fixed = Row("g:fixed", "g", "fixed", "prog", ("10",), seconds=10.0)
    plan, _ = plan_of([fixed], allocators=3, rounds=3)
    assert plan.total() == pytest.approx(3 * 3.4 * 10.2)


def test_samples_are_shortened_before_rounds_are_dropped():
    plan, _ = plan_of(FAST, seconds=1.0, rounds=3, budget_s=300)
    assert 0.35 < plan.settings.seconds < 1.0
    assert plan.total() <= 300 and set(plan.rounds.values()) == {3}
    assert plan.changes() == [f"samples shortened from 1 to {plan.settings.seconds:g} s"]


def test_slow_rows_lose_their_last_round_first_and_it_is_said():
    plan, _ = plan_of([*FAST, SLOW], seconds=0.35, rounds=3, budget_s=240)
    assert plan.rounds["g:slow"] == 2 and plan.rounds["g:0"] == 3
    assert plan.changes() == ["2 rounds instead of 3, for want of time: g:slow"]
    assert plan.changes(skipped=("g:slow",)) == []


def test_when_nothing_else_is_left_all_rows_lose_rounds():
    plan, _ = plan_of([*FAST, SLOW], seconds=0.35, rounds=3, budget_s=150)
    assert plan.total() <= 150 and max(plan.rounds.values()) == 2
    assert min(plan.rounds.values()) >= 1


def test_the_slowest_rows_go_when_one_round_does_not_fit():
    plan, _ = plan_of([*FAST, SLOW], seconds=0.35, rounds=3, budget_s=40)
    assert plan.rounds["g:slow"] == 0 and 0 < plan.total() <= 40
    assert plan.changes()[-1].startswith("not run, for want of time: ")
    assert "g:slow" in plan.changes()[-1]


def test_what_a_row_took_beforehand_counts():
    clock = Clock()
    plan = Plan([SLOW], lambda row: 8, Settings(rounds=3, seconds=1, budget_s=800), clock)
    plan.lengths["g:slow"] = 30
    plan.fit()
    assert plan.rounds["g:slow"] == 2
    assert plan.total() == pytest.approx(8 * 30.2 * 2.4)


def test_the_first_round_corrects_the_plan():
    plan, clock = plan_of([*FAST, SLOW], seconds=0.35, rounds=3, budget_s=400)
    assert plan.rounds["g:slow"] == 3
    for row in FAST:
        plan.observe(row, 1, 7)
    plan.observe(SLOW, 1, 100)
    clock.now = 170
    plan.replan(1)
    assert plan.rounds["g:slow"] == 2 and plan.rounds["g:0"] == 3
    assert clock.now + plan.left(1, [row.key for row in (*FAST, SLOW)]) <= 400


def test_a_row_that_does_not_fit_is_left_out_and_named():
    plan, clock = plan_of(FAST, seconds=0.35, rounds=2, budget_s=200)
    plan.observe(FAST[0], 1, 10)
    clock.now = 198
    assert not plan.allows(FAST[0], 2) and not plan.allows(FAST[1], 1)
    assert plan.changes() == [
        "1 round instead of 2, for want of time: g:0", "not run, for want of time: g:1",
    ]  # fmt: skip
    assert not plan.spare(2, [])


def test_time_left_falls_as_rows_are_done():
    plan, _ = plan_of(FAST, rounds=2)
    left = [plan.left(1, [row.key for row in FAST[:n]]) for n in range(11)]
    assert left == sorted(left, reverse=True) and left[-1] > 0
    assert plan.left(2, [row.key for row in FAST]) == 0


@pytest.mark.parametrize("size", ["quick", "standard"])
def test_named_sizes_fit_their_bound(size):
    """The seed rows over four allocators; all rows over nine."""
    options = cli.bench_parser().parse_args(["--size", size])
    settings = bench.settings_of(options)
    rows = bench.choose_rows(None, size)
    allocators = len(SIZES[size].allocators or range(9))
    plan = Plan(rows, lambda row: allocators, settings)
    plan.fit()
    assert plan.total() <= SIZES[size].minutes * 60
    assert min(plan.rounds.values()) >= 2


def test_sizes_choose_rows_and_names_override_them():
    assert {row.group for row in bench.choose_rows(None, "quick")} == {"mixed"}
    assert set(bench.choose_rows(None)) == {r for r in ROWS if "standard" in r.sizes}
    plain = bench.settings_of(cli.bench_parser().parse_args([]))
    assert (plain.rounds, plain.seconds, plain.budget_s) == (5, 0.35, None)
    given = cli.bench_parser().parse_args(["--size", "standard", "--rounds", "9"])
    settings = bench.settings_of(given)
    assert (settings.rounds, settings.seconds, settings.budget_s) == (9, 1.0, None)
    given = cli.bench_parser().parse_args(["--minutes", "5", "--rounds", "9"])
    assert bench.settings_of(given).budget_s == 300


def test_bounds_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("BENCH_TIMEOUT", raising=False)
    monkeypatch.delenv("KILL_GRACE", raising=False)
    assert bounds() == {} and Settings(seconds=1).timeout == 120
    monkeypatch.setenv("BENCH_TIMEOUT", "4.5")
    monkeypatch.setenv("KILL_GRACE", "0")
    assert bounds() == {"timeout_s": 4.5, "grace_s": 0.0}
    assert Settings(**bounds()).timeout == 4.5
    for name, value in (("BENCH_TIMEOUT", "soon"), ("BENCH_TIMEOUT", "0"), ("KILL_GRACE", "-1")):
        monkeypatch.setenv(name, value)
        with pytest.raises(LabError, match=f"{name} must be seconds"):
            bounds()
        monkeypatch.setenv(name, "1")
