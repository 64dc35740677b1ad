"""What a process prints of its statistics, where, and when; and what `hakmem stat` makes of it.

    report.py PROGRAM COMMAND DOCS CASE

Each case is one function below. PROGRAM is ending.c, or busy.c for the case policy; COMMAND is `hakmem` or - where there is none,
DOCS is docs/STATISTICS.md.
"""

import fcntl
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

PROGRAM, COMMAND, DOCS = (os.path.abspath(argument) for argument in sys.argv[1:4])
BANDS = [f"C{i}" for i in range(8)] + ["MID"]
KEYS = "schema version pid options bands classes tiers caches".split()
GROUPS = "total pool warm policy large huge mid remote depot os memory sampled guards heaps debug threads limits profile".split()
OF_BANDS = ["score", "promoted"]  # figures that bands of the tiny tier have beside the sums
DEBUG = os.environ.get("BUILD") == "Debug"  # which has more figures
if DEBUG:
    KEYS += ["timing"]
    GROUPS += ["refill", "free"]
CACHE = "tid shard uc_miss refilled flushed tiny_bytes mid_bytes".split()  # then the bands
MAIN_COLUMNS = "live live_bytes cached_bytes free slabs uc_miss shared_lock remote_frees".split()
HELD = 1000  # blocks of 224 bytes that the program holds when it ends


def expect(what, found, wanted):
    if found != wanted:
        harness.fail(f"{what}: {found!r} instead of {wanted!r}")


def run(*way, status=0, **options):
    """Runs the program with these options of HAKMEM and no others."""
    env = {name: None for name in os.environ if name.startswith("HAKMEM_")}
    env |= {f"HAKMEM_{name}": value for name, value in options.items()}
    result = harness.run([PROGRAM, *way], env=env)
    if result.status != status:
        harness.fail(f"{way} with {options}: status {result.status}: {result.last_words()}")
    return result


def parse(text):
    """A JSON report, with all that a report must have and that must agree in it."""
    report = json.loads(text)
    expect("schema", report["schema"], "hakmem-stats/1")
    expect("members", sorted(report), sorted(KEYS + GROUPS))
    expect("bands", list(report["bands"]), BANDS)
    expect("tiers", list(report["tiers"]), ["tiny", "mid", "large", "huge"])
    figures = list(report["bands"]["MID"])
    for band in BANDS[:8]:
        expect(f"figures of {band}", list(report["bands"][band]), figures + OF_BANDS)
    for name in figures:
        for band in BANDS:
            of_classes = [row[name] for row in report["classes"] if row["band"] == band]
            expect(f"{band}.{name}", report["bands"][band][name], sum(of_classes))
    for row in report["classes"] + list(report["bands"].values()):
        expect(f"refilled - flushed of {row}", row["refilled"] - row["flushed"],
               row["live"] + row["cached"])
        if any(type(value) is not int or value < 0 for name, value in row.items() if name not in ("name", "band")):
            harness.fail(f"not a count in {row}")
    for name in ("live", "live_bytes"):
        expect(f"total.{name}", report["total"][name],
               sum(tier[name] for tier in report["tiers"].values()))
        expect(f"tiers.tiny.{name}", report["tiers"]["tiny"][name],
               sum(report["bands"][band][name] for band in BANDS[:8]))
    for name in ("uc_miss", "shared_lock", "cached", "cached_bytes"):
        expect(f"total.{name}", report["total"][name],
               sum(band[name] for band in report["bands"].values()))
    parse_caches(report)
    if DEBUG:
        parse_timing(report["timing"])
    return report


def parse_caches(report):
    for cache in report["caches"]:
        expect("members of a cache", list(cache)[:len(CACHE)], CACHE)
        served = {name: cache[name] for name in list(cache)[len(CACHE):]}
        if not set(served) <= set(BANDS):
            harness.fail(f"not a band in {cache}")
        for name in ("uc_miss", "refilled", "flushed"):
            expect(f"{name} of a cache", cache[name], sum(band[name] for band in served.values()))
    for name in ("uc_miss", "refilled"):
        of_caches = sum(cache[name] for cache in report["caches"])
        if of_caches > sum(band[name] for band in report["bands"].values()):
            harness.fail(f"the caches have more {name} than the bands")
    expect("caches", len(report["caches"]), report["threads"]["caches"])
    expect("caches of threads", sum(cache["tid"] != 0 for cache in report["caches"]),
           report["threads"]["now"])
    expect("bytes in caches", sum(cache["tiny_bytes"] + cache["mid_bytes"]
                                  for cache in report["caches"]), report["total"]["cached_bytes"])


