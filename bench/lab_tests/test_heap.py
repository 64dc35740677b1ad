"""`hakmem prof` and `hakmem report`: a profile is read, becomes pprof's form, and a page."""

import argparse
import gzip
import mmap
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem_lab.errors import BadInput, LabError
from hakmem_lab.heap import command, names, options, output, page, perf_map, pprof, read, sources, state, words
from hakmem_lab.paths import ROOT

TEXT = """heap profile: 1000: 48000 [3000: 144000] @ heapprofile
# hakmem rate 524288 process 77 samples 12 live 4 dropped 0 ms 2500 peak_ms 1500
1000: 40000 [3000: 120000] @ 0x1011 0x1021
# size 64 remote 5 lifetime_ms 9 peak 1500 peak_bytes 60000
1: 100000 [2: 200000] @ 0x1031 0x1021
# size 0 remote 0 lifetime_ms 0 peak 1 peak_bytes 100000

MAPPED_LIBRARIES:
00001000-00002000 r-xp 00000000 00:00 0                          [code]
"""


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "a.heap"
    path.write_text(TEXT)
    return read.read(path)


def fields(data):
    """[(tag, number or bytes)] of a message."""
    found, at = [], 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            found.append((key >> 3, data[at : at + length]))
            at += length
        else:
            found.append((key >> 3, varint()))
    return found


def test_what_was_read(profile):
    assert (profile.rate, profile.process, profile.samples) == (524288, 77, 12)
    small, large = profile.sites
    assert (small.live, small.live_bytes, small.all, small.size, small.remote) == (
        1000, 40000, 3000, 64, 5)  # fmt: skip
    assert (small.given, large.given) == (64000, 100000)
    assert profile.stack(small) == ["0x1020", "0x1010"]


@pytest.mark.parametrize("change", ["MAPPED_LIBRARIES:", "# hakmem rate", "# size 64"])
def test_damaged_files_are_refused(tmp_path, change):
    path = tmp_path / "bad.heap"
    path.write_text(TEXT.replace(change, "?"))
    with pytest.raises(LabError):
        read.read(path)


@pytest.mark.parametrize("text", ("", "GIF89a", '{"rss": 1}'))
def test_foreign_files_are_refused_before_anything_is_installed(tmp_path, text):
    path = tmp_path / "foreign"
    path.write_text(text)
    with pytest.raises(BadInput, match="no heap profile"):
        options.prof_parser().check(argparse.Namespace(source=str(path), out=None))


