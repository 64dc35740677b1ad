"""`hakmem export`, `hakmem stat --every` and the dashboard: the figures of processes over time.

    export.py COMMAND LIBRARY HOLDER CASE

Each case is one function below. HOLDER is holder.c.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

import live
from live import COMMAND, environment, expect, expect_line, hakmem, harness, holder, until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DASHBOARD = os.path.join(ROOT, "tools/grafana/hakmem-dashboard.json")
SEQUENCE_AT = 36  # of hak_live_head_t
SAMPLE = re.compile(r'([a-z][a-z0-9_]*)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\d+)')


@contextlib.contextmanager
def exporter(*words, status=0, end=signal.SIGTERM):
    process = subprocess.Popen([COMMAND, "export", "--listen", "0", *map(str, words)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    try:
        line = process.stdout.readline().decode()
        place = re.fullmatch(r"hakmem: figures at http://127\.0\.0\.1:(\d+)/metrics\n", line)
        if not place:
            harness.fail(f"the exporter says {line!r}, {process.stderr.read()!r}")
        yield int(place[1])
        process.send_signal(end)
        expect("status of the exporter", process.wait(60), status)
        expect("stderr of the exporter", process.stderr.read(), b"")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def ask(port, method="GET", path="/metrics"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


def samples(body):
    """{name: {labels: value}} after checks of the format: each metric once, with its HELP and TYPE."""
    found = {}
    name = kind = None
    for line in body.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            expect(f"{name} was there before", name in found, False)
            found[name] = {}
        elif line.startswith("# TYPE "):
            expect("TYPE", line.split()[2], name)
            kind = line.split()[3]
            expect(f"kind of {name}", kind, "counter" if name.endswith("_total") else "gauge")
        else:
            match = SAMPLE.fullmatch(line)
            if not match or match[1] != name or match[2] in found[name]:
                harness.fail(f"not a sample of {name}: {line!r}")
            found[name][match[2]] = int(match[3])
    return found


def labels_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return f'pid="{pid}",name="{file.read().strip()}"'


def case_serve(_):
    """Two processes at one port: live blocks, resident parts; one that ends is then down."""
    other = live.Holder("hold", LIVE="1")
    with holder("hold") as one, exporter(one.pid, other.pid) as port:
        key = [labels_of(program.pid) for program in (one, other)]

        def held():
            response, body = ask(port)
            expect("answer", (response.status, response.headers["Content-Type"].split(";")[1]),
                   (200, " version=0.0.4"))
            found = samples(body)
            blocks = found["hakmem_class_live"]
            return found if all(blocks[k + ',band="C5",size="224"'] == program.said["ready"]
                                for k, program in zip(key, (one, other))) else None

        found = until("all blocks of both", held)
        expect("processes", found["hakmem_up"], {key[0]: 1, key[1]: 1})
        resident = found["hakmem_resident_bytes"]
        if resident[key[0] + ',part="rss"'] < resident[key[0] + ',part="live"'] or \
                not resident[key[0] + ',part="live"']:
            harness.fail(f"resident: {resident}")
        other.process.kill()
        other.process.wait()
        found = samples(ask(port)[1])
        expect("processes", sorted(found["hakmem_up"].values()), [0, 1])
        expect("metrics of one", list(found["hakmem_total_live"]), [key[0]])


def case_detached(_):
    """Without stdin, stdout and stderr it serves as with them; a process that is named twice is there once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with holder("hold") as program:
        process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", COMMAND, "export", "--listen", str(port),
                                    str(program.pid), str(program.pid)], env=environment())
        try:
            def seen():
                with contextlib.suppress(ConnectionError):
                    return samples(ask(port)[1])
                return None

            expect("processes", until("the figures", seen)["hakmem_up"], {labels_of(program.pid): 1})
            expect("the exporter", process.poll(), None)
            process.terminate()
            expect("status of the exporter", process.wait(60), 0)
        finally:
            process.kill()
            process.wait()


def case_find(_):
    """Without a process it finds all that have a live page, also later ones; names are escaped."""
    with exporter() as port, holder("hold") as program:
        until("the process", lambda: labels_of(program.pid) in samples(ask(port)[1])["hakmem_up"])
        with tempfile.TemporaryDirectory() as folder:
            odd = os.path.join(folder, 'a"b\\c')
            os.symlink("/bin/sleep", odd)
            process = subprocess.Popen([odd, "60"], env=environment(LIVE="1") | {"LD_PRELOAD": live.LIBRARY})
            try:
                wanted = f'pid="{process.pid}",name="a\\"b\\\\c"'
                until("the odd name", lambda: wanted in samples(ask(port)[1])["hakmem_up"])
            finally:
                process.kill()
                process.wait()


