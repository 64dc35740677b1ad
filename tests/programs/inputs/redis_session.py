"""A workload for redis: a server on a socket of its own, load by redis-benchmark, fixed commands.

The server is ended and waited for whatever happens.
"""

import os
import socket
import subprocess
import sys
import time

SOCKET = os.path.join(os.getcwd(), "socket")


class Client:
    """Just enough of the protocol: one command, one answer."""

    def __init__(self):
        self.link = socket.socket(socket.AF_UNIX)
        self.link.settimeout(240)
        self.link.connect(SOCKET)
        self.stream = self.link.makefile("rb")

    def ask(self, *words):
        parts = [str(word).encode() for word in words]
        self.link.sendall(b"*%d\r\n" % len(parts) +
                          b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.answer()

    def answer(self):
        line = self.stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        return line


def connect(server):
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit(f"redis-server ended with {server.returncode}")
        try:
            return Client()
        except OSError:
            time.sleep(0.1)
    sys.exit("redis-server does not answer")


def session(client):
    for i in range(5000):
        client.ask("set", f"key{i}", "v" * (i % 600))
        client.ask("hset", f"hash{i % 50}", f"field{i}", i)
        client.ask("zadd", "scores", i * 7919 % 10007, f"member{i}")
        client.ask("rpush", f"list{i % 20}", f"entry{i}")
    for i in range(0, 5000, 3):
        client.ask("append", f"key{i}", "w" * (i % 900))
    for i in range(0, 5000, 5):
        client.ask("del", f"key{i}")
    print("dbsize", client.ask("dbsize"))
    print("scores", client.ask("zrange", "scores", 100, 110, "withscores"))
    print("list", client.ask("lrange", "list7", -5, -1))
    print("hash", client.ask("hlen", "hash3"), client.ask("strlen", "key2499"))
    print("script", client.ask("eval", "local t = {} for i = 1, 20000 do t[i] = 'x' .. i end "
                               "return #table.concat(t)", 0))
    # Writes a snapshot from a forked child, while more commands come in.
    print("save", client.ask("bgsave"))
    for i in range(3000):
        client.ask("set", f"late{i}", "z" * (i % 2000))
    for _ in range(1200):
        if b"rdb_bgsave_in_progress:0" in client.ask("info", "persistence"):
            break
        time.sleep(0.1)
    print("saved", b"rdb_last_bgsave_status:ok" in client.ask("info", "persistence"))
    print("digest", client.ask("debug", "digest"))
    print("reload", client.ask("debug", "reload"))
    print("digest", client.ask("debug", "digest"))


def benchmark():
    tests = "set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_100,mset"
    done = subprocess.run(["redis-benchmark", "-s", SOCKET, "-n", "5000", "-c", "20", "-r", "1000",
                           "-d", "100", "-t", tests, "--csv"],
                          capture_output=True, text=True, timeout=400, check=True)
    # Only what was run; how fast it was differs each time.
    for line in done.stdout.splitlines():
        print("benchmark", line.split(",")[0])


def main():
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "",
                               "--enable-debug-command", "yes", "--daemonize", "no"],
                              stdout=subprocess.DEVNULL)
    try:
        client = connect(server)
        session(client)
        client.ask("flushall")
        benchmark()
        client.ask("flushall")
        print("dbsize", client.ask("dbsize"))
    finally:
        server.terminate()
        try:
            server.wait(80)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            print("redis-server did not end when asked")
    print("status", server.returncode)


if __name__ == "__main__":
    main()
