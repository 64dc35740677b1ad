"""What a process can do under limits on its address space, beside the system's allocator.

    address_space.py LIBRARY PROGRAM TOUCHED_MIB LOCKED_PERCENT [short]

The limits are set before the program starts, when it is under way, or when it has 100 MiB in use. For
every size of block, HAKMEM must give nine tenths of what the system's allocator gives under the same
limit, and threads, libraries, larger blocks and mlockall must work where they do there. No run touches more
than TOUCHED_MIB of pages: blocks that would are tried under a small limit, and not under large ones. Of
locked memory HAKMEM must give LOCKED_PERCENT. The short dose has fewer sizes and limits.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

LIMITS_MIB = (512, 1024, 4096, 8192)
LIMITS_MIB_OF_SHORT = (512, 8192)
SMALL_LIMIT_MIB = 192
# Just above classes, where least of a block is used, and sizes of which few fit into a unit or a
# superslab.
SIZES = (16, 129, 257, 513, 1025, 2049, 4097, 8193, 12289, 20481, 32769, 34000, 49153, 61700, 65537, 100000,
         270000, 600000, 1048577, 3000000, 8388608, 33554432)
SIZES_OF_SHORT = (16, 513, 2049, 8193, 20481, 34000, 65537, 600000, 8388608)
SIZES_AT_ANY_TIME = (20481, 32769, 61700)
SIZES_OF_LARGER_LIMITS = (32769, 61700, 600000, 3000000)
PERCENT = 90
SMALL_MORE_MIB = 64

# HARDENED has slabs for all of them, and states.
HARDENED_PERCENT = {513: 70, 1025: 75, 4097: 75, 20481: 50}

# Where every mapping counts as locked memory. Of so little the library itself and the superslab that
# just finds no room, which a page more of the library decides, are a third.
LOCKED_MIB = 8
LOCKED_LEAST_MIB = 5
LOCKED_SIZES = (256, 4000, 200000)


def both(library, argv, profile=None):
    """The output on HAKMEM and on the system's allocator."""
    outputs = []
    for preload in (library, None):
        env = {"LD_PRELOAD": preload, "HAKMEM_PROFILE": profile}
        result = harness.must_run(argv, env=env, seconds=200)
        if result.err:
            harness.fail(f"{' '.join(argv)} wrote: {result.last_words()}")
        outputs.append(result.out.decode().strip())
    return outputs


def compare_room(library, program, touched_most, limits, sizes):
    for limit in limits:
        is_first = limit == limits[0]
        for size in sizes if is_first else SIZES_OF_LARGER_LIMITS:
            pages = min(2, (size + 4095) // 4096) * 4096  # a block's first and last word
            if (limit << 20) // size * min(size, pages) > touched_most:
                if is_first:
                    compare_size(library, program, SMALL_LIMIT_MIB, size, "started")
                continue
            at_any_time = is_first and size in SIZES_AT_ANY_TIME
            for when in ("before", "started", "used") if at_any_time else ("used",):
                compare_size(library, program, limit, size, when)


def compare_size(library, program, limit, size, when, percent=PERCENT, profile=None):
    argv = [program, "room", str(limit), str(size), when]
    ours, theirs = map(int, both(library, argv, profile))
    what = f"limit {limit} MiB, {when}, blocks of {size} bytes: {ours} KiB, system {theirs}"
    print(what, profile or "")
    if ours * 100 < theirs * percent:
        harness.fail(f"{what} {profile or ''}")


def compare_hardened(library, program):
    for size, percent in HARDENED_PERCENT.items():
        compare_size(library, program, LIMITS_MIB[0], size, "used", percent, "HARDENED")


def compare_locked(library, program, percent):
    for size in LOCKED_SIZES:
        ours, theirs = map(int, both(library, [program, "all_locked", str(LOCKED_MIB), str(size)]))
        if not ours and not theirs:
            return print(f"left out: {LOCKED_MIB} MiB cannot be locked here")
        print(f"{LOCKED_MIB} MiB locked, blocks of {size} bytes: {ours} KiB, system {theirs}")
        if ours * 100 < theirs * percent:
            harness.fail(f"{ours} KiB of blocks of {size} bytes with {LOCKED_MIB} MiB locked, "
                         f"where the system's allocator gives {theirs}")
    both(library, [program, "all_locked", str(LOCKED_LEAST_MIB), "1000"])


def main():
    library, program = os.path.realpath(sys.argv[1]), sys.argv[2]
    is_short = sys.argv[5:] == ["short"]
    limits = LIMITS_MIB_OF_SHORT if is_short else LIMITS_MIB
    compare_room(library, program, int(sys.argv[3]) << 20, limits, SIZES_OF_SHORT if is_short else SIZES)
    compare_hardened(library, program)
    compare_locked(library, program, int(sys.argv[4]))
    for limit in limits:
        both(library, [program, "thread", str(limit)])
    ours, theirs = both(library, [program, "locked"])
    if ours != theirs:
        harness.fail(f"mlockall is {ours}, with the system's allocator {theirs}")
    result = harness.must_run([program, "used"], env={"LD_PRELOAD": library})
    ours = int(result.out)
    theirs = int(harness.must_run([program, "used"], env={"LD_PRELOAD": None}).out)
    print(f"small: {ours} MiB of addresses, system {theirs}")
    if ours > theirs + SMALL_MORE_MIB:
        harness.fail(f"a small process has {ours} MiB of addresses, {theirs} with the system's")


if __name__ == "__main__":
    main()
