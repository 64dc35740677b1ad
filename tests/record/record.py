"""hakmem record and replay: what was recorded is what is repeated.

    record.py COMMAND LIBRARY LOAD CASE

LOAD is load.c. Each case is one function below.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

COMMAND, LIBRARY, LOAD = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3]
CLOSE = 0.05  # of the resident heap: the goal
SMALL_PAGES = {"HAKMEM_THP": "0"}  # one huge page more or less is 2 MiB: 5 % of a heap of 40 MiB
MAGIC, CHUNK = 8, 16  # bytes of the file's head and of a chunk's
SCRIPT = """
import json, sys
kept = {}
for i in range(40000):
    kept["key %d" % i] = ["value %d" % (i * n) * n for n in range(1, 12)]
    if i % 3 == 0:
        kept.pop("key %d" % (i // 2), None)
text = open("/proc/self/status").read()
print(text.split("RssAnon:")[1].split()[0])
"""


def hakmem(*words, seconds=120, env=None, **options):
    clean = {name: None for name in os.environ if name.startswith("HAKMEM_")}
    return harness.run([COMMAND, *map(str, words)], seconds=seconds,
                       env={**clean, "LD_PRELOAD": None, **(env or {})}, **options)


def must(result):
    if result.status != 0:
        harness.fail(f"status {result.status}: {result.last_words()}")
    return result


def record(trace, *words, env=None, more=()):
    result = must(hakmem("record", "--out", trace, *more, "--", *words, env=env))
    last = result.err.decode().strip().splitlines()[-1]
    if not re.search(r"hakmem record: \d+ events of \d+ threads? in .*recording took about [\d.]+ s", last):
        harness.fail(f"the cost is not told: {last!r}")
    return result.out.decode()


def replay(trace, *words, env=None):
    return json.loads(must(hakmem("replay", "--json", *words, trace, env=env)).out)


def said(text):
    peak, resident = re.search(r"peak (\d+) resident (-?\d+)", text).groups()
    return int(peak), int(resident)


def expect(what, found, wanted):
    if found != wanted:
        harness.fail(f"{what}: {found!r} instead of {wanted!r}")


def expect_close(what, found, wanted):
    print(f"{what}: {found} of {wanted} KB")
    if abs(found - wanted) > CLOSE * wanted:
        harness.fail(f"{what}: {found} KB is not within {CLOSE:.0%} of {wanted}")


def whole(found):
    """Nothing is lost or unknown, and the peak is the trace's."""
    for name in ("lost", "failed"):
        expect(name, found[name], 0)
    expect("complete", found["complete"], True)
    expect("peak", found["peak_live"], found["trace_peak_live"])


def case_one_thread(folder):
    """Of one thread everything is exact, also the peak that the program itself counted."""
    trace = os.path.join(folder, "one")
    peak, _ = said(record(trace, LOAD, 1, 60000))
    found = replay(trace, "--alloc=system")
    whole(found)
    expect("peak live bytes", found["peak_live"], peak)
    expect("threads", found["threads"], 1)
    expect("foreign", found["foreign_frees"], 0)


def case_wrapped(folder):
    """A program with a malloc of its own over libc's: the calls that come from it, once each."""
    trace = os.path.join(folder, "wrapped")
    peak, _ = said(record(trace, f"{LOAD}_wrapped", 1, 60000))
    found = replay(trace, "--alloc=system")
    whole(found)
    expect("peak live bytes", found["peak_live"], peak)
    expect("foreign", found["foreign_frees"], 0)


def case_threads(folder):
    """Blocks that other threads free: the order of the trace is that of the program."""
    trace = os.path.join(folder, "four")
    peak, _ = said(record(trace, LOAD, 4, 15000))
    found = replay(trace, "--alloc=hakmem")
    whole(found)
    expect("threads", found["threads"], 5)
    expect("foreign", found["foreign_frees"], 0)
    # the start of a thread allocates, too
    if not peak <= found["peak_live"] <= peak + 8192:
        harness.fail(f"peak {found['peak_live']}, but the program counted {peak}")


def case_resident(folder):
    """The heap's resident memory on two allocators is that of the program without the recorder."""
    trace = os.path.join(folder, "resident")
    record(trace, LOAD, 1, 150000)
    for name, preload in (("system", None), ("hakmem", LIBRARY)):
        plain = harness.must_run([LOAD, "1", "150000"], env={"LD_PRELOAD": preload, **SMALL_PAGES})
        found = replay(trace, f"--alloc={name}", env=SMALL_PAGES)
        expect_close(name, found["heap_at_peak_kb"], said(plain.out.decode())[1])
    untouched = replay(trace, "--alloc=system", "--touch=none")
    expect("touch", untouched["touch"], "none")
    if untouched["heap_at_peak_kb"] > 0.9 * found["heap_at_peak_kb"]:
        harness.fail("--touch=none touches")


def case_realloc(folder):
    trace = os.path.join(folder, "realloc")
    peak, _ = said(record(trace, LOAD, "realloc"))
    found = replay(trace)
    whole(found)
    if not peak <= found["peak_live"] <= peak + 100000:
        harness.fail(f"{found} of {peak}")
    expect("allocator", os.path.realpath(found["allocator"]), LIBRARY)


def case_names(folder):
    """Each function that allocates or frees is seen, so no block lives on in the trace."""
    trace = os.path.join(folder, "names")
    peak, _ = said(record(trace, LOAD, "names"))
    found = replay(trace, "--alloc=system")
    whole(found)
    expect("peak live bytes", found["peak_live"], peak)
    expect("frees of blocks that nobody has", found["foreign_frees"], 0)
    if found["steps"] < 2 * 380:
        harness.fail(f"only {found['steps']} of 380 blocks that were allocated and freed")


def case_far(folder):
    """What only a large machine can serve is read all the same: a block at a multiple of 2^45 bytes, and a
    thread behind two million others."""
    trace = os.path.join(folder, "far")
    aligned, free = b"\x03\x00\x00\x64\x2d", b"\x04\x01\x00"  # kind, stamp, address, size, log2
    events = zlib.compress(aligned + free)
    with open(trace, "wb") as file:
        file.write(b"HAKTRC1\n" + struct.pack("=4I", 1 << 21, 2, len(aligned + free), len(events)) + events)
    found = replay(trace, "--alloc=system")
    expect("threads", found["threads"], (1 << 21) + 1)
    expect("steps", found["steps"], 2)


def case_fork(folder):
    """A child has a file of its own, if that is asked for; the parent's trace is whole."""
    trace = os.path.join(folder, "fork")
    must(hakmem("record", "--out", trace, "--", LOAD, "fork"))
    expect("files", os.listdir(folder), ["fork"])
    whole(replay(trace))
    expect("peak", replay(trace)["peak_live"], 200000)
    os.remove(trace)
    must(hakmem("record", "--out", trace, "--children", "--", LOAD, "fork"))
    child = [name for name in os.listdir(folder) if name != "fork"]
    expect("number of files", len(child), 1)
    found = replay(os.path.join(folder, child[0]))
    whole(found)
    expect("peak of the child", found["peak_live"], 500000)
    expect("frees of the parent's blocks", found["foreign_frees"], 1000)


def case_reuse(folder):
    """An address is given back before it is given out again, also when another thread gets it."""
    trace = os.path.join(folder, "reuse")
    record(trace, LOAD, "reuse", env={"MALLOC_ARENA_MAX": "1"})
    found = replay(trace)
    whole(found)
    expect("frees of blocks that nobody has", found["foreign_frees"], 0)
    if found["peak_live"] > 16384:  # four blocks, and what the starts of threads take
        harness.fail(f"{found['peak_live']} bytes are live at the peak")


def case_cancel(folder):
    """A thread that is to be cancelled records all it does, and nobody waits for a lock that it has left taken."""
    trace = os.path.join(folder, "cancel")
    record(trace, LOAD, "cancel")
    found = replay(trace, "--alloc=system")
    whole(found)
    if found["steps"] < 400000:
        harness.fail(f"only {found['steps']} steps")


def case_late(folder):
    """A thread that frees when its destructors have run is no further thread, and keeps no buffer."""
    trace, count = os.path.join(folder, "late"), 300
    record(trace, LOAD, "late", count)
    found = replay(trace, "--alloc=system")
    whole(found)
    expect("threads", found["threads"], count + 1)
    if found["steps"] < 2 * count:  # the text of an error each, and its free
        harness.fail(f"only {found['steps']} steps")


def case_storm(folder):
    """Forks and ends of threads at any moment: nothing hangs, and each trace is whole."""
    trace = os.path.join(folder, "storm")
    must(hakmem("record", "--out", trace, "--limit", "64M", "--", LOAD, "storm", "300", seconds=200))
    found = replay(trace)
    whole(found)
    if found["threads"] < 304:  # a child of vfork that ends must not end the recording
        harness.fail(f"only {found['threads']} threads were recorded")
    os.remove(trace)
    must(hakmem("record", "--out", trace, "--limit", "16M", "--children", "--", LOAD, "storm", "60", seconds=200))
    names = [name for name in os.listdir(folder) if name != "storm"]
    expect("traces of children", len(names), 40)  # those of vfork have none
    for name in names[:10]:
        whole(replay(os.path.join(folder, name)))


def case_limit(folder):
    """The file stays small, the program goes on, and the trace can be replayed as far as it goes."""
    trace = os.path.join(folder, "limit")
    record(trace, LOAD, 1, 150000, more=["--limit", "256K"])
    if os.path.getsize(trace) > (256 + 80) << 10:
        harness.fail(f"the file has {os.path.getsize(trace)} bytes")
    found = replay(trace, "--alloc=system")
    expect("complete", found["complete"], False)
    if found["steps"] < 10000:
        harness.fail(f"only {found['steps']} steps")


def case_killed(folder):
    """A program that is killed leaves a trace without an end."""
    trace = os.path.join(folder, "killed")
    program = "kept = [str(i) * 20 for i in range(300000)]\nprint(1, flush=True)\nimport time; time.sleep(60)"
    env = {**os.environ, "PYTHONMALLOC": "malloc"}
    env.pop("LD_PRELOAD", None)
    process = subprocess.Popen([COMMAND, "record", "--out", trace, "--", harness.real_python(), "-S", "-c", program],
                               stdout=subprocess.PIPE, env=env)
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = replay(trace)
    expect("complete", found["complete"], False)
    if found["peak_live"] < 20 * 300000:
        harness.fail(f"{found}")
    expect("status", hakmem("record", "--out", trace, "--", "sh", "-c", "kill -KILL $$").status, -signal.SIGKILL)
    result = hakmem("replay", trace)
    if result.status != 1 or b"holds no events: the program was killed" not in result.err:
        harness.fail(f"a program that was killed at once: {result.last_words()}")


def case_python(folder):
    """A Python program: its resident memory without the recorder, and that of the replay."""
    env = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    words = [harness.real_python(), "-S", "-c", SCRIPT]
    trace = os.path.join(folder, "python")
    record(trace, *words, env=env)
    for name, preload in (("hakmem", LIBRARY), ("system", None)):
        plain = harness.must_run(words, env={**env, "LD_PRELOAD": preload, **SMALL_PAGES})
        found = replay(trace, f"--alloc={name}", env=SMALL_PAGES)
        whole(found)
        expect_close(name, found["heap_most_kb"], int(plain.out))


def redis(folder, words, env=None):
    """Starts a server, loads it, and returns its RssAnon after that; it ends by SHUTDOWN."""
    socket = os.path.join(folder, "socket")
    server = [shutil.which("redis-server"), "--port", "0", "--unixsocket", socket, "--save", "",
              "--appendonly", "no", "--dir", folder, "--enable-debug-command", "yes"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    environment.update(env or {})
    process = subprocess.Popen([*words, *server], stdout=subprocess.DEVNULL, env=environment)
    try:
        for _ in range(600):
            if os.path.exists(socket) and harness.run(["redis-cli", "-s", socket, "ping"]).status == 0:
                break
            time.sleep(0.1)
        harness.must_run(["redis-cli", "-s", socket, "debug", "populate", "100000", "key", "200"])
        harness.must_run(["redis-benchmark", "-s", socket, "-q", "-n", "20000", "-r", "5000", "-d", "300",
                          "-t", "set,lpush,sadd,hset,zadd"], seconds=100)
        with open(f"/proc/{process.pid}/status") as status:
            resident = int(status.read().split("RssAnon:")[1].split()[0])
        harness.run(["redis-cli", "-s", socket, "shutdown", "nosave"])
        process.wait(60 * harness.PATIENCE)
    finally:
        process.kill()
        process.wait()
    return resident


def case_redis(folder):
    """redis-server under load: the resident heap on HAKMEM, and that of the replay."""
    if not (shutil.which("redis-server") and shutil.which("redis-benchmark")):
        print("SKIP: no redis-server (Debian: apt-get install redis-server)")
        sys.exit(77)
    trace = os.path.join(folder, "trace")
    redis(folder, [COMMAND, "record", "--out", trace, "--"])
    plain = redis(folder, [], {"LD_PRELOAD": LIBRARY, **SMALL_PAGES})
    found = replay(trace, env=SMALL_PAGES)
    whole(found)
    expect_close("redis on hakmem", found["heap_most_kb"], plain)


def case_damaged(folder):
    """No file that is no trace brings the replayer down: one line, status 1."""
    trace = os.path.join(folder, "damaged")
    record(trace, LOAD, "realloc")
    with open(trace, "rb") as file:
        good = file.read()
    bad = {"empty": b"", "text": b"no trace at all", "head": good[:MAGIC]}
    for at in range(MAGIC + CHUNK, min(len(good), 400), 7):
        bad[f"byte {at}"] = good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1:]
    for what, content in bad.items():
        with open(trace, "wb") as file:
            file.write(content)
        result = hakmem("replay", trace)
        text = result.err.decode()
        if result.status == 0 and what.startswith("byte"):
            continue  # the head of a later chunk: what lies behind it is left out
        if result.status != 1 or text.count("\n") != 1 or not text.startswith("hakmem-replay: "):
            harness.fail(f"{what}: status {result.status}: {text!r}")


def case_full(folder):
    """A disk without room: before the program starts nothing is started and what was there stays; later the program
    goes on, the last line says why, and the trace can be replayed as far as it goes."""
    trace = os.path.join(folder, "full")
    program = ["sh", "-c", 'ulimit -f "$1"; shift; exec "$@"', "sh"]
    with open(trace, "w") as file:
        file.write("precious")
    result = harness.run([*program, "0", COMMAND, "record", "--out", trace, "--", "echo", "ran"])
    expect("status, output", (result.status, result.out), (125, b""))
    expect("one line", result.err.count(b"\n"), 1)
    expect("files", os.listdir(folder), ["full"])
    with open(trace) as file:
        expect("what was there", file.read(), "precious")
    os.remove(trace)
    result = harness.run([*program, "100", COMMAND, "record", "--out", trace, "--", LOAD, "1", "150000"])
    if result.status != 0 or b"(the rest is missing: " not in result.err or b"peak" not in result.out:
        harness.fail(f"status {result.status}: {result.last_words()}")
    expect("bytes", os.path.getsize(trace) in (100 * 512, 100 * 1024), True)  # a block of dash, of bash
    found = replay(trace, "--alloc=system")
    expect("complete", found["complete"], False)
    if found["steps"] < 1000:
        harness.fail(f"only {found['steps']} steps")


def case_kept(folder):
    """A trace that is there stays as FILE.old, and a line says so; a start that fails leaves it."""
    trace = os.path.join(folder, "t")
    old = trace + ".old"

    def content(path):
        with open(path, "rb") as file:
            return file.read()

    first = must(hakmem("record", "--out", "t", "--", LOAD, "realloc", cwd=folder))
    expect("lines of the first", first.err.decode().count("\n"), 1)
    one = content(trace)
    again = must(hakmem("record", "--out", "t", "--", LOAD, "names", cwd=folder)).err.decode().splitlines()
    expect("what is told", again[:-1], [f"hakmem record: the t that was there is now {old}"])
    two = content(trace)
    if content(old) != one or two == one:
        harness.fail("the first trace is not the old one")
    whole(replay(old))
    broken = os.path.join(folder, "broken")
    shutil.copy("/bin/true", broken)
    with open(broken, "r+b"):  # the kernel finds out, and nobody before
        expect("status", hakmem("record", "--out", trace, broken).status in (125, 126), True)
    expect("files", sorted(os.listdir(folder)), ["broken", "t"])
    expect("the trace stays", content(trace), two)
    open(os.path.join(folder, "empty"), "w").close()
    must(hakmem("record", "--out", os.path.join(folder, "empty"), "--", "true"))
    os.mkdir(os.path.join(folder, "u.old"))
    shutil.copy(trace, os.path.join(folder, "u"))
    result = hakmem("record", "--out", "u", "true", cwd=folder)
    if result.status != 125 or b"cannot be kept as" not in result.err:
        harness.fail(f"status {result.status}: {result.err!r}")
    expect("what could not be kept", content(os.path.join(folder, "u")), two)


def case_static_tls(folder):
    """An allocator that can be loaded at the start of a program only, by name and by path."""
    library = os.path.join(os.path.dirname(LOAD), "libtest_record_static_tls.so")
    try:
        ctypes.CDLL(library)
        harness.fail("dlopen takes the library: it shows nothing")
    except OSError:
        pass
    trace, named = os.path.join(folder, "t"), os.path.join(folder, "libjemalloc.so.2")
    odd = os.path.join(folder, 'a"b\\c.so')  # a name that JSON must quote
    record(trace, LOAD, "realloc")
    shutil.copy(library, named)
    shutil.copy(library, odd)
    for name, env, file in (("jemalloc", {"LD_LIBRARY_PATH": f"/no/such:{folder}"}, named), (library, {}, library),
                            (odd, {}, odd)):
        found = json.loads(must(hakmem("replay", "--json", f"--alloc={name}", trace, env=env)).out)
        whole(found)
        expect("allocator", found["allocator"], os.path.realpath(file))
    lines = must(hakmem("replay", "--json", f"--alloc=hakmem,{library}", trace)).out.decode().splitlines()
    expect("an object in each line", [json.loads(line)["allocator"] for line in lines],
           [LIBRARY, os.path.realpath(library)])


def case_errors(folder):
    """Bad input is one line on stderr."""
    tries = [
        (["record"], 125, "no program given"), (["record", "--no", "x"], 125, "is not known"),
        (["record", "--limit", "x", "true"], 125, "number of bytes"),
        (["record", "--limit=0", "true"], 125, "number of bytes"),
        (["record", "/no/such"], 127, "no such program"), (["record", "/"], 126, "not an executable"),
        (["record", "--out", "/no/such/file", "true"], 125, "/no/such/file"),
        (["record", "--out=", "true"], 125, "empty"),
        (["record", "--out", "/dev/full", "true"], 125, "/dev/full: No space left on device"),
        (["replay"], 2, "no trace given"), (["replay", "--no", "x"], 2, "is not known"),
        (["replay", "a", "b"], 2, "is not known"), (["replay", "--alloc", "emacs", "x"], 2, "no allocator"),
        (["replay", "--alloc=/no/such.so", "x"], 2, "not on this machine"),
        (["replay", f"--alloc={shutil.which('true')}", "x"], 2, "has no malloc"),
        (["replay", "--alloc=", "x"], 2, "names no allocator"), (["replay", "--alloc=,", "x"], 2, "names no allocator"),
        (["replay", "--touch=some", LOAD], 2, "is not known"), (["replay", "/no/such"], 1, "No such file"),
        (["replay", LOAD], 1, "is not a trace"),
    ]
    for words, status, part in tries:
        result = hakmem(*words, cwd=folder)
        text = result.err.decode()
        if result.status != status or text.count("\n") != 1 or part not in text or result.out:
            harness.fail(f"{words}: status {result.status}: {text!r} {result.out!r}")


with tempfile.TemporaryDirectory(prefix="hakmem-record-") as temporary:
    globals()[f"case_{sys.argv[4]}"](temporary)
