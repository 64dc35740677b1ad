"""The machine: what it is, how far apart its CPUs are, how busy others keep it."""

import os
import platform
import re
import subprocess
import time
from pathlib import Path

import psutil

from .paths import ROOT

PROBE_LIMIT = 10.0
FAR_FACTOR = 2.5  # a round trip this much longer than the shortest seen is "far"
# Of the lab itself: they change nothing that is measured, and two of them name a folder of the user's.
OWN = ("HAKMEM_BENCH_BUILD", "HAKMEM_BENCH_SUITE", "HAKMEM_BENCH_RUN", "HAKMEM_BENCH_NAME", "HAKMEM_BENCH_COMMAND")


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _chosen(path: str) -> str:
    """The word in brackets of a kernel setting."""
    found = re.search(r"\[([\w+]+)\]", _read(path))
    return found.group(1) if found else "unknown"


def _git(*words) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else ""


def revision() -> dict:
    """The commit that is measured, and whether the tree differs from it."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        return {"commit": commit or "unknown", "dirty": bool(commit and _git("status", "--short"))}
    except OSError:
        return {"commit": "unknown", "dirty": False}


def _system() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release"), re.MULTILINE)
    return found.group(1) if found else "Linux"


def allocator_environment() -> dict:
    """Variables of the caller that reach every run and may change what is measured."""
    names = ("HAKMEM_", "MALLOC_", "MIMALLOC_", "SNMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES")
    return {
        name: value for name, value in sorted(os.environ.items())
        if name.startswith(names) and name not in OWN
    }  # fmt: skip


def describe() -> dict:
    """What belongs beside any published figure."""
    cpuinfo = _read("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", cpuinfo)
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "virtual": " hypervisor" in cpuinfo,
        "memory_mb": psutil.virtual_memory().total >> 20,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "huge_pages_defrag": _chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not visible",
        "system": _system(),
        "overcommit": _read("/proc/sys/vm/overcommit_memory"),
        "environment": allocator_environment(),
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        **revision(),
    }


def warm_mebibytes(wanted: int) -> int:
    """How much hugewarm may touch: never more than a quarter of what is available."""
    return min(wanted, psutil.virtual_memory().available >> 22)


class LineProbe:
    """Round trip of a cache line between the first two CPUs that we may use."""

    def __init__(self, program):
        cpus = sorted(os.sched_getaffinity(0))
        self.command = None
        if program is not None and len(cpus) > 1:
            self.command = [str(program), str(cpus[0]), str(cpus[1]), "10000"]
        self.shortest = None

    def measure(self):
        """Nanoseconds, or None on a machine with one CPU."""
        if self.command is None:
            return None
        try:
            done = subprocess.run(
                self.command, capture_output=True, text=True, timeout=PROBE_LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        found = re.search(r"round_trip_ns=([0-9.]+)", done.stdout)
        if found is None:
            return None
        distance = float(found.group(1))
        self.shortest = min(distance, self.shortest or distance)
        return distance

    def kind(self, distance):
        return kind_of(distance, self.shortest)


def kind_of(distance, shortest):
    """ "near" or "far", seen from the shortest round trip of the session; "" unknown."""
    if distance is None or not shortest:
        return ""
    return "far" if distance > FAR_FACTOR * shortest else "near"


class OtherLoad:
    """CPU time that other processes used between start() and stop(), in CPUs."""

    def start(self):
        self._before = self._busy()
        self._own = os.times()
        return self

    def stop(self, child_seconds: float) -> float:
        now = os.times()
        wall = max(now.elapsed - self._own.elapsed, 1e-6)
        own = (now.user + now.system) - (self._own.user + self._own.system)
        return max(0.0, (self._busy() - self._before - own - child_seconds) / wall)

    @staticmethod
    def _busy() -> float:
        times = psutil.cpu_times()
        return times.user + times.system + times.nice + getattr(times, "steal", 0.0)
