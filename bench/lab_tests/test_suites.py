"""The tables and words of the suites, without running anything."""

import argparse
import dataclasses
import math
import time

import pytest
from hakmem_lab import front, summaries, train
from hakmem_lab.errors import LabError
from hakmem_lab.samples import Result, Sample
from hakmem_lab.suites import knobs, loads, notes, options, results
from hakmem_lab.front import SUITES
from hakmem_lab.suites.shapes import DEFAULT, Entry
from hakmem_lab.suites.statements import state
from hakmem_lab.tables import Allocator
from hakmem_lab.workloads import ROWS


class Pretender:
    """A session whose library answers as told: {name: errno}, or None for no answer."""

    def __init__(self, answer, warnings=""):
        self.launcher, self.build = self, None
        self.answer, self.warnings = answer, warnings

    def run(self, command, library=None, limit=60.0, environment=None):
        text = "null" if self.answer is None else str(self.answer).replace("'", '"')
        good = type("Outcome", (), {"good": True, "stdout": text.encode(),
                                    "stderr": self.warnings.encode()})  # fmt: skip
        return good()


@pytest.fixture
def anywhere(monkeypatch):
    monkeypatch.setattr("hakmem_lab.suites.knobs.built", lambda folder, name: name)


def test_knobs_are_asked_of_the_library_or_read_from_its_warnings(anywhere):
    knobs.check_names(Pretender({"A": 0, "B": 34}), "lib", ["A", "B"])  # 34: value too long
    with pytest.raises(LabError, match=r"has no option HAKMEM_A \(lib\)"):
        knobs.check_names(Pretender({"A": 2, "B": 0}), "lib", ["A", "B"])
    with pytest.raises(LabError, match="does not support HAKMEM_A"):
        knobs.check_names(Pretender({"A": 95}), "lib", ["A"])
    warned = "hakmem: unknown option HAKMEM_B is ignored\nhakmem: option HAKMEM_AB: '1' is bad\n"
    knobs.check_names(Pretender(None, warned), "lib", ["A", "AB"])
    with pytest.raises(LabError, match=r"no option HAKMEM_B \(lib\)"):
        knobs.check_names(Pretender(None, warned), "lib", ["A", "AB", "B"])


def test_bands_cover_the_range_and_keep_to_the_tiers():
    found = loads.bands(8, 8, 4 << 20)
    assert len(found) == 8
    assert found[0].low == 8 and found[-1].high == 4 << 20
    assert all(a.high + 1 == b.low for a, b in zip(found, found[1:]))
    edges = {2048, 64 << 10, 1 << 20}
    assert edges <= {band.high for band in found}
    tiers = [band.label.split("-")[0] for band in found]
    assert list(dict.fromkeys(tiers)) == ["tiny", "mid", "large", "big"]
    assert len(loads.bands(1, 8, 4 << 20)) == 1
    assert [(b.low, b.high) for b in loads.bands(5, 8, 10)] == [(8, 8), (9, 9), (10, 10)]


def test_lists_have_commas_or_blanks_between():
    assert options.words("a, b  c,d") == ["a", "b", "c", "d"]
    assert options.threads("4 1,4") == [1, 4]
    assert options.size("64K") == 65536 and options.size("8") == 8
    for bad in (lambda: options.words(" ,"), lambda: options.values("a=b"),
                lambda: options.size("1G"), lambda: options.threads("1.5")):  # fmt: skip
        with pytest.raises(argparse.ArgumentTypeError):
            bad()


def test_combinations_begin_with_the_defaults(monkeypatch):
    monkeypatch.setenv("CAPS", "8 default")
    suite = SUITES["ab_sweep_mid"]
    entries = suite.entries(options.parse(suite, ["--min-bundles", "2,4"]))
    assert entries[0] == Entry("hakmem") and len(entries) == 1 + 2 * 2
    assert entries[1].name == "hakmem+POOL_RING_CAP=8+POOL_MIN_BUNDLE=2"
    assert entries[3].environment == {"HAKMEM_POOL_MIN_BUNDLE": "2"}
    only = options.parse(suite, ["--caps", DEFAULT, "--min-bundles", DEFAULT])
    assert suite.entries(only) == [Entry("hakmem")]