def parse_timing(timing):
    figures = "tier count total_ns mean_ns p50_ns p99_ns max_ns".split()
    for name, step in timing.items():
        if name != "clock_ns" and list(step) != figures:
            harness.fail(f"not the figures of a step: {name}: {step}")


def label(row):
    """What a class is called where its size alone could be that of two."""
    return row.get("name", row["size"])


def policy_table(text):
    """{band: (score, promoted)} of the lines that begin with policy, score and promoted."""
    lines = [re.search(rf"^{name} +(.*)$", text, re.M).group(1).split() for name in
             ("policy", "score", "promoted")]
    return {band: (int(score), {"yes": 1, "-": 0}[promoted]) for band, score, promoted in
            zip(*lines)}


def expect_policy(report, text):
    """The table of the policy says what the report says."""
    expect("policy", policy_table(text), {band: tuple(report["bands"][band][name] for name in OF_BANDS)
                                          for band in BANDS[:8]})


def held(report):
    return next(row["live"] for row in report["classes"] if row["size"] == 224)


def case_json(_):
    report = parse(run(STATS="json").err)
    if held(report) < HELD:
        harness.fail(f"{held(report)} blocks are live, not {HELD}")
    expect("option", report["options"]["HAKMEM_STATS"], {"value": "json", "source": "environment"})
    for way, options in (("json", {}), ("json", {"SHARDS": "1"})):
        parse(run(way, **options).out)
    strange = 'quote " backslash \\ tab \t byte \x80'
    result = run("json", STATS_FILE=strange.encode("latin-1").decode("utf-8", "surrogateescape"))
    expect("a strange value", parse(result.out)["options"]["HAKMEM_STATS_FILE"]["value"], strange)


def case_documented(_):
    """Every member and figure of the JSON stands in the page, with its unit and kind."""
    with open(DOCS, encoding="utf-8") as file:
        page = file.read()
    report = parse(run(STATS="json").err)
    names = set(KEYS) | set(report["bands"]["C0"]) | set(report["tiers"]["tiny"])
    names |= {f"{group}.{name}" for group in GROUPS for name in report[group]} | set(GROUPS)
    for name in sorted(names):
        if f"`{name}`" not in page:
            harness.fail(f"{name} is not in {os.path.basename(DOCS)}")


def case_names(_):
    lines = run("names").out.decode().splitlines()
    for line in lines:
        if not re.fullmatch(r"(\w+\.\w+|(tiers|bands|classes)\.\w+\.\w+) [01] \d+ \w+", line):
            harness.fail(f"not a figure: {line}")
    if len(lines) < 100 or len({line.split()[0] for line in lines}) != len(lines):
        harness.fail("too few names, or one twice")


def case_off(_):
    for way in ("exit", "fork_exit", "thread"):
        result = run(way)
        expect(f"output of {way}", result.out + result.err, b"")
    files = int(run("files").out)
    expect("files open with STATS", int(run("files", STATS="text").out), files + 1)


def case_text(_):
    text = run(STATS="text").err.decode()
    for part in ("hakmem: statistics of process ", "\ntiny ", "\nhuge ", "\nC5 ", "\npool ", "\nos "):
        if part not in text:
            harness.fail(f"no {part!r} in {text}")
    text = run(STATS="text", PROFILE="MIXED_TINYV3_C7_SAFE", LEARN="off", CONF="SHARDS:2,\t").err.decode()
    for line in ("HAKMEM_PROFILE=MIXED_TINYV3_C7_SAFE (environment)", "HAKMEM_LEARN=off (environment)",
                 "HAKMEM_TINY_POLICY_PROFILE=c5_7_only (profile)", "HAKMEM_SHARDS=2 (conf)",
                 "HAKMEM_CONF=SHARDS:2,? (environment)"):
        if f"\noption   {line}\n" not in text:
            harness.fail(f"no option {line!r} in {text}")
    expect("policy", [band for band, row in policy_table(text).items() if row[1]], ["C5", "C6", "C7"])
    expect("malloc_stats", re.sub(r"\d+", "#", run("stats").err.decode()).splitlines()[0],
           "hakmem: statistics of process #")
    if "\ncache " not in text:
        harness.fail(f"no caches in {text}")
    dump = run(TINY_STATS_DUMP="1").err.decode()
    rows = {line.split()[0]: line.split() for line in dump.splitlines()[2:]}
    names = dump.splitlines()[1].split()
    for place in ("C5", "224"):
        if int(rows[place][names.index("live")]) < HELD:
            harness.fail(f"{place} has no {HELD} live blocks in {dump}")
    if "MID" in rows or "2304" in rows:
        harness.fail("the mid tier is in the tiny tier's dump")


