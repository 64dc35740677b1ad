"""The comparison page: its figures, that losses stand in it, and its charts."""

import json
import math
import re
from pathlib import Path

import pytest
from hakmem_lab import front, judge, machine, verdict
from hakmem_lab.errors import LabError
from hakmem_lab.page import command, figures, markdown, published, readme


def _ratio(value):
    """B / HAKMEM with an interval of 2 %."""
    low, high = value * 0.98, value * 1.02
    return {"value": value, "low": low, "high": high}


def _row(key, group, speeds, sizes):
    """A row of summary.json from {allocator: ops/s} and {allocator: KB}."""
    cells = {
        name: {"ops_per_s": speeds[name], "rss_kb": sizes[name], "seconds": 1.0, "shortest_s": 1.0,
               "minor_faults": 99,
               "speed": _ratio(speeds[name] / speeds["hakmem"]),
               "rss": _ratio(sizes[name] / sizes["hakmem"])}
        for name in speeds
    }  # fmt: skip
    best = max((n for n in speeds if n != "hakmem"), key=speeds.get)
    value = speeds["hakmem"] / speeds[best]
    return {"key": key, "group": group, "title": key, "kind": "rate", "allocators": cells,
            "best": best, "ratio": {"value": value, "low": value * 0.98, "high": value * 1.02}}  # fmt: skip


@pytest.fixture
def summary():
    kinds = {"hakmem": "subject", "system": "system", "fast": "peer"}
    return {
        "machine": {"cpu": "c", "cpus": 2, "virtual": True, "memory_mb": 1024, "kernel": "k",
                    "libc": "l", "huge_pages": "madvise"},
        "settings": {"rounds": 5, "seconds": 1.0},
        "allocators": {n: {"title": n.upper(), "version": "1", "kind": k, "environment": {}}
                       for n, k in kinds.items()},
        "rows": [
            _row("won", "mixed", {"hakmem": 4e6, "system": 2e6, "fast": 3e6},
                 {"hakmem": 1000, "system": 2000, "fast": 3000}),
            _row("lost", "mixed", {"hakmem": 2e6, "system": 1e6, "fast": 4e6},
                 {"hakmem": 1000, "system": 500, "fast": 990}),
            _row("close", "new group", {"hakmem": 100e6, "system": 50e6, "fast": 101e6},
                 {"hakmem": 1000, "system": 1000, "fast": 1000}),
        ],
        "verdict": [{"text": "a goal", "figure": "0", "ok": False}],
        "failures": [{"row": "won", "allocator": "slow", "reason": "SIGSEGV"}],
        "skipped": [], "notes": [], "dropped_samples": 0, "disturbed_samples": 0,
        "total_samples": 9, "interrupted": False,
    }  # fmt: skip


def test_losses_are_found_and_ordered(summary):
    found = figures.losses(summary, "speed")
    assert [(loss.row, loss.rival, judge.word(loss.ratio)) for loss in found] == [
        ("lost", "FAST", "slower"), ("close", "FAST", "even"),
    ]  # fmt: skip
    assert found[0].ratio["value"] == pytest.approx(0.5)
    fat = figures.losses(summary, "rss")
    assert [(loss.row, loss.rival) for loss in fat] == [("lost", "SYSTEM")]
    assert fat[0].ratio["value"] == pytest.approx(2.0)
    found = judge.tally(summary["rows"])
    assert [len(found[sign]) for sign in (1, 0, -1, None)] == [1, 1, 1, 0]
    assert figures.means(summary["rows"][:2], "fast", "ops_per_s") == pytest.approx(1.2247, 1e-3)


