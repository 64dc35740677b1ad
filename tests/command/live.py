"""The live page from outside: `hakmem stat`, `top` and `explain` of running processes.

    live.py COMMAND LIBRARY HOLDER CASE

Each case is one function below. HOLDER is holder.c, which runs on LIBRARY and waits to be looked at.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

COMMAND, LIBRARY, HOLDER = (os.path.abspath(argument) for argument in sys.argv[1:4])
NO_PROCESS = "4194305"  # above the most that the kernel gives
PARTS = "live rounding sparse caches dirty metadata other".split()


def expect(what, found, wanted):
    if found != wanted:
        harness.fail(f"{what}: {found!r} instead of {wanted!r}")


def environment(**options):
    """Without other settings of HAKMEM."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("HAKMEM_") and name != "LD_PRELOAD"}
    return clean | {f"HAKMEM_{name}": value for name, value in options.items()}


def hakmem(*arguments, status=0, **options):
    result = harness.run([COMMAND, *map(str, arguments)], **options)
    if result.status != status:
        harness.fail(f"hakmem {' '.join(map(str, arguments))}: status {result.status}: {result.last_words()}")
    return result.out.decode() if status == 0 else result.err.decode()


def expect_line(what, text, *parts):
    if text.count("\n") != 1 or not all(part in text for part in parts):
        harness.fail(f"{what}: not one line with {parts}: {text!r}")


