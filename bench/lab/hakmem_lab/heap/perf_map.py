"""Names of functions that are made at run time, from the file that Python, node and others write for profilers."""

import re
from bisect import bisect_right
from pathlib import Path

FOLDER = Path("/tmp")
LINE = re.compile(r"([0-9a-fA-F]+) ([0-9a-fA-F]+) (.+)$")
OF_PYTHON = re.compile(r" \((\S+\.py|<.*>)\)$")
PYTHON = re.compile(r"py::(.+?):(.*)$")  # function and file


class PerfMap:
    """What /tmp/perf-PID.map says; nothing without that file."""

    def __init__(self, process):
        self._named = {}
        try:
            lines = (FOLDER / f"perf-{process}.map").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        for match in filter(None, map(LINE.match, lines)):
            start, length = int(match[1], 16), int(match[2], 16)
            self._named[start] = start + length, match[3]  # the newest code at an address counts
        self._starts = sorted(self._named)

    def line(self, address):
        """(function, file, 0) of the code at an address; None when nothing is known of it."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        end, name = self._named[self._starts[at]]
        if address >= end:
            return None
        match = PYTHON.match(name)
        return (f"py::{match[1]} ({_short(match[2])})", match[2], 0) if match else (name, "", 0)


def _short(file) -> str:
    """A file's name; that of a package with its folder."""
    path = Path(file)
    return f"{path.parent.name}/{path.name}" if path.name == "__init__.py" else path.name


def without_interpreter(names) -> list:
    """A stack, the outermost first, with what Python's functions called last, and not how it ran them."""
    own = [i for i, name in enumerate(names) if name.startswith("py::")]
    if not own:
        return names
    return [names[i].removeprefix("py::") for i in own] + (names[-1:] if own[-1] < len(names) - 1 else [])


def up_to_python(stack) -> tuple:
    """A stack without what its innermost Python function calls; the whole of it when it has none."""
    own = [i for i, name in enumerate(stack) if OF_PYTHON.search(name)]
    return tuple(stack[: own[-1] + 1] if own else stack)
