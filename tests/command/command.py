"""The hakmem command as a user types it: what it shows, what it refuses, and why.

    command.py COMMAND LIBRARY COMPILER CASE

Each case is one function below. LIBRARY is what `hakmem run` must preload.
"""

import os
import re
import signal
import shutil
import stat
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

COMMAND, LIBRARY, COMPILER = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3]

# Prints the library that malloc comes from.
WITNESS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    Dl_info info;
    void *(*volatile function)(size_t) = malloc;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (!symbol || !dladdr(symbol, &info)) return 3;
    free(function(10));
    puts(info.dli_fname);
    return 0;
}
"""
ALLOCATOR = r"""
#include <stddef.h>
void *malloc(size_t size);
void *malloc(size_t size) {
    static char arena[1 << 20];
    static size_t used;
    used += (size + 15) / 16 * 16;
    return used > sizeof arena ? NULL : arena + used - (size + 15) / 16 * 16;
}
void free(void *block);
void free(void *block) { (void)block; }
"""

WRAPPER = WITNESS.replace('"malloc"', '"__libc_malloc"') + r"""
void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *block) { __libc_free(block); }
"""


def expect(what, found, wanted):
    if found != wanted:
        harness.fail(f"{what}: {found!r} instead of {wanted!r}")


def hakmem(*arguments, env=None, **options):
    """Runs the command in an environment without other settings of HAKMEM."""
    clean = {name: None for name in os.environ if name.startswith("HAKMEM_")}
    clean["LD_PRELOAD"] = None
    return harness.run([COMMAND, *arguments], env={**clean, **(env or {})}, **options)


def expect_line(result, status, *parts):
    """One line on stderr with these parts, nothing on stdout, and that status."""
    text = result.err.decode()
    if result.status != status or text.count("\n") != 1 or not text.endswith("\n") or result.out:
        harness.fail(f"status {result.status} instead of {status}, or not one line: {text!r}")
    if not text.startswith("hakmem: ") or not all(part in text for part in parts):
        harness.fail(f"{text!r} does not hold {parts}")


def build(folder, name, source, *flags):
    """Compiles a program and returns its path."""
    path = os.path.join(folder, name)
    harness.must_run([COMPILER, "-x", "c", "-", "-O1", "-fno-builtin", "-x", "none", "-o", path, *flags],
                     stdin=source.encode())
    return path


def expect_served(folder, *arguments, **options):
    """The witness, or what runs it, finds HAKMEM's malloc."""
    result = hakmem("run", *arguments, **options)
    expect(f"stderr of {arguments}", result.err, b"")
    expect(f"malloc of {arguments}", os.path.realpath(result.out.decode().strip()), LIBRARY)


def case_help(_):
    for argument in ("--help", "--version"):
        result = hakmem(argument)
        expect(argument, (result.status, result.err), (0, b""))
    version = hakmem("--version").out.decode().split()
    expect("version", (version[0], len(version[1].split("."))), ("hakmem", 3))
    expect_line(hakmem(), 2, "no command")
    expect_line(hakmem("nonsense"), 2, "nonsense", "--help")
    expect_line(hakmem("options", "A", "B"), 2, "one name")
    expect_line(hakmem("options", "--x"), 2, "--x")
    expect_line(hakmem("options", "SHARD"), 2, "SHARD", "did you mean HAKMEM_SHARDS?")
    expect_line(hakmem("options", "NOTHING_OF_THE_KIND"), 2, "`hakmem options --all` lists them")