def test_the_page_is_made_from_a_folder(summary, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    target, kept = tmp_path / "docs" / "PAGE.md", tmp_path / "docs" / "kept"
    words = ["page", "--from", tmp_path / "run", "--to", target, "--table", kept]
    assert command.run(front.read([str(word) for word in words])[1]) == 0
    page = target.read_text()
    assert "## Where HAKMEM loses" in page and "| lost | FAST | 0.50 [0.49, 0.51] | slower |" in page
    assert "ahead of the best of the others on 1 of 3 rows, even on 1, behind on 1" in page
    assert "Made of 3 rows, 5 rounds, 3 allocators, 9 samples of 1 s" in page
    assert "**Slower than the fastest of the others**, by the medians: 2 of 3 rows.\n" in page
    assert "  - Largest with an interval that excludes 1: lost (0.50 [0.49, 0.51] of FAST's).\n- **More" in page
    assert "goal missed: a goal" in page and "SIGSEGV" in page
    assert "(kept/table.tsv)" in page and published.read(kept / "table.tsv")["rows"]
    assert str(target) in capsys.readouterr().out


def test_units_and_own_figures(summary):
    scenario = _row("json", "scenarios", {"hakmem": 5e6, "system": 4e6},
                    {"hakmem": 10, "system": 20})  # fmt: skip
    page = markdown.group_tables(summary, [scenario])
    assert "| 200 ns | **250 ns** |" in page
    kept = {**_row("frag", "memory", {"hakmem": 5e6, "system": 4e6}, {"hakmem": 10, "system": 20}),
            "memory": "frag"}  # fmt: skip
    kept["allocators"]["hakmem"]["frag"], kept["allocators"]["system"]["frag"] = 2.0, 1.25
    page = markdown.group_tables(summary, [kept])
    assert "| frag: `frag` | 2.00 | **1.25** |" in page


def test_what_is_no_comparison_is_refused(summary, tmp_path):
    with pytest.raises(LabError, match="No such file"):
        command.load(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(LabError, match="not JSON"):
        command.load(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(LabError, match="not the summary"):
        command.load(tmp_path)
    for row in summary["rows"]:
        del row["allocators"]["hakmem"]
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(LabError, match="HAKMEM was not measured"):
        command.load(tmp_path)


def test_the_environment_is_the_callers_without_the_labs_own(monkeypatch):
    monkeypatch.setenv("HAKMEM_BENCH_SUITE", "/home/me/hakmem")
    monkeypatch.setenv("HAKMEM_BENCH_RUN", "17")
    monkeypatch.setenv("HAKMEM_PROFILE", "LEAN")
    found = machine.allocator_environment()
    assert found["HAKMEM_PROFILE"] == "LEAN"
    assert not {"HAKMEM_BENCH_SUITE", "HAKMEM_BENCH_RUN"} & set(found)


def test_a_published_table_says_all_that_is_drawn(summary, tmp_path):
    summary["machine"]["environment"] = {"HAKMEM_BENCH_SUITE": "/home/me/hakmem"}
    table = tmp_path / "table.tsv"
    table.write_text(published.text(summary))
    assert "/home" not in table.read_text() and len(table.read_text().splitlines()) == 3 + 3 + 3
    found = published.read(table)
    assert figures.names(found) == figures.names(summary)
    for name in ("system", "fast"):
        for field in ("ops_per_s", "rss_kb"):
            wanted = figures.means(summary["rows"], name, field)
            assert figures.means(found["rows"], name, field) == pytest.approx(wanted, 1e-5)
    with pytest.raises(LabError, match="not the table of a published"):
        published.read(Path(__file__))
    with pytest.raises(LabError, match="No such file"):
        published.read(tmp_path / "none.tsv")


def test_drawings_are_made_from_the_table(summary, tmp_path, capsys):
    table = tmp_path / "table.tsv"
    table.write_text(published.text(summary))
    words = ["published", "--table", str(table), "--draw", str(tmp_path / "drawings")]
    assert readme.run(front.read(words)[1]) == 0
    for name in ("speed", "memory"):
        chart = (tmp_path / "drawings" / f"{name}.svg").read_text()
        assert "<svg" in chart and "FAST" in chart and len(chart) < 100_000
        places = re.findall(r'<text[^>]*?(?:translate\(([\d.]+)|x="([\d.]+)")[^>]*>1\.00</text>', chart)
        assert places and len({first or second for first, second in places}) <= 3  # a column a panel
    assert "speed.svg" in capsys.readouterr().out


def test_the_table_of_the_readme(summary, tmp_path, capsys):
    table = tmp_path / "table.tsv"
    table.write_text(published.text(summary))
    assert readme.run(front.read(["published", "--table", str(table)])[1]) == 0
    said = capsys.readouterr().out
    assert "| SYSTEM 1 |" in said and "| new group, 1 | 2.00, 100 % |" in said
    assert "Made of 3 rows, 5 rounds" in said
    with pytest.raises(LabError, match="no place for the table"):
        readme.put("# HAKMEM", said)


def test_the_table_of_the_readme_counts_the_rows_of_its_means(summary, tmp_path):
    """A row without HAKMEM is not counted; a rival that lacks one has the number of those it has."""

    def made():
        (tmp_path / "table.tsv").write_text(published.text(summary))
        return readme.text(published.read(tmp_path / "table.tsv"))

    assert ", 2 | 2.00, 100 % |" in made() and "new group, 1" in made()
    rows = summary["rows"]
    del rows[0]["allocators"]["system"], rows[2]["allocators"]["hakmem"]
    assert ", 2 | 2.00, 200 % (1) |" in made() and "new group" not in made()


def test_the_readme_has_the_newest_published_table():
    page = readme.README.read_text()
    assert readme.put(page, readme.text(published.read(readme.newest()))) == page


def written(summary, tmp_path, name, *words):
    """The page made of a summary, at the place of one that may be there."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(summary))
    words = ["page", "--from", folder, "--to", tmp_path / "PAGE.md", *words]
    assert command.run(front.read([str(word) for word in words])[1]) == 0


@pytest.mark.parametrize("what", ["rows", "rounds", "allocators"])
def test_a_smaller_run_goes_elsewhere(summary, tmp_path, monkeypatch, capsys, what):
    monkeypatch.setattr(command.results, "SCRATCH", tmp_path / "scratch")
    kept = ("--table", str(tmp_path / "kept"))
    written(summary, tmp_path, "whole", *kept)
    before = (tmp_path / "PAGE.md").read_text()
    less = json.loads(json.dumps(summary))
    if what == "rows":
        del less["rows"][2]
    elif what == "rounds":
        less["settings"]["rounds"] = 3
    else:
        for row in less["rows"]:
            row["allocators"].pop("system")
    written(less, tmp_path, "less", *kept)
    assert (tmp_path / "PAGE.md").read_text() == before
    assert "PAGE.md is left as it is: this run has" in capsys.readouterr().out
    made = list((tmp_path / "scratch").glob("*_PAGE/PAGE.md"))
    assert len(made) == 1 and "Made of" in made[0].read_text()
    written(less, tmp_path, "told", *kept, "--replace")
    assert (tmp_path / "PAGE.md").read_text() != before


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_rounds_yield_no_verdict(summary, rounds):
    none = {"low": math.nan, "high": math.nan}
    summary["settings"]["rounds"] = rounds
    for row in summary["rows"]:
        row["ratio"].update(none)
        for cell in row["allocators"].values():
            cell["speed"].update(none)
            cell["rss"].update(none)
    assert "no verdict on 3" in judge.summed_up(summary["rows"])
    assert verdict.lines(summary["rows"], ["system", "fast"]) == []
    page = markdown.losing(summary)
    assert "no verdict" in page and "slower" not in page and "[" not in page
    page = markdown.in_short(3, "", figures.losses(summary, "speed"), [])
    assert "Largest without an interval (fewer than three rounds): lost (0.50 of FAST's)" in page
    assert "excludes 1" not in page


def test_builds_of_hakmem_stand_beside_the_release(summary):
    """By time and by counts; one that is not built is named with its remedy."""
    summary["allocators"]["hakmem-pgo"] = {"title": "HAKMEM, PGO", "version": "1", "kind": "variant"}
    for row in summary["rows"]:
        cell = dict(row["allocators"]["hakmem"])
        row["allocators"]["hakmem-pgo"] = {**cell, "ops_per_s": cell["ops_per_s"] * 1.1}
    for kind, ours, theirs in (("instructions", 40.0, 36.0), ("misses", 2.0, 2.0)):
        summary[kind] = {"won": {"hakmem": {"per_op": ours}, "hakmem-pgo": {"per_op": theirs}}}
    page = markdown.builds(summary)
    assert "| HAKMEM, PGO | 1.100 | 1.000 | 1.000 | 0.900 (1 rows) | 1.000 (1 rows) |" in page
    assert "HAKMEM, no LTO: not built here, `make nolto` does." in page and "debug" not in page


def test_a_summary_of_old_has_no_interval_of_two_rounds(summary, tmp_path):
    summary["base"] = "hakmem"
    for name, cell in summary["rows"][0]["allocators"].items():
        cell["samples"] = 2 if name == "fast" else 3
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    row = command.load(tmp_path)["rows"][0]
    assert judge.sign(row["allocators"]["fast"]["speed"]) is judge.sign(row["ratio"]) is None
    assert judge.sign(row["allocators"]["system"]["speed"]) == -1
