"""Every package says the version that CMakeLists.txt says: versions.py TREE."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import harness  # noqa: E402

SOURCE = r"project\(hakmem VERSION ([\d.]+)"
PLACES = {
    "packaging/vcpkg/hakmem/vcpkg.json": r'"version": "([\d.]+)"',
    "bindings/rust/Cargo.toml": r'(?m)^version = "([\d.]+)"',
    "bindings/rust/hakmem/Cargo.toml": r'(?m)^hakmem-sys = \{ version = "([\d.]+)"',
    "bindings/rust/Cargo.lock": r'name = "hakmem-sys"\nversion = "([\d.]+)"',
}
HEADER = [rf"#define HAKMEM_VERSION_{part} (\d+)" for part in ("MAJOR", "MINOR", "PATCH")]


def main():
    """Reads, and compares."""
    def find(place, pattern):
        with open(os.path.join(sys.argv[1], place), encoding="utf-8") as file:
            found = re.search(pattern, file.read())
        if not found:
            harness.fail(f"{place}: no version")
        return found[1]

    version = find("CMakeLists.txt", SOURCE)
    said = {place: find(place, pattern) for place, pattern in PLACES.items()}
    said["include/hakmem.h"] = ".".join(find("include/hakmem.h", pattern) for pattern in HEADER)
    for place, text in said.items():
        if text != version:
            harness.fail(f"{place} has version {text}, CMakeLists.txt has {version}")


if __name__ == "__main__":
    main()