def case_options(_):
    users = hakmem("options").out.decode()
    shown = re.findall(r"^(HAKMEM_\w+)", users, re.M)
    if not 10 <= len(shown) <= 18 or "HAKMEM_LIMIT" not in shown or "HAKMEM_TRYLOCK_PROBES" in shown:
        harness.fail(f"the options for users are {shown}")
    expect("lines that say when", users.count("\n    when: "), len(shown))
    result = hakmem("options", "--all", env={"HAKMEM_SHARDS": "3", "HAKMEM_PROFILE": "LOWMEM",
                                    "HAKMEM_CONF": "TRYLOCK_PROBES:2"})
    expect("stderr", result.err, b"")
    rows = {line.split()[0]: line.split()[1:3] for line in result.out.decode().splitlines()
            if line.startswith("HAKMEM_")}
    every = result.out.decode()
    if len(rows) < 40 or not set(shown) < set(rows):
        harness.fail(f"--all shows {sorted(rows)}")
    expect("options that say when", every.count("\n    when: "), len(rows))
    expect("environment", rows["HAKMEM_SHARDS"], ["3", "environment"])
    expect("conf", rows["HAKMEM_TRYLOCK_PROBES"], ["2", "conf"])
    expect("profile", rows["HAKMEM_PURGE_DELAY_MS"], ["0", "profile"])
    expect("default", rows["HAKMEM_PURGE_THREAD"], ["1", "default"])
    one = hakmem("options", "PURGE_DELAY_MS").out.decode()
    for part in ("HAKMEM_PURGE_DELAY_MS\n", " value     500\n", " source    default\n",
                 " accepted  -1..3600000 ms\n", " when      lower: memory"):
        if part not in one:
            harness.fail(f"no {part!r} in {one!r}")
    bad = hakmem("options", env={"HAKMEM_SHARDS": "many"})
    expect("a bad value", bad.err, b"hakmem: option HAKMEM_SHARDS: 'many' is not a number in "
                                   b"0..256 shards; it is ignored\n")


TRANSLATED = re.compile(r'^SETTING\((\w+), "(.*?)", "(.*?)", (?:"(\w+)"|NULL), "(.*?)",', re.MULTILINE)


def case_translate(_):
    """Each row of tools/hakmem/translate.def, by a setting that fits it, and settings that fit none."""
    with open(os.path.join(os.path.dirname(harness.__file__), "..", "..", "tools", "hakmem",
                           "translate.def"),
              encoding="utf-8") as file:
        table = file.read()
    rows = TRANSLATED.findall(table)
    expect("rows", len(rows), table.count("\nSETTING("))
    for source in ("JEMALLOC", "MIMALLOC", "TCMALLOC"):
        wanted, settings = [], []
        for _, name, value, option, ours in (row for row in rows if row[0] == source):
            given = {"*": "4", "on": "true", "off": "false"}.get(value, value)
            settings.append(name.replace("*", "x") + (":" if source == "JEMALLOC" else "=") + given)
            wanted.append([f"# {settings[-1]}"])
            if option:
                wanted[-1].append(f"HAKMEM_{option}={ours.replace('2^*', '16').replace('*', given)}")
        result = hakmem("options", f"--from-{source.lower()}", " ".join(settings))
        expect(source, (result.status, result.err), (0, b""))
        lines = [line.split(": ")[0] for line in result.out.decode().splitlines()]
        expect(source, lines, [line for lines in wanted for line in lines])
    both = hakmem("options", "--from-mimalloc=MIMALLOC_PURGE_DELAY=0,show_stats=1").out.decode()
    expect("two", [line for line in both.splitlines() if line[0] != "#"],
           ["HAKMEM_PURGE_DELAY_MS=0", "HAKMEM_STATS=text"])
    blank = hakmem("options", "--from-tcmalloc", "HEAPPROFILE=/tmp/my prof\nMALLOCSTATS=1 TCMALLOC_RELEASE_RATE=0\n")
    expect("a value with a blank", (blank.status, [line for line in blank.out.decode().splitlines() if "=" in line]),
           (0, ["# HEAPPROFILE=/tmp/my prof: PROF_FILE says where the profile goes", "HAKMEM_PROF=1",
                "# MALLOCSTATS=1", "HAKMEM_STATS=text", "# TCMALLOC_RELEASE_RATE=0", "HAKMEM_PURGE_DELAY_MS=-1"]))
    script = 'set -a; eval "$("$0" options --from-jemalloc "$1")"; set +a; env'
    for conf, wanted in (("", []), ("muzzy_decay_ms:0,tcache:true", []), ("prof_prefix:/tmp/my prof", ["/tmp/my prof"]),
                         ("prof_prefix:/tmp/a'$(echo b)`echo c`;d", ["/tmp/a'$(echo b)`echo c`;d"])):
        found = harness.run(["sh", "-c", script, COMMAND, conf])
        lines = [line.split("=", 1)[1] for line in found.out.decode().splitlines() if line.startswith("HAKMEM_PROF_FILE=")]
        expect(conf, (found.status, [line.split("%p")[0].rstrip(".") for line in lines]), (0, wanted))
    for setting, parts in (("narenas:512", ("narenas:512", "HAKMEM_SHARDS accepts 0..256 shards")),
                           ("thp:sometimes", ("thp:sometimes", "value", "not known here")),
                           ("lg_prof_sample:99", ("HAKMEM_PROF_RATE accepts", "not '2^99'")),
                           ("lg_prof_sample:x", ("not '2^x'",)),
                           ("foo:1", ("foo:1", "not known here")),
                           ("bar", ("'bar' is no name:value",))):
        result = hakmem("options", "--from-jemalloc", setting)
        expect_line(result, 2, *parts)
    for source, known in (
        ("jemalloc", "narenas:default,narenas_ratio:2.5,log:core.malloc|tcache,tcache_ncached_max:8-64:10,hpa_hugify_style:lazy"),
        ("mimalloc", "ALLOW_LARGE_OS_PAGES=2 ALLOW_THP=2 ARENA_PURGE_MIN_SIZE=64 ARENA_PURGE_IMMEDIATE_SIZE=32768 PROFILE=heap "
                     "PROFILE_TIME_INTERVAL=60 UNSAFE_GUARDED_PRECISE=1 STATS_MERGE_ON_COLLECT=1 DEPRECATED_PAGE_RESET=0"),
        ("tcmalloc", "TCMALLOC_NUMA_AWARE=1 TCMALLOC_LEGACY_SIZE_CLASSES=pow2 TCMALLOC_HPAA_CONTROL=dwas "
                     "TCMALLOC_USE_HUGE_REGION_MORE_OFTEN_DISABLE=1"),
    ):
        result = hakmem("options", f"--from-{source}", known)
        expect(f"settings of {source}", (result.status, result.err), (0, b""))
    expect_line(hakmem("options", "--from-jemalloc"), 2, "needs a value")
    expect_line(hakmem("options", "--from-jemalloc", "a:1", "b:2"), 2, "quotes")


