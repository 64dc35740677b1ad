"""The library for AArch64: built by a cross compiler without warnings, marked for branch protection, and
the malloc of a program under qemu-user, with pages of 4 and of 64 KiB.

    aarch64.py SOURCE

Skipped, with the reason, where the compiler or the emulator is missing.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

PREFIX = "aarch64-linux-gnu-"
ROOT = "/usr/aarch64-linux-gnu"
NEEDED = (PREFIX + "gcc", PREFIX + "g++", "qemu-aarch64", "cmake")


def run_on_emulator(program, library, cpu, page):
    """The program says good, and HAKMEM has served it."""
    argv = ["qemu-aarch64", "-cpu", cpu, "-p", str(page), "-L", ROOT, "-E", f"LD_PRELOAD={library}",
            "-E", "HAKMEM_STATS=text", program]
    result = harness.must_run(argv, seconds=100, env={"LD_PRELOAD": None})
    if b"good, pages of %d bytes" % page not in result.out or b"hakmem" not in result.err.lower():
        harness.fail(f"{' '.join(argv)}: {result.last_words()}")


def main():
    source = os.path.realpath(sys.argv[1])
    harness.need(*NEEDED)
    with tempfile.TemporaryDirectory() as folder:
        harness.must_run(["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                          "-DHAKMEM_LTO=ON",
                          f"-DCMAKE_TOOLCHAIN_FILE={source}/cmake/aarch64-linux-gnu.cmake",
                          "-DHAKMEM_BUILD_TOOLS=OFF"], seconds=100)
        harness.must_run(["cmake", "--build", folder, "--parallel", "2", "--target",
                          "hakmem_shared", "hakmem_object"], seconds=600)
        harness.must_run([sys.executable, f"{source}/tests/hotpath/protection.py",
                          PREFIX + "gcc", f"{folder}/hakmem.o", f"{folder}/libhakmem.so"])
        program = f"{folder}/program"
        harness.must_run([PREFIX + "gcc", "-O1", "-fno-builtin", "-o", program,
                          f"{source}/tests/cross/program.c", "-pthread"], seconds=100)
        for cpu in ("cortex-a57", "max"):  # without and with atomics in one instruction
            for page in (4096, 65536):
                run_on_emulator(program, f"{folder}/libhakmem.so", cpu, page)


main()
