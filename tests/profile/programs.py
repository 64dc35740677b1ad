"""The heap profiler on real programs: redis-server under load, a Python web application, a C++ compile.

    programs.py LIBRARY PROGRAM        PROGRAM: redis, python or g++

go tool pprof -top names the functions that allocate, and their bytes at the default rate are those of a run
in which every block is sampled, within five standard errors.
"""

import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench", "lab"))
import harness  # noqa: E402

ERRORS, RATE, LARGEST = 5, 524288, 5  # LARGEST: functions that are compared
SECONDS = 1500

WEB = """
import json, sys, wsgiref.simple_server as server
cache = {}

def app(environ, start):
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
    rows = json.loads(body)
    page = "<table>" + "".join(f"<tr><td>{row['name']}<td>{row['age']}" for row in rows)
    cache[environ["PATH_INFO"]] = page.encode() * 20
    start("200 OK", [("Content-Type", "text/html")])
    return [page.encode()]

class Quiet(server.WSGIRequestHandler):
    def log_message(self, *words):
        pass

listener = server.make_server("127.0.0.1", int(sys.argv[1]), app, handler_class=Quiet)
for _ in range(int(sys.argv[2])):
    listener.handle_request()
"""

TEMPLATES = """
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>
template <int N> struct chain { std::map<std::vector<char[N]>*, std::string> m; chain<N - 1> next; };
template <> struct chain<0> {};
int main(int n, char** v) {
    chain<COUNT> c;
    std::function<bool(std::string)> f = [](const std::string& s) { return s.empty(); };
    return f(v[0]) + (int)sizeof c + n;
}
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def connect(port):
    end = time.monotonic() + 120
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                harness.fail("the server does not listen")
            time.sleep(0.05)


def start(words, env, folder):
    return subprocess.Popen(words, env={**os.environ, **env}, cwd=folder, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=SECONDS)
    if process.returncode != 0:
        harness.fail(f"{process.args[:3]} ends with {process.returncode}: {(out + err)[-400:]!r}")
    return err


def redis(env, folder):
    """Sets values of 100 to 8,000 bytes, some of them twice, and asks for all of them."""
    port = free_port()
    process = start([shutil.which("redis-server"), "--port", str(port), "--save", "", "--hz", "1",
                     "--activerehashing", "no"], env, folder)  # fmt: skip
    keys = 20000
    with connect(port) as link:
        reader = link.makefile("rb")
        for first in range(0, 2 * keys, 500):
            words = []
            for i in range(first, first + 500):
                value = b"x" * (100 + i % keys * 7919 % 7900)
                words.append(b"*3\r\n$3\r\nSET\r\n$9\r\nkey%06d\r\n$%d\r\n%s\r\n" % (i % keys, len(value), value))
            link.sendall(b"".join(words))
            for _ in range(500):
                reader.readline()
        link.sendall(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")
    return end(process)


def python(env, folder):
    """Serves pages of tables made of JSON, and keeps each."""
    port, count = free_port(), 400
    process = start([harness.real_python(), "-c", WEB, str(port), str(count)],
                    {**env, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}, folder)  # fmt: skip
    for i in range(count):
        body = "[" + ",".join(f'{{"name": "guest {k * i}", "age": {k}}}' for k in range(200)) + "]"
        with connect(port) as link:
            link.sendall(f"POST /{i} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            while link.recv(65536):
                pass
    return end(process)


def compile_it(env, folder):
    """cc1plus itself: the driver starts it and allocates hardly anything."""
    source = os.path.join(folder, "t.cpp")
    Path(source).write_text(TEMPLATES.replace("COUNT", "10"), encoding="ascii")
    said = harness.run(["g++", "-std=c++17", "-###", "-S", "-o", "/dev/null", source], seconds=SECONDS)
    line = next(line for line in said.err.decode().splitlines() if "cc1plus" in line)
    words = [word.strip('"') for word in line.split()]
    return end(start(words, env, folder))


PROGRAMS = {"redis": redis, "python": python, "g++": compile_it}
# Functions of which one must be among the first ten of pprof's list.
NAMES = {"redis": r"zmalloc|sds|createStringObject|ztrymalloc", "python": r"_?Py\w+|list_\w+|dict_\w+",
         "g++": r"x(m|re|c)alloc|_cpp_\w+|operator new|ggc_\w+"}


def profile(name, library, rate, folder):
    """{function: bytes allocated}, {function: blocks' sum of squares}, the file."""
    from hakmem_lab.heap import read
    path = os.path.join(folder, f"heap.{rate}")
    env = {"LD_PRELOAD": library, "HAKMEM_PROF": "1", "HAKMEM_PROF_RATE": str(rate), "HAKMEM_PROF_FILE": path}
    PROGRAMS[name](env, folder)
    found = read.read(path)
    if found.dropped:
        harness.fail(f"{found.dropped} blocks have no site, so the sums are no exact ones")
    sums, variances = defaultdict(int), defaultdict(float)
    for site in found.sites:
        function = found.stack(site)[-1]
        each = site.all_bytes / max(site.all, 1)
        p = 1 - math.exp(-max(each, 1) / RATE)
        sums[function] += site.all_bytes
        variances[function] += site.all * each * each * (1 - p) / p
    return sums, variances, found


def check_sites(library, name):
    """Bytes by function against the exact ones, and the names that pprof prints."""
    from hakmem_lab.heap import pprof
    harness.need("go")
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        exact, variances, _ = profile(name, library, 1, folder)
        found, _, sampled = profile(name, library, RATE, folder)
        for function in [*sorted(exact, key=lambda key: -exact[key])[:LARGEST], None]:
            right = exact[function] if function else sum(exact.values())
            guessed = found[function] if function else sum(found.values())
            most = ERRORS * math.sqrt(variances[function] if function else sum(variances.values())) + right / 100
            print(f"{name}, {function or 'all'}: {guessed / 1e6:.1f} MB of {right / 1e6:.1f} +- {most / 1e6:.1f}")
            if abs(guessed - right) > most:
                harness.fail(f"{function}: {guessed} bytes, not {right} +- {most:.0f}")
        Path(f"{folder}/p.pb.gz").write_bytes(pprof.packed(sampled))
        shown = harness.must_run(["go", "tool", "pprof", "-top", "-sample_index=alloc_space", f"{folder}/p.pb.gz"],
                                 seconds=SECONDS, env={"PPROF_TMPDIR": folder})
    lines = shown.out.decode().splitlines()
    top = [line.split(None, 5)[5] for line in lines[next(i for i, line in enumerate(lines) if "flat%" in line) + 1:]]
    print("\n".join(lines[:16]))
    if not any(re.match(NAMES[name], function) for function in top[:10]):
        harness.fail(f"pprof says {top[:10]}")


def main():
    library, name = sys.argv[1:]
    check_sites(library, name)


if __name__ == "__main__":
    main()