def case_bad_settings(folder):
    """Nothing is started with a setting that is none."""
    witness = build(folder, "witness", WITNESS)
    for arguments, parts in (
        (("--opt", "SHARD=1"), ("SHARD", "did you mean HAKMEM_SHARDS?")),
        (("--opt", "SHARDS=many"), ("many", "HAKMEM_SHARDS", "0..256 shards")),
        (("--opt=HAKMEM_SHARDS=257",), ("257", "HAKMEM_SHARDS", "0..256 shards")),
        (("--opt", "CONF=SHARDS:1"), ("HAKMEM_CONF", "--opt")),
        (("--opt", "SHARDS"), ("SHARDS", "NAME=VALUE")),
        (("--profile=NONE_SUCH",), ("NONE_SUCH", "none|", "|LOWMEM|")),
        (("--profiles=LOWMEM",), ("--profiles=LOWMEM", "--help")),
        (("--frobnicate",), ("--frobnicate", "--help")),
    ):
        expect_line(hakmem("run", *arguments, "--", witness), 125, *parts)
    expect_line(hakmem("run", "--profile"), 125, "--profile needs a value")
    expect_line(hakmem("run", "--opt"), 125, "--opt needs a value")
    expect_line(hakmem("run"), 125, "no program given")
    expect_line(hakmem("run", "--"), 125, "no program given")


