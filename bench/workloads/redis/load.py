"""redis-server under redis-benchmark: `load.py [requests]`.

Only the server gets the preloaded allocator this program was started with; without one it gets
libc's own malloc, because the server may be linked with another. Several kinds of requests come
in turn, from 20 clients with 16 requests each on the way. Prints what the programs of
bench/programs print: requests per second, and the server's peak RSS.
"""

import contextlib
import ctypes.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

KINDS = "set,get,incr,lpush,rpop,sadd,hset,zadd"
SHAPE = ["-c", "20", "-P", "16", "-r", "20000", "-d", "180", "-q"]
START_LIMIT = 20.0  # seconds
LOAD_LIMIT = 600.0


def fail(reason, status=1):
    print(f"load.py: {reason}", file=sys.stderr)
    sys.exit(status)


def wanted_requests(words):
    text = words[0] if words else "20000"
    if len(words) > 1 or not text.isdigit() or not 1 <= int(text) <= 10**9:
        fail(f"requests must be a number from 1 to {10**9}, not '{' '.join(words)}'", 2)
    return int(text)


def environments():
    """The server's environment and that of everything else."""
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    library = os.environ.get("LD_PRELOAD") or ctypes.util.find_library("c") or "libc.so.6"
    return {**plain, "LD_PRELOAD": library}, plain


def ask(path, command):
    """The first line of the answer to one command, or None when nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(START_LIMIT)
            link.connect(path)
            link.sendall(command.encode() + b"\r\n")
            return link.recv(100)
    except OSError:
        return None


@contextlib.contextmanager
def server(folder, environment):
    """A running server as (process, socket); it is ended whatever happens."""
    path = os.path.join(folder, "socket")
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
         "--dir", folder, "--logfile", "", "--activedefrag", "no"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + START_LIMIT
        while ask(path, "PING") is None:
            if process.poll() is not None or time.monotonic() > end:
                fail("redis-server does not answer")
            time.sleep(0.01)
        yield process, path
        ask(path, "SHUTDOWN NOSAVE")
        process.wait(START_LIMIT)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def main():
    requests = wanted_requests(sys.argv[1:])
    with_allocator, plain = environments()
    with tempfile.TemporaryDirectory() as folder, server(folder, with_allocator) as (process, path):
        begun = time.monotonic()
        done = subprocess.run(
            ["redis-benchmark", "-s", path, "-n", str(requests), "-t", KINDS, *SHAPE],
            env=plain, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LOAD_LIMIT, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        with open(f"/proc/{process.pid}/status") as status:
            peak = re.search(r"VmHWM:\s+(\d+) kB", status.read())
    if done.returncode != 0 or peak is None:
        fail(f"redis-benchmark: {(done.stderr or done.stdout).strip()[-200:] or 'failed'}")
    total = requests * len(KINDS.split(","))
    print(f"Throughput = {total / seconds:.0f} ops/s [requests={total}] time={seconds:.3f}s")
    print(f"[RSS] max_kb={peak.group(1)}", file=sys.stderr)


try:
    main()
except FileNotFoundError as error:
    fail(f"{error.filename} is not installed")
except subprocess.TimeoutExpired as error:
    fail(f"{error.cmd[0]} did not end")
