"""Builds what a run needs: instrumented libraries, and the description of a made-up machine."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LabError
from ..paths import ROOT
from .options import FLOOR, SUBJECT

SCALE = ROOT / "bench" / "scale"
INSTRUMENTED = ROOT / "bench" / "peers" / "instrumented.py"
FOLDER = ROOT / "build" / "scale"
CACHE_INDEX = 3


@dataclass(frozen=True)
class Library:
    """An allocator that a run preloads."""

    name: str
    title: str
    path: str
    version: str = ""
    environment: dict = field(default_factory=dict, compare=False)


# A cache of object files would not see that the instrumentation has changed.
LEFT_OUT = ("CC", "CXX", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


def _call(command, what) -> None:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, env={k: v for k, v in os.environ.items() if k not in LEFT_OUT},
    )  # fmt: skip
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-10:])
        raise LabError(f"{what} could not be built; it ends with\n{tail}")


def hakmem() -> str:
    """The engine, compiled by bench/scale/cc; ninja or make decide what is to be done."""
    compilers = [f"-DCMAKE_C_COMPILER={SCALE / 'cc'}", f"-DCMAKE_CXX_COMPILER={SCALE / 'c++'}"]
    stamp = FOLDER / "instrumentation"
    key = "".join((SCALE / name).read_text() for name in ("cc", "renames", "instrumented.h"))
    if not stamp.is_file() or stamp.read_text() != key:
        shutil.rmtree(FOLDER, ignore_errors=True)
        _call(["cmake", "-S", ROOT, "-B", FOLDER, "-DCMAKE_BUILD_TYPE=Release", *compilers,
               "-DHAKMEM_BUILD_TOOLS=OFF"], "instrumented HAKMEM")  # fmt: skip
        stamp.write_text(key)
    _call(["cmake", "--build", FOLDER, "--parallel", "--target", "hakmem_shared"],
          "instrumented HAKMEM")  # fmt: skip
    return str((FOLDER / "libhakmem.so").resolve())


def model(source: Path, target: Path) -> str:
    """A small allocator of bench/scale/models."""
    target.parent.mkdir(parents=True, exist_ok=True)
    objects = target.with_suffix(".o")
    _call([SCALE / "cc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fno-builtin", "-c", source,
           "-o", objects], source.name)  # fmt: skip
    _call([SCALE / "cc", "-shared", objects, "-o", target], source.name)
    return str(target)


def peers(names) -> dict:
    """{name: (title, path, version)}; their progress goes to our stderr."""
    if not names:
        return {}
    done = subprocess.run(
        [sys.executable, str(INSTRUMENTED), *names], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode not in (0, 1) or not done.stdout:
        raise LabError("the peers could not be built; the line above says why")
    return {r["name"]: (r["title"], r["path"], r["version"]) for r in json.loads(done.stdout)}


def libraries(wanted) -> list:
    """The allocators of options.allocators_of; a peer that cannot be built is left out."""
    bases = {base for _, base, _ in wanted}
    found = peers(sorted(bases - {SUBJECT, FLOOR}))
    if SUBJECT in bases:
        found[SUBJECT] = ("HAKMEM", hakmem(), "")
    if FLOOR in bases:
        found[FLOOR] = ("null", model(SCALE / "models" / "private.c", FOLDER / "libnull.so"), "")
    return [
        Library(name, found[base][0] + name.removeprefix(base), *found[base][1:], environment)
        for name, base, environment in wanted
        if base in found
    ]


# --- the machine's description, as allocators read it -----------------------------------------


def _write(root: Path, path: str, text: str) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


def describe(folder: Path, cpus: int, node_cpus: int) -> Path:
    """Files of /sys/devices/system for `cpus` CPUs in nodes; the CPUs of a node share an L3."""
    root, system = folder / f"{cpus}-{node_cpus}", "/sys/devices/system"
    if (root / "done").exists():
        return root
    every = f"0-{cpus - 1}" if cpus > 1 else "0"
    nodes = (cpus + node_cpus - 1) // node_cpus
    for name in ("possible", "present", "online"):
        _write(root, f"{system}/cpu/{name}", every)
        _write(root, f"{system}/node/{name}", f"0-{nodes - 1}" if nodes > 1 else "0")
    _write(root, f"{system}/node/has_memory", f"0-{nodes - 1}" if nodes > 1 else "0")
    for node in range(nodes):
        first, last = node * node_cpus, min((node + 1) * node_cpus, cpus) - 1
        members = f"{first}-{last}" if last > first else str(first)
        distances = " ".join("10" if other == node else "21" for other in range(nodes))
        _write(root, f"{system}/node/node{node}/cpulist", members)
        _write(root, f"{system}/node/node{node}/distance", distances)
        for cpu in range(first, last + 1):
            cache = f"{system}/cpu/cpu{cpu}/cache/index{CACHE_INDEX}"
            _write(root, f"{cache}/level", "3")
            _write(root, f"{cache}/id", str(node))
            _write(root, f"{cache}/shared_cpu_list", members)
            _write(root, f"{system}/cpu/cpu{cpu}/topology/physical_package_id", str(node))
    (root / "done").touch()
    return root
