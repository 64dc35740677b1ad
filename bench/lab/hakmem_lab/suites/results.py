"""Where results go and what they are called."""

import json
import os
import re
import time
from pathlib import Path

from ..errors import LabError
from ..paths import ROOT

BENCHMARKS = ROOT / "docs" / "benchmarks"
SCRATCH = ROOT / "build" / "bench"


def stamp() -> str:
    return time.strftime("%Y-%m-%d_%H%M%S")


def folder_for(suite, out=None) -> Path:
    """The folder of one run: --out, else <stamp>_<SUFFIX>."""
    return out or (BENCHMARKS if suite.keep else SCRATCH) / f"{stamp()}_{suite.suffix}"


def writable(folder: Path) -> Path:
    """The folder, made if need be; one line now is better than one after an hour."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise LabError(f"cannot write to {folder}: {error.strerror}") from None
    return folder


def log_name(entry: str, row: str) -> str:
    """<label>_T<threads>.log; a row's key ends in _T<threads>."""
    return re.sub(r"[^A-Za-z0-9.=+_-]+", "-", f"{entry}_{row}") + ".log"


class RawLogs:
    """A file for the engine's samples that also keeps a readable log per cell."""

    def __init__(self, folder: Path, samples: str):
        self.folder = folder
        self.samples = (folder / samples).open("a")

    def write(self, line: str) -> None:
        self.samples.write(line)
        sample = json.loads(line)
        extra = " ".join(f"{name}={value}" for name, value in sample["extra"].items())
        notes = f" disturbed='{sample['disturbed']}'" if sample["disturbed"] else ""
        cost = " ".join(f"{name}={value}" for name, value in sample["cost"].items())
        with (self.folder / log_name(sample["allocator"], sample["row"])).open("a") as log:
            log.write(
                f"Throughput = {sample['ops_per_s']} ops/s [{extra}] time={sample['seconds']:.3f}s\n"
                f"[RSS] max_kb={sample['rss_kb']}\n"
                f"[RUN] round={sample['round']} other_cpus={sample['other_cpus']} {cost}{notes}\n"
            )

    def failed(self, row: str, entry: str, reason: str) -> None:
        with (self.folder / log_name(entry, row)).open("a") as log:
            log.write(f"failed: {reason}\n")

    def flush(self) -> None:
        self.samples.flush()

    def close(self) -> None:
        self.samples.close()


def remove_if_unused(folder: Path, samples: str) -> None:
    """Takes back a folder in which nothing was measured."""
    path = folder / samples
    if path.exists() and path.stat().st_size == 0:
        path.unlink()
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
