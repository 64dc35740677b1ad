"""The hot path in instructions: one malloc and one free of a 64-byte block, returns included.

    instructions.py PAIR LIBRARY [BUDGET]

callgrind runs the loop of pair.c for two lengths; their difference is free of everything but the
loop, and the same difference with functions that do nothing takes off the loop as well.
"""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

NOTHING_LENGTH = 3  # instructions of nothing_allocate and nothing_free together
SHORT, LONG = 1000, 21000
# One block at a time meets only the newest entry of a cache; a batch walks through it.
BATCHES = (1, 16)
# Look-ups: map entry, class row, answer; 14 and 22, and the loop's own.
# "move" is a look-up, a pop, a copy of 100 bytes by the C library, and a push; "few" copies 48 bytes without it:
# 63, and the loop.
LOOK_UPS = {"usable": 27, "stay": 39, "move": 103, "few": 80}


def count(pair, what, length, batch):
    """Instructions of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        result = harness.must_run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                                   pair, what, str(length), str(batch)], seconds=100,
                                  env={"LD_PRELOAD": None})
    found = re.search(rb"Collected : (\d+)", result.err)
    if not found:
        harness.fail(f"callgrind gave no count: {result.last_words()}")
    return int(found.group(1))


def per_pair(pair, what, batch):
    """Instructions of one round of the loop, per pair of calls."""
    difference = count(pair, what, LONG, batch) - count(pair, what, SHORT, batch)
    return difference / (LONG - SHORT) / batch


def main():
    pair, library = sys.argv[1], os.path.realpath(sys.argv[2])
    budget = float(sys.argv[3]) if len(sys.argv) > 3 else 34
    needed = harness.must_run(["ldd", pair]).out.decode()
    loaded = re.search(r"libhakmem\S* => (\S+)", needed)
    if not loaded or os.path.realpath(loaded.group(1)) != library:
        harness.fail(f"{pair} does not load {library}")
    for batch in BATCHES:
        cost = per_pair(pair, "hakmem", batch) - per_pair(pair, "nothing", batch) + NOTHING_LENGTH
        print(f"batches of {batch}: {cost:.2f} instructions per malloc + free pair of 64 bytes")
        if cost < 6:
            harness.fail(f"{cost:.2f} instructions cannot be: the allocator was not called")
        # A refill or flush now and then may show as a small fraction.
        if cost > budget + 0.1:
            harness.fail(f"{cost:.2f} instructions per pair in batches of {batch}, "
                         f"{budget:g} allowed")
    for what, most in LOOK_UPS.items():
        cost = per_pair(pair, what, 1)
        print(f"{what}: {cost:.2f} instructions a call, with the loop")
        if not 8 < cost <= most + 0.1:
            harness.fail(f"{what}: {cost:.2f} instructions, {most} allowed")


if __name__ == "__main__":
    main()
