"""Finds the allocators of a comparison: ours, the system's, the peers, libraries by path."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from .errors import LabError
from .paths import PEER_BUILDER, built
from .tables import LIMIT, OWN_ALLOCATORS, SUBJECT, Allocator

FAMILY = {"malloc", "free", "calloc", "realloc"}


def parse_libraries(given) -> dict:
    """{"name": path} of the options --lib name=path."""
    libraries = {}
    for text in given or ():
        name, equals, path = text.partition("=")
        if not name or not equals or not path:
            raise LabError(f"--lib needs name=path, not '{text}'")
        if not Path(path).is_file():
            raise LabError(f"--lib {name}: {path} does not exist")
        libraries[name] = str(Path(path).resolve())
    return libraries


def peers(names) -> tuple:
    """(records, warnings) of bench/peers/build.py for these peers; None = its defaults.

    Its own progress goes to our stderr. A peer that cannot be had is a warning.
    """
    command = [sys.executable, str(PEER_BUILDER), "--json", *(names or ())]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode not in (0, 1):
        raise LabError("the peers could not be built; the line above says why")
    records = json.loads(done.stdout or "[]")
    warnings = ["not every peer could be built (see above)"] if done.returncode else []
    return records, warnings


def known_peers() -> list:
    """Names of all peers that can be built."""
    done = subprocess.run(
        [sys.executable, str(PEER_BUILDER), "--list"], stdout=subprocess.PIPE, text=True, check=True
    )
    return [line.split()[0] for line in done.stdout.splitlines()]


def _own(name: str, build: Path) -> Allocator:
    files = {SUBJECT: "libhakmem.so", LIMIT: "libnull.so"}
    allocator = OWN_ALLOCATORS[name]
    if name in files:
        return dataclasses.replace(allocator, library=str(built(build, files[name]).resolve()))
    return allocator


def _given(name: str, path: str) -> Allocator:
    """The allocator of a --lib option; a known name keeps its part in the comparison."""
    known = OWN_ALLOCATORS.get(name, Allocator(name, name))
    return dataclasses.replace(known, library=path)


def _check_names(names, libraries) -> list:
    """The peers among the names; one that nobody knows is an error."""
    known = known_peers()
    for name in names:
        if name not in OWN_ALLOCATORS and name not in known and name not in libraries:
            there = [*OWN_ALLOCATORS, *known, *libraries]
            raise LabError(f"unknown allocator '{name}'; there are {', '.join(there)}")
    return [name for name in names if name in known and name not in libraries]


def find(names, libraries, build: Path) -> tuple:
    """(allocators, warnings) for the names wanted (None = all), in a fixed order.

    `libraries` adds allocators, or replaces those of the same name.
    """
    peer_names = None if names is None else _check_names(names, libraries)
    found, warnings = {}, []
    for name in OWN_ALLOCATORS:
        if name in libraries:
            found[name] = _given(name, libraries[name])
        elif names is None or name in names:
            found[name] = _own(name, build)
    if peer_names is None or peer_names:
        records, warnings = peers(peer_names)
        for record in records:
            found[record["name"]] = Allocator(
                record["name"],
                record["title"],
                record["path"],
                record["version"],
                environment=record["environment"],
            )
    for name, path in libraries.items():
        if name not in OWN_ALLOCATORS:
            found[name] = _given(name, path)
    return list(found.values()), warnings


def check_active(allocator: Allocator, launcher, whose: Path) -> None:
    """Fails unless a preloaded program's malloc family is the allocator's."""
    if allocator.library is None:
        return
    outcome = launcher.run([whose], allocator.library, 20, allocator.environment)
    if not outcome.good:
        raise LabError(f"{allocator.title} cannot be preloaded: {outcome.reason()}")
    target = Path(allocator.library).resolve()
    for line in outcome.stdout.decode().splitlines():
        function, _, file = line.partition(" ")
        if function in FAMILY and Path(file).resolve() != target:
            raise LabError(f"{allocator.title} is not active: {function} comes from {file}")
