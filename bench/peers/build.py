#!/usr/bin/env python3
"""Builds the peers: other allocators, each as a shared library to preload.

    build.py [NAME ...]      build these (default: all), print a table, write versions.json
    build.py --path NAME     build one, print the path of its library and nothing else
    build.py --list          name the peers

Sources are registry packages, fetched by cargo (crates.io) or apt (Debian); nothing of
them is kept in the project. Each peer is built with its own release settings, and is
accepted only when malloc and its family really come from it under LD_PRELOAD. Results
stay in the cache, <cache>/peers/<name>-<version>-<key>/lib<name>.so, where the key
covers the recipe and the compiler; a second run only looks there.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from table import NEEDED_TOOLS, PEERS, TOOLS, Peer

FAMILY = ("malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign")


class PeerError(Exception):
    """A peer cannot be had; the message is one line for the user."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hakmem" / "peers"


# --- tools -----------------------------------------------------------------


def require_tools(recipe: str) -> None:
    """Installs what is missing with apt where that is allowed, or names it exactly."""
    missing = [tool for tool in NEEDED_TOOLS[recipe] if shutil.which(tool) is None]
    if not missing:
        return
    packages = sorted({TOOLS[tool] for tool in missing})
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PeerError(f"missing: {', '.join(missing)} (Debian: {' '.join(command)})")
    say(f"installing {' '.join(packages)}")
    subprocess.run(["apt-get", "update", "-q"], stdout=subprocess.DEVNULL, check=False)
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise PeerError(
            f"apt-get could not install {' '.join(packages)}: {done.stderr.strip()[-200:]}"
        )


def compiler_line() -> str:
    """The compiler is part of a peer's key, and told in versions.json."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return "none"
    return subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


class Shop:
    """Where one peer is built: a work folder, a log and a number of jobs."""

    def __init__(self, work: Path, log: Path, jobs: int):
        self.work, self.log, self.jobs = work, log, jobs
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")

    def run(
        self, *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> None:
        words = [str(word) for word in command]
        with self.log.open("a") as out:
            out.write(f"$ {' '.join(words)}\n")
            out.flush()
            done = subprocess.run(
                words,
                cwd=cwd or self.work,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
                check=False,
            )
        if done.returncode != 0:
            tail = "".join(self.log.read_text(errors="replace").splitlines(keepends=True)[-15:])
            raise PeerError(f"{words[0]} failed, see {self.log}; it ends with\n{tail}")


# --- recipes: each returns the shared library it made ------------------------


def fetch_crate(peer: Peer, shop: Shop) -> Path:
    """Lets cargo download and check one crate; returns its folder."""
    (shop.work / "src").mkdir()
    (shop.work / "src" / "lib.rs").write_text("")
    (shop.work / "Cargo.toml").write_text(
        f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n\n'
        f'[dependencies]\n{peer.package} = "={peer.version.split("+")[0]}"\n'
    )
    shop.run("cargo", "vendor", "--quiet", "vendor")
    return shop.work / "vendor" / peer.package


def cmake_build(
    source: Path, shop: Shop, target: str, options: tuple[str, ...], library: str = ""
) -> Path:
    build = shop.work / "build"
    shop.run(
        "cmake",
        "-S",
        source,
        "-B",
        build,
        "-G",
        "Unix Makefiles",
        "-DCMAKE_BUILD_TYPE=Release",
        *options,
    )
    shop.run("cmake", "--build", build, "--target", target, "-j", str(shop.jobs))
    library = library or target
    made = [path for path in build.glob(f"**/lib{library}.so*") if not path.is_symlink()]
    if len(made) != 1:
        raise PeerError(f"expected one lib{library}.so below {build}, found {len(made)}")
    return made[0]


def recipe_cmake(peer: Peer, shop: Shop) -> Path:
    """The package's own CMake project, release settings."""
    source = fetch_crate(peer, shop) / peer.source
    return cmake_build(source, shop, peer.target, peer.options, peer.files)


EXPORTS = """{
  global: malloc; free; calloc; realloc; reallocarray; memalign; aligned_alloc; posix_memalign;
    valloc; pvalloc; cfree; malloc_usable_size; malloc_trim; mallinfo; mallinfo2; mallopt;
    malloc_stats; malloc_info; free_sized; free_aligned_sized; sdallocx; nallocx;
    _Znw*; _Zna*; _Zdl*; _Zda*; *size_returning_new*; MallocExtension_*;
  local: *;
};
"""


def crate_sources(root: Path) -> list[str]:
    """What the build.rs of Google's tcmalloc compiles, with malloc itself.

    The crate defines only prefixed names, by two bridge files; tcmalloc.cc in their
    place defines the whole malloc family.
    """
    listed = re.findall(r'"(c_src/[^"]+\.(?:cc|S))"', (root / "build.rs").read_text())
    return [file for file in listed if not file.endswith("_bridge.cc")] + [
        "c_src/tcmalloc/tcmalloc/tcmalloc.cc"
    ]


