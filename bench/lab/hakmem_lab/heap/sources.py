"""What `hakmem prof` and `hakmem report` read: files, and running processes. The standard library only: see front.py."""

import glob
import json
import os
import subprocess
import time
from pathlib import Path

from ..errors import LabError
from . import state
from .read import parse, text_of

SIGNAL, FILE = "60", "hakmem.%p.heap"  # the defaults of PROF_SIGNAL and PROF_FILE
PAGE = "/memfd:hakmem-live"
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


def _has_page(pid) -> bool:
    """True when any thread has a live page mapped: the first one may have left, and a daemon closes the file."""
    for maps in glob.glob(f"/proc/{pid}/task/*/maps"):
        try:
            if PAGE in Path(maps).read_text(encoding="utf-8", errors="replace"):
                return True
        except OSError:
            continue
    return False


def _live(pid) -> dict:
    """What the live page of a process has; empty without one. LabError where there is one that this command cannot read,
    for instance another build's: it would tell whether the program handles the signal itself."""
    try:
        return json.loads(_statistics(pid))
    except (LabError, ValueError) as error:
        if "has no live page" not in str(error) and _has_page(pid):
            raise LabError(str(error)) from None
        return {}


def _published(live) -> dict:
    """The options on a live page: a server may have written its title over its environment."""
    return {name: option["value"] for name, option in live.get("options", {}).items()}


def _settings(pid, live) -> dict:
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise LabError(f"process {pid}: {error.strerror}") from None
    found = dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)
    words = found.get("HAKMEM_CONF", "").split(",")
    for name, _, value in (word.partition(":") for word in words):
        found.setdefault(name if name.startswith("HAKMEM_") else f"HAKMEM_{name}", value)
    return found if "HAKMEM_PROF" in found else {**found, **_published(live)}


def _status(pid, field) -> str:
    """A line of /proc/PID/status; empty where the kernel has none of that name."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return next((line.partition(":")[2] for line in status.splitlines() if line.startswith(f"{field}:")), "")


def _catches(pid, number) -> bool:
    return int(_status(pid, "SigCgt") or "0", 16) >> (number - 1) & 1 == 1


def _own_number(pid) -> str:
    """The number that the process itself has, in a container for instance: it puts that one into names."""
    return (_status(pid, "NSpid").split() or [str(pid)])[-1]


def _is_same(path, other) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _seen_from_here(pid, name) -> Path:
    """The place of a name that the process uses, which may see other mounts or have another root."""
    if not name.startswith("/"):
        folder = os.readlink(f"/proc/{pid}/cwd")
        return Path(folder if _is_same(folder, f"/proc/{pid}/cwd") else f"/proc/{pid}/cwd", name)
    shares = all(_is_same(f"/proc/{pid}/{what}", f"/proc/self/{what}") for what in ("root", "ns/mnt"))
    return Path(name) if shares else Path(f"/proc/{pid}/root", name.lstrip("/"))


def _dumps(pattern) -> set:
    """Files, and when each was written: an earlier process of the same number may have left one of that name."""
    found = {path for path in pattern.parent.glob(glob.escape(pattern.name) + ".*") if path.suffix[1:].isdigit()}
    return {(path, path.stat().st_mtime_ns) for path in found}


def _way_to_ask(pid) -> tuple:
    """The signal that a process writes its profile at, and the place of the profile."""
    live = _live(pid)
    settings = _settings(pid, live)
    told = settings.get("HAKMEM_PROF_SIGNAL", SIGNAL)
    number = int(told if told.isdecimal() else SIGNAL)  # the library keeps its default, too
    if settings.get("HAKMEM_PROF") != "1" or not number or not _catches(pid, number):
        raise LabError(f"process {pid} writes no profiles: start it with HAKMEM_PROF=1, and leave"
                       " it HAKMEM_PROF_SIGNAL")  # fmt: skip
    if live.get("live_page", {}).get("profile_signal", number) != number:
        raise LabError(f"process {pid} handles signal {number} itself, which is left alone: start it with"
                       " another HAKMEM_PROF_SIGNAL")  # fmt: skip
    place = _seen_from_here(pid, (settings.get("HAKMEM_PROF_FILE") or FILE).replace("%p", _own_number(pid)))
    if not place.parent.is_dir():
        raise LabError(f"process {pid} cannot write its profile: there is no folder {place.parent}")
    return number, place


def ask(pid) -> Path:
    """The profile that a process writes now."""
    number, pattern = _way_to_ask(pid)
    before = _dumps(pattern)
    os.kill(pid, number)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for path, _ in _dumps(pattern) - before:
            if "[stack]" in path.read_text(encoding="utf-8", errors="replace"):
                return path
        time.sleep(0.02)
    raise LabError(f"process {pid} wrote no profile to {pattern}.* within {SECONDS} s; its stderr says if it could not")


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
