"""Proof that a preloaded library really serves a command's malloc."""

import os
import re
import tempfile
from pathlib import Path

import psutil

from .errors import LabError

FAMILY = ("malloc", "free", "calloc", "realloc")
# "binding file PROGRAM [0] to LIBRARY [0]: normal symbol `malloc' [GLIBC_2.2.5]"
BINDING = re.compile(rb"binding file (.+?) \[\d+\] to (.+?) \[\d+\]: normal symbol `(\w+)'")


def bindings(folder: Path, library: str) -> dict:
    """function -> number of processes whose loader bound it to the library."""
    counts = {}
    for file in folder.iterdir():
        bound = set()
        with file.open("rb") as lines:
            for line in lines:
                found = BINDING.search(line)
                if found and os.fsdecode(found.group(2)) == library:
                    bound.add(found.group(3).decode())
        for name in bound:
            counts[name] = counts.get(name, 0) + 1
    return counts


def servers(launcher, command, limit, folder=None) -> set:
    """The files that serve malloc when nothing is preloaded, in all processes of the command; none
    where the loader does not tell."""
    with tempfile.TemporaryDirectory(prefix="hakmem-") as name:
        asked = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": f"{name}/loader"}
        launcher.run(command, None, limit, asked, folder=folder)
        found = [one for file in Path(name).iterdir() for one in BINDING.finditer(file.read_bytes())]
    return {os.fsdecode(one.group(2)) for one in found if one.group(3) == b"malloc"}


class MapWatcher:
    """The second proof, for loaders that tell nothing: the library in a process's maps."""

    def __init__(self, library):
        self.library, self.processes = library, set()

    def __call__(self, launcher_pid):
        try:
            children = psutil.Process(launcher_pid).children(recursive=True)
        except psutil.Error:
            return
        for child in children:
            try:
                maps = Path(f"/proc/{child.pid}/maps").read_text(errors="replace")
            except OSError:
                continue
            if self.library in maps:
                self.processes.add(child.pid)


def prove(launcher, command, library, limit, environment, folder=None) -> str:
    """Runs the command once with the library and says how its use was seen, or raises.

    The loader itself is asked (LD_DEBUG=bindings) to which library it binds malloc, in
    every process that the command starts.
    """
    watcher = MapWatcher(library)
    with tempfile.TemporaryDirectory(prefix="hakmem-") as name:
        asked = {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": f"{name}/loader"}
        outcome = launcher.run(
            command, library, limit, {**environment, **asked}, watcher, folder
        )
        if not outcome.good:
            alone = launcher.run(command, None, limit, environment, folder=folder)
            where = f"with {library}" if alone.good else "on the system allocator either"
            raise LabError(f"{command[0]} does not run {where}: {outcome.reason()}")
        counts = bindings(Path(name), library)
    if all(function in counts for function in FAMILY[:2]):
        names = ", ".join(function for function in FAMILY if function in counts)
        return f"{names} bound to {library} by the loader, in {counts['malloc']} process(es)"
    if watcher.processes:
        return f"{library} is mapped in {len(watcher.processes)} process(es)"
    raise LabError(
        f"the override is NOT active in {command[0]}: it never binds malloc to {library} "
        "(a static or setuid program, or one with its own allocator?)"
    )
