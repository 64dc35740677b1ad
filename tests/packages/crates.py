"""The Rust crates: crates.py TREE.

In a clean copy of the sources: the tests of both crates, with malloc of the process left alone and
with it replaced, and the packages of both. A program that depends on them by version alone, as on
published crates, is built from what the packages contain.
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


MANIFEST = """[package]
name = "consumer"
version = "0.1.0"
edition = "2021"

[dependencies]
hakmem = { version = "1", features = ["override"] }

[patch.crates-io]
"""
PROGRAM = """#[global_allocator]
static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;

fn main() {
    let kept = vec![1u8; 3000];
    let alive = hakmem::stats::get("total.live_bytes").unwrap();
    assert!(alive >= kept.len() as u64);
    println!("served by hakmem");
}
"""


def check_published(packages, consumer):
    """A program of its own that knows the crates by version; cargo has their unpacked packages for it."""
    os.makedirs(os.path.join(consumer, "src"))
    manifest = MANIFEST
    for package in sorted(glob.glob(os.path.join(packages, "*.crate"))):
        with tarfile.open(package) as archive:
            archive.extractall(consumer)
        unpacked = os.path.basename(package).removesuffix(".crate")
        manifest += f'{unpacked.rpartition("-")[0]} = {{ path = "{unpacked}" }}\n'
    for name, text in (("Cargo.toml", manifest), ("src/main.rs", PROGRAM)):
        with open(os.path.join(consumer, name), "w", encoding="utf-8") as file:
            file.write(text)
    out = harness.must_run(["cargo", "run", "--quiet"], cwd=consumer, seconds=clean.SECONDS).out
    if out != b"served by hakmem\n":
        harness.fail(f"a program on the packages printed {out!r}")


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
        harness.must_run(["cargo", "package", "--locked", "--allow-dirty", "--no-verify", "--workspace"],
                         cwd=rust, seconds=clean.SECONDS)
        package = glob.glob(os.path.join(rust, "target", "package", "hakmem-sys-*.crate"))[0]
        with tarfile.open(package) as archive:
            members = {member.name.partition("/")[2]: member for member in archive}
        for name in ("native/src/api/malloc.c", "native/include/hakmem.h",
                     "native/src/options/options.def"):
            if name not in members or not members[name].isreg():
                harness.fail(f"{package}: no file {name}")
        check_published(os.path.join(rust, "target", "package"), os.path.join(folder, "consumer"))


if __name__ == "__main__":
    main()
