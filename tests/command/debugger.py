"""gdb's commands `hakmem block` and `hakmem heap`, of a process and of a core; `hakmem explain CORE`.

    debugger.py COMMAND LIBRARY DUMPED DUMPED_STATIC CASE

Each case is one function below. DUMPED is dumped.c on LIBRARY, DUMPED_STATIC the same with the archive in it.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

COMMAND, LIBRARY, DUMPED, STATIC = (os.path.abspath(argument) for argument in sys.argv[1:5])
BUILD = os.path.dirname(COMMAND)
READER = os.path.realpath(LIBRARY) + "-gdb.py"
ADDRESSES = ("used", "in_slab", "cached", "cached_there", "large", "huge", "own")
# What is said of each address, and of one that lies 7 bytes behind it.
WANTED = {
    "used": (224, "in use"), "in_slab": (224, "free, in its slab"),
    "cached": (1024, r"free, in the cache of thread \d+"),
    "cached_there": (1536, r"free, in the cache of thread \d+"), "large": (303104, "in use"),
    "huge": (5242880, "in use"),
}  # fmt: skip


def gdb(*words, commands=(), library=None, reader=READER):
    lines = [f"set environment LD_PRELOAD {library}"] if library else []
    lines += ["set debuginfod enabled off", "set auto-load safe-path /"]
    lines += [f"source {reader}"] if reader else []
    argv = ["gdb", "--batch", "-nx", "-q"]
    for line in lines:
        argv += ["-iex" if "safe-path" in line or "debuginfod" in line else "-ex", line]
    for line in commands:
        argv += ["-ex", line]
    result = harness.run([*argv, *words], seconds=100)
    return result.out.decode(), result.err.decode()


LOOK = [f"hakmem block {name}{more}" for name in ADDRESSES for more in ("", " + 7")] + ["hakmem heap"]


def check_blocks(text):
    told = re.findall(r"^(0x[0-9a-f]+) (lies .*|is .*)\n((?:  .*\n)*)", text, re.M)
    if len(told) < 2 * len(ADDRESSES):
        harness.fail(f"{len(told)} addresses are told of: {text[-1500:]}")
    for number, name in enumerate(ADDRESSES):
        first, inside = told[2 * number], told[2 * number + 1]
        if name == "own":
            if first[1] != "is not HAKMEM's":
                harness.fail(f"{name}: {first}")
            continue
        size, state = WANTED[name]
        if first[1] != f"is a block of {size} bytes" or not re.match(f"  {state}\n", first[2]):
            harness.fail(f"{name}: {first}")
        if inside[1] != f"lies 7 bytes inside a block of {size} bytes at {first[0]}" or inside[2] != first[2]:
            harness.fail(f"7 bytes behind {name}: {inside}")


def heap_of(text):
    """The table of `hakmem heap`, after a look at what is known of it."""
    table = text[text.index("   class "):]
    row = re.search(r"^ +224 +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", table, re.M)
    live, size, cached, free, slabs = map(int, row.groups())
    if (live, size) != (500, 500 * 224) or not cached or live + cached + free != slabs * 292:
        harness.fail(f"blocks of 224 bytes: {row[0]}")
    for name, amount in (("live, large", r"296\.0 KiB  1 blocks"), ("live, huge", r"5\.0 MiB  1 blocks")):
        if not re.search(f"  {name} +{amount}", table):
            harness.fail(f"{name} is not {amount}: {table}")
    return table


def case_process_and_core(folder):
    """The same of a process, of its core in gdb, and of the core without gdb; gdb finds the reader by itself."""
    core = os.path.join(folder, "core")
    library = os.path.realpath(LIBRARY)
    text, err = gdb(DUMPED, library=library, reader=None,
                    commands=["break looked_at", "run", *LOOK, "hakmem block", "hakmem block no_such", f"gcore {core}", "kill"])
    check_blocks(text)
    if "hakmem block needs an address" not in err:
        harness.fail(f"no address: {err[-300:]}")
    if 'hakmem: No symbol "no_such"' not in err or "Python Exception" in err:
        harness.fail(f"no symbol: {err[-300:]}")
    table = heap_of(text).split("Saved corefile")[0]
    text, _ = gdb(DUMPED, core, commands=LOOK, reader=None)
    check_blocks(text)
    if heap_of(text) != table:
        harness.fail(f"the core has another heap:\n{text}\n{table}")
    explained = harness.must_run([COMMAND, "explain", core]).out.decode()
    if "process " not in explained or heap_of(explained) != table:
        harness.fail(f"explained: {explained}")


def case_stripped(folder):
    """A library without symbols, by its build id; the kernel's own core."""
    library = os.path.join(folder, "libhakmem.so.1")
    shutil.copy(os.path.realpath(LIBRARY), library)
    harness.must_run(["strip", library])
    text, _ = gdb(DUMPED, library=library, commands=["break looked_at", "run", *LOOK, "kill"])
    check_blocks(text)
    core = os.path.join(folder, "core.gdb")
    gdb(DUMPED, library=library, commands=["break looked_at", "run", f"gcore {core}", "kill"])
    os.unlink(library)  # as after an upgrade
    heap_of(harness.must_run([COMMAND, "explain", core]).out.decode())


