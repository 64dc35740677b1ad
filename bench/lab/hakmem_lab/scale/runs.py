"""Runs the program `scale`, several at a time, and reads what it prints."""

import concurrent.futures
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from . import build
from .options import MACHINE

# Thread stacks stay in libc's cache; allocators that read rseq themselves would see the real CPU.
TUNABLES = "glibc.pthread.stack_cache_size=8589934592:glibc.pthread.rseq=0"


@dataclass(frozen=True)
class Cell:
    """One run; `key` without the seed is a line of the tables."""

    load: str
    library: build.Library
    cpus: int
    seed: int

    @property
    def key(self) -> tuple:
        return self.load, self.library.name, self.cpus


class Runner:
    """Runs cells; stop() ends what is running."""

    def __init__(self, program, machine, described: Path, limit: float):
        self.program, self.machine, self.described = str(program), machine, described
        self.limit = limit
        self.running = set()
        self.stopped = False

    def command(self, cell) -> list:
        numbers = {name: self.machine[name] for name in MACHINE}
        return [self.program, f"load={cell.load}", f"cpus={cell.cpus}", f"seed={cell.seed}",
                *(f"{name}={value}" for name, value in numbers.items())]  # fmt: skip

    def environment(self, cell) -> dict:
        """Nothing else: the length of the environment moves a process's first addresses."""
        root = build.describe(self.described, cell.cpus, self.machine["node"])
        marks = {k: v for k, v in os.environ.items() if k.startswith("HAKMEM_BENCH_")}
        return {"LD_PRELOAD": cell.library.path, "GLIBC_TUNABLES": TUNABLES,
                "SCALE_SYSTEM": str(root), **marks, **cell.library.environment}  # fmt: skip

    def run(self, cell) -> dict:
        """What the program counted; LabError with its own words if it failed."""
        if self.stopped:
            raise LabError("stopped")
        process = subprocess.Popen(
            self.command(cell), env=self.environment(cell), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.running.add(process)
        try:
            out, err = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise LabError(f"took longer than {self.limit:g} s") from None
        finally:
            self.running.discard(process)
        if process.returncode != 0:
            words = err.strip().splitlines()
            raise LabError(words[-1] if words else f"ended with status {process.returncode}")
        found = json.loads(out)
        if found["malloc"].get("file") != cell.library.path:
            raise LabError(f"malloc is not {cell.library.path}'s")
        return found

    def stop(self) -> None:
        self.stopped = True
        for process in list(self.running):
            process.kill()

    def each(self, cells, jobs, done) -> None:
        """done(cell, counts or LabError) for each, as they end, in this thread."""
        pool = concurrent.futures.ThreadPoolExecutor(jobs)
        waiting = {pool.submit(self.run, cell): cell for cell in cells}
        try:
            for future in concurrent.futures.as_completed(waiting):
                error = future.exception()
                if error is not None and not isinstance(error, LabError):
                    raise error
                done(waiting[future], error or future.result())
        finally:
            self.stop()
            pool.shutdown(wait=True, cancel_futures=True)