@pytest.fixture
def fresh(tmp_path):
    """Calls the lab as in a fresh clone: no package is there, and what would install some fails."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, line in (("python3", f'exec {sys.executable} -S "$@"'), ("make", "echo installs >&2; exit 1"),
                       ("hakmem", "echo no statistics >&2; exit 1")):  # fmt: skip
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}

    def call(*words):
        return subprocess.run(
            [ROOT / "scripts" / "lab", *words], capture_output=True, text=True, timeout=300, check=False,
            env={**clean, "PATH": f"{folder}:{clean['PATH']}"}, cwd=tmp_path,
        )  # fmt: skip

    return call


def test_prof_needs_no_package(fresh, profile):
    done = fresh("prof", "a.heap", "-o", "g.pb.gz")
    assert (done.returncode, done.stderr) == (0, "") and "12 samples" in done.stdout
    assert (profile.path.parent / "g.pb.gz").read_bytes() == pprof.packed(profile)


@pytest.mark.parametrize("text, why", [
    ("{}", "is no JSON of a running process"), ("{", "is no JSON of a running process"),
    ('{"time":1}\n', "a.heap, line 1 is no JSON"), (TEXT.replace("MAPPED", "?"), "its end is missing"),
    (TEXT.replace("# size 64", "?"), "a.heap, line 3: this is no site"), ("[]", "is no heap profile"),
])  # fmt: skip
def test_what_has_nothing_to_draw_is_refused_before_packages_are_installed(fresh, tmp_path, text, why):
    (tmp_path / "good.heap").write_text(TEXT)
    (tmp_path / "a.heap").write_text(text)
    done = fresh("heap_report", "good.heap", "a.heap")
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and why in done.stderr, done.stderr
    done = fresh("heap_report", str(os.getpid()))
    assert done.returncode == 1 and f"no statistics; process {os.getpid()} writes no profiles" in done.stderr
    assert "installs" in fresh("heap_report", "good.heap").stderr


def test_a_pattern_may_fit_what_prof_has_written(monkeypatch, tmp_path, capsys, profile):
    monkeypatch.chdir(tmp_path)
    names = ["a.heap", "a.heap.pb.gz", "a.heap.pb.gz.old"]
    for name in names[1:]:
        Path(name).write_bytes(pprof.packed(profile))
    told = argparse.Namespace(sources=names, out=Path("h.html"))
    options.report_parser().check(told)
    assert told.sources == ["a.heap"] and capsys.readouterr().out.startswith("left out: a.heap.pb.gz, a.heap.pb.gz.old: ")
    with pytest.raises(BadInput, match="a.heap.pb.gz is no heap profile"):
        options.report_parser().check(argparse.Namespace(sources=names[1:], out=Path("h.html")))


@pytest.mark.parametrize("number", ["none", "", "0", "60", "²"])
def test_a_process_without_a_profile_is_told(monkeypatch, number):
    settings = {"HAKMEM_PROF": "1", "HAKMEM_PROF_SIGNAL": number}
    monkeypatch.setattr(sources, "_settings", lambda pid, live: settings)
    with pytest.raises(LabError, match="writes no profiles"):
        sources.ask(os.getpid())


def test_pprof_has_samples_and_strings(profile):
    message = fields(gzip.decompress(pprof.packed(profile)))
    strings = [value.decode() for tag, value in message if tag == 6]
    assert strings[0] == "" and {"alloc_space", "inuse_space", "bytes", "0x1010"} <= set(strings)
    assert {"peak_objects", "peak_space"} <= set(strings)
    assert len([1 for tag, _ in message if tag == 2]) == 2
    assert len([1 for tag, _ in message if tag == 4]) == 3
    assert [strings[value] for tag, value in message if tag == 14] == ["inuse_space"]


def test_a_file_that_is_there_is_kept(tmp_path):
    out = tmp_path / "h.html"
    assert output.write(out, b"one") == ""
    assert output.write(out, b"one") == ""  # the same again is no other file
    assert output.write(out, b"two") == f" (the file that was there is now {out}.old)"
    assert (out.read_bytes(), (tmp_path / "h.html.old").read_bytes()) == (b"two", b"one")
    assert sorted(os.listdir(tmp_path)) == ["h.html", "h.html.old"]


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path, profile):
    for out, what in ((tmp_path, "a folder"), (tmp_path / "no" / "h.html", "no folder"), (profile.path, "to read")):
        with pytest.raises(BadInput, match=what):
            output.check(out, [str(profile.path)])
    with pytest.raises(LabError, match="cannot write /dev/full: No space left"):
        output.write(Path("/dev/full"), b"x" * 100000)
    (tmp_path / "h.html").write_bytes(b"one")
    with pytest.raises(TypeError):
        output.write(tmp_path / "h.html", None)  # what fails between
    assert sorted(os.listdir(tmp_path)) == ["a.heap", "h.html"]


@pytest.fixture
def asked(monkeypatch):
    """A function that asks this process, which answers at once by a file of the name that it knows itself by."""
    monkeypatch.setattr(sources, "_catches", lambda pid, number: True)
    monkeypatch.setattr(sources, "SECONDS", 5)

    def ask(setting, writes, live=None):
        settings = {"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": str(setting)}
        monkeypatch.setattr(sources, "_live", lambda pid: live or {})
        monkeypatch.setattr(sources, "_settings", lambda pid, live: settings)
        monkeypatch.setattr(os, "kill", lambda _pid, _number: writes.write_text(TEXT + "7-8 rw-p 0 00:00 0 [stack]\n"))
        return sources.ask(os.getpid())

    return ask


def test_a_profile_of_an_earlier_process_of_that_number_is_none_of_this_one(asked, tmp_path):
    """In a container the number of a process is the same after each start."""
    (tmp_path / "p.1").write_text(TEXT)
    assert asked(tmp_path / "p", tmp_path / "p.1") == tmp_path / "p.1"


def test_names_of_profiles_are_no_patterns(asked, tmp_path):
    assert asked(tmp_path / "h[%p]*", tmp_path / f"h[{os.getpid()}]*.1").name == f"h[{os.getpid()}]*.1"


def test_a_process_in_a_container_writes_its_own_number(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "_status", lambda pid, field: f"\t{pid}\t7\t1" if field == "NSpid" else "0")
    assert asked(tmp_path / "h.%p", tmp_path / "h.1.1") == tmp_path / "h.1.1"


def test_names_of_a_process_with_other_mounts_are_those_behind_its_root(monkeypatch, tmp_path):
    assert sources._seen_from_here(os.getpid(), "/a/b") == Path("/a/b")
    assert sources._seen_from_here(os.getpid(), "b") == Path(os.getcwd(), "b")
    monkeypatch.setattr(sources, "_is_same", lambda path, other: False)
    assert sources._seen_from_here(7, "/a/b") == Path("/proc/7/root/a/b")
    assert sources._seen_from_here(os.getpid(), "b") == Path(f"/proc/{os.getpid()}/cwd/b")


def test_what_would_be_waited_for_in_vain_is_told(asked, tmp_path):
    with pytest.raises(LabError, match="there is no folder /nonexist"):
        asked("/nonexist/%p", tmp_path / "p")
    with pytest.raises(LabError, match="handles signal 60 itself"):
        asked(tmp_path / "p", tmp_path / "p", {"live_page": {"profile_signal": 0}})
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("page", ["hakmem-live", "other"])
def test_a_process_whose_live_page_cannot_be_read_is_not_asked(monkeypatch, tmp_path, page):
    """Another build's page, for instance: it would tell whether the program handles the signal itself."""
    killed = []

    def refuse(_pid):
        raise LabError("hakmem: stat: process 7: its page is of another version or build of HAKMEM than this command")

    def kill(_pid, number):
        killed.append(number)
        (tmp_path / "p.1").write_text(TEXT + "7-8 rw-p 0 00:00 0 [stack]\n")

    settings = {"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": str(tmp_path / "p")}
    monkeypatch.setattr(sources, "_statistics", refuse)
    monkeypatch.setattr(sources, "_settings", lambda pid, live: settings)
    monkeypatch.setattr(sources, "_catches", lambda pid, number: True)
    monkeypatch.setattr(os, "kill", kill)
    file = os.memfd_create(page)
    os.truncate(file, 4096)
    with mmap.mmap(file, 4096):
        if page == "other":
            assert sources.ask(os.getpid()) == tmp_path / "p.1"
        else:
            with pytest.raises(LabError, match="another version or build"):
                sources.ask(os.getpid())
    os.close(file)
    assert killed == ([60] if page == "other" else [])


