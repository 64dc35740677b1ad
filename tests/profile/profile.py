"""What the heap profiler says about a program whose sites are known (known.c).

    profile.py CASE LIBRARY PROGRAM [COMMAND]

Sums are estimates. A block of s bytes is sampled with probability p = 1 - exp(-s / rate) and stands
for 1 / p blocks, so n blocks have the standard error sqrt(n * (1 - p) / p). The cases allow five of them:
by chance one comparison in a million fails.
"""

import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

ERRORS = 5
SITE = re.compile(r"(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x[0-9a-f]+)*)$")
REST = re.compile(r"# size (\d+) remote (\d+) lifetime_ms (\d+) peak (\d+) peak_bytes (\d+)$")


class Entry:
    """One site of a profile."""

    def __init__(self, match, rest):
        self.live, self.live_bytes, self.all, self.all_bytes = map(int, match.groups()[:4])
        self.frames = [int(frame, 16) for frame in match.group(5).split()]
        self.size, self.remote, self.lifetime_ms, self.peak, self.peak_bytes = map(int, rest.groups())


def read(path):
    """(total, entries, mappings) of a profile, whose form is checked."""
    with open(path, encoding="ascii") as text:
        lines = text.read().split("\n")
    head = re.match(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heapprofile$", lines[0])
    if not head or not lines[1].startswith("# hakmem rate "):
        harness.fail(f"{path} begins with {lines[:2]}")
    end = lines.index("MAPPED_LIBRARIES:")
    entries = []
    for i in range(2, end - 1, 2):
        site, rest = SITE.match(lines[i]), REST.match(lines[i + 1])
        if not site or not rest:
            harness.fail(f"{path}: {lines[i:i + 2]} is no site")
        entries.append(Entry(site, rest))
    return list(map(int, head.groups())), entries, lines[end + 1:]


def profile(options, library, argv, **settings):
    """Runs a program under the profiler; its output and the profiles that it left."""
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        env = {"LD_PRELOAD": library, "HAKMEM_PROF": "1",
               "HAKMEM_PROF_FILE": f"{folder}/%p.heap", **options}
        result = harness.run(argv, env=env, **settings)
        if result.status != 0:
            harness.fail(f"{argv} ends with {result.status}: {result.last_words()}")
        return result, [read(path) for path in sorted(glob.glob(f"{folder}/*.heap*"))]


def bound(objects, size, rate):
    """The error of a number of objects that the cases allow."""
    p = 1 - math.exp(-size / rate)
    return ERRORS * math.sqrt(objects * (1 - p) / p) + 2


def sites_of(result):
    """{name: (address, [objects, bytes, live objects, live bytes])} as the program knows it."""
    rows = [line.split() for line in result.out.decode().splitlines()]
    return {row[1]: (int(row[2], 16), list(map(int, row[3:]))) for row in rows}


def check_sites(options, library, program, mode="sites", together=1):
    """Objects and bytes of each site, in use and in all, against the program's own count. So many calls are sampled
    together, or none of them: their errors add up."""
    rate = int(options["HAKMEM_PROF_RATE"])
    result, profiles = profile(options, library, [program, mode], seconds=240)
    if len(profiles) != 1:
        harness.fail(f"{len(profiles)} profiles of one process")
    sites, entries = sites_of(result), profiles[0][1]
    addresses = sorted(address for address, _ in sites.values())
    for name, (address, exact) in sites.items():
        behind = min([other for other in addresses if other > address], default=address + 4096)
        own = [entry for entry in entries if address < entry.frames[0] <= min(behind, address + 4096)]
        found = [sum(entry.all for entry in own), sum(entry.all_bytes for entry in own),
                 sum(entry.live for entry in own), sum(entry.live_bytes for entry in own)]
        each = exact[1] / exact[0]
        for at, what in ((0, "all"), (2, "live")):
            most = bound(exact[at], each, rate) * math.sqrt(together)
            print(f"{name}, {what}: {found[at]} of {exact[at]} +- {most:.0f}")
            if abs(found[at] - exact[at]) > most:
                harness.fail(f"{name}: {found[at]} objects ({what}), not {exact[at]} +- {most:.0f}")
            if abs(found[at + 1] - exact[at + 1]) > most * each:
                harness.fail(f"{name}: {found[at + 1]} bytes ({what}), not {exact[at + 1]} "
                             f"+- {most * each:.0f}")
    if profiles[0][0][2] < sum(exact[0] for _, exact in sites.values()) / 2:
        harness.fail(f"the head says {profiles[0][0]}")


def case_sites(library, program):
    """With the rate of the default, and a finer one."""
    for rate in (524288, 16384):
        check_sites({"HAKMEM_PROF_RATE": str(rate)}, library, program)


def case_resized(library, program):
    """Blocks that realloc leaves where they are: sampled ones stand for those that nobody looks at."""
    for rate in (16384, 1):
        check_sites({"HAKMEM_PROF_RATE": str(rate)}, library, program, "resized", 3)


def case_hardened(library, program):
    """On the hardened path, whose blocks stay what they are."""
    os.environ["HAKMEM_PROFILE"] = "HARDENED"
    check_sites({"HAKMEM_PROF_RATE": "16384"}, library, program)
    case_resized(library, program)
    case_exact(library, program)
    case_threads(library, program)


def case_exact(library, program):
    """Rate 1: each block is sampled, and nothing is an estimate. A block of the class of 8 bytes may be
    one of 16, so the sums are of requested bytes."""
    result, profiles = profile({"HAKMEM_PROF_RATE": "1"}, library, [program, "leak"])
    lost = int(result.out.split()[1], 16)
    own = [entry for entry in profiles[0][1] if lost < entry.frames[0] < lost + 200]
    if [(entry.live, entry.live_bytes, entry.all) for entry in own] != [(1, 1000, 1)]:
        harness.fail(f"the lost block is {[vars(entry) for entry in own]}")
    freed = [entry for entry in profiles[0][1] if entry.all == 1000 and entry.all_bytes == 500000]
    if len(freed) != 1 or freed[0].live != 0:
        harness.fail(f"the freed blocks are {[vars(entry) for entry in freed]}")


def case_threads(library, program):
    """Threads that end, whose blocks another thread frees: all are seen, and none is live."""
    _, profiles = profile({"HAKMEM_PROF_RATE": "4096"}, library, [program, "thread"])
    own = [entry for entry in profiles[0][1] if entry.size == 352]  # the C library's for a thread are smaller
    objects, most = 40 * 2000, bound(40 * 2000, 352, 4096)
    for what, found in (("all", sum(entry.all for entry in own)),
                        ("remote", sum(entry.remote for entry in own))):
        if abs(found - objects) > most:
            harness.fail(f"{found} blocks of threads ({what}), not {objects} +- {most:.0f}")
    if sum(entry.live for entry in own) > 0:
        harness.fail("freed blocks are live")


def case_peak(library, program):
    """What was in use when most was, of a program that frees all it has; two sites have a peak of their own before and
    after. At rate 1 it is exact, above it right within the error of a sample."""
    for rate in (1, 16384):
        result, profiles = profile({"HAKMEM_PROF_RATE": str(rate)}, library, [program, "peak"])
        exact = {name: counts for name, (_, counts) in sites_of(result).items()}
        places = {name: address for name, (address, _) in sites_of(result).items()}
        for name, (objects, size) in exact.items():
            behind = min((other for other in places.values() if other > places[name]), default=places[name] + 4096)
            own = [entry for entry in profiles[0][1] if places[name] < entry.frames[0] <= behind]
            found = sum(entry.peak for entry in own), sum(entry.peak_bytes for entry in own)
            most = bound(max(objects, 1), size, rate) if rate > 1 else 0
            print(f"{name}: {found} of {objects} at the peak +- {most:.0f}")
            if abs(found[0] - objects) > most or abs(found[1] - objects * size) > most * size:
                harness.fail(f"{name}: {found[0]} blocks and {found[1]} bytes at the peak, not {objects} +- {most:.0f}")
            if sum(entry.live for entry in own) > 0:
                harness.fail(f"{name} has freed all, and {sum(entry.live for entry in own)} blocks are in use")


def case_growth(library, program):
    """A profile for each step that the peak grows, none while it does not; they say what was in use then."""
    _, profiles = profile({"HAKMEM_PROF_RATE": "1", "HAKMEM_PROF_GROWTH": "2M"}, library, [program, "peak"])
    in_use = [total[1] for total, _, _ in profiles]
    if len(in_use) < 4 or in_use[0] > 1e6:
        harness.fail(f"the profiles have {in_use} bytes in use")
    steps = sorted(in_use[1:])
    if any(abs(bytes_in_use - (2 << 20) * number) > 100000 for number, bytes_in_use in enumerate(steps, 1)):
        harness.fail(f"profiles of growth have {steps} bytes in use, not a multiple of 2 MiB each")


LEAK = re.compile(r"hakmem: (?:leak: (\d+) bytes in (\d+) blocks?)?(?:, |hakmem: )?"
                  r"(?:reachable: (\d+) bytes in (\d+) blocks?)?, allocated at$")


def report_of_leaks(library, argv, wrong_calls=0, **settings):
    """The report, and the bytes of the stacks that lost blocks, and that have reachable ones. So many lines about
    wrong calls stand before it."""
    env = {"LD_PRELOAD": library, "HAKMEM_LEAK": "1", **settings}
    result = harness.run(argv, env=env)
    lines = result.err.decode().splitlines()[wrong_calls:]
    if result.status != 0 or not lines or not lines[0].startswith("hakmem: not freed at the end: "):
        harness.fail(f"{argv} ends with {result.status}, and the report says {lines}")
    if re.search(r"\b1 (blocks|call stacks)\b", "\n".join(lines)):
        harness.fail(f"more than one where there is one: {lines}")
    matches = list(filter(None, map(LEAK.match, lines)))
    lost = {int(match.group(1)): int(match.group(2)) for match in matches if match.group(1)}
    reached = {int(match.group(3)): int(match.group(4)) for match in matches if match.group(3)}
    return lines, lost, reached


def skip_unread():
    """Where a process cannot read its memory by a system call, what is lost is not told from the rest."""
    if not harness.reads_memory():
        print("skipped: process_vm_readv is refused")
        sys.exit(77)


def case_leak(library, program):
    """HAKMEM_LEAK=1 alone names the place of the one block that nobody freed; there is no profile."""
    skip_unread()
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        lines, lost, _ = report_of_leaks(library, [program, "leak"], HAKMEM_PROF_FILE=f"{folder}/p")
        profiles = os.listdir(folder)
    if not lines[-1].endswith("addr2line -fpie MODULE OFFSET"):
        harness.fail(f"the report does not say how to find lines: {lines}")
    if lost != {1000: 1} or profiles:
        harness.fail(f"the report says {lines}, and there are the profiles {profiles}")
    at = next(i for i, line in enumerate(lines) if line.startswith("hakmem: leak: 1000 bytes"))
    module, _, offset = lines[at + 1].strip().partition("+")
    where = harness.run(["addr2line", "-fe", program, offset]).out.decode().split()[0]
    if module != os.path.basename(program) or where != "lose":
        harness.fail(f"the block was allocated in {module}, {where}")


def case_destructor(library, program, plugin):
    """What a library frees in its destructor, which runs after libhakmem's, is in no report of the end."""
    figures = []
    for preload in (library, f"{library}:{plugin}"):
        lines, lost, reached = report_of_leaks(library, [program, "leak"], LD_PRELOAD=preload)
        if lost != {1000: 1}:
            harness.fail(f"with {preload} the report says {lines}")
        figures.append((lines[0], reached))
    if figures[0] != figures[1]:
        harness.fail(f"without and with the library: {figures}")
    result = harness.run([program, "leak"], env={"LD_PRELOAD": f"{library}:{plugin}", "HAKMEM_STATS": "json"})
    alone = harness.run([program, "leak"], env={"LD_PRELOAD": library, "HAKMEM_STATS": "json"})
    live = [json.loads(shown.err)["total"]["live_bytes"] for shown in (alone, result)]
    if live[0] != live[1]:
        harness.fail(f"statistics without and with the library: {live} bytes")


def case_leader(library, program):
    """Once the main thread has left, /proc/self is a dead thread's, without mappings: reports have them all the same."""
    result, profiles = profile({"HAKMEM_PROF_RATE": "1", "HAKMEM_LEAK": "1"}, library, [program, "leader"])
    mappings = [line for line in profiles[0][2] if line.endswith(os.path.basename(program))]
    if len(profiles) != 1 or not mappings:
        harness.fail(f"the profile has the mappings {profiles[0][2]}")
    lines = result.err.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("hakmem: leak: 1000 bytes"))
    if not lines[at + 1].strip().startswith(f"{os.path.basename(program)}+0x"):
        harness.fail(f"the report does not say where a block is from: {lines[at:at + 2]}")