def test_options_win_over_the_environment(monkeypatch):
    for name, value in (("RUNTIME", "3"), ("THREADS", "2 8"), ("KILL_GRACE", "7")):
        monkeypatch.setenv(name, value)
    suite = SUITES["run_larson"]
    found = options.parse(suite, ["-t", "1"])
    assert (found.runtime, found.timeout, found.grace, found.threads) == (3, 63, 7, [1])
    monkeypatch.setenv("BENCH_TIMEOUT", "9")
    assert options.parse(suite, []).timeout == 9
    assert options.parse(suite, []).threads == [2, 8]


def test_results_are_placed_and_named_by_date():
    day = time.strftime("%Y-%m-%d")
    place = results.folder_for(SUITES["head_to_head_large"])
    assert place.parent == results.BENCHMARKS
    assert place.name.startswith(day) and place.name.endswith("_HEAD2HEAD_LARGE")
    assert results.folder_for(SUITES["ab_l25_tc"]).name.endswith("_L25_TC_AB")
    assert results.folder_for(SUITES["run_bench_suite"]).name.endswith("_HEAD2HEAD")
    assert results.folder_for(SUITES["prof_sweep"]).parent == results.SCRATCH
    assert results.log_name("hakmem+A=1", "mid-2K_T4") == "hakmem+A=1_mid-2K_T4.log"
    assert "/" not in results.log_name("x", "mixed:200K/32")


def test_a_folder_in_which_nothing_was_measured_is_taken_back(tmp_path):
    with pytest.raises(LabError), results.folder(tmp_path / "new") as folder:
        (folder / "samples.jsonl").write_text("")
        (folder / "setup.json").write_text("{}")
        raise LabError("no")
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").write_text("")
    with pytest.raises(LabError), results.folder(tmp_path):
        raise LabError("no")
    assert (tmp_path / "mine").exists()


def _samples(name, speeds, sizes):
    return [
        Sample("r_T1", name, number, speed, 1.0, size, {}, {}, 0.0)
        for number, (speed, size) in enumerate(zip(speeds, sizes), 1)
    ]


def test_statements_say_what_differs():
    row = loads.larson_row(loads.Band("r", 8, 64), 1, "1")
    base = _samples("A", [100, 101, 99, 100, 102], [50, 51, 50, 49, 50])
    fast = _samples("B", [110, 112, 109, 111, 112], [50, 50, 51, 50, 49])
    slow = _samples("C", [80, 81, 79, 80, 82], [60, 61, 60, 62, 61])
    found = state([row], [("A", "B"), ("A", "C")], base + fast + slow)
    said = {(s.b, s.figure): s for s in found}
    assert said["B", "speed"].verdict == "faster"
    assert said["B", "speed"].low <= 1.1 <= said["B", "speed"].high
    assert said["B", "peak RSS"].verdict == "even"
    assert said["C", "speed"].verdict == "slower" and said["C", "peak RSS"].verdict == "more"
    assert said["C", "speed"].text == "0.80 [0.80, 0.80] slower"
    for rounds in (1, 2):  # no two-round interval, no verdict of one round
        few = [s for s in base + fast if s.round <= rounds]
        alone = state([row], [("A", "B")], few)
        assert math.isnan(alone[0].low) and alone[0].verdict == "no verdict" and "[" not in alone[0].text
    short = [dataclasses.replace(s, seconds=0.2) for s in base + fast]
    assert state([row], [("A", "B")], short)[0].text.startswith("~1.1")


def canned_summary(rows, entries, samples, counted=()):
    allocators = [Allocator(e.name, e.name, kind="variant" if e.options else "peer") for e in entries]
    result = Result(samples=samples, shortest_trip=50.0)
    found = summaries.summarise(rows, allocators, result, entries[0].name)
    settings = {"rounds": 5, "seconds": 1.0}
    facts = {"cpu": "c", "cpus": 2, "kernel": "k", "huge_pages": "madvise"}
    return {**found, "settings": settings, "machine": facts, "defaults": "32 / 4", **dict(counted)}


