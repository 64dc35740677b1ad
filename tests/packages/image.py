"""The container image: image.py TREE.

There is no container engine here. The steps of the Dockerfile run in folders that debootstrap fills, one for
each stage, as root: FROM, COPY, RUN with a bind mount of another stage, ENV and CMD. What it cannot show is what
an engine adds: layers, its cache, and how the bind mount is made.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import clean  # noqa: E402
import harness  # noqa: E402

DOCKERFILE = os.path.join("packaging", "container", "Dockerfile")
MOUNT = re.compile(r"--mount=from=(\w+),source=(\S+?),target=(\S+)\s+")


def instructions(path):
    """(word, rest) of each instruction, its lines joined, without comments."""
    with open(path, encoding="utf-8") as file:
        text = "".join(line for line in file if not line.lstrip().startswith("#"))
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


class Stage:
    """A root with the environment that its programs get."""

    def __init__(self, base, root):
        harness.must_run(["cp", "-a", base, root], seconds=clean.SECONDS)
        self.root, self.environment = root, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

    def run(self, words):
        """A program inside, with the environment of the image and no other."""
        values = [f"{name}={value}" for name, value in self.environment.items()]
        return harness.must_run(["chroot", self.root, "env", "-i", *values, *words], seconds=clean.SECONDS).out

    def step(self, text, stages):
        """A RUN: what it mounts of another stage is there meanwhile."""
        found = MOUNT.match(text)
        if not found:
            return self.run(["sh", "-c", text])
        stage, source, target = found.groups()
        target = self.root + target
        shutil.copytree(stages[stage].root + source, target, symlinks=True)
        self.run(["sh", "-c", text[found.end():]])
        shutil.rmtree(target)
        return None


def make_base(folder, release):
    """A minimal Debian, which finds its packages as this machine does."""
    base = os.path.join(folder, "base")
    harness.must_run(["debootstrap", "--variant=minbase", release, base], seconds=clean.SECONDS)
    shutil.copy("/etc/resolv.conf", os.path.join(base, "etc"))
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(base, "etc/apt/apt.conf"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in settings.splitlines()
                        if re.match(r"Acquire::(\w+::Proxy|Check-\S+) ", line))
    return base


def build(folder, tree):
    """(the last stage, its CMD), after all instructions."""
    values, stages, base, stage, command = {}, {}, None, None, None
    for word, rest in instructions(os.path.join(tree, DOCKERFILE)):
        for name, value in values.items():
            rest = rest.replace(f"${{{name}}}", value)
        if word == "ARG":
            values.update([rest.split("=", 1)])
        elif word == "FROM":
            image, _, name = rest.partition(" AS ")
            base = base or make_base(folder, re.fullmatch(r"debian:(\w+)-slim", image).group(1))
            stage = stages[name] = Stage(base, os.path.join(folder, f"stage-{len(stages)}"))
        elif word == "COPY":
            source, target = rest.split()
            shutil.copytree(os.path.join(tree, source), stage.root + target, symlinks=True,
                            ignore=shutil.ignore_patterns("build", ".git"))  # its .dockerignore
        elif word == "RUN":
            stage.step(rest, stages)
        elif word == "ENV":
            stage.environment.update([rest.split("=", 1)])
        elif word == "CMD":
            command = [part.strip('",') for part in shlex.split(rest.strip("[]"))]
        else:
            harness.fail(f"{DOCKERFILE}: {word} is not known to this test")
    return stage, command


def main():
    """Builds the image's root; its command runs, on the library, and nothing of the build is left."""
    print("not shown: a container engine with its layers, cache and bind mounts; the steps of the Dockerfile run in"
          " roots of debootstrap")
    with tempfile.TemporaryDirectory() as folder:
        stage, command = build(folder, sys.argv[1])
        if b"HAKMEM_PURGE_DELAY_MS" not in stage.run(command):
            harness.fail(f"{command} in the image did not list the options")
        told = stage.run(["sh", "-c", "HAKMEM_STATS=text cat /dev/null 2>&1"])
        if b"live_bytes" not in told:
            harness.fail(f"a program of the image does not run on HAKMEM: {told!r}")
        if os.path.exists(stage.root + "/packages") or os.path.exists(stage.root + "/hakmem"):
            harness.fail("the image has what it was built from")


if __name__ == "__main__":
    main()
