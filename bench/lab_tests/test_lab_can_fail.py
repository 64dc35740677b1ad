"""The lab finds out a slow and a leaking allocator, and sees no difference where there is none.

These compare real runs, on whatever machine this is; what is asserted is far larger than noise.
"""

import pytest
from hakmem_lab import compare, judge
from hakmem_lab.settings import Settings
from hakmem_lab.tables import Allocator, Row

TIMED = (
    Row("mixed:s", "mixed", "mixed", "bench_random_mixed_system",
        ("{n}", "400", "1234567", "16", "1040"), count=200_000),
    Row("bulk:s", "bulk", "bulk", "bench_bulk", ("1600", "64", "0", "{n}"), count=200),
    Row("threads:s", "threads", "larson", "bench_larson",
        ("{s}", "8", "1000", "1000", "100", "4141", "2")),
)  # fmt: skip
SETTINGS = Settings(rounds=5, seconds=0.06, warm_mib=0, timed_factor=1.0, retries=0)
TRIES = 3  # an interval misses once in twenty times, and oftener while the machine is disturbed


def cells(summary, name, field):
    return {row["key"]: row["allocators"][name][field] for row in summary["rows"]}


@pytest.fixture
def session(build, quiet):
    return compare.Session(build, console=quiet)


@pytest.mark.long
def test_a_slowed_and_a_leaking_allocator_are_found_out(session, build, tmp_path):
    plain = Allocator("system", "glibc", kind="system")
    slow = Allocator("slow", "slow", str(build / "libslow.so"))
    leak = Allocator("leak", "leak", str(build / "libleak.so"))
    for allocator in (slow, leak):
        session.check(allocator)
    for attempt in range(TRIES):
        summary = session.run(TIMED, [plain, slow, leak], SETTINGS, tmp_path / str(attempt))
        slower = {key: judge.sign(cell) for key, cell in cells(summary, "slow", "speed").items()}
        bigger = {key: judge.sign(cell) for key, cell in cells(summary, "leak", "rss").items()}
        assert slower.keys() == bigger.keys() == {row.key for row in TIMED}
        assert 1 not in slower.values() and -1 not in bigger.values()
        if set(slower.values()) == {-1} and set(bigger.values()) == {1}:
            return
    pytest.fail(f"slow: {slower}; leaking: {bigger}")


@pytest.mark.long
def test_the_same_library_twice_is_not_told_apart(session, build, tmp_path):
    one = Allocator("one", "one", str(build / "libslow.so"))
    two = Allocator("two", "two", str(build / "libslow.so"))
    for attempt in range(TRIES):
        summary = session.run(TIMED[:2], [one, two], SETTINGS, tmp_path / str(attempt))
        found = cells(summary, "two", "speed")
        if all(cell["low"] <= 1 <= cell["high"] for cell in found.values()):
            assert compare.said(found["mixed:s"]).endswith(" even")
            return
    pytest.fail(f"{found}")
