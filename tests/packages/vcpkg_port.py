"""The vcpkg port: vcpkg_port.py TREE.

The portfile runs in a clean copy of the sources on stand-ins for vcpkg's functions (vcpkg.cmake), with and
without the feature `tools`. What it installs has the form that vcpkg asks for, and the consumers run on it.
"""

import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import clean  # noqa: E402
import harness  # noqa: E402

MUST = ("include/hakmem.h", "lib/libhakmem.a", "lib/libhakmem.so", "debug/lib/libhakmem.a",
        "share/hakmem/copyright", "share/hakmem/usage", "share/hakmem/hakmemConfig.cmake")
MUST_NOT = ("debug/include", "debug/share", "share/doc", "lib/cmake", "bin")  # what vcpkg's checks refuse


def check_files(packages, tools):
    """What is there, and what vcpkg would refuse."""
    names = (*MUST, *(["tools/hakmem/hakmem"] if tools else []))
    missing = [name for name in names if not os.path.exists(os.path.join(packages, name))]
    wrong = [name for name in (*MUST_NOT, *([] if tools else ["tools"]))
             if os.path.exists(os.path.join(packages, name))]
    if missing or wrong:
        harness.fail(f"the port with tools {tools}: missing {missing}, must not be there {wrong}")


def check_consumers(folder, packages):
    """find_package in share/, of both forms."""
    for kind in ("Release", "Debug"):
        work = os.path.join(folder, f"work-{kind}")
        harness.must_run(["cmake", "-S", os.path.join(HERE, "consumers", "cmake"), "-B", work,
                          f"-DCMAKE_PREFIX_PATH={packages}", f"-DCMAKE_BUILD_TYPE={kind}"])
        harness.must_run(["cmake", "--build", work])
        for name in sorted(os.listdir(work)):
            path = os.path.join(work, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                out = harness.must_run([path]).out
                if out.strip() != b"served by 10000":
                    harness.fail(f"{kind}: {name} printed {out!r}")


def main():
    """Both sets of features."""
    print("not shown: vcpkg itself, which resolves dependencies and features; no package registry has it, so the"
          " port runs on stand-ins for its functions")
    with tempfile.TemporaryDirectory() as folder:
        port = os.path.join(clean.sources(folder, sys.argv[1]), "packaging", "vcpkg", "hakmem")
        with open(os.path.join(port, "vcpkg.json"), encoding="utf-8") as file:
            features = sorted(json.load(file)["features"])
        for chosen in ([], features):
            work = os.path.join(folder, "-".join(["work", *chosen]))
            os.mkdir(work)
            harness.must_run(["cmake", f"-DPORT_DIR={port}", f"-DFEATURES={';'.join(chosen)}", f"-DWORK={work}",
                              "-P", os.path.join(HERE, "vcpkg.cmake")], seconds=clean.SECONDS)
            packages = os.path.join(work, "packages")
            check_files(packages, bool(chosen))
        check_consumers(folder, packages)


if __name__ == "__main__":
    main()
