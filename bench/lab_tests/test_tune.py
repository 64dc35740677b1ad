"""lab tune: the search, what it may call better, and a search of a real program."""

import json
import re
import shutil
import subprocess

import pytest
from hakmem_lab import compare
from hakmem_lab.allocators import variant
from hakmem_lab.errors import BadInput, LabError
from hakmem_lab.front import main
from hakmem_lab.paths import ROOT
from hakmem_lab.tune import command, measure, options, screen, search, show

KNOBS = {"A": ("1", "2"), "B": ("1",), "C": ("1",), "D": ("1",)}
GAINS = {("A", "1"): 0.04, ("A", "2"): 0.10, ("B", "1"): 0.05, ("C", "1"): 0.004, ("D", "1"): 0.5}

needs_tools = pytest.mark.skipif(
    not (shutil.which("valgrind") and shutil.which("strace")), reason="no valgrind or no strace"
)


def model(asked, noise=0.0, broken=(), joint=1.0):
    """Cells of a made up allocator: each setting saves its share, D at the price of memory."""

    def evaluate(settings, again=False):
        asked.append(settings)
        if any(name in broken for name in settings):
            return None
        cycles = 1e6 * (1 + noise * again)
        for pair in settings.items():
            cycles *= 1 - GAINS[pair] * (joint if len(settings) > 1 else 1)
        return {"cycles": cycles, "memory_kb": 1000 * (2 if "D" in settings else 1)}

    return evaluate


ALL = search.singles(KNOBS)


def test_the_best_values_are_put_together():
    asked = []
    found = search.search(model(asked), "time", ALL)
    assert found.settings == {"A": "2", "B": "1"}
    assert found.gain == pytest.approx(1 - 0.9 * 0.95)
    assert len(asked) <= search.most_cells(ALL) and asked[:2] == [{}, {}]


def test_settings_that_do_not_go_together_stay_apart():
    assert search.search(model([], joint=0.3), "time", ALL).settings == {"A": "2"}


def test_what_costs_too_much_memory_or_lies_in_the_noise_does_not_win():
    found = search.search(model([], noise=0.02), "time", ALL)
    assert found.settings == {"A": "2"}  # 0.05 is less than three times the noise
    assert dict((tuple(s.items())[0][0], g) for s, _, g in found.tried[:5])["D"] == float("-inf")
    assert search.search(model([], noise=0.1), "time", ALL).settings == {}
    assert search.search(model([]), "memory", ALL).settings == {}


def test_what_would_win_but_for_its_price_is_told():
    found = search.search(model([]), "time", search.singles({"C": ("1",), "D": ("1",)}))
    said = show.nothing(found, "time", 2)
    assert said.startswith("Nothing is better than the defaults: no setting gains 0.5 % of time (2 of 2 were counted).")
    assert said.endswith("Left out: HAKMEM_D=1 takes 50.0 % less time and 100 % more memory; 10 % is the bound.")
    found = search.search(model([]), "time", search.singles({"C": ("1",)}))
    assert "Left out" not in show.nothing(found, "time", 2) and "Left out" not in show.nothing(search.Found(), "time", 2)


def test_settings_that_fail_are_left_out():
    found = search.search(model([], broken=("A",)), "time", ALL)
    assert found.settings == {"B": "1"}


def test_only_what_there_is_time_for_is_counted():
    asked = []
    found = search.search(model(asked), "time", ALL[1:], fits=lambda candidates: 1)
    assert asked == [{}, {}, {"A": "2"}] and found.settings == {"A": "2"}


def test_an_interrupt_keeps_what_was_found():
    asked = []
    inner = model(asked)

    def evaluate(settings, again=False):
        if len(asked) == 4:
            raise KeyboardInterrupt
        return inner(settings, again)

    found = search.search(evaluate, "time", ALL)
    assert found.interrupted and found.settings == {"A": "2"}


def screened(spread=0, **saved):
    """Cells at full speed: what each setting saves of 1000 cycles, D with twice the memory."""
    cells = {f"defaults {run}": {"cycles": 1000 + spread * run, "memory_kb": 1000} for run in range(screen.RUNS)}
    for key, settings in screen.steps(KNOBS)[screen.RUNS :]:
        ((name, value),) = settings.items()
        cells[key] = {"cycles": 1000 - saved.get(name + value, 0), "memory_kb": 2000 if name == "D" else 1000}
    return cells


