"""Real programs on HAKMEM within a small address space (ulimit -v 300000).

    small_limits.py LIBRARY BENCHMARK
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

LIMIT = 300000 * 1024

PYTHON_WORK = """
import json, threading
with open("/proc/self/maps") as maps:
    assert "libhakmem" in maps.read(), "HAKMEM is not active"
rows = [{"number": i, "text": str(i) * 5, "list": list(range(20))} for i in range(20000)]
assert len(json.loads(json.dumps(rows))) == 20000
threads = [threading.Thread(target=lambda: json.dumps(rows[:2000])) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
try:
    bytearray(400 << 20)
    print("no MemoryError")
except MemoryError:
    print("MemoryError as it should be")
print(len(bytes(50 << 20)))
"""


def main():
    library, benchmark = os.path.realpath(sys.argv[1]), sys.argv[2]
    preload = {"LD_PRELOAD": library, "PYTHONMALLOC": "malloc"}
    result = harness.must_run([harness.real_python(), "-c", PYTHON_WORK], env=preload,
                              address_space=LIMIT)
    if result.out != b"MemoryError as it should be\n52428800\n":
        harness.fail(f"python3 under a small limit printed {result.out!r}")
    if result.err:
        harness.fail(f"python3 under a small limit wrote to stderr: {result.last_words()}")
    result = harness.must_run([benchmark, "2000000", "8192", "1"], env={"LD_PRELOAD": None},
                              address_space=LIMIT)
    if b"Throughput" not in result.out:
        harness.fail("the benchmark under a small limit printed no result")
    print("python3 and the benchmark run within 300,000 KiB")


if __name__ == "__main__":
    main()
