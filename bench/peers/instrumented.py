#!/usr/bin/env python3
"""Builds peers with memory-access instrumentation, for `lab scale`.

    instrumented.py NAME ...     build these, print their records as JSON

The recipes are those of build.py; the compiler is bench/scale/cc. The libraries cannot be preloaded
into other programs than `scale`, which defines what the instrumentation calls.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import sys
from pathlib import Path

import build
from table import PEERS, Peer

SCALE = Path(__file__).resolve().parent.parent / "scale"
NAMES = ("mimalloc", "snmalloc", "jemalloc", "tcmalloc")
PAUSE = re.compile(r"(?:__asm__|asm)\s*(?:__volatile__|volatile)\s*\(\s*\"(?:pause|rep; nop)\"[^;]*;")
SOURCES = {".c", ".h", ".cc", ".cpp"}


def compiler_key() -> str:
    """Covers what makes an instrumented library differ from a plain one."""
    digest = hashlib.sha256(build.compiler_line().encode())
    for name in ("cc", "renames", "instrumented.h"):
        digest.update((SCALE / name).read_bytes())
    return digest.hexdigest()


def fetch(peer: Peer, shop: build.Shop) -> Path:
    """As build.fetch_crate; pauses of spin loops become calls."""
    root = plain_fetch(peer, shop)
    for path in root.rglob("*"):
        if path.suffix not in SOURCES or not path.is_file():
            continue
        text = path.read_text(errors="surrogateescape")
        changed = PAUSE.sub("scale_pause();", text)
        if changed != text:
            path.write_text(changed, errors="surrogateescape")
    return root


plain_fetch = build.fetch_crate


def build_one(peer: Peer, cache: Path, jobs: int) -> dict:
    """The record of the instrumented library, built if the cache has it not."""
    named = dataclasses.replace(peer, name=f"{peer.name}-scale")
    key = compiler_key()
    home = build.home_of(named, cache, key)
    if not (home / "peer.json").exists():
        build.require_tools(peer.recipe)
        with build.locked(cache / ".lock"):
            if not (home / "peer.json").exists():
                build.make(named, home, cache, jobs, key, check=lambda library: None)
    return {
        "name": peer.name,
        "title": peer.title,
        "path": str(home / f"lib{named.name}.so"),
        **json.loads((home / "peer.json").read_text()),
    }


def main(names: list[str]) -> int:
    os.environ["CC"], os.environ["CXX"] = str(SCALE / "cc"), str(SCALE / "c++")
    for name in ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"):
        os.environ.pop(name, None)  # a cache of object files knows nothing of the instrumentation
    build.fetch_crate = fetch
    known = {peer.name: peer for peer in PEERS}
    records, failed = [], 0
    for name in names:
        if name not in NAMES:
            build.say(f"instrumented.py: unknown peer '{name}'; there are {', '.join(NAMES)}")
            return 2
        try:
            records.append(build_one(known[name], build.default_cache(), os.cpu_count() or 1))
        except (build.PeerError, OSError) as error:
            build.say(f"instrumented.py: {name}: {error}")
            failed = 1
        except KeyboardInterrupt:
            build.say("instrumented.py: stopped")
            return 130
    print(json.dumps(records))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