def test_what_seems_of_use_goes_on_the_best_value_of_each_option():
    cells = screened(A1=100, A2=300, B1=200, C1=4, D1=900)
    assert screen.shortlist(cells, "time", 10_000, knobs=KNOBS) == [{"A": "2"}, {"B": "1"}]
    assert screen.shortlist(cells, "time", 10_000, most=1, knobs=KNOBS) == [{"A": "2"}]
    assert screen.shortlist(cells, "time", 50_000, knobs=KNOBS) == [{"A": "2"}, {"B": "1"}]
    assert screen.shortlist(cells, "time", 100_000, knobs=KNOBS) == [{"A": "2"}]
    assert screen.shortlist(screened(spread=120, A2=300, B1=100), "time", 0, knobs=KNOBS) == [{"A": "2"}]
    assert screen.shortlist(cells, "memory", 0, knobs=KNOBS) == []
    del cells[repr({"A": "2"})]  # the library refuses it
    assert screen.shortlist(cells, "time", 10_000, knobs=KNOBS) == [{"B": "1"}, {"A": "1"}]


def ratio(value, low, high):
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    "gain, speed, better, said",
    [
        (0.05, ratio(1.05, 1.02, 1.08), True, "both agree"),
        (0.05, ratio(1.0, 0.97, 1.03), True, "alone do not show it"),
        (0.05, ratio(0.95, 0.93, 0.98), False, "slower"),
        (0.004, ratio(1.05, 1.02, 1.08), False, "faster"),
        (-0.05, ratio(1.0, 0.97, 1.03), False, "even"),
        (0.05, None, True, "not timed"),
    ],
)
def test_it_is_better_only_where_it_is_so_on_the_program(gain, speed, better, said):
    found, why = show.verdict("time", gain, 0.005, speed, None)
    assert found is better and said in why, why


def test_less_memory_is_better():
    less = ratio(0.9, 0.88, 0.92)
    assert show.verdict("memory", 0.1, 0.005, None, less)[0]
    assert not show.verdict("memory", 0.1, 0.005, None, ratio(1.1, 1.05, 1.2))[0]
    even = ratio(1.0, 0.98, 1.01)  # one count of less than that is chance
    assert not show.verdict("memory", 0.006, 0.005, None, even)[0]
    assert show.verdict("memory", 0.05, 0.005, None, even)[0]


def test_every_knob_is_an_option_for_users_or_tuning():
    text = (ROOT / "tools" / "hakmem" / "when.def").read_text()
    groups = dict(re.findall(r"^OPTION_WHEN\((\w+), (\w+),", text, re.MULTILINE))
    assert {groups[name] for name in search.KNOBS} == {"USER", "TUNING"}


def test_bad_input_is_known_before_anything_runs(tmp_path):
    (tmp_path / "trace").write_bytes(options.MAGIC)
    (tmp_path / "text").write_text("no trace")
    assert f'"{options.MAGIC[:-1].decode()}\\n"' in (ROOT / "tools/record/format.h").read_text()
    parser = options.parser()
    for words, said in (([], "no program given"), (["--trace", "/no/such"], "No such file"),
                        (["--trace", str(tmp_path / "text")], "it is no trace"),
                        (["--trace", str(tmp_path / "trace"), "--", "no-such"], "no program 'no-such"),
                        (["--resume", "x", "--goal", "time"], "name no others")):  # fmt: skip
        with pytest.raises(BadInput, match=said):
            parser.check(parser.parse_args(words))
    parser.check(parser.parse_args(["--trace", str(tmp_path / "trace")]))


@pytest.mark.long
def test_hakmem_takes_every_value(with_hakmem, quiet):
    session = compare.Session(with_hakmem, {}, quiet)
    hakmem = session.allocators(["hakmem"])[0]
    for settings in search.singles(search.KNOBS):
        session.check(variant(hakmem, measure.named(settings)))
    with pytest.raises(LabError):
        session.check(variant(hakmem, measure.named({"SS_SIZE": "3"})))


REPEATS = """
#include <stdlib.h>
int main(void) {
    volatile char *blocks[16];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 16; i++) {
            if (!(blocks[i] = malloc(2000000))) return 1;
            for (int at = 0; at < 2000000; at += 4096) blocks[i][at] = 1;
        }
        for (int i = 0; i < 16; i++) free((void *)blocks[i]);
    }
    return 0;
}
"""