def test_the_page_tells_what_stands_out(profile):
    told = words.warnings(profile)
    assert "71 % of what is in use" in told[0] and "0x1030" in told[0]
    assert any("lost by rounding" in text and "64 bytes" in text for text in told)
    assert any("only 12 samples" in text for text in told)
    text = page.draw([profile])
    assert text.startswith("<!doctype html>") and "plotly" in text
    assert "src=" not in text.split("<body>")[1]  # nothing is loaded from elsewhere
    assert "0x1010" in text and "What changed" not in text


def of_program(tmp_path, name, factor=1, text=TEXT):
    path = tmp_path / f"{name}.heap"
    text = text.replace("[2: 200000]", f"[{2 * factor}: {200000 * factor}]")
    path.write_text(text.replace("MAPPED_LIBRARIES:", f"MAPPED_LIBRARIES:\n00000100-00000200 r-xp 0 00:00 0 /no/{name}"))
    return read.read(path)


def test_of_several_programs_the_one_that_allocated_most_is_drawn(tmp_path, capsys):
    """A shell may start the program, and a pattern names the profiles of both."""
    shell, first, second = of_program(tmp_path, "sh"), of_program(tmp_path, "b", 9), of_program(tmp_path, "b", 8)
    assert command.of_one_program([first, shell, second]) == [first, second]
    assert "drawn is b, which allocated most; left out: sh (1)" in capsys.readouterr().out
    assert command.of_one_program([first, second]) == [first, second] and capsys.readouterr().out == ""
    assert "<h1>Heap of b, process 77</h1>" in page.draw([first])