def case_settings(folder):
    """Settings reach the program, and the library takes them."""
    result = hakmem("run", "--opt", "SHARDS=2", "--opt=HAKMEM_PURGE_THREAD=0", "--profile", "LOWMEM",
                    "env", env={"HAKMEM_SHARDS": "5", "LD_PRELOAD": "libSegFault-none.so"})
    found = dict(line.split("=", 1) for line in result.out.decode().splitlines() if "=" in line)
    expect("HAKMEM_*", {name: value for name, value in found.items() if name[:7] == "HAKMEM_"},
           {"HAKMEM_SHARDS": "2", "HAKMEM_PURGE_THREAD": "0", "HAKMEM_PROFILE": "LOWMEM",
            "HAKMEM_LIVE": "1"})
    for words, variables, wanted in ((("--opt", "LIVE=0"), {}, "0"), ((), {"HAKMEM_LIVE": ""}, "1"), ((), {"HAKMEM_LIVE": "0"}, "0"),
                                     ((), {"HAKMEM_CONF": "SHARDS:2,LIVE:0"}, None), ((), {"HAKMEM_CONF": "HAKMEM_LIVE:0,"}, None),
                                     ((), {"HAKMEM_CONF": "SHARDS:2,,"}, "1")):
        lines = hakmem("run", *words, "env", env=variables).out.decode().splitlines()
        live = dict(line.split("=", 1) for line in lines if "=" in line).get("HAKMEM_LIVE")
        expect(f"HAKMEM_LIVE with {words}, {variables}", live, wanted)
    expect("LD_PRELOAD", found["LD_PRELOAD"], f"{LIBRARY}:libSegFault-none.so")
    witness = build(folder, "witness", WITNESS)
    expect_served(folder, "--", witness)
    expect_served(folder, witness)
    expect_served(folder, os.path.realpath(COMMAND), "run", witness)
    os.chdir(folder)
    expect_served(folder, "witness", env={"PATH": f"/nowhere::{folder}"})


