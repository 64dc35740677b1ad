"""Ends the processes of this checkout's benchmarks, and no others.

Everything the lab starts carries its mark in the environment, and the scripts give it to the lab
itself. /proc/PID/environ tells; names of programs are never looked at.
"""

import os
import time

from ..cli import Parser, number
from ..errors import LabError
from ..guard import MARK, RUN, mark

POLL = 0.05  # seconds
KILL_TRIES = 3  # what a process has started meanwhile is ended too
ABOUT = f"""\
Ends processes that the benchmarks of this checkout have left running: TERM, then after KILL_GRACE
seconds KILL. It recognises them by {MARK} in their environment, never by name. Runs of another
session are listed but not ended, unless --all is given."""


def own_line() -> set:
    """Ourselves and everything above us."""
    import psutil

    own = psutil.Process()
    return {own.pid, *(parent.pid for parent in own.parents())}


class Marked:
    """This user's processes whose environment carries the mark with this value.

    A run that is still at work belongs to the session that began it: whoever calls from another one
    did not start it. What its run has left behind belongs to nobody.
    """

    def __init__(self, value, everything=False):
        self.wanted, self.everything = os.fsencode(f"{MARK}={value}"), everything
        self.session = os.getsid(0)

    def _all(self):
        """(process, the process that began its run) of each."""
        import psutil

        keep = own_line()
        for process in psutil.process_iter():
            try:
                with open(f"/proc/{process.pid}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                own = process.pid not in keep and process.uids().real == os.getuid()
                if self.wanted in words and own and alive(process):
                    yield process, _beginner(process, words)
            except (OSError, psutil.Error):
                continue

    def _is_ours(self, beginner) -> bool:
        return self.everything or beginner is None or os.getsid(beginner.pid) == self.session

    def ours(self) -> list:
        """Those that may be ended."""
        return [process for process, beginner in self._all() if self._is_ours(beginner)]

    def spared(self) -> dict:
        """{what began it: processes} of runs that another session has at work."""
        found = {}
        for _, beginner in self._all():
            if not self._is_ours(beginner):
                key = f"{beginner.pid} ({' '.join(beginner.cmdline()[-4:])})"
                found[key] = found.get(key, 0) + 1
        return found


def _beginner(process, words):
    """The living process that began the run, None where it is gone."""
    import psutil

    prefix = os.fsencode(f"{RUN}=")
    pid = next((int(word[len(prefix) :]) for word in words if word.startswith(prefix)), process.pid)
    try:
        beginner = psutil.Process(pid)
        return beginner if alive(beginner) and beginner.pid not in own_line() else None
    except psutil.Error:
        return None


def _signal(processes, send) -> None:
    import psutil

    for process in processes:
        try:
            send(process)  # psutil makes sure that the number has not been given to another
        except psutil.Error:
            continue


def alive(process) -> bool:
    """A zombie has ended: it only waits for its parent."""
    import psutil

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


def end(found, grace) -> tuple:
    """(processes ended, how many of them by KILL)."""
    import psutil

    processes = found.ours()
    _signal(processes, psutil.Process.terminate)
    left, ended, killed = wait(processes, grace), len(processes), 0
    for _ in range(KILL_TRIES):
        started = [process for process in found.ours() if process not in processes]
        ended, processes = ended + len(started), processes + started
        left += started
        if not left:
            return ended, killed
        _signal(left, psutil.Process.kill)
        killed += len(left)
        left = wait(left, max(grace, 1.0))
    raise LabError(f"still running: {', '.join(str(process.pid) for process in left)}")


def parser() -> Parser:
    parser = Parser(description=ABOUT, epilog="example: KILL_GRACE=5 scripts/kill_bench.sh")
    parser.add_argument(
        "--grace", type=number(float, 0, 600), default=os.environ.get("KILL_GRACE") or "2",
        metavar="SECONDS", help="between TERM and KILL (environment KILL_GRACE; 2)",
    )  # fmt: skip
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be ended")
    parser.add_argument("--all", action="store_true", help="also runs that another session began")
    return parser


def run(options) -> int:
    value = mark()
    found = Marked(value, options.all)
    for begun, count in found.spared().items():
        print(f"spared: {begun}, {count} processes: another session's run; --all ends it, too")
    if options.dry_run:
        for process in found.ours():
            print(process.pid, " ".join(process.cmdline()))
        return 0
    ended, killed = end(found, options.grace)
    if not ended:
        print("no benchmark of this checkout is left running")
    else:
        print(f"ended {ended} processes, {killed} of them by KILL")
    return 0