@pytest.mark.long
@needs_tools
def test_a_search_finds_what_helps_and_goes_on_where_it_was_interrupted(with_hakmem, tmp_path, monkeypatch, capsys):
    """32 MB that come and go: HUGE_CACHE saves a third of their faults, SHARDS saves nothing."""
    monkeypatch.setattr(search, "KNOBS", {"SHARDS": ("1",), "HUGE_CACHE": ("256M",)})
    out, plain, program = tmp_path / "out", screen.Screen.cell, tmp_path / "repeats"
    program.with_suffix(".c").write_text(REPEATS)
    subprocess.run(["cc", "-O1", "-o", program, program.with_suffix(".c")], check=True, timeout=300)

    def stops(self, key, settings):
        if "HUGE_CACHE" in settings:
            raise KeyboardInterrupt
        return plain(self, key, settings)

    monkeypatch.setattr(screen.Screen, "cell", stops)
    words = ["tune", "--build", str(with_hakmem), "--rounds", "3", "--out", str(out), "--", str(program)]
    assert main(words) == 130
    assert f"tune --resume {out}" in capsys.readouterr().out
    seen = json.loads((out / "screened.json").read_text())
    assert len(seen) == screen.RUNS + 1 and not (out / "tried.json").exists()
    monkeypatch.setattr(screen.Screen, "cell", plain)
    assert main(["tune", "--resume", str(out)]) == 0
    said = capsys.readouterr().out
    assert "won the search: HAKMEM_HUGE_CACHE=256M " in said and "on the program itself: cost by counts -" in said, said
    again = json.loads((out / "screened.json").read_text())
    assert {name: again[name] for name in seen} == seen and len(again) == len(seen) + 1
    tried = json.loads((out / "tried.json").read_text())
    assert set(tried) == {"defaults", "defaults again", "HAKMEM_HUGE_CACHE=256M"}


@pytest.mark.long
@needs_tools
def test_where_nothing_helps_nothing_is_counted(with_hakmem, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(search, "KNOBS", {"SHARDS": ("1",), "SS_SIZE": ("2M",)})
    out = tmp_path / "out"
    assert main(["tune", "--build", str(with_hakmem), "--out", str(out), "--", "true"]) == 0
    assert "Nothing is better than the defaults" in capsys.readouterr().out
    assert not (out / "tried.json").exists()


@needs_tools
def test_a_setting_that_fails_is_tried_again_when_the_search_goes_on(with_hakmem, tmp_path, quiet):
    session = compare.Session(with_hakmem, {}, quiet)
    hakmem = session.allocators(["hakmem"])[0]
    limited = tmp_path / "limited.sh"
    limited.write_text("#!/bin/sh\n[ -z \"$HAKMEM_SS_SIZE\" ]\n")
    limited.chmod(0o755)

    def cells():
        return measure.Cells(session, hakmem, tmp_path, "tried.json", [str(limited)], str(tmp_path), 60)

    first = cells()
    assert first.cell({"SS_SIZE": "2M"}) is None and "exit status 1" in str(first.refused)
    limited.write_text("#!/bin/sh\ntrue\n")
    assert cells().cell({"SS_SIZE": "2M"})["instructions"] > 1000
    assert cells().cell({})["instructions"] > 1000


@needs_tools
def test_what_reading_a_trace_costs_is_left_out(with_hakmem, tmp_path, quiet, monkeypatch):
    """A player that reads for 50 times what it plays; the cell has the playing alone."""
    source = tmp_path / "play.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "int main(int n, char **a) { volatile long i; int dry = 0;\n"
        "for (int k = 1; k < n; k++) dry |= !strcmp(a[k], \"--dry\");\n"
        "for (i = 0; i < 1000000; i++); if (!dry) for (i = 0; i < 20000; i++);\n"
        "puts(\"{\\\"heap_most_kb\\\": 70, \\\"heap_at_peak_kb\\\": 60}\"); return 0; }\n"
    )
    subprocess.run(["cc", "-O1", "-o", with_hakmem / "hakmem-replay", source], check=True, timeout=300)
    session = compare.Session(with_hakmem, {}, quiet)
    hakmem = session.allocators(["hakmem"])[0]
    cells = measure.ReplayCells(session, hakmem, tmp_path, "tried.json", source, str(tmp_path), 60)
    cell = cells.cell({})
    assert 20_000 < cell["instructions"] < 400_000
    assert (cell["peak_rss_kb"], cell["mean_rss_kb"]) == (70, 60)


def test_a_search_that_fails_leaves_nothing(tmp_path):
    asked = options.parser().parse_args(["--out", str(tmp_path / "out"), "--", "true"])
    with pytest.raises(LabError), command._begun(asked) as (folder, _home):
        assert (folder / command.SETUP).is_file()
        raise LabError("it takes too long")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), command._begun(asked):
        raise KeyboardInterrupt
    assert (tmp_path / "out" / command.SETUP).is_file()


def test_a_search_that_takes_too_long_is_not_begun(quiet):
    class Kept:
        def __init__(self):
            self.cells = {key: {"wall_s": 1, "user_s": 100} for key, _ in screen.steps()}

    class Cells:
        session = hakmem = full = program = None

    with pytest.raises(LabError, match="would take about"):
        command._screened(Cells, Kept(), 30, command.Meter(quiet))