class Holder:
    """The program in one of its modes, once it is ready; `said` has the numbers that it printed."""

    def __init__(self, mode, **options):
        self.process = subprocess.Popen([HOLDER, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment(**options) | {"LD_PRELOAD": LIBRARY})
        self.pid = self.process.pid
        self.said = {}
        self.hear("ready")

    def hear(self, last):
        """Reads words and numbers up to this one."""
        while last not in self.said:
            line = self.process.stdout.readline().decode()
            if not line:
                harness.fail(f"the program ended before it said {last}: {self.process.wait()}")
            word, number = line.split()
            self.said[word] = int(number)

    def tell(self):
        self.process.stdin.write(b"on\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        expect("status of the program", self.process.wait(60 * harness.PATIENCE), 0)


@contextlib.contextmanager
def holder(mode, **options):
    program = Holder(mode, **({"LIVE": "1"} | options))
    try:
        yield program
        program.end()
    finally:
        program.process.kill()


def until(what, look, seconds=240):
    """Looks until it sees something; a page is a quarter of a second behind, more on a loaded machine."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = look()
        if seen:
            return seen
        time.sleep(0.1)
    return harness.fail(f"{what} was not seen in {seconds} s")


def report(pid):
    return json.loads(hakmem("stat", pid, "--json"))


def live_of_224(pid):
    return next(row["live"] for row in report(pid)["classes"] if row["size"] == 224)


def case_figures(_):
    """What the program holds is what the page says, also after it has changed."""
    with holder("hold") as program:
        wanted = program.said["ready"]
        until("all blocks", lambda: live_of_224(program.pid) == wanted)
        found = report(program.pid)
        expect("pid", found["pid"], program.pid)
        expect("options", found["options"]["HAKMEM_LIVE"], {"value": "1", "source": "environment"})
        if not found["caches"] or found["live_page"]["refreshes"] < 1:
            harness.fail(f"no caches, or no refreshes: {found['caches']}, {found['live_page']}")
        program.tell()
        program.hear("half")
        until("half of the blocks", lambda: live_of_224(program.pid) == program.said["half"])


def case_forms(folder):
    """The tables, JSON, Prometheus; a saved JSON gives the same as the process."""
    with holder("hold") as program:
        until("all blocks", lambda: live_of_224(program.pid) == program.said["ready"])
        text = hakmem("stat", program.pid)
        if not re.search(rf"^process {program.pid} on HAKMEM", text) or "HAKMEM_LIVE=1" not in text:
            harness.fail(f"stat: {text[:200]}")
        metrics = hakmem("stat", program.pid, "--prometheus")
        if f'hakmem_class_live{{band="C5",size="224"}} {program.said["ready"]}\n' not in metrics:
            harness.fail(f"no live blocks of 224 bytes in {metrics[:300]}")
        path = os.path.join(folder, "saved.json")
        with open(path, "w", encoding="ascii") as file:
            file.write(hakmem("stat", program.pid, "--json"))
        if f"process {program.pid}" not in hakmem("stat", path):
            harness.fail("a saved file is not shown")
        explained = hakmem("explain", path)
        if "thread caches" not in explained or f"process {program.pid}" not in explained:
            harness.fail(f"a saved file is not explained: {explained}")


def expect_sum(pid):
    """The parts of a program at rest add up to what is resident within 2 %: the page may be older than the
    program's last calls."""
    def add_up():
        resident = report(pid)["resident"]
        total = sum(resident[part] for part in PARTS)
        if abs(total - resident["rss"]) <= resident["rss"] / 50:
            return resident
        return print(f"the parts make {total} of {resident['rss']}: {resident}", flush=True)
    return until("parts that add up", add_up)


def case_explained(_):
    """Parts of python3 with objects of many sizes."""
    script = "x = [str(i) * (i % 40) for i in range(200000)]; print('ready 0', flush=True); input()"
    process = subprocess.Popen([COMMAND, "run", harness.real_python(), "-c", script],
                               env=environment() | {"PYTHONMALLOC": "malloc"},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()

        def most_is_live():
            resident = report(process.pid)["resident"]
            return resident["live"] >= resident["rss"] / 2
        until("the objects", most_is_live)
        resident = expect_sum(process.pid)
        if resident["other"] < 1 << 20:
            harness.fail(f"python3: {resident}")
        lines = hakmem("explain", process.pid).splitlines()
        expect("first line", lines[0].startswith(f"process {process.pid} ("), True)
        expect("parts", len(lines), 2 + len(PARTS) + 2)
    finally:
        process.kill()
        process.wait()


# MiB of each part: 80000 blocks of 850 bytes on average, a fifth of them kept; 40 of 200 KB and 40 of
# 1 MiB, of which a third is freed.
SPIKE = {"live": (40, 50), "rounding": (0.3, 4), "sparse": (48, 60), "dirty": (14, 20),
         "metadata": (0.1, 2), "other": (0.5, 10)}


def spike_is_right(pid):
    """The page may be as old as the program's last frees, and the process waits for a CPU."""
    resident = report(pid)["resident"]
    mib = {part: resident[part] / (1 << 20) for part in SPIKE}
    wrong = [part for part, (least, most) in SPIKE.items() if not least <= mib[part] <= most]
    for part in wrong:
        print(f"{part} is {mib[part]:.1f} MiB, not in {SPIKE[part]}: {mib}", flush=True)
    return not wrong


def case_spike(_):
    """All kinds of memory, with never purged remains: each part is about what the program has made."""
    with holder("spike", PURGE_DELAY_MS="-1", CONF="HUGE_CACHE:1G") as program:
        until("every part in its bounds", lambda: spike_is_right(program.pid))
        expect_sum(program.pid)
        text = hakmem("explain", program.pid)
        if text.count("HAKMEM_PURGE_DELAY_MS=500") != 2:
            harness.fail(f"no setting for what is never purged: {text}")


def case_pinned(_):
    """Free memory that blocks in use pin is told from what a setting would give back."""
    with holder("pinned") as program:
        def is_pinned():
            resident = report(program.pid)["resident"]
            return resident["sparse"] >= resident["pinned"] > 30 << 20
        until("pinned pages", is_pinned)
        text = hakmem("explain", program.pid)
        if "pinned by few blocks: HAKMEM_PROF=1" not in text:
            harness.fail(f"pinned pages are not explained: {text}")


def case_huge(_):
    """Blocks above 1 MiB are the program's live memory, also more of them than the page has room for."""
    with holder("huge", THP="0") as program:
        used = program.said["ready"]

        def all_are_live():
            found = report(program.pid)
            return found if found["tiers"]["huge"]["live"] == 4000 and 2900 < found["live_page"]["unlisted"] else None
        found = until("the blocks", all_are_live)
        resident, unlisted = found["resident"], found["live_page"]["unlisted"]
        if resident["live"] < used * 0.9 or resident["other"] > resident["rss"] - used:
            harness.fail(f"of {used} bytes in blocks: {resident}, {found['live_page']}")
        expect_sum(program.pid)
        if f"resident of {unlisted} blocks above 1 MiB is estimated" not in hakmem("explain", program.pid):
            harness.fail("no line about blocks that are not listed")


def case_top_once(_):
    with holder("hold") as program:
        for key in "bytes live cached misses locks".split():
            text = hakmem("top", program.pid, "--once", "--interval=0.2", "--sort", key)
            if f"by {key}" not in text or "\033" in text or not re.search(r"^ +224  C5 ", text, re.M):
                harness.fail(f"top by {key}: {text}")
        reader, writer = os.pipe()  # as of `| head -1`: no line, as of any other command
        os.close(reader)
        ended = subprocess.run([COMMAND, "top", str(program.pid), "--interval", "0.1"], stdin=subprocess.DEVNULL,
                               stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60 * harness.PATIENCE)
        os.close(writer)
        expect("a reader that is gone", (ended.returncode, ended.stderr), (-signal.SIGPIPE, b""))


class Screen:
    """hakmem top on a terminal of its own."""

    def __init__(self, pid, columns=80, lines=24, **variables):
        self.master, slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(slave)
        self.slave, self.seen = slave, ""
        env = environment() | {"TERM": "xterm", "LC_ALL": "C.UTF-8"} | variables
        self.process = subprocess.Popen(
            [COMMAND, "top", str(pid), "--interval", "0.2"], env=env, stdin=slave, stdout=slave,
            stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self):
        """All that has come since the last look."""
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536).decode()
        return self.seen

    def await_text(self, *parts):
        self.seen = ""
        until(f"{parts} on the screen", lambda: all(part in self.read() for part in parts))

    def pictures(self):
        """Those that came whole."""
        return [picture.split("\033[J")[0] for picture in self.seen.split("\033[H")[1:]
                if "\033[J" in picture]

    def expect_end(self, how):
        """Status 0, and the terminal as it was."""
        expect(f"status after {how}", self.process.wait(60 * harness.PATIENCE), 0)
        if not self.read().replace("\r", "").count("\033[?25h\033[?1049l"):
            harness.fail(f"{how}: the screen is not given back: {self.seen[-200:]!r}")
        expect(f"terminal after {how}", termios.tcgetattr(self.slave), self.before)
        os.close(self.slave)
        os.close(self.master)


def plain(picture):
    return re.sub(r"\033\[[0-9;?]*[A-Za-z]|\r", "", picture).split("\n")


def case_top_screen(_):
    """Keys, sizes, and every way to end; no line is wider or picture higher than the terminal."""
    with holder("hold") as program:
        screen = Screen(program.pid)
        screen.await_text("by bytes", "\033[7m", "q quit")
        screen.type("m")
        screen.await_text("by misses")
        screen.resize(50, 12)
        os.kill(screen.process.pid, signal.SIGWINCH)
        until("a picture of 12 lines", lambda: screen.read() and any(
            len(plain(picture)) == 12 for picture in screen.pictures()))
        screen.seen = screen.seen.rpartition("\033[H")[1]
        until("two pictures", lambda: screen.read().count("\033[J") > 2)
        for picture in map(plain, screen.pictures()):
            if len(picture) != 12 or max(map(len, picture)) > 50:
                harness.fail(f"not 50 by 12: {picture}")
        screen.type("q")
        screen.expect_end("q")
        for how, number in (("Ctrl-C", None), ("SIGTERM", signal.SIGTERM), ("SIGHUP", signal.SIGHUP)):
            screen = Screen(program.pid, NO_COLOR="1")
            screen.await_text("by bytes", "q quit")
            if "\033[7m" in screen.seen or "\033[1m" in screen.seen:
                harness.fail("colours in spite of NO_COLOR")
            if number:
                screen.process.send_signal(number)
            else:
                screen.type("\x03")
            screen.expect_end(how)
        screen = Screen(program.pid)
        screen.await_text("by bytes")
    screen.await_text("has ended")
    screen.expect_end("the end of the process")


def case_errors(folder):
    """One line each."""
    for command in ("stat", "top", "explain"):
        expect_line(command, hakmem(command, NO_PROCESS, status=1), "there is no process " + NO_PROCESS)
        expect_line(command, hakmem(command, os.getpid(), status=1), "does not run on HAKMEM")
        expect_line(command, hakmem(command, status=2), "no process" if command != "explain" else "one process")
    with holder("hold", LIVE="0") as program:
        expect_line("without", hakmem("stat", program.pid, status=1), "no live page", "HAKMEM_LIVE=1", "hakmem run")
    expect_line("a map", hakmem("stat", os.getpid(), "--map", status=2), "--map needs --json")
    path = os.path.join(folder, "exit.json")
    with holder("hold", STATS="json", STATS_FILE=path):
        pass
    expect_line("a file of the library", hakmem("explain", path, status=1), "hakmem stat PID --json")
    for arguments in (("--interval", "0"), ("--interval=x"), ("--sort", "size"), ("--once", "--x"), ("x",), ("1", "2")):
        expect_line(f"top {arguments}", hakmem("top", *arguments, status=2), "top: ")
    for command in ("explain", "options"):
        for words in (("--bogus",), ("--bogus", "x"), ("x", "--bogus")):
            expect_line(f"{command} {words}", hakmem(command, *words, status=2), "'--bogus' is not known")
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    expect_line("a zombie", hakmem("stat", ended.pid, status=1), "there is no process")
    ended.wait()


def case_users(folder):
    """Others learn nothing: not by the command, and not by opening the file."""
    with holder("hold") as program:
        if os.geteuid() != 0:
            return
        until("the page", lambda: live_of_224(program.pid))
        links = [f"/proc/{program.pid}/fd/{name}" for name in os.listdir(f"/proc/{program.pid}/fd")]
        page = next(link for link in links if "hakmem-live" in os.readlink(link))
        expect("mode of the page", os.stat(page).st_mode & 0o777, 0o600)
        with open(page, "rb") as file:
            copy = file.read()
        for size in (0, 2 * len(copy)):
            with open(page, "r+b") as file:
                try:
                    file.truncate(size)
                except PermissionError:
                    continue
                harness.fail(f"the page can be cut to {size} bytes")
        command = shutil.copy(COMMAND, folder)  # the build may lie where nobody comes
        os.chmod(folder, 0o755)
        if not harness.nobody_runs(command):
            print("left out: nobody cannot run the command")
            return
        result = subprocess.run([command, "stat", str(program.pid)], capture_output=True, user=harness.NOBODY,
                                group=harness.NOBODY, extra_groups=[], check=False)
        expect("status for another user", result.returncode, 1)
        expect_line("another user", result.stderr.decode(), "belongs to another user")


def case_family(_):
    """Forks: who allocates has a page of its own, and the parent's stays as it was."""
    with holder("family") as program:
        busy, quiet, other = (program.said[name + "_child"] for name in ("busy", "quiet", "other"))
        program.hear("busy")
        until("the parent's blocks", lambda: live_of_224(program.pid) == program.said["ready"])
        until("the child's blocks", lambda: live_of_224(busy) == program.said["busy"])
        expect("pid of the child's page", report(busy)["pid"], busy)
        expect_line("a quiet child", hakmem("stat", quiet, status=1), "no live page")
        expect_line("after an exec", hakmem("stat", other, status=1), "does not run on HAKMEM")
        expect("the parent's blocks", live_of_224(program.pid), program.said["ready"])


def case_namespaces(_):
    """A process with a number and a clock of its own is shown by its number here, and its page's age is right."""
    words = ["unshare", "-T", "--monotonic", "1000000", "-p", "-f", "--kill-child", HOLDER, "hold"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(LIVE="1", PURGE_DELAY_MS="100") | {"LD_PRELOAD": LIBRARY}) as outer:
        if not outer.stdout.readline():
            print(f"left out: {outer.stderr.read().decode()}")
            return
        with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="ascii") as children:
            pid = int(children.read())
        until("the page", lambda: live_of_224(pid))
        expect("the process", (report(pid)["pid"], hakmem("stat", pid).split()[:2]), (pid, ["process", str(pid)]))
        os.kill(pid, signal.SIGSTOP)
        until("an age", lambda: 0 < report(pid)["live_page"]["age_ms"] < 1000000)
        outer.kill()


def case_leader(_):
    """A process whose main thread has left lives: what /proc/PID has of it is a dead thread's."""
    with holder("leader") as program:
        until("all blocks", lambda: live_of_224(program.pid) == program.said["ready"])
        expect_sum(program.pid)
        if f"process {program.pid}" not in hakmem("explain", program.pid):
            harness.fail("explain says nothing of the process")
        if not re.search(rf"\b{program.pid}\b", hakmem("top", "--once", program.pid)):
            harness.fail("top says nothing of the process")


def case_closed(_):
    """A daemon that closes everything goes on; nobody takes another file for the page, which root reads from memory."""
    with holder("closed") as program:
        result = subprocess.run([COMMAND, "stat", str(program.pid), "--json"], capture_output=True, text=True, check=False)
        if result.returncode == 0:
            until("all blocks", lambda: live_of_224(program.pid) == program.said["ready"])
        else:
            expect_line("after closing", result.stderr, "has closed the file of its live page")
        if os.geteuid() == 0:
            expect("status for root", result.returncode, 0)


def case_signal(_):
    """The page says at which signal the process writes a profile, also after the program has taken the signal."""
    with holder("hold") as program:
        expect("without HAKMEM_PROF", report(program.pid)["live_page"]["profile_signal"], 0)
    takes = ("import signal, sys, time\nprint(1, flush=True)\nsys.stdin.readline()\n"
             "signal.signal(60, lambda *_: None)\n"
             "while True: time.sleep(0.01); a = [b'x' * n for n in range(3000)]")
    for setting, number in (("60", 60), ("34", 34), ("0", 0)):
        env = environment(LIVE="1", PROF="1", PROF_SIGNAL=setting) | {"LD_PRELOAD": LIBRARY}
        with subprocess.Popen([sys.executable, "-c", takes], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=env) as process:
            process.stdout.readline()
            expect("the signal", report(process.pid)["live_page"]["profile_signal"], number)
            process.stdin.write(b"\n")
            process.stdin.flush()
            until("the program's handler",
                  lambda: report(process.pid)["live_page"]["profile_signal"] == (number if number == 34 else 0))
            process.kill()


def case_refused(_):
    """Without a second thread, by the system's or the user's word."""
    for options in ({}, {"PURGE_THREAD": "0"}, {"PURGE_DELAY_MS": "-1"}):
        with holder("refused", **options) as program:
            until("all blocks", lambda: live_of_224(program.pid) == program.said["ready"])
            before = report(program.pid)["live_page"]["refreshes"]
            program.tell()
            until("a refresh", lambda: report(program.pid)["live_page"]["refreshes"] > before)
            expect("threads", len(os.listdir(f"/proc/{program.pid}/task")), 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    with holder("hold") as program:  # a file beyond the limit would end it by a signal
        expect_line("without a file", hakmem("stat", program.pid, status=1), "no live page")


def activity(pid):
    """What grows while anything happens: refreshes of the page, and how often its threads went to sleep."""
    sleeps = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            sleeps += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M)[1])
    return report(pid)["live_page"]["refreshes"], sleeps


def case_quiet(_):
    """A program at rest is left alone: no refreshes, and its helper sleeps, which else looks five times a
    second."""
    with holder("hold") as program:
        until("all blocks", lambda: live_of_224(program.pid) == program.said["ready"])

        def rests():
            before = activity(program.pid)
            time.sleep(2)
            return activity(program.pid) == before
        until("a program at rest", rests)


if __name__ == "__main__":
    harness.run_case(globals(), sys.argv[4])
