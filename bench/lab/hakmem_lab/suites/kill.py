"""Ends the processes of this checkout's benchmarks, and no others.

Everything the lab starts carries its mark in the environment, and the scripts give it to the lab
itself. /proc/PID/environ tells; names of programs are never looked at.
"""

import os
import time

import psutil

from ..cli import Parser, number
from ..errors import LabError
from ..guard import MARK, mark

POLL = 0.05  # seconds
KILL_TRIES = 3  # what a process has started meanwhile is ended too
ABOUT = f"""\
Ends what the benchmarks of this checkout have left running: TERM, then after KILL_GRACE seconds
KILL. Only processes with {MARK} in their environment are meant, never a name."""


def spared() -> set:
    """Ourselves and everything above us."""
    own = psutil.Process()
    return {own.pid, *(parent.pid for parent in own.parents())}


def marked(value) -> list:
    """This user's processes whose environment carries the mark with this value."""
    found, wanted = [], os.fsencode(f"{MARK}={value}")
    keep = spared()
    for process in psutil.process_iter():
        try:
            with open(f"/proc/{process.pid}/environ", "rb") as file:
                there = wanted in file.read().split(b"\0")
            own = process.pid not in keep and process.uids().real == os.getuid()
            if there and own and alive(process):
                found.append(process)
        except (OSError, psutil.Error):
            continue
    return found


def _signal(processes, send) -> None:
    for process in processes:
        try:
            send(process)  # psutil makes sure that the number has not been given to another
        except psutil.Error:
            continue


def alive(process) -> bool:
    """A zombie has ended: it only waits for its parent."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def wait(processes, seconds) -> list:
    """Those that have not ended by then."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL)
        left = [process for process in left if alive(process)]
    return left


def end(value, grace) -> tuple:
    """(processes ended, how many of them by KILL)."""
    processes = marked(value)
    _signal(processes, psutil.Process.terminate)
    left, ended, killed = wait(processes, grace), len(processes), 0
    for _ in range(KILL_TRIES):
        started = [process for process in marked(value) if process not in processes]
        ended, processes = ended + len(started), processes + started
        left += started
        if not left:
            return ended, killed
        _signal(left, psutil.Process.kill)
        killed += len(left)
        left = wait(left, max(grace, 1.0))
    raise LabError(f"still running: {', '.join(str(process.pid) for process in left)}")


def run(argv) -> int:
    parser = Parser(
        prog="scripts/kill_bench.sh", description=ABOUT,
        epilog="example: KILL_GRACE=5 scripts/kill_bench.sh",
    )  # fmt: skip
    parser.add_argument(
        "--grace", type=number(float, 0, 600), default=os.environ.get("KILL_GRACE") or "2",
        metavar="SECONDS", help="between TERM and KILL (environment KILL_GRACE; 2)",
    )  # fmt: skip
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be ended")
    options = parser.parse_args(argv)
    if options.dry_run:
        for process in marked(mark()):
            print(process.pid, " ".join(process.cmdline()))
        return 0
    ended, killed = end(mark(), options.grace)
    if not ended:
        print("no benchmark of this checkout is running")
    else:
        print(f"ended {ended} processes, {killed} of them by KILL")
    return 0
