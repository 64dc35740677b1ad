"""Verdicts over made-up samples with known figures."""

import math

import pytest
from hakmem_lab import judge, summaries
from hakmem_lab.samples import Result, Sample
from hakmem_lab.tables import Allocator, Row
from hakmem_lab.workloads import ROWS

HAKMEM = Allocator("hakmem", "HAKMEM", kind="subject")
GLIBC = Allocator("system", "glibc", kind="system")
NULL = Allocator("null", "null", kind="limit")
MIMALLOC = Allocator("mimalloc", "mimalloc v3")
OTHER = Allocator("other", "other")
ALL = [HAKMEM, GLIBC, NULL, MIMALLOC, OTHER]


def samples(row, allocator, ops, rounds=3, rss=2000, extra=None, trips=(50, 50)):
    return [
        Sample(
            row=row.key, allocator=allocator.name, round=n, ops_per_s=ops, seconds=0.4, rss_kb=rss,
            extra=dict(extra or {}), cost={"minor_faults": 10, "major_faults": 0}, other_cpus=0.0,
            distance_before=trips[0], distance_after=trips[1],
        )
        for n in range(1, rounds + 1)
    ]  # fmt: skip


def rows_of(group):
    return [row for row in ROWS if row.group == group]


def summary(group, speeds, rss=None, extra=None):
    """All rows of a group with the same speeds (Mops/s) and sizes per allocator."""
    rss, extra, rows = rss or {}, extra or {}, rows_of(group)
    result = Result(floors_kb={a.name: 1000 for a in ALL}, shortest_trip=50)
    for row in rows:
        for allocator in ALL:
            if allocator.name in speeds:
                result.samples += samples(
                    row, allocator, int(speeds[allocator.name] * 1e6),
                    rss=rss.get(allocator.name, 2000), extra=extra.get(allocator.name, {}),
                )  # fmt: skip
    return summaries.summarise(rows, ALL, result)


def line(found, text):
    lines = [one for one in found["verdict"] if text in one["text"]]
    assert len(lines) == 1, found["verdict"]
    return lines[0]


def test_best_is_the_fastest_rival_and_never_the_limit():
    found = summary(
        "mixed", {"hakmem": 100, "system": 60, "null": 200, "mimalloc": 80, "other": 90}
    )
    row = found["rows"][0]
    assert row["best"] == "other"
    assert row["ratio"]["value"] == pytest.approx(100 / 90)
    assert judge.sign(row["ratio"]) == 1 and line(found, "ahead of the best peer")["ok"]
    assert line(found, "1.12 x mimalloc")["figure"] == "1.250"


def test_net_cost_is_the_time_above_the_null_allocator():
    found = summary("mixed", {"hakmem": 100, "null": 200, "mimalloc": 80, "other": 50})
    # 10 - 5 = 5 ns; 12.5 - 5 = 7.5 ns; 20 - 5 = 15 ns
    nets = found["net_geomean_ns"]
    assert nets["hakmem"] == pytest.approx(5) and nets["mimalloc"] == pytest.approx(7.5)
    assert "null" not in nets
    net = line(found, "net cost")
    assert net["figure"].startswith("0.667") and net["ok"]


def test_peak_rss_conditions():
    speeds = {"hakmem": 100, "system": 60, "null": 200, "mimalloc": 80, "other": 90}
    good = summary("mixed", speeds, rss={"hakmem": 2100, "system": 1900, "mimalloc": 2100})
    assert line(good, "glibc + 200")["ok"]
    assert not line(good, "every fast peer")["ok"]  # other has 2000
    bad = summary("mixed", speeds, rss={"hakmem": 2101, "system": 1900})
    assert not line(bad, "glibc + 200")["ok"]
    large = summary("mixed", speeds, rss={"hakmem": 10_900, "system": 10_000, "mimalloc": 12_000,
                                          "other": 11_000})  # fmt: skip
    assert line(large, "glibc + 200")["ok"] and line(large, "every fast peer")["ok"]


def test_bulk_bounds():
    good = summary("bulk", {"hakmem": 97.5, "mimalloc": 100, "other": 50})
    assert line(good, "geomean")["ok"] and line(good, "no row below")["ok"]
    bad = summary("bulk", {"hakmem": 84, "mimalloc": 100, "other": 50})
    assert not line(bad, "geomean")["ok"] and not line(bad, "no row below")["ok"]


