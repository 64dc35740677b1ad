"""A workload for python3: threads, json, re, sqlite3, zlib, subprocess; prints digests only."""

import collections
import hashlib
import json
import re
import sqlite3
import subprocess
import sys
import threading
import zlib


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def json_part():
    rows = [{"id": i, "name": f"name {i * 7919 % 10007}", "tags": [str(k) for k in range(i % 9)],
             "nested": {"depth": {"value": i / 7}}} for i in range(12000)]
    text = json.dumps(rows, sort_keys=True)
    return len(text), digest(json.loads(text))


def re_part():
    text = " ".join(f"user{i}@host{i % 97}.example.org, tel +49-{i:07d};" for i in range(12000))
    hosts = collections.Counter(re.findall(r"@(host\d+)\.example", text))
    swapped = re.sub(r"(\w+)@(\w+)", r"\2 at \1", text)
    return hosts.most_common(5), digest(swapped)


def sqlite_part():
    base = sqlite3.connect(":memory:")
    base.execute("create table item (id integer primary key, word text, number real)")
    base.executemany("insert into item values (?, ?, ?)",
                     ((i, f"word{i * 31 % 5003}", i * 0.5) for i in range(20000)))
    base.execute("create index by_word on item (word)")
    rows = base.execute("select word, count(*), sum(number) from item group by word "
                        "order by 2 desc, 1 limit 10").fetchall()
    return digest(rows), base.execute("select count(distinct word) from item").fetchone()


def thread_part():
    results = [None] * 8

    def work(index):
        kept = {}
        for i in range(8000):
            kept[i % 500] = [index] * (i % 40) + [str(i)] * (i % 7)
        results[index] = digest(sorted(kept.items()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def zlib_part():
    data = b"".join(str(i * i).encode() for i in range(100000))
    packed = zlib.compress(data, 6)
    return len(packed), zlib.decompress(packed) == data


def subprocess_part():
    program = "import sys; print(sum(len(line) for line in sys.stdin))"
    done = subprocess.run([sys.executable, "-c", program], input="line\n" * 10000, text=True,
                          capture_output=True, check=True)
    return done.stdout.strip(), done.stderr


def growth_part():
    data = bytearray()
    for i in range(200):
        data += bytes([i % 256]) * 100000
    return hashlib.sha256(data).hexdigest()[:16]


for part in (json_part, re_part, sqlite_part, thread_part, zlib_part, subprocess_part, growth_part):
    print(part.__name__, part())