def case_wrong(library, program):
    """A block whose free was refused is in use, and in the report: on the hardened path, and where a debug record
    tells the size. Elsewhere any function frees it."""
    env = {"HAKMEM_ON_ERROR": "report"}
    for options, lost in (({"HAKMEM_PROFILE": "HARDENED"}, {3000, 3010, 200000, 200010}),
                          ({"HAKMEM_HDR_LIGHT": "0"}, {3000, 200000}), ({}, set())):
        lines, found, reached = report_of_leaks(library, [program, "wrong"], len(lost), **env, **options)
        sizes = {3000, 3010, 200000, 200010}
        if sizes & {*found, *reached} != lost:  # an old address in the stack may reach one
            harness.fail(f"{options}: the report says {lines}")


def case_stacks(library, program):
    """Of more call stacks than are kept the sums are exact, and a line says how much has no stack."""
    skip_unread()
    amount = r"(\d+) bytes in (\d+) blocks"
    lines, _, _ = report_of_leaks(library, [program, "stacks"])
    head = re.fullmatch(rf"hakmem: not freed at the end: {amount} of more than (\d+) call stacks; lost: {amount}",
                        lines[0])
    rest = re.fullmatch(rf"hakmem: of further call stacks, which are not kept: {amount}, lost: {amount}", lines[1])
    if not head or not rest:
        harness.fail(f"the report begins with {lines[:2]}")
    size, all_bytes, most = 100, 98304 * 100, 98304 // 2
    sums, others = list(map(int, head.groups())), list(map(int, rest.groups()))
    # libc may have a few blocks of its own; a few lost ones may have an old address somewhere
    if (not 0 <= sums[0] - all_bytes < 10000 or not 98304 <= sums[1] < 98404
            or not 65436 <= sums[4] <= 65636 or others[0] != others[1] * size
            or not most - 100 <= others[1] <= most + 100 or not 32768 - 100 <= others[3] <= 32768 + 100):
        harness.fail(f"the report begins with {lines[:2]}")


