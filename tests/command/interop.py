"""Tools that watch malloc: memcheck's errors of blocks of every function, heaptrack.

    interop.py LIBRARY WATCHED CASE

Each case is one function below. WATCHED is watched.c, linked with LIBRARY.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

LIBRARY, WATCHED = (os.path.abspath(argument) for argument in sys.argv[1:3])


def memcheck(mode, status):
    result = harness.run(["valgrind", "--leak-check=full", "--error-exitcode=9", WATCHED, mode], seconds=110)
    text = result.err.decode()
    if result.status != status:
        harness.fail(f"memcheck of {mode}: status {result.status}, not {status}: {text[-1500:]}")
    return text


def case_memcheck(_):
    """memcheck's own malloc serves all names; those that it does not know are led to it."""
    text = memcheck("family", 0)
    if "All heap blocks were freed" not in text or "0 errors from 0 contexts" not in text:
        harness.fail(f"family: {text[-600:]}")
    text = memcheck("wrong", 9)
    for part in ("0 bytes after a block of size 100 alloc'd", "3 bytes inside a block of size 100 free'd",
                 "Invalid free()", "definitely lost: 4,196 bytes in 2 blocks"):
        if part not in text:
            harness.fail(f"no '{part}': {text[-2500:]}")


def case_heaptrack(folder):
    """It sees each call, and HAKMEM serves them."""
    result = harness.must_run(["heaptrack", WATCHED, "many"], cwd=folder, seconds=110)
    text = (result.out + result.err).decode()
    live = re.search(r"^(\d+)$", text, re.M)
    calls = re.search(r"allocations:\s+(\d+)\n\tleaked", text)
    if not live or int(live[1]) < 1 or not calls or not 1000 <= int(calls[1]) < 1100:
        harness.fail(f"heaptrack: {text[-800:]}")


if __name__ == "__main__":
    harness.run_case(globals(), sys.argv[3])