def case_threads(_):
    """Caches by thread: those of three threads and of main, each with its number and its blocks."""
    report = parse(run("threads", SHARDS="2").out)
    rows = {cache["tid"]: cache for cache in report["caches"]}
    expect("threads", len(rows), 4)
    if report["pid"] not in rows:
        harness.fail(f"main is not in {rows}")
    for tid, cache in rows.items():
        if tid != report["pid"] and not (cache["refilled"] >= HELD and cache["tiny_bytes"] > 0
                                         and cache["mid_bytes"] > 0):
            harness.fail(f"a thread has not what it freed: {cache}")
    expect("shards", len({cache["shard"] for cache in rows.values()}), 2)
    child = parse(run("fork_json").out)  # of a fork's child, whose only thread has a new number
    expect("threads of a child", [cache["tid"] for cache in child["caches"] if cache["tid"]],
           [child["pid"]])


def case_timing(_):
    """The debug build prints times, with the statistics or alone; the others say that they cannot."""
    alone, text = (run(TIMING="1", **more).err.decode() for more in ({}, {"STATS": "text"}))
    if not DEBUG:
        line = "hakmem: option HAKMEM_TIMING needs the debug build (make debug); it is ignored\n"
        expect("stderr", alone, line)
        expect("lines about timing", text.count("iming"), 0)
        expect("stderr without it", run(TIMING="0").err, b"")
        return
    for report in (alone, text):
        expect("reports of times", report.count("hakmem: timing of process"), 1)
        for name in ("pool_lock", "l25_tls_lifo_pop", "l25_shard_steal"):
            if not re.search(rf"^{name} +\d+ +\d+ +\d+ +\d+ +\d+ +\d+$", report, re.M):
                harness.fail(f"no {name} in {report}")
    if not alone.startswith("hakmem: timing") or "hakmem: timing" in run(STATS="text").err.decode():
        harness.fail("times are not printed as asked")
    parse(run(TIMING="1", STATS="json").err)


def case_policy(_):
    """The dump names the bands that a program keeps busy, by the scores beside them."""
    for sizes, busy in (((32, 128), {"C2", "C4"}), ((512, 64), {"C6", "C3"}),
                        ((16, 256), {"C1", "C5"})):
        for policy, learn, learned in (("auto", "on", busy), ("auto", "observe", set())):
            dump = run(*map(str, sizes), TINY_POLICY_PROFILE=policy, LEARN=learn, SHARDS="2",
                       TINY_STATS_DUMP="1").err.decode()
            table = policy_table(dump)
            best = sorted(BANDS[:7], key=lambda band: table[band][0])[-2:]
            promoted = {band for band, (_, is_promoted) in table.items() if is_promoted}
            expect(f"the best bands of {sizes} with LEARN={learn}, {table}", set(best), busy)
            expect(f"promoted bands of {sizes} with LEARN={learn}, {table}", promoted,
                   learned | {"C7"})
            if f"by policy {policy}, LEARN {learn}\n" not in dump:
                harness.fail(f"the policy is not named in {dump}")


def case_ends(_):
    """Who prints, and who does not."""
    for way, reports in (("exit", 1), ("fork_exit", 2), ("fork__exit", 1), ("_exit", 0), ("exec", 1),
                         ("thread", 1), ("close", 1)):
        text = run(way, STATS="text").err.decode()
        expect(f"reports of {way}", text.count("hakmem: statistics of process"), reports)


