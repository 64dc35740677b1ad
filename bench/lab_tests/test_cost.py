"""lab cost: whose instructions are whose, tables, differences, what moved; and short real runs."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from hakmem_lab.cost import command, figures, measure, parts, programs, published, show
from hakmem_lab.errors import BadInput, LabError
from hakmem_lab.paths import ROOT
from hakmem_lab.profile import cgfile

CALLGRIND = """\
# callgrind format
positions: line
events: Ir I1mr D1mr D1mw ILmr DLmr DLmw
summary: 130 1 2 3 0 0 1

ob=(1) /lib/libx.so
fn=(1) malloc
10 10 1
+1 20 0 2 3 0 0 1
cfn=(2) helper
calls=4 1
* 1000 500
* 30
fn=(2) helper
1 70
"""


def cell(total=1000, allocator=100, faults=10, functions=None):
    instructions = {"total": total, "allocator": allocator, "copies": 5, "loader": 5,
                    "rest": total - allocator - 10}  # fmt: skip
    return {"instructions": instructions, "l1": 50, "l2": 20, "faults": faults,
            "faults_small": faults, "given_back": 4, "touched_again": 1, "huge_pages": 0, "peak_rss_kb": 900, "mean_rss_kb": 800,
            "syscalls": {"total": 7, "calls": {"mmap": 7}},
            "calls": {"malloc": 2, "calloc": 0, "realloc": 0, "aligned": 0, "free": 2, "usable": 0},
            "functions": functions or {"malloc": allocator}}  # fmt: skip


def document(**cells):
    about = {name: {"title": name.upper(), "version": ""} for name in cells}
    return {"machine": {"commit": "abc", "cpu": "c", "kernel": "k", "huge_pages": "madvise"},
            "base": "hakmem", "allocators": about,
            "programs": {"perl": {"title": "perl", "cells": cells}}}  # fmt: skip


def test_costs_without_addresses_are_read(tmp_path):
    (tmp_path / "out").write_text(CALLGRIND)
    costs = cgfile.read(tmp_path / "out")
    assert costs.functions["/lib/libx.so", "malloc"] == [60, 1, 2, 3, 0, 0, 1]
    assert costs.functions["/lib/libx.so", "helper"][0] == 70
    assert not costs.instructions


@pytest.mark.parametrize(
    "library, where, function, part",
    [
        ("/lib/libx.so", "/lib/libx.so", "hak_release.part.0", "allocator"),
        ("/lib/libx.so", "/lib/libx.so", "memcpy", "copies"),
        ("/lib/libx.so", "/lib/libx.so", "snmalloc::memmove<true>", "copies"),
        ("/lib/libx.so", "/lib/libc.so.6", "__memset_avx2_unaligned_erms", "copies"),
        ("/lib/libx.so", "/lib/libc.so.6", "malloc", "rest"),
        ("/lib/libx.so", "/lib/ld-linux-x86-64.so.2", "do_lookup_x", "loader"),
        ("/lib/libx.so", "", "0x1234", "rest"),
        (None, "/lib/libc.so.6", "_int_free", "allocator"),
        (None, "/lib/libc.so.6", "malloc'2", "allocator"),
        (None, "/lib/libc.so.6", "tcache_init.part.0", "allocator"),
        (None, "/lib/libc.so.6", "printf", "rest"),
        (None, "/bin/perl", "malloc", "rest"),
    ],
)
def test_every_instruction_has_one_owner(library, where, function, part):
    assert parts.Judge(library).part(where, function) == part


def test_parts_add_up_and_names_of_one_function_are_one():
    counted = {("/x.so", "f"): 5, ("/x.so", "f.constprop.0"): 7, ("/x.so", "g.lto_priv.0'2"): 1,
               ("/lib/libc.so.6", "__memcpy_evex"): 3, ("/bin/p", "main"): 4}  # fmt: skip
    sums, named = parts.Judge("/x.so").split(counted)
    assert sums == {"allocator": 13, "copies": 3, "loader": 0, "rest": 4}
    assert named == {"f": 12, "__memcpy_evex": 3, "g": 1}


def test_the_ten_programs_find_their_inputs(tmp_path):
    names = [program.name for program in programs.choose(None)]
    assert names == ["perl", "sqlite3", "python3", "gs", "gcc", "ruby", "lua", "z3", "node", "redis"]
    for program in programs.PROGRAMS:
        folder = tmp_path / program.name
        folder.mkdir()
        program.prepare(folder)  # fails where a workload no longer has what is made smaller
        assert any(folder.iterdir())
    again = tmp_path / "again"
    again.mkdir()
    programs.choose("redis")[0].prepare(again)
    log = (again / "appendonly.aof").read_bytes()
    assert log == (tmp_path / "redis" / "appendonly.aof").read_bytes()
    assert log.endswith(b"NOSAVE\r\n$3\r\nNOW\r\n")


def test_rows_and_programs_are_chosen_by_name():
    assert [p.name for p in programs.choose("lua,real:lua,lua")] == ["lua", "real:lua"]
    row = programs.choose("bulk:1600/64/order")[0]
    assert row.words[0] == "bench_bulk" and "{n}" not in row.words
    for text, said in (("emacs", "unknown program 'emacs'"), ("ring:4", "for a given time"),
                       (",", "no program")):  # fmt: skip
        with pytest.raises(BadInput, match=said):
            programs.choose(text)
    with pytest.raises(BadInput, match="no command 'no-such-command'"):
        programs.of_command(["no-such-command"])


def test_each_part_of_the_hardened_profile_is_tried_alone():
    text = (ROOT / "src/options/options.def").read_text()
    row = re.compile(r'OPTION_\w+\((\w+),[^"]*"[^"]*",[^"]*"with (?:HARDENED|ZERO_ON_FREE), ')
    tried = {word.partition("=")[0] for part in command.HARDENED for word in part.split()}
    assert tried == set(row.findall(text))
    names = command.hardened_parts()
    assert names[0] == "hakmem" and names[-1] == "hakmem+HAKMEM_PROFILE=HARDENED"
    assert len(names) == len(command.HARDENED) + 3


def test_the_environment_has_one_size():
    for variables in ({}, {"A": "1"}, {"A": "1", "LONG": "x" * 700}):
        assert sum(len(word) + 1 for word in measure.padded(variables)) == measure.ENVIRONMENT_BYTES
    with pytest.raises(LabError, match="too long"):
        measure.padded({"LONG": "x" * measure.ENVIRONMENT_BYTES})


def test_the_stack_lies_at_one_address_whatever_is_preloaded(build, tmp_path):
    shutil.copy(build / "libbump.so", tmp_path / f"{'long' * 20}.so")
    begins = set()
    for libraries in ([], [f"{build}/libbump.so"], [f"{tmp_path}/{'long' * 20}.so"],
                      [f"{build}/libbump.so", f"{build}/libfixed.so"]):  # fmt: skip
        preload = ["-p", ":".join(libraries)] if libraries else []
        words = measure.steady_environment({"A": "1"}, libraries, measure.ENVIRONMENT_BYTES)
        begins.add(subprocess.run(
            ["env", "-i", *words, build / "steady", *preload, "--",
             "/usr/bin/cut", "-d ", "-f28", "/proc/self/stat"],
            check=True, capture_output=True, text=True).stdout)  # fmt: skip
    assert len(begins) == 1 and "\n" in begins.pop()


def test_runs_at_the_same_time_have_folders_of_their_own(tmp_path):
    with measure.run_folder(tmp_path) as first, measure.run_folder(tmp_path) as second:
        assert first != second and len(str(first)) == len(str(second))
        (first / "left").write_text("")
    with measure.run_folder(tmp_path) as third:
        assert third == first and not any(third.iterdir())


def test_ratios_tables_and_geomeans():
    found = document(hakmem=cell(900, 90), mimalloc=cell(1000, 100), null=cell(800, 0))
    found["programs"]["lua"] = {"title": "lua", "cells": {"hakmem": cell(1000), "mimalloc": cell(500)}}
    assert figures.ratio(found, "instructions", "perl", "mimalloc") == 0.9
    assert figures.ratio(found, "allocator", "perl", "null") is None  # nothing to divide by
    assert figures.geomeans(found)["instructions"]["mimalloc"] == pytest.approx((0.9 * 2) ** 0.5)
    assert figures.value(found, "model", "perl", "hakmem") == pytest.approx(
        900 * figures.MODEL["instructions"] + 50 * figures.MODEL["l1"]
        + 20 * figures.MODEL["l2"] + 10 * figures.MODEL["faults"])  # fmt: skip
    page = show.page(found)
    assert "/ MIMALLOC" in page and "0.900" in page and "| geomean" in page
    assert "22.5" in page  # 90 instructions of 4 calls
    assert "| perl    |     10 |          4 |             1 |       10.00 % |" in page
    del found["programs"]["perl"]["cells"]["hakmem"]["l1"]
    assert figures.value(found, "model", "perl", "hakmem") is None and show.page(found)


def test_a_difference_names_the_functions_that_moved():
    old = cell(1000, 100, functions={"refill": 60, "flush": 39, "tiny": 1})
    new = cell(980, 80, functions={"refill": 60, "flush": 10, "take": 9, "tiny": 1})
    text = show.difference(document(old=old, hakmem=new), "old", "hakmem", least=0.005)
    lines = [line.split()[1] for line in text.splitlines()[2:] if line]
    assert lines == ["flush", "take", "=", "=", "=", "=", "="]
    assert "-29" in text and "-2.900 %" in text and "-20" in text


def test_runs_are_put_together():
    one, two = document(hakmem=cell(1)), document(mimalloc=cell(2), hakmem=cell(3))
    whole = figures.merged([one, two])
    assert figures.value(whole, "instructions", "perl", "hakmem") == 3
    assert list(whole["allocators"]) == ["hakmem", "mimalloc"]
    assert figures.value(one, "instructions", "perl", "hakmem") == 1


def test_what_moved_is_told(tmp_path):
    old, new = document(hakmem=cell(100_000)), document(hakmem=cell(100_050, 130, faults=11))
    found = published.moved(old, new)
    assert [(p, a, f) for p, a, f, *_ in found] == [
        ("perl", "hakmem", "allocator"), ("perl", "hakmem", "faults_small"),
    ]  # fmt: skip
    assert "allocator: 100 -> 130 (+30.00%)" in published.told(found)
    assert "nothing moved" in published.told([])
    null = [("perl", "null", "instructions", 1, 2)]
    assert "the programs or the machine" in published.told(null)
    published.write(old, "lab", tmp_path / "cost.json", tmp_path / "page.md")
    again = published.load(tmp_path / "cost.json")
    assert published.moved(old, again) == [] and "functions" not in str(again["programs"])
    assert "instructions of the whole program" in (tmp_path / "page.md").read_text()
    with pytest.raises(LabError, match="cannot read the published costs"):
        published.load(tmp_path / "none.json")


def test_the_published_table_is_whole():
    kept = published.load()
    assert list(kept["programs"]) == [program.name for program in programs.PROGRAMS]
    for row in kept["programs"].values():
        assert {"hakmem", "null", "system"} <= set(row["cells"])
        for one in row["cells"].values():
            instructions = dict(one["instructions"])
            assert instructions.pop("total") == sum(instructions.values())
    assert published.PAGE.read_text().endswith(show.page(kept))


def test_options_that_do_not_fit_together():
    parser = command.parser()
    for words, said in ((["--diff", "one"], "two allocators"),
                        (["lua", "--", "ls"], "either programs or a command"),
                        (["--parts", "--alloc", "hakmem"], "neither --alloc"),
                        (["--publish", "--instructions"], "--publish needs")):  # fmt: skip
        with pytest.raises(BadInput, match=said):
            parser.check(parser.parse_args(words))


needs_tools = pytest.mark.skipif(
    not (shutil.which("valgrind") and shutil.which("strace")), reason="needs valgrind and strace"
)


def cost(build, out, *words):
    done = subprocess.run(
        [sys.executable, "-m", "hakmem_lab", "cost", "--build", str(build), "--out", str(out),
         *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done, json.loads((out / "cost.json").read_text()) if done.returncode == 0 else None


NANOSECONDS = """\
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}
long look(void);
"""
ALLOCATOR = "long look(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }\n"
PROGRAM = """\
int main(void) {
    long first = look(), began = read_clock(CLOCK_MONOTONIC);
    usleep(20000);
    long later = read_clock(CLOCK_MONOTONIC);
    printf("%ld %ld %d", first, look() - first, later - began >= 20000000);
    return 0;
}
"""


def test_the_clock_of_an_allocator_counts_its_looks(build, tmp_path):
    for name, text, more in (("libone.so", ALLOCATOR, ["-shared", "-fPIC"]),
                             ("program", PROGRAM, [tmp_path / "libone.so"])):  # fmt: skip
        (tmp_path / "source.c").write_text(NANOSECONDS + text)
        words = ["cc", "-O1", "-D_GNU_SOURCE", "-o", tmp_path / name, tmp_path / "source.c", *more]
        subprocess.run(words, check=True)
    libraries = f"{tmp_path}/libone.so:{build}/libfixed.so"
    told = subprocess.run([tmp_path / "program"], env={"LD_PRELOAD": libraries}, check=True,
                          capture_output=True, text=True).stdout  # fmt: skip
    assert told == "1000000000 250000 1"


# An allocator of whole pages: every way to give them back.
GIVER = """\
#include <sys/mman.h>
enum { PAGE = 4096, ACCESS = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS };
void *malloc(unsigned long size) { return mmap(0, size + PAGE, ACCESS, FLAGS, -1, 0); }
void *calloc(unsigned long count, unsigned long size) { return malloc(count * size); }
void free(void *block) { (void)block; }
void purge(char *at, int pages) { madvise(at, pages * PAGE, MADV_DONTNEED); }
void unmap(char *at, int pages) { munmap(at, pages * PAGE); }
void renew(char *at, int pages) { mmap(at, pages * PAGE, ACCESS, FLAGS | MAP_FIXED, -1, 0); }
void cut(char *at, int pages, int to) { mremap(at, pages * PAGE, to * PAGE, 0); }
"""
TAKER = """\
#include <stdlib.h>
#include <sys/mman.h>
enum { PAGE = 4096 };
void purge(char *, int), unmap(char *, int), renew(char *, int), cut(char *, int, int);
static void touch(char *at, int pages) {
    for (int i = 0; i < pages; i++) at[i * PAGE] = 1;
}
int main(void) {
    char *at = (char *)(((unsigned long)malloc(2000 * PAGE) | (PAGE - 1)) + 1);
    touch(at, 20);
    purge(at, 40); /* 20 given */
    touch(at, 5);  /* 5 again */
    purge(at, 5);  /* 25 given */
    touch(at, 2);  /* 7 again */
    touch(at + 100 * PAGE, 1);
    madvise(at + 100 * PAGE, PAGE, MADV_DONTNEED); /* the program's: not counted */
    touch(at + 600 * PAGE, 30);
    unmap(at + 600 * PAGE, 30);                  /* 55 given */
    renew(at + 600 * PAGE, 30);
    touch(at + 600 * PAGE, 10);                  /* 17 again */
    renew(at + 600 * PAGE, 10);                  /* 65 given */
    touch(at + 700 * PAGE, 8);
    cut(at, 708, 704);                           /* 69 given */
    return 0;
}
"""


def test_pages_given_back_and_touched_again_are_counted(build, tmp_path):
    for name, text, more in (("libgiver.so", GIVER, ["-shared", "-fPIC"]),
                             ("program", TAKER, [tmp_path / "libgiver.so"])):  # fmt: skip
        (tmp_path / "source.c").write_text(text)
        words = ["cc", "-O1", "-D_GNU_SOURCE", "-fno-builtin", "-o", tmp_path / name,
                 tmp_path / "source.c", *more]  # fmt: skip
        subprocess.run(words, check=True)
    subprocess.run([tmp_path / "program"], check=True,
                   env={"LD_PRELOAD": f"{build}/libagain.so",
                        "AGAIN_FILE": str(tmp_path / "again")})  # fmt: skip
    (file,) = tmp_path.glob("again.*")
    assert json.loads(file.read_text()) == {"given": 69, "again": 17}


@pytest.mark.long
@needs_tools
def test_a_second_run_counts_the_same(build, tmp_path):
    words = ("--alloc", "system,null", "--", build / "bench_bulk", "200", "64", "2", "20")
    (one, first), (_, second) = (cost(build, tmp_path / name, *words) for name in ("a", "b"))
    assert one.returncode == 0, one.stderr
    for name in ("system", "null"):
        a, b = (found["programs"]["command"]["cells"][name] for found in (first, second))
        assert a["instructions"]["total"] == pytest.approx(b["instructions"]["total"], rel=0.001)
        assert a["instructions"]["allocator"] == b["instructions"]["allocator"]
        assert a["syscalls"] == b["syscalls"] and a["calls"] == b["calls"]
        # Of a hundred runs one has a fault more than the others, with and without load.
        assert a["faults"] == pytest.approx(b["faults"], abs=2)
        assert a["faults_small"] == pytest.approx(b["faults_small"], abs=2)
        assert a["calls"]["malloc"] >= 4000 and a["calls"]["free"] >= 4000
        assert a["functions"]["malloc"] > 4000 and a["peak_rss_kb"] > a["mean_rss_kb"] / 2 > 0
    system, null = (first["programs"]["command"]["cells"][name] for name in ("system", "null"))
    assert system["instructions"]["allocator"] > 2 * null["instructions"]["allocator"] > 0
    assert "instructions in the allocator" in one.stdout
    assert (tmp_path / "a" / "cost.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@needs_tools
def test_two_builds_differ_by_function(build, tmp_path):
    done, found = cost(
        build, tmp_path / "x", "--lib", f"old={build}/libslow.so", "--diff", "old,null",
        "--instructions", "--", build / "bench_bulk", "200", "64", "0", "20",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found["base"] == "null" and "l1" not in found["programs"]["command"]["cells"]["old"]
    assert any(line.startswith("| free ") for line in done.stdout.splitlines())
    again, whole = cost(build, tmp_path / "y", "--from", tmp_path / "x")
    assert again.returncode == 0 and whole["programs"] == found["programs"]


@needs_tools
def test_a_program_that_fails_is_said_in_one_line(build, tmp_path):
    done, _ = cost(build, tmp_path / "x", "--alloc", "null", "--", "false")
    assert done.returncode == 1 and "exit status 1" in done.stderr
    assert "nothing was counted" in done.stderr and "Traceback" not in done.stderr
