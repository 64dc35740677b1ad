"""What `hakmem prof` and `hakmem report` read: files, and running processes. The standard library only: see front.py."""

import json
import os
import subprocess
import time
from pathlib import Path

from ..errors import LabError
from . import state
from .read import parse, text_of

SIGNAL, FILE = "60", "hakmem.%p.heap"  # the defaults of PROF_SIGNAL and PROF_FILE
SECONDS = 30


def is_process(source) -> bool:
    return source.isascii() and source.isdigit()


def of_file(path) -> list:
    """The states that it has, or the profile, whose frames have no names yet."""
    text = text_of(path)
    return state.read(text, path) if text.lstrip().startswith("{") else [parse(path, text)]


def _statistics(pid, *more) -> str:
    """The JSON of a process under HAKMEM."""
    words = [os.environ.get("HAKMEM_BENCH_COMMAND") or "hakmem", "stat", str(pid), "--json", *more]
    try:
        shown = subprocess.run(words, capture_output=True, check=False, text=True)
    except OSError as error:
        raise LabError(f"{words[0]}: {error.strerror}") from None
    if shown.returncode != 0:
        raise LabError(shown.stderr.strip())
    return shown.stdout


def _published(pid) -> dict:
    """The options on the live page of a process: a server may have written its title over its environment."""
    try:
        options = json.loads(_statistics(pid))["options"]
    except LabError:
        return {}
    return {name: option["value"] for name, option in options.items()}


def _settings(pid) -> dict:
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise LabError(f"process {pid}: {error.strerror}") from None
    found = dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
    words = found.get("HAKMEM_CONF", "").split(",")
    for name, _, value in (word.partition(":") for word in words):
        found.setdefault(name if name.startswith("HAKMEM_") else f"HAKMEM_{name}", value)
    return found if "HAKMEM_PROF" in found else {**found, **_published(pid)}


def _catches(pid, number) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1


def _dumps(pattern) -> set:
    """Files, and when each was written: an earlier process of the same number may have left one of that name."""
    found = {path for path in pattern.parent.glob(pattern.name + ".*") if path.suffix[1:].isdigit()}
    return {(path, path.stat().st_mtime_ns) for path in found}


def _way_to_ask(pid) -> tuple:
    """The signal that a process writes its profile at, and the profile's name."""
    settings = _settings(pid)
    told = settings.get("HAKMEM_PROF_SIGNAL", SIGNAL)
    number = int(told if told.isdecimal() else SIGNAL)  # the library keeps its default, too
    if settings.get("HAKMEM_PROF") != "1" or not number or not _catches(pid, number):
        raise LabError(f"process {pid} writes no profiles: start it with HAKMEM_PROF=1, and leave"
                       " it HAKMEM_PROF_SIGNAL")  # fmt: skip
    return number, (settings.get("HAKMEM_PROF_FILE") or FILE).replace("%p", str(pid))


def ask(pid) -> Path:
    """The profile that a process writes now."""
    number, name = _way_to_ask(pid)
    pattern = Path(os.readlink(f"/proc/{pid}/cwd")) / name
    before = _dumps(pattern)
    os.kill(pid, number)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for path, _ in _dumps(pattern) - before:
            if "[stack]" in path.read_text(encoding="utf-8", errors="replace"):
                return path
        time.sleep(0.02)
    raise LabError(f"process {pid} wrote no profile within {SECONDS} s")


def _any_of(*steps) -> list:
    """Why steps failed; LabError when all did."""
    problems = []
    for step in steps:
        try:
            step()
        except LabError as error:
            problems.append(str(error))
    if len(problems) == len(steps):
        raise LabError("; ".join(problems))
    return problems


def check(pid) -> None:
    """LabError for a process that would tell nothing. It is not asked for a profile."""
    _any_of(lambda: _statistics(pid), lambda: _way_to_ask(pid))


def of_process(pid) -> tuple:
    """([its state, its profile], or one of them; why the other is missing)."""
    found = []

    def look():
        found.extend(state.read(_statistics(pid, "--map"), f"process {pid}"))
        found[-1].time = time.time()

    problems = _any_of(look, lambda: found.extend(of_file(ask(pid))))
    return found, problems