def case_limit(library, program):
    """At a limit a block that is to be sampled may lie in a slab; none of those that the program has freed
    counts as lost."""
    lines, lost, _ = report_of_leaks(library, [program, "full"], HAKMEM_LIMIT="8M")
    if lost:
        harness.fail(f"the report says {lines}")


def case_reach(library, program):
    """Blocks that can still be reached are told from lost ones where that is safe (reach.c); where it is
    not, the report says why. Without LIBRARY the program has the library in it."""
    large, huge = 300000, 5000000
    wanted = {size: 1 for size in (2001, 2002, 2003, 2004, 2006, 2007, 2008, large + 1, large + 2, huge + 1)}
    kept = {size: 1 for size in (1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011,
                                 4096, 32768, large, 327680, huge)}
    kept[1009 * 19], kept[2 * 4096] = 19, 2
    total = sum(wanted) + sum(kept)
    library = None if library == "-" else library
    for what, options in (("alone", {}), ("helper", {"HAKMEM_PURGE_THREAD": "2"}),
                          ("alone", {"HAKMEM_GUARD_SAMPLE": "1"}),
                          ("alone", {"HAKMEM_PROF": "1", "HAKMEM_PROF_RATE": "1",
                                     "HAKMEM_PROF_FILE": "/dev/null"})):
        lines, lost, reached = report_of_leaks(library, [program, what], **options)
        if "the system does not let the process read its memory" in lines[0] and not harness.reads_memory():
            print(f"{what} {options}: left out: {lines[0]}")
            continue
        if what == "helper":  # 2,000 blocks more; the last 8 can be reached
            lost_more, kept_more, more = {50000 * 1992: 1992}, {50000 * 8: 8}, 50000 * 2000
        else:
            lost_more, kept_more, more = {}, {}, 0
        told = f"; lost: {sum({**wanted, **lost_more})} bytes in {len(wanted) + sum(lost_more.values())} blocks"
        head = re.match(r"hakmem: not freed at the end: (\d+) bytes", lines[0])
        shared = re.match(r"hakmem: not searched for pointers: \d+ bytes of shared memory$", lines[1])
        right = (lost == {**wanted, **lost_more} and reached.items() <= {**kept, **kept_more}.items()
                 and len(lost) + len(reached) >= 20 and 0 <= int(head.group(1)) - total - more < 1000)
        if not right or not lines[0].endswith(told) or not shared:
            harness.fail(f"{what} {options}: {lines[:2]}; lost: {lost}; reachable: {reached}")
    lines, lost, reached = report_of_leaks(library, [program, "thread"])
    if reached or not {large, huge} <= {*lost} or "other threads still run" not in lines[0]:
        harness.fail(f"with a thread: {lines[0]}; lost: {lost}; reachable: {reached}")


