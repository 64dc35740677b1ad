"""The Rust crates: crates.py TREE.

In a clean copy of the sources: the tests of both crates, with malloc of the process left alone and
with it replaced, and the package of hakmem-sys, which is built from what it contains alone.
"""

import glob
import os
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import clean  # noqa: E402
import harness  # noqa: E402


def main():
    """Tests, and packs."""
    with tempfile.TemporaryDirectory() as folder:
        rust = os.path.join(clean.sources(folder, sys.argv[1]), "bindings", "rust")
        for feature in ([], ["--features", "hakmem/override,hakmem/allocator-api2"]):
            result = harness.run(["cargo", "test", "--locked", *feature], cwd=rust,
                                 seconds=clean.SECONDS)
            out = result.out.decode()
            if result.status != 0:
                print(out, file=sys.stderr)
                harness.fail(f"cargo test {feature}: {result.last_words()}")
            if ("test c_blocks_are_ours ... ok" in out) != bool(feature):
                harness.fail(f"cargo test {feature}: the test of malloc ran where it must not")
        harness.must_run(["cargo", "package", "--locked", "--allow-dirty", "-p", "hakmem-sys"],
                         cwd=rust, seconds=clean.SECONDS)
        package = glob.glob(os.path.join(rust, "target", "package", "hakmem-sys-*.crate"))[0]
        with tarfile.open(package) as archive:
            members = {member.name.partition("/")[2]: member for member in archive}
        for name in ("native/src/api/malloc.c", "native/include/hakmem.h",
                     "native/src/options/options.def"):
            if name not in members or not members[name].isreg():
                harness.fail(f"{package}: no file {name}")


if __name__ == "__main__":
    main()