def test_threads_want_speed_and_less_net_rss():
    live = {name: {"live_kb": 500} for name in ("hakmem", "mimalloc")}
    speeds = {"hakmem": 100, "mimalloc": 90}
    found = summary("threads", speeds, rss={"hakmem": 1900, "mimalloc": 2000}, extra=live)
    assert found["rows"][0]["allocators"]["hakmem"]["net_rss_kb"] == 400
    assert line(found, "less net RSS")["ok"] and line(found, "ahead of the best")["ok"]
    found = summary("threads", speeds, rss={"hakmem": 2000, "mimalloc": 2000}, extra=live)
    assert not line(found, "less net RSS")["ok"]


def test_memory_rows_have_bounds_of_their_own():
    extra = {"hakmem": {"overhead": 1.4, "growth": 1.03}, "mimalloc": {"overhead": 2, "growth": 1}}
    found = summary("prodcons", {"hakmem": 100, "mimalloc": 120}, extra=extra)
    assert line(found, "peak live")["ok"] and not line(found, "after a tenth")["ok"]


def test_samples_of_the_rarer_cpu_distance_are_left_out():
    row = next(row for row in ROWS if row.key == "threads:cross")
    near = samples(row, HAKMEM, 100, rounds=3)
    far = samples(row, HAKMEM, 10, rounds=2, trips=(350, 350))
    moved = samples(row, HAKMEM, 10, rounds=1, trips=(50, 350))
    assert summaries.clean(near + far + moved, 50) == near
    result = Result(samples=near + far + moved, shortest_trip=50)
    found = summaries.summarise([row], [HAKMEM], result)
    assert found["dropped_samples"] == 3
    assert found["rows"][0]["allocators"]["hakmem"]["ops_per_s"] == 100


def test_a_group_without_a_rule_of_its_own():
    speed = Row("new:one", "new", "one", "prog", ())
    memory = Row("new:two", "new", "two", "prog", (), memory="frag")
    result = Result(shortest_trip=50)
    for row, ours in ((speed, 100), (memory, 10)):  # slow where speed does not count
        result.samples += samples(row, HAKMEM, ours, rss=3000, extra={"frag": 1.5})
        result.samples += samples(row, GLIBC, 90, rss=2000, extra={"frag": 1.2})
    found = summaries.summarise([speed, memory], ALL, result)
    assert line(found, "new: ahead of the best peer")["figure"] == "1 of 1"
    assert not line(found, "new: peak RSS <= that")["ok"]
    frag = line(found, "two: frag <= the best")
    assert not frag["ok"] and frag["figure"] == "1.500 (system 1.200)"


def test_ratios_are_to_the_base_with_what_they_show():
    row = Row("ab:one", "ab", "one", "prog", ())
    one, two = Allocator("one", "one", kind="variant"), Allocator("two", "two", kind="variant")
    result = Result(samples=samples(row, one, 100, 5) + samples(row, two, 80, 5, rss=3000))
    found = summaries.summarise([row], [one, two], result)
    assert found["base"] == "one" and found["verdict"] == []
    cell = found["rows"][0]["allocators"]["two"]
    assert cell["speed"]["value"] == pytest.approx(0.8) and judge.sign(cell["speed"]) == -1
    assert cell["rss"]["value"] == pytest.approx(1.5) and judge.sign(cell["rss"]) == 1
    other = summaries.summarise([row], [one, two], result, base="two")
    assert judge.sign(other["rows"][0]["allocators"]["one"]["speed"]) == 1


def test_pairs_are_the_rounds_that_both_have():
    row = rows_of("mixed")[0]
    ours, theirs = samples(row, HAKMEM, 100, 4), samples(row, GLIBC, 50, 4)
    for number, (one, two) in enumerate(zip(ours, theirs)):
        one.ops_per_s *= 1 + number / 10
        two.ops_per_s *= 1 + number / 10
    found = summaries.ratio(ours[1:], theirs)
    assert found.value == pytest.approx(2) and found.high - found.low < 1e-9


def test_interrupted_before_anything_was_measured():
    found = summaries.summarise(list(ROWS), ALL, Result(interrupted=True))
    assert found["rows"] == [] and found["verdict"] == [] and found["interrupted"]


def test_one_round_has_no_interval():
    row = rows_of("mixed")[0]
    result = Result(samples=samples(row, HAKMEM, 100, 1) + samples(row, GLIBC, 50, 1))
    ratio = summaries.summarise([row], ALL, result)["rows"][0]["ratio"]
    assert ratio["value"] == 2.0 and math.isnan(ratio["low"])
