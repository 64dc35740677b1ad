"""Consumers of an installed tree: installed.py BUILD CC CXX CASE.

The tree is moved after it was installed: nothing in it may name the place where it was.
"""

import glob
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import harness  # noqa: E402

CONSUMERS = os.path.join(HERE, "consumers")
SERVED = "served by 10000"


def install(build, folder):
    """Installs the build, moves the tree, and returns its prefix and the folder of its libraries."""
    first = os.path.join(folder, "first")
    harness.must_run(["cmake", "--install", build, "--prefix", first])
    prefix = os.path.join(folder, "moved")
    os.rename(first, prefix)
    found = glob.glob(os.path.join(prefix, "**", "libhakmem.so.1"), recursive=True)
    if len(found) != 1:
        harness.fail(f"the installed tree has {len(found)} libhakmem.so.1")
    return prefix, os.path.dirname(found[0])


def expect_served(argv, **options):
    """The program runs, and its malloc is that of the library."""
    out = harness.must_run(argv, **options).out.decode().strip()
    if out != SERVED:
        harness.fail(f"{' '.join(argv)}: printed '{out}', not '{SERVED}'")


def needs_library(path):
    """Whether the program names the shared library."""
    return b"libhakmem.so.1" in harness.must_run(["objdump", "-p", path]).out


def expect_linked(path, shared):
    """The program is linked in the way that was asked for, and served."""
    if needs_library(path) != shared:
        harness.fail(f"{path}: needs libhakmem.so.1: {not shared}, wanted {shared}")
    expect_served([path])


def case_cmake(folder, build, cc, cxx):
    """find_package, with the shared library and the archive; a version that is not there."""
    prefix, _ = install(build, folder)
    work = os.path.join(folder, "work")
    configure = ["cmake", "-S", os.path.join(CONSUMERS, "cmake"), "-B", work,
                 f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={cc}",
                 f"-DCMAKE_CXX_COMPILER={cxx}"]
    result = harness.run(configure + ["-DWANTED=2.0"])
    if result.status == 0 or b'requested version "2.0"' not in result.err:
        harness.fail(f"version 2.0 was not refused: {result.last_words()}")
    shutil.rmtree(work)
    harness.must_run(configure)
    harness.must_run(["cmake", "--build", work])
    for language in ("c", "cpp"):
        expect_linked(os.path.join(work, f"hakmem_{language}"), True)
        expect_linked(os.path.join(work, f"static_{language}"), False)


def case_pkg_config(folder, build, cc, cxx):
    """pkg-config: what it prints is enough, for both languages."""
    prefix, libraries = install(build, folder)
    where = {"PKG_CONFIG_PATH": os.path.join(libraries, "pkgconfig"), "PKG_CONFIG_LIBDIR": None}
    words = harness.must_run(["pkg-config", "--cflags", "--libs", "hakmem"], env=where)
    words = words.out.decode().split()
    for word in words:
        if word.startswith(("-I", "-L")) and not os.path.realpath(word[2:]).startswith(prefix):
            harness.fail(f"pkg-config names {word[2:]}, outside of {prefix}")
    version = harness.must_run(["pkg-config", "--modversion", "hakmem"], env=where).out.decode()
    if version.strip() != "1.0.0":
        harness.fail(f"pkg-config says version {version.strip()}")
    for compiler, language in ((cc, "c"), (cxx, "cpp")):
        program = os.path.join(folder, f"prog_{language}")
        harness.must_run([compiler, os.path.join(CONSUMERS, f"prog.{language}"), "-o", program]
                         + words + [f"-Wl,-rpath,{libraries}"])
        expect_linked(program, True)


def case_object(folder, build, cc, cxx):
    """The archive and the single object as words of a command line."""
    prefix, libraries = install(build, folder)
    for compiler, language in ((cc, "c"), (cxx, "cpp")):
        for name in ("libhakmem.a", "hakmem.o"):
            program = os.path.join(folder, f"{name}_{language}")
            harness.must_run([compiler, os.path.join(CONSUMERS, f"prog.{language}"),
                              os.path.join(libraries, name), "-pthread",
                              "-I", os.path.join(prefix, "include"), "-o", program])
            expect_linked(program, False)


def case_command(folder, build, cc, _):
    """The command finds the library of its own tree."""
    prefix, libraries = install(build, folder)
    command = os.path.join(prefix, "bin", "hakmem")
    loaded = harness.must_run([command, "run", "--", "cat", "/proc/self/maps"]).out.decode()
    if os.path.realpath(os.path.join(libraries, "libhakmem.so.1")) not in loaded:
        harness.fail(f"{command} run: the library of {libraries} is not loaded")
    if os.path.exists(os.path.join(libraries, "hakmem", "hakmem-replay")):
        trace = os.path.join(folder, "trace")
        harness.must_run([command, "record", "--out", trace, "--", "ls", "/"])
        replayed = harness.must_run([command, "replay", trace]).out.decode()
        if os.path.realpath(os.path.join(libraries, "libhakmem.so.1")) not in replayed:
            harness.fail(f"{command} replay: {replayed!r}")
    if os.path.exists(os.path.join(libraries, "hakmem", "lab", "launch")):
        for name in ("compare", "tune"):
            result = harness.run([command, name])
            if result.status != 2 or result.err.count(b"\n") != 1 or b"no program given" not in result.err:
                harness.fail(f"{command} {name}: status {result.status}: {result.last_words()}")


def main():
    """Runs one case in a folder of its own."""
    build, cc, cxx, case = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{case}"](os.path.realpath(folder), build, cc, cxx)


if __name__ == "__main__":
    main()