def test_a_program_that_freed_all_and_pythons_own_memory_are_told_of(tmp_path):
    freed = TEXT.replace("1000: 40000 [", "0: 0 [").replace("1: 100000 [", "0: 0 [")
    told = words.warnings(of_program(tmp_path, "prog", text=freed))
    assert any("little is in use now, 0 B" in text and "the peak, 156.2 KiB 1.5 s after" in text for text in told)
    drawn = page.draw([of_program(tmp_path, "prog", text=freed)])
    assert "In use, by call" not in drawn and "Allocated in all" in drawn
    assert drawn.index("In use at the peak, by call") < drawn.index("Allocated in all") and "156.2 KiB, 1.5 s after" in drawn
    assert "62 % of what was in use at the peak, 97.7 KiB in 1 block, came from one call: 0x1030" in told[0]
    assert any("PYTHONMALLOC=malloc" in text for text in words.warnings(of_program(tmp_path, "python3.11", 100)))
    assert not any("PYTHONMALLOC" in text for text in words.warnings(of_program(tmp_path, "python3.11")))


PERF_MAP = """1000 12 py::handle:/home/user/app.py
1020 8 py::loads:/usr/lib/python3.12/json/__init__.py
nonsense
ff zz py::bad:/x
1030 8 LazyCompile:~onRequest /srv/app.js:10:3
"""


def test_functions_made_at_run_time_are_named(tmp_path, monkeypatch):
    """Python's, without the interpreter between them; the warning names the innermost one of them."""
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    (tmp_path / "perf-77.map").write_text(PERF_MAP)
    text = TEXT.replace("@ 0x1011 0x1021", "@ 0x1061 0x1021 0x1051 0x1011 0x1041")
    found = of_program(tmp_path, "python3.12", text=text)
    small, large = found.sites
    assert found.stack(small) == ["handle (app.py)", "loads (json/__init__.py)", "0x1060"]
    assert found.stack(large) == ["loads (json/__init__.py)", "LazyCompile:~onRequest /srv/app.js:10:3"]
    told = words.warnings(found)
    assert "comes from one call: loads (json/__init__.py)" in told[0]
    assert not any("PYTHONPERFSUPPORT" in one for one in told)
    (tmp_path / "perf-77.map").unlink()
    assert any("PYTHONPERFSUPPORT=1" in one for one in words.warnings(of_program(tmp_path, "python3.12", text=text)))


def test_the_line_of_a_call_is_told(profile):
    frame = profile.frames[0x1031]
    frame.lines = [("keeps", "/src/prog.c", 8)]
    assert "keeps (prog.c:8)" in words.warnings(profile)[0] and "keeps (prog.c:8) ←" in page.draw([profile])


def test_what_is_left_of_a_peak_comes_before_the_peak(tmp_path):
    """A program that frees most of what it has, but not all, has a leak in what is left."""
    text = TEXT.replace("1000: 40000 [", "0: 0 [").replace("peak 1500 peak_bytes 60000", "peak 6000 peak_bytes 240000")
    told = words.warnings(of_program(tmp_path, "prog", text=text))
    assert told[0].startswith("100 % of what is in use, 97.7 KiB in 1 block, comes from one call: 0x1030")
    assert told[1].startswith("71 % of what was in use at the peak") and not any("little is in use" in one for one in told)
    drawn = page.draw([of_program(tmp_path, "prog", text=text)])
    assert drawn.index("In use, by call") < drawn.index("In use at the peak, by call")


def at(path, process, ms):
    return read.Profile(Path(path), 1, process, 1, 0, ms, 0, [], [])


def test_profiles_of_one_process_are_drawn_as_they_were_written():
    """Two processes of one number, as in containers, stay as they were given."""
    names = [("h/7", 7, 90), ("h/7.1", 7, 10), ("h/7.10", 7, 80), ("h/7.2", 7, 20), ("h/8", 8, 5), ("h/8.1", 8, 1),
             ("before", 1, 50), ("after", 1, 40), ("p.1", 1, 9), ("p.1.1", 1, 3)]  # fmt: skip
    drawn = [str(one.path) for one in command.in_order([at(*name) for name in names])]
    assert drawn == ["h/7.1", "h/7.2", "h/7.10", "h/7", "h/8.1", "h/8", "before", "after", "p.1.1", "p.1"]