def case_signal(library, program):
    """A profile for each signal while the program runs, and one at its end."""
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        env = dict(os.environ, LD_PRELOAD=library, HAKMEM_PROF="1", HAKMEM_PROF_SIGNAL="12",
                   HAKMEM_PROF_FILE=f"{folder}/p.%p")
        process = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=env)
        process.stdout.readline()
        for number in (1, 2):
            path = f"{folder}/p.{process.pid}.{number}"
            process.send_signal(signal.SIGUSR2)
            for _ in range(10000):
                if os.path.exists(path) and "[vdso]" in open(path, encoding="ascii").read():
                    break
                signal.sigtimedwait([], 0.01)
            total, _, _ = read(path)
            most = bound(10000, 1024, 524288)
            if abs(total[0] - 10000) > most + 500:
                harness.fail(f"{total[0]} blocks in use, not 10000 +- {most:.0f}")
        process.communicate(b"\n", timeout=60 * harness.PATIENCE)
        if process.returncode != 0:
            harness.fail(f"the program ends with {process.returncode}")
        read(f"{folder}/p.{process.pid}")


def case_signal_refused(library, program):
    """Profiles at a signal that cannot be written: one line on stderr, and another one at the end."""
    env = dict(os.environ, LD_PRELOAD=library, HAKMEM_PROF="1", HAKMEM_PROF_SIGNAL="12", HAKMEM_PROF_FILE="/nonexist/p")
    process = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=env)
    process.stdout.readline()
    for number in (1, 2, 3):
        process.send_signal(signal.SIGUSR2)
        signal.sigtimedwait([], 0.1)
    lines = process.communicate(b"\n", timeout=60 * harness.PATIENCE)[1].decode().splitlines()
    wanted = [f"hakmem: the heap profile cannot be written to /nonexist/p{number}: the folder does not exist (2)"
              for number in (".1", "")]
    if process.returncode != 0 or lines != wanted:
        harness.fail(f"status {process.returncode}: {lines} instead of {wanted}")


