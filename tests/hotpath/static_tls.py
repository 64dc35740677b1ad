"""A library that a program loads late by dlopen gets its thread-local memory out of a small rest that the loader keeps
for all libraries together. HAKMEM takes little of it, and says in the README how much at most.

    static_tls.py LIBRARY README
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

MOST = 64  # bytes


def static_tls_of(path):
    """Bytes of the segment of thread-local memory, each thread's."""
    segments = harness.must_run(["readelf", "-lW", path]).out.decode()
    found = re.search(r"^ +TLS +(?:0x[0-9a-f]+ +){4}(0x[0-9a-f]+)", segments, re.M)
    if not found:
        harness.fail(f"{path} has no thread-local memory: it is not the library")
    return int(found.group(1), 16)


def main():
    library, readme = sys.argv[1:]
    size = static_tls_of(library)
    if size > MOST:
        harness.fail(f"{library} has {size} bytes of static TLS, {MOST} at most")
    with open(readme, encoding="utf-8") as file:
        told = re.search(r"at most (\d+) bytes of static TLS", file.read())
    if not told or int(told.group(1)) != MOST:
        harness.fail(f"{readme} does not say 'at most {MOST} bytes of static TLS'")
    print(f"{size} bytes of static TLS")


main()
