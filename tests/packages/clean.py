"""What the tests of packages share: the sources as a user gets them, and a Python of their own."""

import os
import shutil
import sys

import harness

SECONDS = 3600  # a build of all of the library on a busy machine, with what comes from a registry
SOURCES = ["CMakeLists.txt", "LICENSE", "CHANGELOG.md", "pyproject.toml", "bench", "bindings", "cmake",
           "docs", "include", "packaging", "src", "tools", "tests/packages"]
BUILT = shutil.ignore_patterns("build", "target", "__pycache__", "*.egg-info")


def sources(folder, tree):
    """Copies what packages are made of, and nothing that was built, to a folder."""
    clean = os.path.join(folder, "clean")
    for name in SOURCES:
        source, target = os.path.join(tree, name), os.path.join(clean, name)
        if os.path.isdir(source):
            shutil.copytree(source, target, symlinks=True, ignore=BUILT)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)
    return clean


def venv(folder, *requirements):
    """A virtual environment with those packages; returns the folder of its programs."""
    path = os.path.join(folder, "venv")
    harness.must_run([sys.executable, "-m", "venv", path], seconds=SECONDS)
    programs = os.path.join(path, "bin")
    install(programs, *requirements)
    return programs


def install(programs, *requirements):
    """Installs packages there."""
    harness.must_run([os.path.join(programs, "python"), "-m", "pip", "install", "--quiet",
                      "--disable-pip-version-check", *requirements], seconds=SECONDS)