def case_signal_none(library, program):
    """A signal that can have no handler, or is ignored, is told at the start, once; one that the program may have none."""
    refused, ignored = "cannot have a handler", "was ignored when the program started"
    for number, told in ((9, refused), (19, refused), (32, refused), (33, refused), (2, ignored), (12, None), (0, None)):
        script = f"import os, signal\nif {number} == 2: signal.signal(2, signal.SIG_IGN)\n" \
                 f"os.execvpe({program!r}, [{program!r}, 'leak'], dict(os.environ, LD_PRELOAD={library!r}))"
        result = harness.run([sys.executable, "-c", script], env={"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": "/dev/null",
                                                                  "HAKMEM_PROF_SIGNAL": str(number)})
        wanted = f"hakmem: HAKMEM_PROF_SIGNAL={number}: no profile is written at this signal, which {told}\n" if told else ""
        if result.status != 0 or result.err.decode() != wanted:
            harness.fail(f"signal {number}: status {result.status}, {result.err} instead of {wanted}")


def case_at_exit(library, program):
    """The process ends while a profile is being written: the last one is there, and whole."""
    for how in ("thread", "handler", "child"):
        result, profiles = profile({"HAKMEM_PROF_RATE": "1"}, library, [program, how])
        if len(profiles) != 1 or profiles[0][0][1] < 100000 or result.err:
            harness.fail(f"{how}: {[total for total, _, _ in profiles]}; {result.last_words()}")
    for how, options in (("growth", {"HAKMEM_PROF_GROWTH": "1M"}), ("signal", {"HAKMEM_PROF_SIGNAL": "12"})):
        _, profiles = profile({"HAKMEM_PROF_RATE": "1", **options}, library, [program, how])
        if len(profiles) < 2 or profiles[-1][0][1] < 8000000:
            harness.fail(f"{how} while a profile was written: {[total for total, _, _ in profiles]}")