def case_status_and_signals(_):
    for status in (0, 7, 255):
        expect("status", hakmem("run", "--", "sh", "-c", f"exit {status}").status, status)
    expect("signal", hakmem("run", "--", "sh", "-c", "kill -USR1 $$").status, -signal.SIGUSR1)
    process = subprocess.Popen([COMMAND, "run", "--", "sh", "-c", "echo up; exec sleep 50"],
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    process.terminate()
    expect("a signal from outside", process.wait(60), -signal.SIGTERM)
    result = hakmem("run", "--", "cat", stdin=b"through")
    expect("standard input and output", result.out, b"through")


def case_not_found(folder):
    expect_line(hakmem("run", "no-such-program-at-all"), 127, "no such program")
    expect_line(hakmem("run", os.path.join(folder, "none")), 127, "no such program")
    expect_line(hakmem("run", folder), 126, "not an executable file")
    path = os.path.join(folder, "plain")
    open(path, "w", encoding="ascii").close()
    os.chmod(path, 0o644)
    expect_line(hakmem("run", path), 126, "not an executable file")
    expect_line(hakmem("run", "--", ""), 127, "hakmem: run: '': no such program")


def case_status_as_others(folder):
    """A program that cannot be started gives the status that env, timeout and nice give."""
    def put(name, text, mode):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    plain, loop = put("plain", "", 0o644), os.path.join(folder, "loop")
    os.symlink("loop", loop)
    os.mkdir(os.path.join(folder, "sub"))
    names = ["", "none", os.path.join(folder, "none"), plain, folder, loop, plain + "/below", "plain", "sub", "loop",
             put("orphan", "#!/no/such/program\n", 0o755), put("of_data", f"#!{plain}\n", 0o755),
             "x" * 300, folder + "/x" * 2500, "true"]
    for path in (f"{folder}:/usr/bin:/bin", f"{plain}:/none:{folder}:/usr/bin:/bin",
                 f"/{'d' * 4200}:{folder}:/usr/bin:/bin"):
        for name in names:
            others = {subprocess.run([*tool, name], env={"PATH": path}, capture_output=True, check=False).returncode
                      for tool in (("/usr/bin/env",), ("/usr/bin/timeout", "60"), ("/usr/bin/nice",))}
            expect(f"env, timeout and nice of {name[:80]!r} agree", len(others), 1)
            expect(f"the status of {name[:80]!r}", hakmem("run", "--", name, env={"PATH": path}).status, others.pop())


def case_static(folder):
    for name, flags in (("static", ["-static"]), ("static_pie", ["-static-pie"])):
        path = build(folder, name, "int main(void) { return 0; }", *flags)
        expect_line(hakmem("run", path), 125, path, "statically linked", "libhakmem.a")


def patched(folder, name, witness, offset, replacement):
    """A copy of a program with bytes of its ELF header replaced."""
    path = os.path.join(folder, name)
    shutil.copy(witness, path)
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(replacement)
    return path


def case_other_machine(folder):
    witness = build(folder, "witness", WITNESS)
    bits = patched(folder, "bits", witness, 4, b"\1")
    expect_line(hakmem("run", bits), 125, bits, "32-bit program", "64-bit library")
    other = 183 if os.uname().machine == "x86_64" else 62
    arm = patched(folder, "machine", witness, 18, struct.pack("=H", other))
    expect_line(hakmem("run", arm), 125, arm, "AArch64", "x86-64")
    strange = patched(folder, "strange", witness, 18, struct.pack("=H", 9999))
    expect_line(hakmem("run", strange), 125, strange, "another machine")


def case_damaged(folder):
    """Any cut or altered file is read without a crash. LIBRARY has no malloc, so none is started."""
    def refuse(path, what):
        result = hakmem("run", path)
        if result.status != 125 or result.err.count(b"\n") != 1:
            harness.fail(f"{what}: status {result.status}, {result.last_words()}")

    witness = build(folder, "witness", WITNESS)
    with open(witness, "rb") as file:
        whole = file.read()
    path = os.path.join(folder, "damaged")
    for size in (0, 1, 2, 3, 4, 16, 20, 40, 64, 100, 500, 700, 1000, len(whole) // 2):
        with open(path, "wb") as file:
            file.write(whole[:size])
        os.chmod(path, 0o755)
        refuse(path, f"{size} bytes of a program")
    for place in range(16, 1200, 7):
        refuse(patched(folder, "damaged", witness, place, b"\xff\xff\xff\x7f"),
               f"damage at {place}")


def case_raised_rights(folder):
    """Only root can make such a file, and not in every container; then also what its owner sees."""
    os.chmod(folder, 0o755)
    if os.geteuid() != 0 or not harness.nobody_runs(folder):
        print("left out: no program with raised rights can be made, or none that others may run")
        return
    witness = build(folder, "witness", WITNESS)
    owned = shutil.copy(witness, os.path.join(folder, "owned"))
    os.chown(owned, harness.NOBODY, harness.NOBODY)
    os.chmod(owned, 0o4755)
    if os.statvfs(folder).f_flag & os.ST_NOSUID or harness.gets_no_rights():
        expect_served(folder, owned)
        return
    expect_line(hakmem("run", owned), 125, owned, "is set-user-ID", "ignores LD_PRELOAD")
    os.chown(owned, 0, harness.NOBODY)
    os.chmod(owned, 0o2755)
    expect_line(hakmem("run", owned), 125, owned, "is set-group-ID")
    os.chown(owned, 0, 0)
    os.chmod(owned, stat.S_ISUID | 0o755)
    expect_served(folder, owned)  # root's own rights are not raised


def case_capabilities(folder):
    """A program with file capabilities, started by someone else than root."""
    os.chmod(folder, 0o755)
    if os.geteuid() != 0 or harness.gets_no_rights() or not harness.nobody_runs(folder):
        print("left out: no program with capabilities can be made, or none that others may run")
        return
    witness = build(folder, "witness", WITNESS)
    copies = [shutil.copy(COMMAND, os.path.join(folder, "hakmem")),
              shutil.copy(LIBRARY, os.path.join(folder, "libhakmem.so.1"))]
    # VFS_CAP_REVISION_2, effective; CAP_NET_BIND_SERVICE permitted.
    try:
        os.setxattr(witness, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    except OSError as error:
        print(f"left out: no program has capabilities here: {error}")
        return
    result = subprocess.run([copies[0], "run", witness], capture_output=True, user=harness.NOBODY,
                            group=harness.NOBODY, extra_groups=[], env={}, timeout=60 * harness.PATIENCE, check=False)
    result.status, result.out, result.err = result.returncode, result.stdout, result.stderr
    expect_line(result, 125, witness, "file capabilities")


def case_scripts(folder):
    """The interpreter of a script counts, and what env(1) starts."""
    static = build(folder, "static", "int main(void) { return 0; }", "-static")
    witness = build(folder, "witness", WITNESS)

    def script(name, line):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(line)
        os.chmod(path, 0o755)
        return path

    bad = script("bad", f"#!{static}\n")
    expect_line(hakmem("run", bad), 125, f"{static} (which runs {bad}) is statically linked")
    twice = script("twice", f"#! {bad} argument\n")
    expect_line(hakmem("run", twice), 125, static, f"which runs {twice}", "statically linked")
    by_env = script("by_env", "#!/usr/bin/env static\n")
    expect_line(hakmem("run", by_env, env={"PATH": f"{folder}:/usr/bin:/bin"}), 125,
                f"which runs {by_env}", "statically linked")
    expect_served(folder, script("good", f"#!/bin/sh\nexec {witness}\n"))
    expect_served(folder, script("bare", f"exec {witness}\n"))
    expect_served(folder, script("empty", f"#! \nexec {witness}\n"))
    none, data = script("none", "#!/no/such/program -x\n"), script("data", "")
    os.chmod(data, 0o644)
    expect_line(hakmem("run", none), 127, f"hakmem: run: {none}: its interpreter /no/such/program does not exist")
    expect_line(hakmem("run", script("of_none", f"#!{none}\n")), 127, f" {none}: its interpreter /no/such/program ")
    expect_line(hakmem("run", script("of_data", f"#!{data}\n")), 126, f"its interpreter {data} cannot be executed")
    expect_served(folder, script("env", "#!/usr/bin/env -S A=1 witness\n"),
                  env={"PATH": f"{folder}:/usr/bin:/bin"})


def case_other_allocators(folder):
    """Preloaded or linked in: refused. Merely needed, or a wrapper of libc's: HAKMEM serves it."""
    other = build(folder, "libother.so", ALLOCATOR, "-shared", "-fPIC")
    witness = build(folder, "witness", WITNESS)
    for preload in (other, f"/nowhere/none.so {other}"):
        result = hakmem("run", witness, env={"LD_PRELOAD": preload})
        # The command itself is loaded with that list, and the loader tells of the missing one.
        result.err = b"".join(line for line in result.err.splitlines(True)
                              if not line.startswith(b"ERROR: ld.so"))
        expect_line(result, 125, "LD_PRELOAD", "another allocator", other)
    result = hakmem("run", witness, env={"LD_PRELOAD": "libother.so", "LD_LIBRARY_PATH": folder})
    expect_line(result, 125, "LD_PRELOAD", "another allocator", "libother.so")
    harmless = build(folder, "libharmless.so", "int harmless;", "-shared", "-fPIC")
    expect_served(folder, witness, env={"LD_PRELOAD": harmless})
    expect_served(folder, witness, env={"LD_PRELOAD": LIBRARY})
    linked = build(folder, "linked", WITNESS + ALLOCATOR.replace("#include <stddef.h>", ""),
                   "-rdynamic")
    expect_line(hakmem("run", linked), 125, linked, "an allocator of its own")
    for style in ("gnu", "sysv"):
        wrapper = build(folder, f"wrapper_{style}", WRAPPER, f"-Wl,--hash-style={style}")
        expect_served(folder, wrapper)
    needing = build(folder, "needing", WITNESS, "-Wl,--no-as-needed", other, f"-Wl,-rpath,{folder}")
    expect_served(folder, needing)


def case_other_libc(folder):
    """A loader of another libc is seen by its name; it need not exist."""
    witness = build(folder, "witness", WITNESS, "-Wl,--dynamic-linker=/lib/ld-musl-none.so.1")
    plain = build(folder, "plain", WITNESS)
    result = hakmem("run", plain)
    if result.status != 0:
        harness.fail(f"the witness itself does not run: {result.last_words()}")
    expect_line(hakmem("run", witness), 125, witness, "runs on musl", "built for glibc")


def case_loader(folder):
    """What only the loader knows: a library of the program is missing."""
    other = build(folder, "libgone.so", "int gone;", "-shared", "-fPIC")
    path = build(folder, "needing", WITNESS, "-Wl,--no-as-needed", "-L" + folder, "-lgone",
                 "-Wl,-rpath,$ORIGIN")
    link = os.path.join(folder, "elsewhere", "link")
    os.mkdir(os.path.dirname(link))
    os.symlink(path, link)
    expect_served(folder, path)
    expect_served(folder, link)  # $ORIGIN is where the file lies, not the link
    os.remove(other)
    expect_line(hakmem("run", path), 125, "loader does not start", path, "libgone.so")


def case_place(folder):
    """The library is looked for beside the command and where it is installed; nowhere else."""
    command = shutil.copy(COMMAND, os.path.join(folder, "hakmem"))
    witness = build(folder, "witness", WITNESS)
    result = harness.run([command, "run", witness])
    expect_line(result, 125, "no libhakmem.so.1 beside the command")
    library = shutil.copy(LIBRARY, os.path.join(folder, "libhakmem.so.1"))
    result = harness.run([command, "run", witness])
    expect("beside", result.out.decode().strip(), library)
    blank = os.path.join(folder, "a b")
    os.mkdir(blank)
    for file in (command, library):
        shutil.copy(file, blank)
    expect_line(harness.run([os.path.join(blank, "hakmem"), "run", witness]), 125, "a blank")
    expect_line(harness.run([command, "run", "--debug", witness]), 125, "make debug")


COMPLETIONS = r"""
source "$1"
compopt() { :; }
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _hakmem
    echo "${COMPREPLY[*]}"
}
complete_words hakmem ''
complete_words hakmem options PURGE_
complete_words hakmem run --pro
complete_words hakmem run --profile = LOW
complete_words hakmem run --opt ON_
complete_words hakmem run --opt ON_ERROR = ''
complete_words hakmem run --opt HAKMEM_LIVE =
complete_words hakmem options --from-
complete_words hakmem report -
"""


def case_completion(_):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    result = harness.must_run(["bash", "-c", COMPLETIONS, "bash",
                               os.path.join(root, "tools/hakmem/completion.bash")])
    lines = result.out.decode().splitlines()
    expect("stderr", result.err, b"")
    expect("completions", (lines[0], lines[2:]),
           ("run stat export top explain options compare tune prof report record replay --help --version",
            ["--profile=", "LOWMEM", "ON_ERROR=", "abort report", "0 1",
             "--from-jemalloc --from-mimalloc --from-tcmalloc", "-o --help"]))
    if not {"PURGE_DELAY_MS", "PURGE_THREAD"} <= set(lines[1].split()):
        harness.fail(f"options are completed to {lines[1]}")


def case_lab(folder):
    """compare and tune are the lab's, where there is one; elsewhere a line says where they are."""
    alone = os.path.join(folder, "bin", "hakmem")
    os.mkdir(os.path.dirname(alone))
    shutil.copy(COMMAND, alone)
    beside = os.path.join(os.path.dirname(os.path.realpath(COMMAND)), "..", "..", "scripts", "lab")
    for name, lab in (("prof", "prof"), ("report", "heap_report")):
        result = harness.run([alone, name, "file"])
        expect_line(result, 2, f"{name}: it needs the lab of the sources: `scripts/lab {lab}`")
    for name in ("compare", "tune"):
        result = harness.run([alone, name, "--", "true"])
        expect_line(result, 2, f"{name}: it needs the lab of the sources: `scripts/lab {name}`")
        if not os.path.exists(beside):
            continue
        for words, part in ((["--rounds", "x"], "not a number"), (["--", "/no/such"], "no program")):
            result = hakmem(name, *words)
            text = result.err.decode()
            if result.status != 2 or text.count("\n") != 1 or not text.startswith(f"hakmem {name}: ") or part not in text:
                harness.fail(f"{name} {words}: status {result.status}: {text!r}")
        result = harness.must_run([COMMAND, name, "--help"])
        if b"usage: hakmem " + name.encode() not in result.out:
            harness.fail(f"{name} --help: {result.out[:200]}")


if __name__ == "__main__":
    harness.run_case(globals(), sys.argv[4])
