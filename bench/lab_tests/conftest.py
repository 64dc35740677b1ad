"""What several tests need: the helper programs, built here so that no build folder is."""

import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from scripts import real_library

# A shell lets what it starts in the background ignore this signal, and children inherit that;
# a handler of our own they do not.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
NAMES = {
    "empty": "empty.c",
    "hugewarm": "hugewarm.c",
    "linedist": "linedist.c",
    "whose": "whose.c",
    "bench_random_mixed_system": "bench_random_mixed.c",
    "bench_bulk": "bench_bulk.c",
    "bench_larson": "bench_larson.c",
}
NO_BROWSER = "LAB_NO_BROWSER"
WORSE = ("slow", "leak")  # allocators that the lab must find out


def compile_program(source, target, *flags):
    subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fno-builtin-malloc", "-o", target,
         PROGRAMS / source, *flags],
        check=True, timeout=300,
    )  # fmt: skip


def made_once(tmp_path_factory, name, make):
    """A folder that make fills. Of the processes that run tests side by side the first one makes it."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / name
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """A folder as CMake would make it, with what the lab's own tests use."""
    return made_once(tmp_path_factory, "build", make_build)


def make_build(folder):
    compile_program("launch.c", folder / "launch", "-static")
    compile_program("null_alloc.c", folder / "libnull.so", "-shared", "-fPIC", "-fno-builtin")
    for name in WORSE:
        target = folder / f"lib{name}.so"
        compile_program(f"{name}_alloc.c", target, "-shared", "-fPIC", "-fno-builtin")
    compile_program("empty.c", folder / "static", "-static")
    compile_program("steady.c", folder / "steady", "-static")
    for name, source in (("bump", "bump_alloc.c"), ("fixed", "fixed.c"), ("calls", "calls.c"),
                         ("again", "again.c")):  # fmt: skip
        target = folder / f"lib{name}.so"
        compile_program(source, target, "-shared", "-fPIC", "-fno-builtin", "-ldl")
    for name, source in NAMES.items():
        compile_program(source, folder / name, "-pthread", "-ldl")


@pytest.fixture(scope="session")
def with_hakmem(build, tmp_path_factory):
    """The same with HAKMEM in it."""

    def make(folder):
        shutil.copytree(build, folder, dirs_exist_ok=True)
        real_library(folder / "libhakmem.so")

    return made_once(tmp_path_factory, "with_hakmem", make)


@pytest.fixture
def launcher(build):
    from hakmem_lab.launch import Launcher

    return Launcher(build / "launch")


@pytest.fixture
def quiet():
    """A console that writes nowhere."""
    import io

    from rich.console import Console

    return Console(file=io.StringIO())


@pytest.fixture(scope="session")
def browser():
    """Chromium, installed if need be. Only an explicit word makes the tests do without."""
    if os.environ.get(NO_BROWSER):
        pytest.skip(f"{NO_BROWSER} is set")
    from hakmem_lab import needs

    reason = needs.lacking((("chromium", "chromium"),))
    if reason:
        pytest.fail(f"the report's pictures cannot be checked: {reason}; {NO_BROWSER}=1 goes "
                    "without", pytrace=False)  # fmt: skip
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        found = tools.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()