def test_two_profiles_are_compared(profile, tmp_path):
    path = tmp_path / "b.heap"
    path.write_text(TEXT.replace("1: 100000 [2", "3: 300000 [4"))
    text = page.draw([profile, read.read(path)])
    assert "What changed from a.heap" in text and "195.3 KiB more in use" in text


# 200 superslabs of 16 units: blocks of 64 bytes, an eighth of which fill their pages, the others few of
# each; free and large units.
RESIDENT = dict.fromkeys(("live", "rounding", "sparse", "caches", "dirty", "metadata", "other"), 1 << 20)
FULL, FEW = " ".join(["64:" + "f" * 16] * 16), " ".join(["64:" + "1" * 16] * 14 + ["free:" + "." * 16, "large:" + "0" * 16])
FEW_PAGES = 14 * 16  # with two blocks each


def pins_of(pages):
    return {"64": {"pages": pages, "used": pages * 2 * 64}} if pages else {}


CHART = {"stride": 1, "pins": pins_of(175 * FEW_PAGES), **{hex(i << 20): FULL if i % 8 == 0 else FEW for i in range(1, 201)}}


def text_of(time=None, chart=CHART, rss=200 << 20):
    root = {"pid": 77, "resident": {"rss": rss, **RESIDENT}, "map": chart}
    return json.dumps(root if time is None else {"time": time, **root}, separators=(",", ":"))


def test_few_blocks_that_pin_many_pages_come_first(profile):
    (looked,) = state.read(text_of(), "x")
    (pin,) = looked.pins
    assert (pin.size, pin.pages) == (64, 175 * FEW_PAGES)
    assert pin.free == pin.pages * (4096 - 128) and pin.blocks == 2 * pin.pages
    told = words.warnings(profile, looked)
    assert told[0].startswith("74 % of resident memory, 148.3 MiB, is pinned by ")
    assert "100 % of the blocks of this size in use come from one call: 0x1010" in told[0]
    assert told[1:] == words.warnings(profile)


def test_a_heap_that_is_well_used_has_no_such_warning(profile):
    (looked,) = state.read(text_of(chart={"stride": 1, "pins": {}, "0x100000": FULL}), "x")
    assert looked.pins == [] and words.warnings(profile, looked) == words.warnings(profile)
    (looked,) = state.read(text_of(chart={"stride": 1, "pins": pins_of(FEW_PAGES), "0x100000": FEW}), "x")
    assert looked.pins and words.warnings(profile, looked) == words.warnings(profile)


def test_one_superslab_stands_for_as_many_as_the_map_says(profile):
    (one,) = state.read(text_of(), "x")
    (three,) = state.read(text_of(chart={**CHART, "stride": 3}), "x")
    assert three.pins[0].free == 3 * one.pins[0].free


@pytest.mark.parametrize("text", ["{", "{}", text_of(chart={"stride": 1, "pins": {}, "0x1": "64:0"}),
                                  text_of(chart={"stride": 1, "pins": {}, "x": FULL}), text_of(chart={"0x1": FULL}),
                                  text_of(chart={"stride": 1, "pins": {"64": 1}, "0x1": FULL}),
                                  text_of(chart={"stride": 1, "pins": {}, "0x1": FULL.replace("f", "g")}), text_of(chart=[0]),
                                  text_of(1.0).replace("resident", "x")])  # fmt: skip
def test_damaged_states_are_refused(text):
    with pytest.raises(LabError):
        state.read(text, "x")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(browser, profile, tmp_path, width):
    """Desk and phone: all is drawn, and nothing is wider than the screen."""
    lines = "\n".join(text_of(100.0 + i, rss=(200 + i) << 20) for i in range(3))
    path = tmp_path / "h.html"
    path.write_text(page.draw([profile, profile, profile], state.read(lines, "x")))
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    opened = context.new_page()
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(path.as_uri())
    assert errors == [] and opened.evaluate("document.documentElement.scrollWidth") <= width
    titles = [title.inner_text() for title in opened.query_selector_all("h2")]
    assert titles == ["Resident memory", "Resident memory over time", "What pins pages", "Map of superslabs",
                      f"What changed from {profile.path.name}", "In use over time, by call", "In use, by call",
                      "Most in use", "In use, by size class", "In use at the peak, by call",
                      "Most in use at the peak", "Allocated in all, by call"]  # fmt: skip
    drawn = [plot.bounding_box()["width"] for plot in opened.query_selector_all(".plotly-graph-div .main-svg")]
    assert len(opened.query_selector_all(".js-plotly-plot")) == 8 and max(drawn) <= width
    assert len(opened.query_selector_all(".heatmaplayer image")) == 1
    assert len(opened.query_selector_all("text.legendtext")) >= 10
    assert "148.3 MiB, is pinned by" in opened.query_selector("li").inner_text()
    context.close()