def case_forks(library, program):
    """The child of a fork has a profile of its own, which knows its parent's blocks."""
    script = ("import os\nkept = [bytearray(100000) for _ in range(200)]\npid = os.fork()\n"
              "more = [bytearray(300000) for _ in range(200)] if pid == 0 else []\n"
              "if pid: os.waitpid(pid, 0)\n")
    _, profiles = profile({"HAKMEM_PROF_RATE": "1000"}, library, [sys.executable, "-c", script])
    if len(profiles) != 2:
        harness.fail(f"{len(profiles)} profiles of two processes")
    parent, child = sorted((profiles[0], profiles[1]), key=lambda profile: profile[0][3])
    more = child[0][3] - parent[0][3]
    if abs(more - 60e6) > 5e6 or parent[0][3] < 20e6:
        harness.fail(f"{parent[0][3]} and {child[0][3]} bytes")


def case_unsampled(library, program):
    """A process without a sample writes a profile on demand, and none at its end."""
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        env = {"LD_PRELOAD": library, "HAKMEM_PROF": "1", "HAKMEM_PROF_SIGNAL": "12",
               "HAKMEM_PROF_FILE": f"{folder}/%p", "HAKMEM_PROF_RATE": str(1 << 40)}
        process = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, **env})
        process.stdout.readline()
        process.send_signal(signal.SIGUSR2)
        process.communicate(b"\n", timeout=60 * harness.PATIENCE)
        left = os.listdir(folder)
        if process.returncode != 0 or left != [f"{process.pid}.1"]:
            harness.fail(f"status {process.returncode}, and the files {left}")
        total, entries, _ = read(f"{folder}/{left[0]}")
        if any(total) or entries:
            harness.fail(f"nothing was sampled, and the profile says {total}")


def case_pprof(library, program):
    """`hakmem prof`: pprof reads the form, and names the functions."""
    if not shutil.which("go"):
        print("SKIP: go is missing, which has pprof")
        sys.exit(77)
    lab = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "lab")
    sys.path.insert(0, lab)
    from pathlib import Path

    from hakmem_lab.heap import pprof
    from hakmem_lab.heap import read as lab_read
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        env = {"LD_PRELOAD": library, "HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": f"{folder}/p"}
        harness.run([program, "sites"], env=env, seconds=240)
        Path(f"{folder}/p.pb.gz").write_bytes(pprof.packed(lab_read.read(f"{folder}/p")))
        for index, first in (("inuse_space", "of_large_size"), ("alloc_objects", "tiny")):
            result = harness.run(["go", "tool", "pprof", "-top", f"-sample_index={index}",
                                  f"{folder}/p.pb.gz"], seconds=200, env={"PPROF_TMPDIR": folder})
            names = [line.split()[-1] for line in result.out.decode().splitlines() if " flat" not in line]
            top = [name for name in names if name.startswith(("of_large", "of_mid", "grows", "tiny"))]
            if result.status != 0 or top[:1] != [first]:
                harness.fail(f"{index}: {top} instead of {first} at the top; {result.last_words()}")