def page_of(pid):
    """The file of a process's live page, None: there is none yet."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            if "hakmem-live" in os.readlink(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return None


def leave_odd(pid):
    """Makes the page of a process that is stopped one that the process was just writing to."""
    with open(page_of(pid), "r+b", buffering=0) as page:
        page.seek(SEQUENCE_AT)
        odd = page.read(1)[0] | 1
        page.seek(SEQUENCE_AT)
        page.write(bytes([odd]))


def case_stuck(_):
    """Pages that somebody writes to for ever, or that are none, do not hold up the figures of others."""
    with holder("hold") as program:
        size = os.stat(page_of(program.pid)).st_size
        stuck = [os.memfd_create("hakmem-live") for _ in range(60)]
        try:
            for file in stuck:
                os.ftruncate(file, size)
            with exporter() as port:
                expect("its figures", samples(ask(port)[1])["hakmem_up"].get(labels_of(program.pid)), 1)
        finally:
            for file in stuck:
                os.close(file)


def case_stopped(_):
    """Named processes that were stopped while they wrote to their pages: the others' figures come in time."""
    count = 60
    stopped = [subprocess.Popen(["sleep", "600"], env=environment(LIVE="1") | {"LD_PRELOAD": live.LIBRARY})
               for _ in range(count)]
    try:
        for process in stopped:
            until("its page", lambda pid=process.pid: page_of(pid))
        with holder("hold") as program, exporter(*(process.pid for process in stopped), program.pid) as port:
            for process in stopped:
                process.send_signal(signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                leave_odd(process.pid)
            up = samples(ask(port)[1])["hakmem_up"]
            expect("the process that works", up.get(labels_of(program.pid)), 1)
            expect("those that are stopped", (len(up), sum(up.values())), (count + 1, 1))
    finally:
        for process in stopped:
            process.kill()
            process.wait()


def case_http(_):
    """Other requests, nonsense, and clients that say nothing while others are answered."""
    with holder("hold") as program, exporter(program.pid, end=signal.SIGINT) as port:
        for method, path, status in (("GET", "/", 200), ("GET", "/x", 404), ("POST", "/metrics", 405),
                                     ("GET", "/metrics?x=1", 200)):
            expect(f"{method} {path}", ask(port, method, path)[0].status, status)
        response, body = ask(port, "HEAD")
        expect("HEAD", (response.status, body, int(response.headers["Content-Length"]) > 1000),
               (200, "", True))
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        for nonsense in (b"\0\r\n\r\n", b"GET\r\n\r\n", b"x" * 20000):
            # The exporter may have closed before each of these steps: ENOTCONN is no ConnectionError.
            with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(OSError):
                connection.sendall(nonsense)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(12)
                expect("nonsense", answer in (b"", b"HTTP/1.1 405"), True)
        expect("beside silent clients", ask(port)[0].status, 200)
        for connection in silent:
            connection.close()


def case_bad(_):
    """A bad port or process is one line."""
    with holder("hold") as program, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, status, part in ((["--listen", "x"], 2, "'x' is no port"),
                                    (["--listen", "65536"], 2, "no port"),
                                    (["--listen", "127.0.0.1:"], 2, "no port"),
                                    (["--listen"], 2, "needs a value"),
                                    (["--listen", "no..where:1"], 2, "cannot listen"),
                                    (["--listen", port, program.pid], 1, "in use"),
                                    (["x"], 2, "'x' is no process"), (["--x"], 2, "not known"),
                                    ([live.NO_PROCESS], 1, "there is no process"),
                                    ([os.getpid()], 1, "does not run on HAKMEM")):
            expect_line(str(words), hakmem("export", *words, status=status), "hakmem: export: ", part)


def case_dashboard(_):
    """Each name in the dashboard is that of a metric with its labels, and each panel has a query."""
    with open(DASHBOARD, encoding="ascii") as file:
        dashboard = json.load(file)
    with holder("hold") as program, exporter(program.pid) as port:
        found = samples(ask(port)[1])
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [variable["query"]["query"] for variable in dashboard["templating"]["list"]
                if variable["type"] == "query"]
    expect("panels without a query", [panel["id"] for panel in dashboard["panels"] if not panel["targets"]], [])
    expect("numbers of panels", len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
    for query in queries:
        names = re.findall(r"hakmem_\w+", query)
        expect(f"metrics in {query}", len(names), 1)
        if not found.get(names[0]):
            harness.fail(f"{names[0]} in {query} is not exported")
        labels = set(re.findall(r"(\w+)=\"", next(iter(found[names[0]]))))
        asked = set(re.findall(r"(\w+)[!=]~?\"", query)) | set(re.findall(r"by \((\w+)\)", query))
        if not asked <= labels:
            harness.fail(f"{query} asks for {asked}; {names[0]} has {labels}")


def case_over_time(_):
    """`hakmem stat --json --every`: whole objects, one a line, until the count or the process's end."""
    for words, part in ((["--every", "1"], "needs --json"), (["--json", "--every", "0"], "seconds from"),
                        (["--json", "--every", "x"], "not 'x'"), (["--json", "--count", "3"], "needs --every"),
                        (["--json", "--every", "1", "--count", "0"], "1 or more")):
        expect_line(str(words), hakmem("stat", "1", *words, status=2), part)
    expect_line("file", hakmem("stat", "x.json", "--json", "--every", "1", status=2), "needs a process")
    program = live.Holder("hold", LIVE="1")
    try:
        words = ("stat", program.pid, "--json", "--every=0.1s", "--count")
        lines = [json.loads(line) for line in hakmem(*words, 3).splitlines()]
        expect("lines", [line["pid"] for line in lines], [program.pid] * 3)
        whole = json.loads(hakmem("stat", program.pid, "--json"))
        expect("members", list(lines[0]), ["time", *whole])
        expect("options", lines[0]["options"], whole["options"])
        times = [line["time"] for line in lines]
        expect("times grow", sorted(set(times)), times)
        endless = subprocess.Popen([COMMAND, "stat", str(program.pid), "--json", "--every", "0.1"],
                                   stdout=subprocess.PIPE, env=environment())
        json.loads(endless.stdout.readline())
        program.process.kill()
        program.process.wait()
        rest, _ = endless.communicate(timeout=120)
        expect("status", endless.returncode, 0)
        for line in rest.splitlines():
            json.loads(line)
    finally:
        program.process.kill()


if __name__ == "__main__":
    harness.run_case(globals(), sys.argv[4])
