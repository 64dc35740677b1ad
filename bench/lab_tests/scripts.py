"""What the tests of the scripts share: libraries that play HAKMEM, and a way to run a script."""

import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).resolve().parent / "fake_hakmem.c"
MARK = "HAKMEM_BENCH_SUITE"
RUN = "HAKMEM_BENCH_RUN"


def fake_library(target, *flags):
    """Builds fake_hakmem.c."""
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", target, FAKE,
         *flags],
        check=True, timeout=300,
    )  # fmt: skip
    return target


def real_library(target):
    """HAKMEM: what `make test` has just built, or else, where that is older than its sources, built here as fast
    as the compiler can."""
    sources = sorted((ROOT / "src").glob("*/*.c"))
    built = ROOT / "build/release/libhakmem.so"
    newest = max(path.stat().st_mtime for folder in ("src", "include") for path in (ROOT / folder).rglob("*"))
    if built.exists() and built.stat().st_mtime > newest:
        shutil.copy(built, target)
        return target
    subprocess.run(
        ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O0", "-shared", "-fPIC", "-pthread",
         "-fvisibility=hidden", "-I", ROOT / "src", "-I", ROOT / "include", "-o", target, *sources],
        check=True, timeout=300,
    )  # fmt: skip
    return target


def environment(build, **more):
    """Short runs in the tests' own build, with a mark of their own. No test began them, although one
    may have called the lab in this process, and so be noted."""
    ours = {name: value for name, value in os.environ.items() if name != RUN}
    return {**ours, "HAKMEM_BENCH_BUILD": str(build), MARK: f"test-{uuid.uuid4()}",
            "RUNTIME": "0.05", "THREADS": "1", "ROUNDS": "1", "COUNTS": "0", "WARM_MIB": "0", **more}  # fmt: skip


def command(name, *arguments):
    return [str(ROOT / "scripts" / f"{name}.sh"), *map(str, arguments)]


def script(build, name, *arguments, timeout=300, **more):
    """One call of a script. This and other limits are against hangs: a loaded machine keeps to none."""
    return subprocess.run(
        command(name, *arguments), capture_output=True, text=True, timeout=timeout, check=False,
        env=environment(build, **more),
    )  # fmt: skip


def marked(value):
    """Processes that carry this mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def name_of(process):
    """A process's name; empty when it has ended meanwhile."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def wait_until(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()
