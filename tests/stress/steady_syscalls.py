"""In its steady state HAKMEM makes no syscalls.

    steady_syscalls.py BENCHMARK [LIMIT]

Counts mmap, munmap, madvise and mprotect of bench_random_mixed_hakmem 1000000 400 1 with strace,
those of the dynamic linker included.
"""

import collections
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

CALLS = ("mmap", "munmap", "madvise", "mprotect")


def main():
    harness.skip_untraced()
    benchmark = sys.argv[1]
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        result = harness.must_run(["strace", "-f", "-qq", "-o", log, "-e",
                                   "trace=" + ",".join(CALLS), benchmark, "1000000", "400", "1"],
                                  env={"LD_PRELOAD": None})
        if b"Throughput" not in result.out:
            harness.fail("the benchmark printed no result")
        with open(log, encoding="utf-8", errors="replace") as lines:
            counts = collections.Counter(
                found.group(1) for found in (re.match(r"\d+ +(\w+)\(", line) for line in lines)
                if found)
    total = sum(counts.values())
    spelled = ", ".join(f"{counts[name]} {name}" for name in CALLS)
    print(f"{total} calls in all: {spelled}")
    if total == 0:
        harness.fail("strace saw no call at all")
    if total > limit:
        harness.fail(f"{total} calls, {limit} allowed: {spelled}")


if __name__ == "__main__":
    main()