def recipe_sources(peer: Peer, shop: Shop) -> Path:
    """A package without a usable build of its own: its sources at -O3.

    Only malloc's family is exported, so that, as in a program linked with it, no call
    inside goes through the PLT.
    """
    root = fetch_crate(peer, shop) / peer.source
    files = peer.files.split() if peer.files else crate_sources(root)
    project = shop.work / "project"
    project.mkdir()
    (project / "exports.map").write_text(EXPORTS)
    (project / "CMakeLists.txt").write_text(
        "\n".join(
            [
                "cmake_minimum_required(VERSION 3.16)",
                "project(peer C CXX ASM)",
                *(f"set(CMAKE_{language}_FLAGS_RELEASE -O3)" for language in ("C", "CXX", "ASM")),
                "add_library(peer SHARED",
                *(f"  {root / file}" for file in files),
                ")",
                "target_compile_features(peer PRIVATE c_std_11 cxx_std_17)",
                f"target_compile_definitions(peer PRIVATE {' '.join(peer.options)})",
                f"target_include_directories(peer PRIVATE {' '.join(str(root / folder) for folder in peer.includes)})",
                f"target_compile_options(peer PRIVATE -w {peer.flags})",
                "target_link_options(peer PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/exports.map)",
                "target_link_libraries(peer PRIVATE pthread)",
                "",
            ]
        )
    )
    return cmake_build(project, shop, "peer", ())


def recipe_configure(peer: Peer, shop: Shop) -> Path:
    """jemalloc's own configure and make, unprefixed; the crate keeps configure beside the sources."""
    crate = fetch_crate(peer, shop)
    source = crate / peer.source
    shutil.copy(crate / "configure" / "configure", source / "configure")
    shop.run(
        "sh",
        "./configure",
        f"--with-version={peer.version.split('+')[1]}",
        *peer.options,
        cwd=source,
    )
    shop.run("make", f"-j{shop.jobs}", "build_lib_shared", cwd=source)
    return (source / "lib" / "libjemalloc.so").resolve()


def recipe_debian(peer: Peer, shop: Shop) -> Path:
    """The library of a Debian package, unpacked and not installed."""
    try:
        shop.run("apt-get", "download", peer.package)
    except PeerError:
        if os.geteuid() != 0:
            raise
        shop.run("apt-get", "update")
        shop.run("apt-get", "download", peer.package)
    package = next(shop.work.glob("*.deb"))
    shop.run("dpkg-deb", "-x", package, "unpacked")
    pattern = peer.files or "*.so.*"
    return next(p for p in (shop.work / "unpacked").glob(f"**/{pattern}") if not p.is_symlink())


RECIPES = {
    "cmake": recipe_cmake,
    "sources": recipe_sources,
    "configure": recipe_configure,
    "debian": recipe_debian,
}


# --- checks ------------------------------------------------------------------

WHOSE = """
import ctypes, sys
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]
libc, info = ctypes.CDLL(None), Info()
for name in sys.argv[1:]:
    libc.dladdr(ctypes.cast(getattr(libc, name), ctypes.c_void_p), ctypes.byref(info))
    print(info.file.decode())
"""


def check_override(library: Path) -> None:
    """Fails unless the whole malloc family of a preloaded process is the library's."""
    done = subprocess.run(
        [sys.executable, "-c", WHOSE, *FAMILY],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LD_PRELOAD": str(library)},
        timeout=60,
    )
    files = done.stdout.split("\n")[:-1]
    if done.returncode != 0 or len(files) != len(FAMILY):
        raise PeerError(
            f"python does not run with {library} preloaded: {done.stderr.strip()[-300:]}"
        )
    for name, file in zip(FAMILY, files):
        if not os.path.exists(file) or not os.path.samefile(file, library):
            raise PeerError(f"{name} comes from {file}, not from {library}")


def real_version(peer: Peer, shop: Shop) -> str:
    """The allocator's own version, which is not always its package's."""
    if peer.recipe == "debian":
        package = next(shop.work.glob("*.deb"))
        return subprocess.run(
            ["dpkg-deb", "-f", package, "Version"], capture_output=True, text=True, check=True
        ).stdout.strip()
    if peer.package.startswith("libmimalloc"):
        header = shop.work / "vendor" / peer.package / peer.source / "include" / "mimalloc.h"
        number = int(re.search(r"define MI_MALLOC_VERSION\s+(\d+)", header.read_text()).group(1))
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    if "+" in peer.version:
        return peer.version.split("+")[1].split("-")[0]
    return peer.version


