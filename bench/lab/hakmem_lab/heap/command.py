"""`hakmem prof` and `hakmem report`."""

import json
import os
import re
import subprocess
import time
from collections import Counter
from pathlib import Path

from ..errors import LabError
from . import output, pprof, state
from .options import is_process, profile_for
from .read import read, size

SIGNAL, FILE = "60", "hakmem.%p.heap"  # the defaults of PROF_SIGNAL and PROF_FILE
SECONDS = 30


def _published(pid) -> dict:
    """The options on the live page of a process: a server may have written its title over its environment."""
    command = os.environ.get("HAKMEM_BENCH_COMMAND")
    if not command:
        return {}
    shown = subprocess.run([command, "stat", str(pid), "--json"], capture_output=True, check=False)
    options = json.loads(shown.stdout)["options"] if shown.returncode == 0 else {}
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


def _ask(pid) -> Path:
    """The profile that a process writes now."""
    settings = _settings(pid)
    told = settings.get("HAKMEM_PROF_SIGNAL", SIGNAL)
    number = int(told if told.isdecimal() else SIGNAL)  # the library keeps its default, too
    if settings.get("HAKMEM_PROF") != "1" or not number or not _catches(pid, number):
        raise LabError(f"process {pid} writes no profiles: start it with HAKMEM_PROF=1, and leave"
                       " it HAKMEM_PROF_SIGNAL")  # fmt: skip
    name = (settings.get("HAKMEM_PROF_FILE") or FILE).replace("%p", str(pid))
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


def prof(options) -> int:
    source = _ask(int(options.source)) if is_process(options.source) else Path(options.source)
    profile = read(source)
    out = options.out or profile_for(source)
    kept = output.write(out, pprof.packed(profile))
    index = " -sample_index=peak_space" if profile.is_of_end else ""
    print(f"{out}: {profile.samples} samples, {size(profile.live)} in use, {size(profile.peak)} at the peak{kept};"
          f" go tool pprof -top{index} {out}")  # fmt: skip
    return 0


def _look_at(pid, profiles, states) -> None:
    """What a running process tells: its memory, a profile, or both."""
    problems = []
    words = [os.environ.get("HAKMEM_BENCH_COMMAND", "hakmem"), "stat", str(pid), "--json", "--map"]
    try:
        shown = subprocess.run(words, capture_output=True, check=False, text=True)
    except OSError as error:
        raise LabError(f"{words[0]}: {error.strerror}") from None
    if shown.returncode == 0:
        states += state.read(shown.stdout, f"process {pid}")
        states[-1].time = time.time()
    else:
        problems.append(shown.stderr.strip())
    try:
        profiles.append(read(_ask(pid)))
    except LabError as error:
        problems.append(str(error))
    if len(problems) == 2:
        raise LabError("; ".join(problems))
    for problem in problems:
        print(f"left out: {problem}")


def of_one_program(profiles) -> list:
    """The profiles of the program that allocated most: a shell, or what a program started, may have left some, too."""
    if len({profile.program for profile in profiles}) < 2:
        return profiles
    most = max(profiles, key=lambda profile: profile.allocated).program
    others = Counter(profile.program for profile in profiles if profile.program != most)
    named = ", ".join(f"{name} ({count})" for name, count in sorted(others.items()))
    print(f"profiles of several programs: drawn is {most}, which allocated most; left out: {named}")
    return [profile for profile in profiles if profile.program == most]


def _row(profile) -> str:
    """What the file's name is without the number of a profile on demand."""
    match = re.match(r"(.*)\.(\d+)$", str(profile.path))
    process = str(profile.process)
    is_number = match and (match.group(2) != process or process in Path(match.group(1)).name)
    return match.group(1) if is_number else str(profile.path)


def _written(profile) -> int:
    """When the file was written; 0 where that is not known."""
    try:
        return profile.path.stat().st_mtime_ns
    except OSError:
        return 0


def in_order(profiles) -> list:
    """As they were written: numbers of processes and of their profiles do not sort as text. Profiles of one process go by
    its clock; processes whose files are of one time stay as they were given."""
    order, last = {}, {}
    for profile in profiles:
        row = (profile.process, _row(profile))
        order.setdefault(row, len(order))
        last[row] = max(last.get(row, 0), _written(profile))
    rows = {row: (last[row], order[row]) for row in order}
    return sorted(profiles, key=lambda one: (rows[one.process, _row(one)], one.ms))


def report(options) -> int:
    try:
        from . import page
    except ImportError:
        raise LabError("the page needs plotly: python3 -m pip install plotly") from None
    profiles, states = [], []
    for source in sorted(options.sources, key=is_process):  # what a process says now is the newest
        if is_process(source):
            _look_at(int(source), profiles, states)
            continue
        try:
            text = Path(source).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise LabError(f"{source}: {error.strerror}") from None
        if text.lstrip().startswith("{"):
            states += state.read(text, source)
        else:
            profiles.append(read(source))
    drawn = page.draw(in_order(of_one_program(profiles)), states).encode("utf-8", errors="replace")
    kept = output.write(options.out, drawn)
    print(f"{options.out}: opens in a browser, from disk{kept}")
    return 0