def case_daemon(folder):
    """The report goes to what was stderr at the start, never to a file that has its number now."""
    path = os.path.join(folder, "data")
    for way, reports in (("daemon", 0), ("daemon_of_three", 1), ("many_files", 1), ("log", 1)):
        for form, begin in (("text", b"hakmem: statistics"), ("json", b'{\n  "schema"')):
            error = run(way, path, STATS=form).err
            expect(f"reports of {way}", error.count(begin), reports)
            expect(f"what {way} prints without a report", error if not reports else b"", b"")
            with open(path, "rb") as file:
                expect(f"data of {way}", file.read(), b"data")
            os.remove(path)
    for options in ({"TINY_STATS_DUMP": "1"}, {"WARM_POOL_STATS": "1"}, {"STATS": "json", "STATS_FILE": "/x/y"}):
        expect(f"{options}", run("daemon", path, **options).err, b"")
        with open(path, "rb") as file:
            expect(f"data with {options}", file.read(), b"data")
        os.remove(path)
    piped = run("pipe", STATS="text")
    expect("what the program's pipe has", piped.out[:18], b"hakmem: statistics")
    expect("stderr beside the pipe", piped.err, b"")
    expect("a report that is asked for late", run("late_daemon", path).err, b"")
    with open(path, "rb") as file:
        expect("data of late_daemon", file.read(), b"data")


def one_line(path, reason, *forms):
    for form in forms or ("text", "json"):
        line = run(STATS=form, STATS_FILE=path).err.decode()
        if line.count("\n") != 1 or not line.startswith("hakmem: ") or reason not in line:
            harness.fail(f"{path}: not one line with {reason!r}: {line!r}")


def case_links(folder):
    """A link in a folder that everybody may write to is not followed, nor is a file of another user used; one in the
    user's own folder is."""
    precious = os.path.join(folder, "precious")
    for mode, is_followed in ((0o1777, False), (0o777, False), (0o755, True)):
        place = os.path.join(folder, f"{mode:o}")
        os.mkdir(place)
        os.chmod(place, mode)
        for name, target in (("link", precious), ("new", os.path.join(place, "made"))):
            with open(precious, "w", encoding="ascii") as file:
                file.write("precious")
            link = os.path.join(place, name)
            os.symlink(target, link)
            if is_followed:
                expect("stderr", run(STATS="json", STATS_FILE=link).err, b"")
                with open(target, encoding="ascii") as file:
                    parse(file.read())
                continue
            one_line(link, "a link in a folder that every user may write to")
            with open(precious, encoding="ascii") as file:
                expect("the link's target", file.read(), "precious")
            expect("a file behind a link", os.path.exists(os.path.join(place, "made")), False)
        if not is_followed:
            second, foreign = os.path.join(place, "second"), os.path.join(place, "foreign")
            os.link(precious, second)
            one_line(second, "a link in a folder that every user may write to")
            os.remove(second)
            if os.geteuid() == 0:
                shutil.copy(precious, foreign)
                os.chown(foreign, 12345, -1)
                one_line(foreign, "permission denied")
            for path in (precious, foreign) if os.geteuid() == 0 else (precious,):
                with open(path, encoding="ascii") as file:
                    expect(path, file.read(), "precious")
        own = os.path.join(place, "own")
        expect("stderr", run(STATS="json", STATS_FILE=own).err, b"")
        expect("a file of its own", os.path.isfile(own), True)
    text = run(STATS="text", STATS_FILE="/dev/stderr").err
    expect("reports to /dev/stderr", text.count(b"hakmem: statistics of process"), 1)


def case_fifo(folder):
    """A FIFO is not waited for: neither for a reader, nor for long where the reader rests."""
    path = os.path.join(folder, "fifo")
    os.mkfifo(path)
    one_line(path, "no process reads from it")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, 1031, 1 << 20)  # F_SETPIPE_SZ
        expect("stderr", run(STATS="json", STATS_FILE=path).err, b"")
        parse(os.read(reader, 1 << 20))
    except PermissionError:
        print("left out: this user has too many pipes for a long one")
    fcntl.fcntl(reader, 1031, 4096)
    one_line(path, "its reader has read nothing for a second", "json")  # more than the pipe holds
    os.close(reader)
    plain = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(plain)
        one_line(plain, "no process reads from it")


