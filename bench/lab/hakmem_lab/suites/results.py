"""Where results go and what they are called."""

import contextlib
import os
import re
import time
from pathlib import Path

from ..errors import LabError
from ..paths import ROOT

BENCHMARKS = ROOT / "docs" / "benchmarks"
# what compare.Session.run writes
ENGINE_FILES = ("samples.jsonl", "setup.json", "summary.json", "report.html", "chart.png",
                "chart.svg")  # fmt: skip
SCRATCH = ROOT / "build" / "bench"


def stamp() -> str:
    return time.strftime("%Y-%m-%d_%H%M%S")


def folder_for(suite, out=None) -> Path:
    """The folder of one run: --out, else <stamp>_<SUFFIX>."""
    return out or (BENCHMARKS if suite.keep else SCRATCH) / f"{stamp()}_{suite.suffix}"


def writable(path: Path) -> Path:
    """The folder, made if need be; one line now is better than one after an hour."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise LabError(f"cannot write to {path}: {error.strerror}") from None
    return path


@contextlib.contextmanager
def folder(path: Path):
    """A folder for results; when nothing was measured, what the engine began there is removed."""
    there = path.exists()
    try:
        yield writable(path)
    except BaseException:
        samples = path / "samples.jsonl"
        with contextlib.suppress(OSError):
            if not samples.exists() or not samples.stat().st_size:
                for name in ENGINE_FILES:
                    (path / name).unlink(missing_ok=True)
                if not there:
                    path.rmdir()  # only when it is empty
        raise


def log_name(entry: str, row: str) -> str:
    """<label>_T<threads>.log; a row's key ends in _T<threads>."""
    return re.sub(r"[^A-Za-z0-9.=+_-]+", "-", f"{entry}_{row}") + ".log"


def _lines(sample) -> str:
    extra = " ".join(f"{name}={value}" for name, value in sample.extra.items())
    cost = " ".join(f"{name}={value}" for name, value in sample.cost.items())
    notes = f" disturbed='{sample.disturbed}'" if sample.disturbed else ""
    return (
        f"Throughput = {sample.ops_per_s:.0f} ops/s [{extra}] time={sample.seconds:.3f}s\n"
        f"[RSS] max_kb={sample.rss_kb}\n"
        f"[RUN] round={sample.round} other_cpus={sample.other_cpus} {cost}{notes}\n"
    )


def write_logs(path: Path, summary: dict, samples: list) -> None:
    """A raw log per cell: what each run printed and cost, and why a cell failed."""
    for sample in samples:
        with (path / log_name(sample.allocator, sample.row)).open("a") as log:
            log.write(_lines(sample))
    for failure in summary["failures"]:
        with (path / log_name(failure["allocator"], failure["row"])).open("a") as log:
            log.write(f"failed: {failure['reason']}\n")
