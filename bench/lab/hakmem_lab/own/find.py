"""Finds the allocators for a program of the user's own: libraries that are there, nothing is built."""

import os
import re
import sysconfig
from dataclasses import replace
from pathlib import Path

from .. import allocators as finder
from ..errors import BadInput, LabError
from ..tables import OWN_ALLOCATORS, OWN_BUILDS, SYSTEM, Allocator

LIBC = re.compile(r"^(libc[.-]|ld-musl)")

# name -> (the distribution's file, Debian package)
DISTRIBUTION = {
    "mimalloc": ("libmimalloc.so.2", "libmimalloc2.0"),
    "jemalloc": ("libjemalloc.so.2", "libjemalloc2"),
    "tcmalloc": ("libtcmalloc.so.4", "libgoogle-perftools4"),
}
PEERS = ("mimalloc2", "snmalloc")  # that only the lab builds


def folders() -> list:
    """Where the loader looks, nearly."""
    there = sysconfig.get_config_var("MULTIARCH") or "no-multiarch"
    named = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    usual = ["/usr/local/lib", f"/lib/{there}", f"/usr/lib/{there}", "/lib64", "/usr/lib64", "/lib",
             "/usr/lib"]  # fmt: skip
    return [Path(folder) for folder in (*named, *usual)]


def built_peer(name):
    """The library of a peer that the lab has built, the newest; None."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    found = Path(base, "hakmem", "peers").glob(f"{name}-[0-9]*/lib{name}.so")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def library_of(name):
    """The file of a named allocator: the distribution's, else one that the lab has built; None."""
    file = DISTRIBUTION.get(name, ("",))[0]
    for folder in folders() if file else ():
        if (folder / file).is_file():
            return (folder / file).resolve()
    return built_peer(name)


def _from_path(text) -> Allocator:
    path = Path(text)
    if not path.is_file():
        raise BadInput(f"--alloc: {text} does not exist")
    return Allocator(path.name.partition(".so")[0], path.name, str(path.resolve()), str(path))


def _words(text) -> list:
    """[(a part of the list, its name or path, its environment)]"""
    found = []
    for word in dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))):
        is_path = "/" in word.partition("+")[0]
        found.append((word, *((word, {}) if is_path else finder.parse_name(word))))
    return found


def check(text, libraries) -> None:
    """BadInput for a name that none has, or a path that is none: before anything is built."""
    known = [*OWN_ALLOCATORS, *OWN_BUILDS, *DISTRIBUTION, *PEERS]
    for _, base, _ in _words(text):
        if "/" in base and base not in libraries:
            _from_path(base)
        elif base not in libraries and base not in known:
            raise BadInput(f"unknown allocator '{base}'; there are {', '.join(known)}, or a path")


def _named(base, libraries, build):
    """The allocator of a name; None when it is not on this machine."""
    if base in libraries:
        return finder.given(base, libraries[base])
    if "/" in base:
        return _from_path(base)
    if base in OWN_ALLOCATORS:
        return finder.own(base, build)
    if base in OWN_BUILDS:
        return finder.own_build(base)
    library = library_of(base)
    return library and Allocator(base, base, str(library), library.name)


def find(text, libraries, build) -> tuple:
    """(allocators, a line about those that are missing or "")."""
    check(text, libraries)
    found, missing = [], []
    for word, base, environment in _words(text):
        allocator = _named(base, libraries, build)
        if allocator is None:
            missing.append(base)
        else:
            found.append(finder.variant(allocator, environment, word) if environment else allocator)
    found += [_named(name, libraries, build) for name in libraries
              if name not in [one.name for one in found]]  # fmt: skip
    doubled = [one.name for one in found if sum(one.name == other.name for other in found) > 1]
    if doubled:
        raise BadInput(f"two allocators are called {doubled[0]}; --lib NAME=PATH gives names")
    if not found:
        raise LabError(f"none of these allocators is here: {', '.join(missing)}")
    return found, _missing_line(missing)


def with_own_malloc(session, allocators, row, limit) -> list:
    """The allocators, where "system" says whose malloc a program has that brings its own."""
    system = next((one for one in allocators if one.name == SYSTEM), None)
    if system is None:
        return allocators
    from .. import override  # here, since it needs psutil, and names are checked without

    found = override.servers(session.launcher, row.words, limit, row.folder)
    brought = sorted(name for name in (Path(file).name for file in found) if not LIBC.match(name))
    if not brought:
        return allocators
    file = ", ".join(brought)
    session.console.print(f"system: the program brings an allocator of its own, {file}", highlight=False)
    own = replace(system, title=f"its own ({file})", version=file)
    return [own if one is system else one for one in allocators]


def _missing_line(names) -> str:
    if not names:
        return ""
    packages = [DISTRIBUTION[name][1] for name in names if name in DISTRIBUTION]
    remedy = f" (Debian: apt-get install {' '.join(packages)}; or --lib NAME=PATH)" if packages else ""
    return f"left out, not on this machine: {', '.join(names)}{remedy}"