def case_static(folder):
    """The archive in a program."""
    core = os.path.join(folder, "core")
    text, _ = gdb(STATIC, commands=["break looked_at", "run", *LOOK, f"gcore {core}", "kill"])
    check_blocks(text)
    heap_of(harness.must_run([COMMAND, "explain", core]).out.decode())


def case_printers(_):
    """A descriptor and a magazine in one line, where there is debug information."""
    text, err = gdb(DUMPED, library=os.path.realpath(LIBRARY), commands=[
        "break looked_at", "run",
        "print *(hak_unit_t *)(hak_map.units + (((unsigned long)used - (unsigned long)hak_map.entries) >> 16) * 64)",
        "print hak_cache->magazines[1]", "kill"])
    if not re.search(r"^\$1 = slab 0x[0-9a-f]+ of shard \d+, size class 224, \d+ free$", text, re.M) or \
            not re.search(r"^\$2 = magazine of \d+ blocks, room for \d+$", text, re.M):
        harness.fail(f"printed: {text[-600:]} {err[-300:]}")


def case_probes(_):
    """gdb stops at the probes, and reads their arguments."""
    def stop(number, probe, condition):
        return [f"break -probe-stap hakmem:{probe}", f"condition {number} {condition}", "continue",
                f"disable {number}", "print $_probe_arg0", "print $_probe_arg1"]

    text, _ = gdb(DUMPED, library=os.path.realpath(LIBRARY), commands=[
        "set environment HAKMEM_PROF_RATE 1", "set environment HAKMEM_PROF 1", "set environment HAKMEM_PROF_FILE /dev/null",
        "break main", "run", *stop(2, "sample", "$_probe_arg1 == 1000"), "hakmem block $1", "kill"])
    if "\n$2 = 1000\n" not in text or "lies in a chunk of blocks that are cut to measure" not in text:
        harness.fail(f"sample: {text[-600:]}")
    text, _ = gdb(DUMPED, library=os.path.realpath(LIBRARY), commands=[
        "break main", "run", *stop(2, "refill", "$_probe_arg0 == 224"), *stop(3, "flush", "$_probe_arg0 == 224"), "kill"])
    figures = [int(figure) for figure in re.findall(r"^\$\d = (\d+)$", text, re.M)]
    if len(figures) != 4 or figures[::2] != [224, 224] or not all(1 <= count <= 1000 for count in figures[1::2]):
        harness.fail(f"refill and flush: {text[-600:]}")


def case_refused(folder):
    """What is no core of such a process is one line, whatever is in it."""
    core = os.path.join(folder, "core")
    gdb("/bin/true", commands=["starti", f"gcore {core}", "kill"])
    damaged = os.path.join(folder, "damaged")

    def refuse(path, what, part):
        result = harness.run([COMMAND, "explain", path])
        line = result.err.decode()
        if result.status != 1 or line.count("\n") != 1 or part not in line or line.count(path) > 1:
            harness.fail(f"{what}: status {result.status}: {line[-500:]}")

    refuse(core, "another program", "did not run on HAKMEM")
    refuse("/bin/true", "a program", "is no core file")
    with open(core, "rb") as file:
        whole = file.read()
    for size in (5, 63, 64, 200, len(whole) // 2):
        with open(damaged, "wb") as file:
            file.write(whole[:size])
        refuse(damaged, f"{size} bytes of a core", "hakmem: explain:")
    for place in (39, 47, 62, 63):  # where its tables lie, how many entries they have
        with open(damaged, "wb") as file:
            file.write(whole[:place] + b"\xff" + whole[place + 1:])
        refuse(damaged, f"a core with a wrong byte {place}", "hakmem: explain:")
    _, err = gdb("/bin/true", commands=["starti", "hakmem heap", "hakmem block 1", "kill"])
    if err.count("does not run on HAKMEM") != 2:
        harness.fail(f"gdb on another program: {err[-400:]}")
    python = subprocess.run([COMMAND, "explain", core], capture_output=True, text=True, check=False,
                            env=os.environ | {"HAKMEM_BENCH_PYTHON": "/no/python"})
    if python.returncode != 1 or "a core file needs /no/python" not in python.stderr:
        harness.fail(f"without python: {python}")


if __name__ == "__main__":
    harness.skip_untraced()
    harness.run_case(globals(), sys.argv[5])