# --- the cache -----------------------------------------------------------------


SAID_LATER = ("title", "default", "environment")  # told with a peer, no part of its library


def key_of(peer: Peer, compiler: str) -> str:
    """Covers all that makes the library what it is."""
    recipe = {k: v for k, v in dataclasses.asdict(peer).items() if k not in SAID_LATER}
    text = json.dumps([recipe, compiler, EXPORTS if peer.recipe == "sources" else ""])
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def home_of(peer: Peer, cache: Path, compiler: str) -> Path:
    version = peer.version.split("+")[0] or "debian"
    return cache / f"{peer.name}-{version}-{key_of(peer, compiler)}"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One builder at a time per cache; a second one waits and finds the work done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def soname_of(library: Path) -> str:
    text = subprocess.run(
        ["readelf", "-d", library], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\(SONAME\).*\[(.+)\]", text)
    return found.group(1) if found else library.name


def install(
    peer: Peer, made: Path, version: str, home: Path, compiler: str, check=check_override
) -> None:
    """Fills `home` beside its final place and moves it there in one step."""
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=home.parent))
    library = fresh / f"lib{peer.name}.so"
    shutil.copy(made, library)
    library.chmod(0o755)
    soname = soname_of(library)
    if soname != library.name:
        (fresh / soname).symlink_to(library.name)
    check(library)
    facts = {
        "version": version,
        "package": peer.package,
        "package_version": peer.version or version,
    }
    facts |= {"compiler": compiler, "options": list(peer.options)}
    (fresh / "peer.json").write_text(json.dumps(facts, indent=1) + "\n")
    fresh.chmod(0o755)
    shutil.rmtree(home, ignore_errors=True)
    fresh.rename(home)


def build(peer: Peer, cache: Path, jobs: int) -> dict:
    """The peer's record (name, title, version, path, ...), built if the cache has it not."""
    compiler = compiler_line()
    home = home_of(peer, cache, compiler)
    if not (home / "peer.json").exists():
        require_tools(peer.recipe)
        compiler = compiler_line()
        home = home_of(peer, cache, compiler)
        with locked(cache / ".lock"):
            if not (home / "peer.json").exists():
                make(peer, home, cache, jobs, compiler)
    return {
        "name": peer.name,
        "title": peer.title,
        "path": str(home / f"lib{peer.name}.so"),
        "environment": dict(peer.environment),
        **json.loads((home / "peer.json").read_text()),
    }


def make(
    peer: Peer, home: Path, cache: Path, jobs: int, compiler: str, check=check_override
) -> None:
    say(f"building {peer.title} from {peer.package} {peer.version.split('+')[0]} ...")
    begun = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=f".work-{peer.name}-", dir=cache))
    try:
        shop = Shop(work, cache / "logs" / f"{peer.name}.log", jobs)
        made = RECIPES[peer.recipe](peer, shop)
        install(peer, made, real_version(peer, shop), home, compiler, check)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"built {peer.title} in {time.monotonic() - begun:.0f} s")


def build_all(names: list[str], cache: Path, jobs: int) -> tuple[list[dict], dict[str, str]]:
    """Builds the named peers (all for none); returns records and, by name, what failed."""
    known = {peer.name: peer for peer in PEERS}
    for name in names:
        if name not in known:
            raise PeerError(f"unknown peer '{name}'; there are {', '.join(known)}")
    records, failed = [], {}
    for name in names or [peer.name for peer in PEERS if peer.default]:
        try:
            records.append(build(known[name], cache, jobs))
        except (PeerError, OSError, subprocess.SubprocessError) as error:
            failed[name] = str(error)
    if records:
        (cache / "versions.json").write_text(
            json.dumps({r["name"]: r for r in records}, indent=1) + "\n"
        )
    return records, failed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="build.py", description="Builds the peer allocators.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="peers to build (default: all)")
    parser.add_argument("--path", action="store_true", help="print only the paths")
    parser.add_argument("--json", action="store_true", help="print the records as JSON")
    parser.add_argument("--list", action="store_true", help="name the peers and stop")
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="folder (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    options = parser.parse_args(argv)
    if options.list:
        for peer in PEERS:
            print(f"{peer.name:12} {peer.title:24} {peer.package} {peer.version.split('+')[0]}")
        return 0
    try:
        records, failed = build_all(options.names, options.cache, options.jobs)
    except PeerError as error:
        say(f"build.py: {error}")
        return 2
    except KeyboardInterrupt:
        say("build.py: stopped")
        return 130
    if options.json:
        print(json.dumps(records))
    for record in () if options.json else records:
        print(
            record["path"]
            if options.path
            else f"{record['name']:12} {record['version']:28} {record['path']}"
        )
    for name, reason in failed.items():
        say(f"build.py: {name}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
