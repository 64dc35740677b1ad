"""How much of the library's code is in the memory of a process, and what the library adds to its page
faults.

    code_pages.py LIBRARY KiB

What all processes run lies together at the beginning of the library (src/CMakeLists.txt), and the
library at a multiple of what the kernel maps around a fault, so one such stretch has to be enough.
What most processes run that live for longer or have large blocks comes next: a second stretch is
enough for them. They do need it, which shows that this test sees it. What reads the options, and the
hardened path, lies together as well (src/optional.ld): a small process that runs hardened has one more
stretch for it, and the second one. Threads without a cache of their own run code that few processes run: it
lies in one stretch.

A file that came by large writes lies in the page cache in large pieces, which are mapped whole: so
it is a copy that is loaded. A loader that maps at any page (musl's, glibc's before 2.35) needs two
stretches where one was enough.
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

SMALL = ["/bin/sh", "-c", "read line; echo $line; read line"]
# Blocks of all sizes, and enough calls that give memory back, learn, and look at the limits. What Python loads for
# a user's own packages (not with -S) differs by user.
LONG = [sys.executable, "-S", "-c", "import sys, time\n"
        "for i in range(12):\n"
        "    blocks = [bytes(n) for n in range(1, 70_000, 29)]\n"
        "    big = bytearray(3_000_000)\n"
        "    big.extend(bytes(3_000_000))\n"
        "    time.sleep(0.05)\n"
        "sys.stdout.write(sys.stdin.readline())\n"
        "sys.stdout.flush()\n"
        "sys.stdin.read()\n"]  # fmt: skip
# Each thread makes too few calls to be given a cache, and rests; a few have ended before.
NOVICES = [sys.executable, "-S", "-c", "import sys, threading\n"
           "rests, go = threading.Barrier(101), threading.Event()\n"
           "def work():\n"
           "    blocks = [bytes(n) for n in range(16, 1_000, 100)]\n"
           "    del blocks\n"
           "    rests.wait()\n"
           "    go.wait()\n"
           "for i in range(4):\n"
           "    ends = threading.Thread(target=dict)\n"
           "    ends.start()\n"
           "    ends.join()\n"
           "for i in range(100):\n"
           "    threading.Thread(target=work, daemon=True).start()\n"
           "rests.wait()\n"
           "sys.stdout.write(sys.stdin.readline())\n"
           "sys.stdout.flush()\n"
           "sys.stdin.read()\n"]  # fmt: skip
MAPPING = re.compile(r"([0-9a-f]+)-[0-9a-f]+ (\S+) \S+ \S+ \S+ *(.*)")
STRETCH = 64 * 1024
PAGE = 4096
RUNS = 60
MORE_FAULTS = 14  # of `true`: what 690739b had, and three


def copy_by_pages(source, target):
    with open(source, "rb") as old, open(target, "wb", buffering=0) as new:
        while page := old.read(PAGE):
            new.write(page)


def resident_code(pid, library):
    """KiB, and whether the library begins a stretch."""
    kib, inside, start = 0, False, 0
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            begins = MAPPING.fullmatch(line.rstrip())
            if begins:
                inside = begins[3] == library and "x" in begins[2]
                start = int(begins[1], 16) if inside else start
            elif inside and line.startswith("Rss:"):
                kib += int(line.split()[1])
    if kib == 0:
        harness.fail("the library was not loaded")
    return kib, start % STRETCH == 0


def code_kib(library, command, **options):
    """Of a process that has answered a first line and waits for more."""
    environment = {"LD_PRELOAD": library, "PYTHONMALLOC": "malloc", **options}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                          env=environment) as process:
        process.stdin.write(b"x\n")
        if process.stdout.read(1) != b"x":
            harness.fail(f"{command[0]} does not answer")
        return resident_code(process.pid, library)


def mean_faults(environment):
    """Of `true`: pages of code and variables. By chance of the addresses they vary by three, with and without the
    library; the least of 20 runs does so by one."""
    faults = 0
    for _ in range(RUNS):
        pid = os.posix_spawn("/bin/true", ["true"], environment)
        faults += os.wait4(pid, 0)[2].ru_minflt
    return faults / RUNS


def main():
    limit = int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(os.path.realpath(folder), "libhakmem.so")
        copy_by_pages(sys.argv[1], library)
        small, aligned = code_kib(library, SMALL)
        long, _ = code_kib(library, LONG)
        novices, _ = code_kib(library, NOVICES)
        hardened, _ = code_kib(library, SMALL, HAKMEM_PROFILE="HARDENED")
        more = mean_faults({"LD_PRELOAD": library}) - mean_faults({})
    print(f"code in memory: {small} KiB in a small process, {long} KiB in one that lives longer, "
          f"{novices} KiB in one of novice threads, {hardened} KiB in a hardened small one; "
          f"{more:.1f} page faults more in `true`")
    if not aligned:
        limit += STRETCH // 1024
    if small > limit:
        harness.fail(f"{small} KiB in a small process, {limit} allowed")
    if long > limit + STRETCH // 1024:
        harness.fail(f"{long} KiB in one that lives longer, {limit + STRETCH // 1024} allowed")
    if novices > limit + 2 * STRETCH // 1024:
        harness.fail(f"{novices} KiB in one of novice threads, {limit + 2 * STRETCH // 1024} allowed")
    if hardened > limit + 2 * STRETCH // 1024:
        harness.fail(f"{hardened} KiB in a hardened small process, {limit + 2 * STRETCH // 1024} allowed")
    if aligned and more > MORE_FAULTS:
        harness.fail(f"{more:.1f} page faults more in `true`, {MORE_FAULTS} allowed")
    if aligned and long <= small:
        harness.fail("no more with large blocks: this test sees nothing")


main()