def test_a_page_of_a_suite_says_what_is_compared_once():
    entries = [Entry("hakmem"), *(Entry("hakmem", (("POOL_RING_CAP", c), ("POOL_MIN_BUNDLE", "4")))
                                  for c in ("8", "16"))]  # fmt: skip
    row = loads.larson_row(loads.Band("mid", 2049, 4096), 1, "1")
    samples = [dataclasses.replace(s, row=row.key, cost={"minor_faults": 1234})
               for place, entry in enumerate(entries)
               for s in _samples(entry.name, [100 + place, 101, 99, 100, 102], [50] * 5)]  # fmt: skip
    counted = {"instructions": {row.key: {e.name: {"per_op": 42.5} for e in entries}}}
    summary = canned_summary([row], entries, samples, counted.items())
    said = state([row], [(entries[0].name, e.name) for e in entries[1:]], samples)
    suite = SUITES["ab_sweep_mid"]
    for draw in (notes.table, notes.aligned):
        page = notes.wrapped(notes.page(suite.title, suite, "command", summary, entries, said, draw))
        assert page.startswith("# POOL_RING_CAP x POOL_MIN_BUNDLE (B) against HAKMEM's defaults (A)")
        assert "Made of 1 row, 5 rounds, 3 allocators, 15 samples of 1 s" in page
        assert "A: 32 / 4" in page and "8 / 4" in page and "42.5" in page and "1234" in page
        assert page.count("POOL_RING_CAP / POOL_MIN_BUNDLE") == 1  # the head, not every cell
        assert max(map(len, page.splitlines())) <= 100


def test_scenarios_are_in_ns_beside_each_other_allocator():
    """The folder's name has HEAD2HEAD."""
    entries = [Entry("hakmem"), Entry("system"), Entry("mimalloc")]
    row = next(r for r in ROWS if r.key == "scenarios:mir")
    samples = [dataclasses.replace(s, row=row.key, cost={"minor_faults": 7})
               for entry, ns in zip(entries, (20_000, 40_000, 25_000))
               for s in _samples(entry.name, [1e9 / ns] * 5, [50] * 5)]  # fmt: skip
    summary = canned_summary([row], entries, samples)
    said = state([row], [("system", "hakmem"), ("mimalloc", "hakmem")], samples)
    page = notes.page("t", SUITES["run_bench_suite"], "c", summary, entries, said)
    assert "| mir | 40000 ns | 20000 ns | 2.00 [2.00, 2.00] faster |" in page
    assert "| mir | 25000 ns | 20000 ns | 1.25 [1.25, 1.25] faster |" in page


def test_an_empty_cell_says_why():
    entries = [Entry("hakmem"), Entry("system"), Entry("mimalloc")]
    row = loads.larson_row(loads.Band("mid", 2049, 4096), 2, "1")
    apart = {"distance_before": 50.0, "distance_after": 50.0}
    samples = [dataclasses.replace(s, row=row.key, cost={}, **apart) for s in
               _samples("hakmem", [100] * 3, [50] * 3) + _samples("mimalloc", [90] * 3, [50] * 3)]
    samples += [dataclasses.replace(s, row=row.key, cost={}, distance_before=500.0,
                                    distance_after=500.0) for s in _samples("system", [9], [9])]
    summary = canned_summary([row], entries, samples)
    assert summary["rows"][0]["lacking"] == {"system": "CPUs moved"}
    shown = notes.Comparison(summary, entries, [])
    assert [shown._cell(summary["rows"][0], e.name, lambda *_: "there") for e in entries] == [
        "there", "CPUs moved", "there"]  # fmt: skip


def test_every_suite_gives_rows_entries_and_pairs():
    for name, suite in SUITES.items():
        found = options.parse(suite, ["mixed"] if name == "larson" else [])
        rows, entries = suite.rows(found), suite.entries(found)
        assert rows and len({row.key for row in rows}) == len(rows)
        assert len({entry.name for entry in entries}) == len(entries) >= 2
        pairs = suite.pairs(entries)
        assert pairs and all(a != b and b.ours for a, b in pairs)
        assert {str(n) for n in found.threads} <= {row.key.split("_T")[-1] for row in rows}


def test_training_takes_the_standard_rows_of_our_programs(tmp_path):
    keys = [row.key for row in train.rows()]
    assert "threads:larson-4" in keys and "mixed:200K/32/1024" in keys
    assert not any(row.kind == "command" for row in ROWS if row.key in keys)
    with pytest.raises(LabError, match="does not exist"):
        train.run(front.read(["train", "--library", str(tmp_path / "no.so")])[1])