def case_gone(_):
    """A reader of stderr that is gone changes nothing of how the process ends."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    process = subprocess.run([PROGRAM, "exit"], stderr=write_end, env=env | {"HAKMEM_STATS": "text"},
                             timeout=60 * harness.PATIENCE, check=False)
    expect("status", process.returncode, 0)


def case_file(folder):
    path = os.path.join(folder, "stats")
    os.umask(0)
    result = run("fork_exit", STATS="json", STATS_FILE=path + ".%p.%p%")
    expect("stderr", result.err, b"")
    names = sorted(os.listdir(folder))
    expect("files", len(names), 2)
    for name in names:
        file = os.path.join(folder, name)
        with open(file, encoding="ascii") as text:
            report = parse(text.read())
        expect("name", name, f"stats.{report['pid']}.{report['pid']}%")
        expect("mode", stat.S_IMODE(os.stat(file).st_mode), 0o600)
    for options, reason in (({"STATS_FILE": "/nonexistent/x"}, "the folder does not exist"),
                            ({"STATS_FILE": folder}, "it is a directory"),
                            ({"STATS_FILE": os.path.join(folder, 300 * "n")}, "the name is too long"),
                            ({"STATS_FILE": "/dev/full"}, "no space is left")):
        for form in ("text", "json"):
            line = run(STATS=form, **options).err.decode()
            if line.count("\n") != 1 or not line.startswith("hakmem: ") or reason not in line:
                harness.fail(f"{options}: not one line with {reason!r}: {line!r}")


def case_xml(_):
    root = xml.etree.ElementTree.fromstring(run("xml").out)
    expect("root", root.tag, "malloc")
    tiers = {tier.get("name"): int(tier.get("count")) for tier in root.findall("tier")}
    expect("tiers", list(tiers), ["tiny", "mid", "large", "huge"])
    bands = {band.get("name"): band.attrib for band in root.findall("band")}
    expect("bands", list(bands), BANDS)
    if int(bands["C5"]["live"]) < HELD:
        harness.fail(f"the XML has {bands['C5']['live']} live blocks in C5")
    caches = [cache.attrib for cache in root.findall("cache")]
    if len(caches) != 1 or list(caches[0]) != CACHE or int(caches[0]["refilled"]) < HELD:
        harness.fail(f"not the cache of one thread: {caches}")


METRIC = re.compile(r'(hakmem_\w+)(\{\w+="[\w.]*"(?:,\w+="[\w.]*")*\})? (\d+)')


def metrics(text):
    """The samples of Prometheus' text format, once it is valid."""
    samples, family, seen = {}, None, set()
    if not text.endswith("\n"):
        harness.fail("the last line has no end")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            if family in seen:
                harness.fail(f"{family} comes twice")
            seen.add(family)
        elif line.startswith("# TYPE "):
            expect("type's name", line.split()[2], family)
            expect(f"kind of {family}", line.split()[3],
                   "counter" if family.endswith("_total") else "gauge")
        else:
            found = METRIC.fullmatch(line)
            if not found or found.group(1) != family or found.group(1, 2) in samples:
                harness.fail(f"not a sample of {family}, or there before: {line}")
            samples[found.group(1, 2)] = int(found.group(3))
    return samples


def hakmem(*arguments, status=0):
    result = harness.run([COMMAND, *arguments])
    expect(f"status of {arguments}", result.status, status)
    return result


def case_command(folder):
    path = os.path.join(folder, "stats")
    run(STATS="json", STATS_FILE=path, **({"TIMING": "1"} if DEBUG else {}))
    with open(path, "rb") as file:
        text = file.read()
    report = parse(text)
    expect("--json", hakmem("stat", "--json", path).out, text)
    samples = metrics(hakmem("stat", path, "--prometheus").out.decode())
    for group in GROUPS:
        for name, value in report[group].items():
            found = samples.get((f"hakmem_{group}_{name}", None),
                                samples.get((f"hakmem_{group}_{name}_total", None)))
            expect(f"{group}.{name}", found, value)
    for row in report["classes"]:
        labels = f'{{band="{row["band"]}",size="{label(row)}"}}'
        expect(labels, samples[("hakmem_class_uc_miss_total", labels)], row["uc_miss"])
    table = hakmem("stat", path).out.decode()
    for row in report["classes"]:
        is_shown = re.search(rf"^  {label(row)} ", table, re.M) is not None
        expect(f"class {label(row)} in the table", is_shown, any(
            value for name, value in row.items() if name not in ("name", "size", "band")))
    longest = max(table.splitlines(), key=len)
    if len(longest) > 100:
        harness.fail(f"{len(longest)} columns: {longest}")
    lines = [[int(word) for word in line.split()] for line in
             re.search(r"^cache .*\n((?: +\d.*\n)+)", table, re.M).group(1).splitlines()]
    expect("caches", lines, [[cache[name] for name in CACHE] for cache in report["caches"]])
    for name, step in report.get("timing", {}).items():
        figures = re.search(rf"^{name} +([\d ]+)$", table, re.M)
        wanted = [value for value in step.values() if type(value) is int] if name != "clock_ns" else []
        expect(name, [int(word) for word in figures.group(1).split()] if figures else [], wanted)
    wide = hakmem("stat", "--wide", path).out.decode()
    for text, names in ((table, MAIN_COLUMNS), (wide, list(report["bands"]["MID"]))):
        expect("columns", re.search(r"^class .*$", text, re.M).group().split()[1:], names)
        for band in BANDS:
            figures = re.search(rf"^{band} +(.*)$", text, re.M)
            if figures:
                expect(band, [int(word) for word in figures.group(1).split()],
                       [report["bands"][band][name] for name in names])
    expect_policy(report, table)
    for band in BANDS[:8]:
        for name in OF_BANDS:
            expect(f"{band}'s {name}", samples[(f"hakmem_band_{name}", f'{{band="{band}"}}')],
                   report["bands"][band][name])


