"""Runs one command through the `launch` program, bounded in time."""

import json
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError
from .settings import KILL_GRACE

SPARE = 10.0  # seconds the launcher itself is given beyond the command's limit and grace
ENDING = 3.0  # seconds it has to end its command, beyond the grace
OWN_NAMES = ("HAKMEM_BENCH_BUILD",)  # the lab's own variables, which no library knows


@dataclass
class Outcome:
    """What a command cost (launch's JSON line) and what it printed."""

    cost: dict
    stdout: bytes
    stderr: bytes

    @property
    def good(self) -> bool:
        return self.cost["exit"] == 0 and not self.cost["timed_out"]

    def reason(self) -> str:
        """Why it is not good, in a few words, with the last line of stderr."""
        lines = self.stderr.decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        if self.cost["timed_out"]:
            return f"ended after its time limit of {self.cost['wall_s']:.0f} s{last}"
        if self.cost["signal"]:
            return f"ended by {signal.Signals(self.cost['signal']).name}{last}"
        return f"exit status {self.cost['exit']}{last}"


class Launcher:
    """Starts commands one at a time; whatever happens, none is left running."""

    def __init__(self, program: Path, grace: float = KILL_GRACE):
        self.program, self.grace = str(program), grace

    def run(self, command, library=None, limit=60.0, environment=None, while_running=None,
            folder=None, before=()):  # fmt: skip
        """The Outcome of `command`, run in `folder`; `while_running(pid)` is called every 20 ms. The
        words of `before` start the launcher.

        stdout and stderr go to files, not pipes, so that a grandchild that keeps them
        open cannot hold us up.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            reader, writer = os.pipe()
            words = [*before, self.program, "-t", f"{limit:.3f}", "-g", f"{self.grace:.3f}"]
            words += ["-j", str(writer)]
            words += ["-p", str(library)] if library else []
            try:
                process = subprocess.Popen(
                    [*words, "--", *map(str, command)],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=(writer,),
                    env=_environment(environment), start_new_session=True, cwd=folder,
                )  # fmt: skip
            except OSError as error:
                os.close(reader)
                raise LabError(f"cannot start {self.program}: {error.strerror}") from None
            finally:
                os.close(writer)
            with os.fdopen(reader) as report:
                self._wait(process, limit + self.grace + SPARE, while_running)
                line = report.readline()
            out.seek(0)
            err.seek(0)
            stdout, stderr = out.read(), err.read()
        if not line:
            text = stderr.decode(errors="replace").strip() or f"status {process.returncode}"
            raise LabError(f"{command[0]} could not be run: {text}")
        return Outcome(json.loads(line), stdout, stderr)

    def _wait(self, process, limit, while_running):
        left = limit
        try:
            while while_running is not None and left > 0 and process.poll() is None:
                while_running(process.pid)
                left -= 0.02
                try:
                    process.wait(0.02)
                except subprocess.TimeoutExpired:
                    continue
            process.wait(max(left, 0.1))
        except subprocess.TimeoutExpired:
            raise LabError(f"{process.args[0]} did not end by itself") from None
        finally:
            self._end(process)

    def _end(self, process) -> None:
        """TERM (which makes the launcher end its command), then KILL; returns when it is gone."""
        if process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(self.grace + ENDING)
        except subprocess.TimeoutExpired:
            process.kill()  # its command dies with it: launch asks the kernel for that
            process.wait()


def _environment(added) -> dict:
    return {k: v for k, v in os.environ.items() if k not in OWN_NAMES} | (added or {})
