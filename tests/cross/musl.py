"""The library on musl: it and the command are built without warnings, where the system's zlib is for another C
library, and the malloc of a program with threads that is linked with the library, that has it preloaded, and
that is wholly static.

    musl.py SOURCE

Skipped, with the reason, where musl's compiler is missing.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

NEEDED = ("musl-gcc", "cmake")


def run(program, env=None):
    """The program says good, and HAKMEM has served it."""
    result = harness.must_run([program], seconds=100,
                              env={"LD_PRELOAD": None, "HAKMEM_STATS": "text", **(env or {})})
    if b"good" not in result.out or b"hakmem" not in result.err.lower():
        harness.fail(f"{program}: {result.out!r} {result.last_words()}")
    print(f"{os.path.basename(program)}: good")


def main():
    source = os.path.realpath(sys.argv[1])
    harness.need(*NEEDED)
    with tempfile.TemporaryDirectory() as folder:
        harness.must_run(["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                          "-DCMAKE_C_COMPILER=musl-gcc", "-DHAKMEM_TLS_MODEL=global-dynamic",
                          "-DHAKMEM_BUILD_TESTS=OFF", "-DHAKMEM_BUILD_BENCH=OFF"], seconds=100)
        harness.must_run(["cmake", "--build", folder, "--parallel", "2"], seconds=600)
        compile_it = ["musl-gcc", "-O1", "-fno-builtin", f"{source}/tests/cross/program.c", "-pthread"]
        harness.must_run([*compile_it, "-o", f"{folder}/linked", f"-L{folder}", "-lhakmem",
                          f"-Wl,-rpath,{folder}"], seconds=100)
        harness.must_run([*compile_it, "-o", f"{folder}/static", "-static",
                          f"{folder}/libhakmem.a"], seconds=100)
        harness.must_run([*compile_it, "-o", f"{folder}/preloaded", "-fPIE", "-pie",
                          "-Wl,-z,dynamic-undefined-weak"], seconds=100)
        run(f"{folder}/linked")
        run(f"{folder}/static")
        run(f"{folder}/preloaded", {"LD_PRELOAD": f"{folder}/libhakmem.so"})


main()