def case_limits(_):
    """The budgets that follow from the machine, and those that were set."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    found = json.loads(run(STATS="json").err)["limits"]
    expect("CPUs and shards", (found["cpus"], found["shards"]), (1, 1))
    memory = found["memory_bytes"]
    expect("cache_bytes", found["cache_bytes"], min(30 << 20, memory // 8 if memory else 30 << 20))
    expect("soft_bytes", found["soft_bytes"], memory // 3 * 2)
    found = json.loads(run(STATS="json", SHARDS="3", CACHE_BUDGET="8M", LIMIT_SOFT="64M").err)["limits"]
    expect("what was set", [found[name] for name in ("shards", "cache_bytes", "soft_bytes")],
           [3, 8 << 20, 64 << 20])


BAD_FILES = {
    b"": "not JSON", b"{": "not JSON", b"[" * 100000: "not JSON", b'{"a": 1}x': "not JSON",
    b'{"a": 01}': "not JSON", b'{"a" 1}': "not JSON", b'"\\u12': "not JSON", b"\x00\xff": "not JSON",
    b'{"a": 1,}': "not JSON", b"{}": "no statistics", b"[1, 2.5e3, true, null]": "no statistics",
    b'{"schema": "hakmem-stats/2"}': "hakmem-stats/2",
}


def case_bad_files(folder):
    path = os.path.join(folder, "stats")
    for text, reason in BAD_FILES.items():
        with open(path, "wb") as file:
            file.write(text)
        line = hakmem("stat", path, status=1).err.decode()
        if line.count("\n") != 1 or reason not in line:
            harness.fail(f"{text[:30]}: not one line with {reason!r}: {line!r}")
    for text in (b'{"schema": "hakmem-stats/1"}',
                 b'{"schema": "hakmem-stats/1", "classes": {"a": 1}, "bands": [3, {}], "tiers": 7,'
                 b' "options": [1, {"source": "x"}], "pool": {"stage2": -1, "stage3": 1e9}}'):
        with open(path, "wb") as file:
            file.write(text)
        hakmem("stat", path)
        metrics(hakmem("stat", path, "--prometheus").out.decode())
    for arguments, status, reason in (((path + ".none",), 1, "not a file"), (("4194305",), 1, "no process"),
                                      ((), 2, "no process or file"), ((path, path), 2, "one process or file"),
                                      ((path, "--x"), 2, "--x")):
        line = hakmem("stat", *arguments, status=status).err.decode()
        if line.count("\n") != 1 or reason not in line:
            harness.fail(f"stat {arguments}: {line!r}")


def case_run(folder):
    path = os.path.join(folder, "stats")
    for form, begin in (("text", b"hakmem: statistics"), ("json", b"{")):
        result = hakmem("run", f"--stats={form}", "--", "cat", "/dev/null")
        if not result.err.startswith(begin) or result.out:
            harness.fail(f"run --stats={form}: {result.err[:60]}")
    hakmem("run", "--stats", "json", "--opt", f"STATS_FILE={path}", "--", "cat", "/dev/null")
    with open(path, encoding="ascii") as file:
        parse(file.read())
    hakmem("run", "--stats=xml", "--", "cat", "/dev/null", status=125)


def main():
    case = globals()[f"case_{sys.argv[4]}"]
    with tempfile.TemporaryDirectory() as folder:
        case(folder)


main()