def lab_of_heaps():
    """The reader and the words of `hakmem report`, which need no package."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "lab"))
    from hakmem_lab.heap import read as lab_read
    from hakmem_lab.heap import state, words
    return lab_read, state, words


def case_culprit(library, program, command):
    """A call that keeps one block in 32 of a phase, and so most of its pages: the first line of the report."""
    lab_read, state, words = lab_of_heaps()
    with tempfile.TemporaryDirectory(prefix="hakmem-profile.") as folder:
        env = {"LD_PRELOAD": library, "HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": f"{folder}/p", "HAKMEM_LIVE": "1",
               "HAKMEM_PROF_RATE": "16384", "HAKMEM_PROF_SIGNAL": "12"}
        process = subprocess.Popen([program, "culprit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, **env})
        process.stdout.readline()
        looked = []
        for _ in range(1000):  # the map on the page is renewed every few seconds, on a loaded machine later
            shown = harness.must_run([command, "stat", str(process.pid), "--json", "--map"])
            looked = state.read(shown.out.decode(), "stat")
            told = words.warnings(None, looked[0])
            if told and int(told[0].split(" ")[0]) >= 50:  # a map from before has fewer pages of the phase
                break
            signal.sigtimedwait([], 0.1)
        process.send_signal(signal.SIGUSR2)
        process.communicate(b"\n", timeout=60 * harness.PATIENCE)
        told = words.warnings(lab_read.read(f"{folder}/p.1"), looked[0])
    pattern = (r"(\d+) % of resident memory, .* is pinned by ([\d,]+) blocks of 128 bytes, 3 % of a page each;"
               r" (\d+) % of the blocks of this size in use come from one call: remembers( \(\S+\))?$")
    found = re.match(pattern, told[0])
    if not found or int(found.group(1)) < 50 or int(found.group(3)) < 95:
        harness.fail(f"the report says {told}")
    blocks = int(found.group(2).replace(",", ""))
    if not 0.7 < blocks / 18750 < 1.4:
        harness.fail(f"{blocks} blocks are said to pin the pages, and 18750 do")


def case_cost(library, program):
    """Instructions of a whole program that allocates much, at the default rate: at most 0.5 % more."""
    if not shutil.which("valgrind") or not shutil.which("perl"):
        harness.fail("valgrind or perl is missing; tests/install_deps.sh installs them")
    script = ("my (%h, @a); for my $i (1 .. 25000) { my $s = 'key' . ($i % 5000);"
              " $h{$s} .= 'x' x ($i % 17); push @a, [$i, \"v$i\", {n => $i}];"
              " shift @a if @a > 3000; $h{$s} = '' if length($h{$s}) > 200 }"
              " print scalar(sort { $a->[1] cmp $b->[1] } @a), \"\\n\"")
    counts = []
    for on in "01":
        result = harness.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                              "perl", "-e", script], seconds=240,
                             env={"LD_PRELOAD": library, "HAKMEM_PROF": on, "PERL_HASH_SEED": "0",
                                  "HAKMEM_PROF_FILE": "/dev/null"})
        found = re.search(rb"Collected : (\d+)", result.err)
        if result.status != 0 or not found:
            harness.fail(f"callgrind says {result.last_words()}")
        counts.append(int(found.group(1)))
    more = 100 * (counts[1] - counts[0]) / counts[0]
    print(f"{counts[0]} instructions, with the profiler {counts[1]}: {more:+.2f} %")
    if more > 0.5:
        harness.fail(f"the profiler costs {more:.2f} % of the instructions")


def main():
    case, library, program, *rest = sys.argv[1:]
    globals()[f"case_{case}"](library, program, *rest)


if __name__ == "__main__":
    main()
