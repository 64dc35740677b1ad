"""Finds the allocators of a comparison: ours, the system's, the peers, libraries by path.

A name may carry settings: "hakmem+HAKMEM_MID_DYN1=14336+HAKMEM_X=1" is HAKMEM with these
environment variables, "hakmem:larson_guard" is short for +HAKMEM_TINY_PROFILE=larson_guard.
"""

import dataclasses
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

from .errors import BadInput, LabError
from .paths import PEER_BUILDER, ROOT, built
from .tables import LIMIT, OWN_ALLOCATORS, OWN_BUILDS, SUBJECT, SYSTEM, Allocator

FAMILY = {"malloc", "free", "calloc", "realloc"}
OWN_PREFIX = "HAKMEM_"
PROFILE = "HAKMEM_TINY_PROFILE"
ASK_LIMIT = 20


def parse_libraries(given) -> dict:
    """{"name": path} of the options --lib name=path."""
    libraries = {}
    for text in given or ():
        name, equals, path = text.partition("=")
        if not name or not equals or not path or set(name) & set("+:,"):
            raise BadInput(f"--lib needs name=path, not '{text}'")
        if not Path(path).is_file():
            raise BadInput(f"--lib {name}: {path} does not exist")
        libraries[name] = str(Path(path).resolve())
    return libraries


def parse_name(text) -> tuple:
    """(base, environment) of "base[:profile][+NAME=VALUE ...]"."""
    base, *pairs = text.split("+")
    base, colon, profile = base.partition(":")
    environment = {PROFILE: profile} if colon else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.isidentifier() or not equals:
            raise BadInput(f"allocator '{text}': needs +NAME=VALUE, not '+{pair}'")
        environment[name] = value
    if colon and not profile:
        raise BadInput(f"allocator '{text}': no profile after ':'")
    return base, environment


def variant(allocator, environment, name=None, title=None) -> Allocator:
    """The allocator with environment variables added, as one of its own."""
    pairs = {key: str(value) for key, value in environment.items()}
    plain = " ".join(f"{key.removeprefix(OWN_PREFIX)}={value}" for key, value in pairs.items())
    return dataclasses.replace(
        allocator,
        name=name or allocator.name + "".join(f"+{k}={v}" for k, v in pairs.items()),
        title=title or f"{allocator.title} {plain}",
        kind="peer" if allocator.kind == "peer" else "variant",
        environment={**allocator.environment, **pairs},
    )


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


def own_version() -> str:
    """The version that the header gives the project."""
    header = ROOT / "include" / "hakmem.h"
    text = header.read_text() if header.is_file() else ""  # an installed lab has none
    return ".".join(re.findall(r"define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def own(name: str, build: Path) -> Allocator:
    """One of OWN_ALLOCATORS."""
    files = {SUBJECT: "libhakmem.so", LIMIT: "libnull.so"}
    allocator = OWN_ALLOCATORS[name]
    if name == SYSTEM:
        return dataclasses.replace(allocator, version=" ".join(platform.libc_ver()))
    library = str(built(build, files[name]).resolve())
    version = own_version() if name == SUBJECT else ""
    return dataclasses.replace(allocator, library=library, version=version)


def own_build(name: str) -> Allocator:
    """HAKMEM built otherwise: one of OWN_BUILDS."""
    row = OWN_BUILDS[name]
    path = ROOT / row.library
    if not path.is_file():
        raise LabError(f"{name}: {row.library} is not built; run '{row.remedy}' first")
    return Allocator(name, row.title, str(path.resolve()), own_version(), kind="variant")


def given(name: str, path: str) -> Allocator:
    """The allocator of a --lib option; a known name keeps its part in the comparison."""
    known = OWN_ALLOCATORS.get(name, Allocator(name, name))
    return dataclasses.replace(known, library=path)


def _check_names(names, libraries) -> list:
    """The peers among the names; one that nobody knows is an error."""
    known = known_peers()
    there = [*OWN_ALLOCATORS, *OWN_BUILDS, *known, *libraries]
    for name in names:
        if name not in there:
            raise BadInput(f"unknown allocator '{name}'; there are {', '.join(there)}")
    return [name for name in names if name in known and name not in libraries]


def _find_plain(names, libraries, build) -> tuple:
    """({name: allocator} in a fixed order, warnings) for names without settings; None = all."""
    peer_names = None if names is None else _check_names(names, libraries)
    found, warnings = {}, []
    for name in OWN_ALLOCATORS:
        if name in libraries:
            found[name] = given(name, libraries[name])
        elif names is None or name in names:
            found[name] = own(name, build)
    for name in OWN_BUILDS:
        if names is not None and name in names and name not in libraries:
            found[name] = own_build(name)
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
            found[name] = given(name, path)
    return found, warnings


def find(names, libraries, build: Path) -> tuple:
    """(allocators, warnings) for the names wanted (None = all), in a fixed order.

    `libraries` adds allocators, or replaces those of the same name.
    """
    if names is None:
        found, warnings = _find_plain(None, libraries, build)
        return list(found.values()), warnings
    parsed = {name: parse_name(name) for name in names}
    bases = list(dict.fromkeys(base for base, _ in parsed.values()))
    found, warnings = _find_plain(bases, libraries, build)
    plain = {name for name, (_, environment) in parsed.items() if not environment} | set(libraries)
    wanted = [a for a in found.values() if a.name in plain]
    for name, (base, environment) in parsed.items():
        if environment and base in found:
            title = f"{found[base].title} {name.partition(':')[2]}" if name.count(":") else None
            wanted.append(variant(found[base], environment, name, title))
    return wanted, warnings


def check_active(allocator: Allocator, launcher, whose: Path) -> None:
    """Fails unless a preloaded program's malloc family is the allocator's."""
    if allocator.library is None:
        return
    outcome = launcher.run([whose], allocator.library, ASK_LIMIT, allocator.environment)
    if not outcome.good:
        raise LabError(f"{allocator.title} cannot be preloaded: {outcome.reason()}")
    target = Path(allocator.library).resolve()
    for line in outcome.stdout.decode().splitlines():
        function, _, file = line.partition(" ")
        if function in FAMILY and Path(file).resolve() != target:
            raise LabError(f"{allocator.title} is not active: {function} comes from {file}")


def check_options(allocator: Allocator, launcher, empty: Path) -> None:
    """Fails when the library does not know one of the options it is to be run with, or its value.

    The library is asked: it says so on stderr when a program starts.
    """
    options = [name for name in allocator.environment if name.startswith(OWN_PREFIX)]
    if not options:
        return
    if allocator.library is None:
        raise BadInput(f"{allocator.name}: the system allocator has no option {options[0]}")
    outcome = launcher.run([empty], allocator.library, ASK_LIMIT, allocator.environment)
    for line in outcome.stderr.decode(errors="replace").splitlines():
        if not line.startswith("hakmem:"):
            continue
        for option in options:
            if option in line.replace(":", " ").split():
                text = line.removeprefix("hakmem:").strip().partition("; it is ignored")[0]
                raise BadInput(text.removeprefix("option "))
