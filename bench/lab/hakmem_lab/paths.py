"""Where the project, its build folder and the things in them are."""

import os
from pathlib import Path

from .errors import LabError

ROOT = Path(__file__).resolve().parents[3]
PEER_BUILDER = ROOT / "bench" / "peers" / "build.py"
PAGE = ROOT / "docs" / "PERF_COMPARISON_ALLOCATORS.md"
WORKLOADS = ROOT / "bench" / "workloads"


def readable(text) -> str:
    """A word of the user's for tables, pages and drawings: bytes of it that are no UTF-8 become \\xff."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def build_folder(given=None) -> Path:
    """The CMake build folder: the option, else HAKMEM_BENCH_BUILD, else build/release."""
    return Path(given or os.environ.get("HAKMEM_BENCH_BUILD") or ROOT / "build" / "release").resolve()


# Of an installed lab: a wheel has no links to them.
BESIDE = {"libhakmem.so": "../../libhakmem.so.1", "hakmem-replay": "../hakmem-replay"}


def built(folder: Path, name: str) -> Path:
    """A program or library of the build folder; missing is an error with its remedy."""
    path = folder / name
    if name in BESIDE and not path.exists() and (folder / BESIDE[name]).exists():
        path = (folder / BESIDE[name]).resolve()
    if not path.exists():
        raise LabError(f"{path} does not exist; run 'make' first")
    return path
