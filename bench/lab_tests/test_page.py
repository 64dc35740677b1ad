"""The comparison page: its figures, that losses stand in it, and its charts."""

import json

import pytest
from hakmem_lab import front
from hakmem_lab.errors import LabError
from hakmem_lab.page import command, figures, markdown


def _ratio(value):
    """B / HAKMEM with an interval of 2 %."""
    low, high = value * 0.98, value * 1.02
    return {"value": value, "low": low, "high": high, "sign": (low > 1) - (high < 1)}


def _row(key, group, speeds, sizes):
    """A row of summary.json from {allocator: ops/s} and {allocator: KB}."""
    cells = {
        name: {"ops_per_s": speeds[name], "rss_kb": sizes[name], "seconds": 1.0,
               "speed": _ratio(speeds[name] / speeds["hakmem"]),
               "rss": _ratio(sizes[name] / sizes["hakmem"])}
        for name in speeds
    }  # fmt: skip
    best = max((n for n in speeds if n != "hakmem"), key=speeds.get)
    value = speeds["hakmem"] / speeds[best]
    return {"key": key, "group": group, "title": key, "kind": "rate", "allocators": cells,
            "best": best, "ratio": {"value": value, "low": value * 0.98, "high": value * 1.02},
            "ahead": value >= 1}  # fmt: skip


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
    assert [(loss.row, loss.rival, loss.clear) for loss in found] == [
        ("lost", "FAST", True), ("close", "FAST", False),
    ]  # fmt: skip
    assert found[0].ratio == pytest.approx(0.5) and found[0].low < 0.5 < found[0].high
    fat = figures.losses(summary, "rss")
    assert [(loss.row, loss.rival) for loss in fat] == [("lost", "SYSTEM")]
    assert fat[0].ratio == pytest.approx(2.0)
    assert figures.tally(summary) == (3, 1, 1)
    assert figures.means(summary["rows"][:2], "fast", "ops_per_s") == pytest.approx(1.2247, 1e-3)


def test_the_page_is_made_from_a_folder(summary, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    target, charts = tmp_path / "docs" / "PAGE.md", tmp_path / "docs" / "charts"
    words = ["page", "--from", tmp_path / "run", "--to", target, "--charts", charts]
    assert command.run(front.read([str(word) for word in words])[1]) == 0
    page = target.read_text()
    assert "## Where HAKMEM loses" in page and "| lost | FAST | 0.50 [0.49, 0.51] | yes |" in page
    assert "ahead of the best other allocator on 1, and clearly behind it on 1" in page
    assert "goal missed: a goal" in page and "SIGSEGV" in page
    assert "![Speed per group](charts/speed.svg)" in page
    for name in ("speed", "memory"):
        chart = (charts / f"{name}.svg").read_text()
        assert "<svg" in chart and "FAST" in chart and len(chart) < 100_000
    assert str(target) in capsys.readouterr().out


def test_units_and_own_figures(summary):
    scenario = _row("json", "scenarios", {"hakmem": 5e6, "system": 4e6},
                    {"hakmem": 10, "system": 20})  # fmt: skip
    page = markdown.group_tables(summary, [scenario])
    assert "Nanoseconds per operation" in page and "| 200 | **250** |" in page
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


def test_a_published_summary_names_no_folder_of_the_machine():
    given = {
        "machine": {"cpu": "x", "environment": {"HAKMEM_BENCH_SUITE": "/home/me/hakmem"}},
        "command": "hakmem_lab bench --size quick --out /home/me/run --rounds 3",
        "allocators": {
            "hakmem": {"library": "/home/me/hakmem/build/libhakmem.so"},
            "system": {"library": None},
        },
    }
    text = command.without_places(json.dumps(given))
    assert "/home" not in text
    found = json.loads(text)
    assert found["command"] == "hakmem_lab bench --size quick --rounds 3"
    assert found["allocators"]["hakmem"]["library"] == "libhakmem.so"
