"""The profilers of this machine: what is there, and whether its counters count."""

import shutil
import subprocess

from ..errors import LabError

LIMIT = 120.0  # seconds for a tool that only looks at a file
PACKAGES = {
    "valgrind": "valgrind",
    "callgrind_annotate": "valgrind",
    "objdump": "binutils",
    "readelf": "binutils",
    "perf": "linux-perf",
}


def need(*names) -> None:
    """Fails unless these commands are there."""
    for name in names:
        if shutil.which(name) is None:
            raise LabError(f"{name} is missing (Debian package {PACKAGES.get(name, name)})")


def output(command) -> str:
    """What a tool prints; it must succeed."""
    need(command[0])
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=LIMIT,
            check=False, errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"{command[0]} did not end within {LIMIT:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise LabError(f"{command[0]}: {lines[-1]}")
    return done.stdout


def counters_work() -> bool:
    """Whether perf counts instructions here: most virtual machines have no counters."""
    if shutil.which("perf") is None:
        return False
    done = subprocess.run(
        ["perf", "stat", "-x", ",", "-e", "instructions", "true"], capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    return done.returncode == 0 and done.stderr.strip()[:1].isdigit()
