"""The Python wheel: wheel.py TREE.

From a clean copy of the sources a source package is made, of that a wheel, and the wheel is installed
into an environment that has neither compiler nor sources in it, used there and removed.
"""

import glob
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import clean  # noqa: E402
import harness  # noqa: E402

APP = """
import hakmem, sys
print("active" if hakmem.is_active() else "not active")
sys.exit(7)
"""


def main():
    """Builds, installs, uses, removes."""
    with tempfile.TemporaryDirectory() as folder:
        tree = clean.sources(folder, sys.argv[1])
        programs = clean.venv(folder, "build")
        dist = os.path.join(folder, "dist")
        harness.must_run([f"{programs}/python", "-m", "build", "--outdir", dist, tree],
                         seconds=clean.SECONDS)
        wheels = glob.glob(os.path.join(dist, "hakmem-1.0.0-py3-none-*.whl"))
        if len(wheels) != 1:
            harness.fail(f"{len(wheels)} wheels: {' '.join(os.listdir(dist))}")

        clean.install(programs, wheels[0])
        path = {"PATH": programs + ":" + os.environ["PATH"], "PYTHONPATH": None}
        app = os.path.join(folder, "app.py")
        with open(app, "w", encoding="utf-8") as file:
            file.write(APP)
        for start in (["hakmem"], ["python", "-m", "hakmem"]):
            result = harness.run([*start, "run", "--", "python", app], env=path)
            if (result.status, result.out) != (7, b"active\n"):
                harness.fail(f"{start} run: {result.status} {result.out!r} {result.last_words()}")
        result = harness.run(["python", app], env=path)
        if (result.status, result.out) != (7, b"not active\n"):
            harness.fail(f"python: {result.status} {result.out!r} {result.last_words()}")
        harness.must_run(["python", os.path.join(HERE, "python_module.py")], env=path)

        for name in ("compare", "tune"):  # without the packages of the extra `lab`
            result = harness.run(["hakmem", name, "--", "true"], env=path)
            if result.status != 1 or result.err.count(b"\n") != 1 or b"it needs the Python packages" not in result.err:
                harness.fail(f"hakmem {name}: {result.status} {result.last_words()}")
        result = harness.run(["hakmem", "explain", "/bin/true"], env=path)
        if b"is no core file" not in result.err:
            harness.fail(f"hakmem explain: {result.status} {result.last_words()}")
        trace = os.path.join(folder, "trace")
        harness.must_run(["hakmem", "record", "--out", trace, "--", "ls", "/"], env=path)
        harness.must_run(["hakmem", "replay", trace], env=path)

        harness.must_run(["pip", "uninstall", "--yes", "--quiet", "hakmem"], env=path)
        left = glob.glob(os.path.join(folder, "venv", "**", "*hakmem*"), recursive=True)
        if left:
            harness.fail(f"left behind: {' '.join(left)}")


if __name__ == "__main__":
    main()