@pytest.mark.parametrize("most", [0, 1, 5000, 3 << 20, (8 << 20) + 1, 7 << 40])
def test_an_axis_of_bytes_has_a_few_ticks_in_powers_of_two(most):
    axis = page.bytes_axis("in use", most)
    assert 2 <= len(axis["tickvals"]) <= 10 and axis["tickvals"][-1] > most
    step = axis["tickvals"][1]
    assert step & (step - 1) == 0 and axis["ticktext"][0] == "0 B"


@pytest.mark.parametrize("name, shown", [
    ("main", "main"), ("f(int)", "f(int)"), ("a::(anonymous namespace)::g(char const*)", "a::(anonymous namespace)::g(char const*)"),
    ("std::vector<int>::push_back(int const&)", "std::vector<int>::push_back(int const&)"),
    ("std::map<std::string, std::vector<int> >::operator[](std::string const&) const",
     "std::map<…>::operator[](std::string const&) const"),
    ("T& x::operator<< <long_type_of_the_user>(T&, int)", "T& x::operator<< <…>(T&, int)"),
    ("bool operator<(A const&, B const&)", "bool operator<(A const&, B const&)"),
    ("f(std::map<int, std::less<int> >, std::function<void (int)>, unsigned long, unsigned long)", "f(…)"),
    ("std::function<void (std::string const&)>::operator()(std::string const&) const",
     "std::function<…>::operator()(std::string const&) const"),
    ("<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop"),
    ("f<a", "f<a"), ("a)", "a)"), ("<module> (app.py)", "<module> (app.py)"), ("", ""),
])  # fmt: skip
def test_names_without_what_templates_are_made_of(name, shown):
    assert names.short(name) == shown


def test_calls_of_containers_are_those_of_the_program():
    assert names.own(["main", "f()", "std::map<int>::operator[]", "operator new"]) == ("main", "f()")
    assert names.own(["std::a", "operator new"]) == ("std::a", "operator new") and names.own([]) == ()


def test_a_function_with_several_calls_is_no_single_call(profile):
    small, large = profile.sites
    profile.frames[small.frames[0]].lines = [("keeps", "/src/prog.c", 5)]
    profile.frames[large.frames[0]].lines = [("keeps", "/src/prog.c", 7)]
    told = words.warnings(profile)
    assert any("from one function: keeps (prog.c:7, 5)" in text for text in told)
    assert "keeps (prog.c:7, 5)" in page.draw([profile])


def test_a_name_that_no_symbol_covers_is_not_told(tmp_path):
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text("int one(void) { return 1; }\nint main(void) { return one(); }\n")
    subprocess.run(["cc", "-O0", "-no-pie", "-o", program, source], check=True)
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    one = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" one"))
    answers = {one: [("one", "??", 0)], one + (1 << 20): [("_fini", "??", 0)], one + 1: [("two", "b.c", 3)]}
    assert list(read._without_guesses(program, answers)) == [one, one + 1]


def test_estimates_are_told_as_such():
    assert [words.estimate_of(number) for number in (1, 99, 112_318, 996)] == [
        "1 block", "99 blocks", "about 110,000 blocks", "about 1,000 blocks"]  # fmt: skip


def test_processes_are_drawn_as_they_ended(tmp_path):
    """A number of more digits is not the earlier one."""
    for name, seconds in (("10", 2000), ("9", 1000)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (seconds, seconds))
    both = [at(tmp_path / "10", 10, 5), at(tmp_path / "9", 9, 5)]
    assert [one.path.name for one in command.in_order(both)] == ["9", "10"]
