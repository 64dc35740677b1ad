#!/usr/bin/env python3
"""Runs the case of a guide in docs/guides and puts what its commands print into the page.

    scripts/guides.py BUILD            run the cases on a build folder and rewrite the pages
    scripts/guides.py BUILD --check    run them and compare: the same lines, whatever their figures

In a page stands, in front of a block of output, a comment `run: WORDS` that names a step of the case below.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GUIDES = ROOT / "docs/guides"
BLOCK = re.compile(r"<!-- run: (\w+) -->\n```\n(.*?)```\n", re.S)
KEYS = 400_000


class Server:
    """redis-server on HAKMEM, with the profiler, in a folder of its own."""

    def __init__(self, build, folder):
        self.build, self.folder = build, pathlib.Path(folder)
        place = self.folder / "s"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [build / "hakmem", "run", "--", "redis-server", "--port", "0", "--unixsocket", place, "--save", ""],
                cwd=folder, stdout=log, env=clean | {"HAKMEM_PROF": "1"})
        self.pid = str(self.process.pid)
        end = time.monotonic() + 30
        while not place.exists():
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit("guides: redis-server did not start")
            time.sleep(0.05)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(place))
        self.rng = random.Random(1)

    def ask(self, commands):
        """Sends commands in batches and waits for as many answers, each of one line."""
        for at in range(0, len(commands), 1000):
            batch = commands[at:at + 1000]
            self.socket.sendall(b"".join(
                b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
                for words in batch))
            seen = 0
            while seen < len(batch):
                seen += self.socket.recv(1 << 16).count(b"\n")

    def run(self, *words):
        """What a command prints, with the process's number as PID."""
        command = str(self.build / "hakmem") if words[0] == "hakmem" else words[0]
        result = subprocess.run([command, *words[1:]], cwd=self.folder, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit(f"guides: {' '.join(words)}: {result.stderr.strip()}")
        return re.sub(rf"\b{self.pid}\b", "PID", result.stdout)

    def end(self):
        self.socket.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def fill(server):
    server.ask([(b"SET", b"session:%d" % i, b"x" * server.rng.randrange(100, 400)) for i in range(KEYS)])
    time.sleep(1)
    return server.run("hakmem", "explain", server.pid)


def delete(server):
    server.ask([(b"DEL", b"session:%d" % i) for i in range(KEYS) if i % 16])
    time.sleep(2)
    return server.run("hakmem", "explain", server.pid)


def classes(server):
    text = server.run("hakmem", "stat", server.pid)
    lines = [line for line in text.splitlines() if re.match(r"class |C[56] |  (2|3)\d\d ", line)]
    return "\n".join(lines[:14]) + "\n"


def profile(server):
    return server.run("hakmem", "prof", server.pid, "-o", "heap.pb.gz")


def top(server):
    text = server.run("go", "tool", "pprof", "-top", "-cum", "-nodecount=14", "heap.pb.gz")
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("Build ID"))


def copied(server):
    """The same keys in a process that starts anew."""
    with tempfile.TemporaryDirectory() as folder:
        other = Server(server.build, folder)
        try:
            other.rng = random.Random(1)
            values = [(b"SET", b"session:%d" % i, b"x" * other.rng.randrange(100, 400)) for i in range(KEYS)]
            other.ask(values[::16])
            time.sleep(1)
            return other.run("hakmem", "explain", other.pid)
        finally:
            other.end()


STEPS = (fill, delete, classes, profile, top, copied)


def shape(text):
    """The words of each line without figures, which are never the same."""
    return [re.sub(r"[\d.,]+ *([KMG]i?B|kB|B|MB|%)?", "#", line).split() for line in text.splitlines()]


def first_words(text):
    return sorted({words[0] for words in shape(text) if words and words[0] != "#"})


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-") or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    build, checks = pathlib.Path(sys.argv[1]).resolve(), len(sys.argv) == 3
    pages = {path: path.read_text() for path in GUIDES.glob("*.md") if "<!-- run: " in path.read_text()}
    named = {name for text in pages.values() for name, _ in BLOCK.findall(text)}
    if unknown := named ^ {step.__name__ for step in STEPS}:
        sys.exit(f"guides: steps without a block, or blocks without a step: {', '.join(sorted(unknown))}")
    printed = {}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(build, folder)
        try:
            for step in STEPS:
                if checks and step is top and not shutil.which("go"):
                    continue
                printed[step.__name__] = step(server)
        finally:
            server.end()
    for path, text in pages.items():
        if checks:
            for name, block in BLOCK.findall(text):
                if name != "top" and first_words(block) != first_words(printed[name]):
                    sys.exit(f"{path.name}: {name} prints other lines now: {first_words(printed[name])}")
        else:
            path.write_text(BLOCK.sub(
                lambda found: f"<!-- run: {found[1]} -->\n```\n{printed[found[1]]}```\n", text))


if __name__ == "__main__":
    main()
