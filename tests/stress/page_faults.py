"""A short run needs few pages beside those of its blocks.

    page_faults.py BENCHMARK SYSTEMS_BENCHMARK [MOST]

Runs bench_random_mixed_hakmem 1000000 400 1 and the same program on the system's allocator, several
times, and compares the medians of their minor page faults: at most MOST more than the system's. It
prints the setting of huge pages, with which one fault may bring many pages.
"""

import os
import resource
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

ROUNDS = 7
SETTING = "/sys/kernel/mm/transparent_hugepage/enabled"


def faults_of(program):
    """Of one run, with those of its fork, which are the same for both programs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    result = harness.must_run([program, "1000000", "400", "1"], env={"LD_PRELOAD": None})
    if b"Throughput" not in result.out:
        harness.fail("the benchmark printed no result")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before


def huge_pages():
    try:
        with open(SETTING, encoding="ascii") as text:
            return text.read().strip()
    except OSError:
        return "none"


def main():
    ours, systems = sys.argv[1:3]
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    pairs = [(faults_of(ours), faults_of(systems)) for _ in range(ROUNDS)]
    here, there = (statistics.median(column) for column in zip(*pairs))
    print(f"{here} page faults, {there} on the system's allocator; huge pages: {huge_pages()}")
    if here > there + most:
        harness.fail(f"{here - there} page faults more than on the system's allocator, {most} allowed")


if __name__ == "__main__":
    main()
