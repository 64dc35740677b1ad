"""`make package-test` builds each file that is installed: delivered.py BUILD.

The install step takes files out of the build folder, and leaves some of them out without a word where
they are not built. A test of what is installed names them, so that `make check` builds them.
"""

import os
import pathlib
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import harness  # noqa: E402
import targets  # noqa: E402

INSTALLED = re.compile(r"TYPE (?:EXECUTABLE|SHARED_LIBRARY|STATIC_LIBRARY)[^\"]* FILES\s+\"([^\"]+)\"")
TESTS = ("cmake", "pkg_config", "object", "command", "debian")


def main():
    """Reads what CMake wrote."""
    build = pathlib.Path(sys.argv[1]).resolve()
    files = {file for path in build.glob("**/cmake_install.cmake")
             for file in INSTALLED.findall(path.read_text()) if file.startswith(str(build))}
    if len(files) < 4:
        harness.fail(f"{build}: the install step takes {len(files)} files")
    for test in TESTS:
        built = targets.wanted_by(build, rf"^packages\.{test}$")
        missing = {file for file in files if targets.target_of(file) not in built}
        if missing:
            harness.fail(f"packages.{test} does not name {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
