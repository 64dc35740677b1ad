"""The suites of suites.py: for each its parts, how one is run, and how its output is read.

Tests come from the distribution's source packages and run the installed programs, except sqlite's: its test
program is built from the sources. What is downloaded and built stays in a folder, for the next run.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness  # noqa: E402

SECONDS = 600  # of a part
# What takes very long, needs a network or a screen, or is about one allocator.
PYTHON_LEFT_OUT = {"test_tools", "test_peg_generator", "test_tkinter", "test_ttk_guionly", "test_idle",
                   "test_gdb", "test_asyncio", "test_multiprocessing_spawn", "test_concurrent_futures",
                   "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_lib2to3",
                   "test_embed", "test_distutils", "test_ensurepip", "test_venv"}
STRESSORS = ("malloc", "bsearch", "qsort", "heapsort", "mergesort", "radixsort", "tree", "skiplist", "list",
             "hsearch", "judy", "str", "wcs", "zlib", "sparsematrix", "matrix", "shellsort", "tsearch")
REDIS_UNITS = ("dump", "auth", "protocol", "keyspace", "scan", "info", "type/string", "type/incr",
               "type/list", "type/list-2", "type/list-3", "type/set", "type/zset", "type/hash", "type/stream",
               "sort", "expire", "other", "multi", "quit", "aofrw", "pubsub", "slowlog", "scripting",
               "introspection", "limits", "obuf-limits", "bitops", "bitfield", "geo", "memefficiency",
               "hyperloglog", "lazyfree", "pendingquerybuf", "querybuf", "tracking", "functions", "maxmemory")
# Those about memory first: each request of a statement fails once in the malloc tests.
SQLITE_TESTS = ("malloc", "malloc3", "malloc5", "mallocA", "mallocK", "fts3malloc", "fkey_malloc", "memsubsys1",
                "memsubsys2", "mem5", "memdb", "softheap1", "zeroblob", "bigrow", "blob", "select1", "select4",
                "join", "where", "index", "insert", "update", "delete", "trans", "savepoint", "trigger1", "view",
                "collate1", "expr", "func", "date", "in", "subquery", "vacuum", "wal", "thread001", "thread003",
                "fts3aa", "rtree", "json101", "window1", "with1")
GIT_TESTS = ("t0000", "t0001", "t0002", "t0027", "t0050", "t0061", "t1000", "t1050", "t1300", "t1400", "t3200",
             "t3400", "t3404", "t3600", "t3700", "t3900", "t4000", "t4015", "t4100", "t4202", "t4205", "t5000",
             "t5300", "t5302", "t5310", "t5500", "t5510", "t6000", "t6300", "t6400", "t7004", "t7400", "t7500",
             "t7800", "t9300")
RUBY_TESTS = ("array", "hash", "string", "symbol", "struct", "bignum", "integer", "float", "rational", "complex",
              "range", "enum", "enumerator", "lazy_enumerator", "regexp", "pack", "marshal", "gc", "gc_compact",
              "objectspace", "weakmap", "thread", "thread_queue", "thread_cv", "fiber", "continuation", "proc",
              "method", "module", "class", "exception", "io", "io_buffer", "file", "dir", "process", "signal",
              "sprintf", "transcode", "encoding", "m17n", "parse", "eval", "iseq", "require", "vm_dump",
              "rubyoptions", "stack", "memory_view", "time", "sleep")
# Folders of perl's core tests; each file is a part.
PERL_FOLDERS = ("base", "cmd", "comp", "io", "mro", "op", "opbasic", "re", "uni", "class")
PERL_LEFT_OUT = {"op/alarm.t", "op/dump.t", "op/taint.t", "op/time_loop.t", "re/uniprops", "re/speed.t"}
JAVA_PARTS = {
    "start": ["-Xshare:off", "-version"], "interpreter": ["-Xint"], "C1": ["-XX:TieredStopAtLevel=1"],
    "C2": ["-XX:-TieredCompilation"], "serial": ["-XX:+UseSerialGC"], "parallel": ["-XX:+UseParallelGC"],
    "G1": ["-XX:+UseG1GC"], "Z": ["-XX:+UseZGC"], "Shenandoah": ["-XX:+UseShenandoahGC"],
    "verify": ["-XX:+UnlockDiagnosticVMOptions", "-XX:+VerifyBeforeGC", "-XX:+VerifyAfterGC"],
    "native memory": ["-XX:NativeMemoryTracking=detail"], "checked calls": ["-Xcheck:jni"],
}


@dataclass
class Suite:
    program: object  # seen by the witness: the start of its name, or several
    version: list  # command
    parts: Callable  # folder that is kept -> names
    command: Callable  # part, folder that is kept -> words; they run in an empty folder
    read: Callable  # status, output -> {test: good}
    seconds: int = SECONDS  # of a part


def lines_of(argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, check=True, **options).stdout.splitlines()


def by_result(pairs, **others):
    """{test: good} of (name, good) pairs: a name that comes twice is good twice."""
    tests = dict(others)
    for name, good in pairs:
        tests[name] = tests.get(name, True) and good
    return tests


EXPECTED = re.compile(r"#\s*todo\b", re.I)


def read_tap(status, output):
    """Test Anything Protocol; a failure that is expected is none."""
    found = re.findall(r"^(ok|not ok) (\d+)(.*)$", output, re.M)
    return by_result(((f"{number}{text.split('#')[0]}", word == "ok" or bool(EXPECTED.search(text)))
                      for word, number, text in found), file=status == 0)


# ---- Sources ----

def debian_source(package, folder):
    """The sources of the distribution's package, downloaded and unpacked; None without them."""
    place = f"{folder}/{package}"
    if os.path.exists(f"{place}/unpacked"):
        return f"{place}/unpacked"
    release = open("/etc/os-release", encoding="utf-8").read()
    codename = re.search(r"^VERSION_CODENAME=(\w+)", release, re.M)
    if not codename or not shutil.which("apt-get") or not shutil.which("dpkg-source"):
        return None
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(f"{place}/lists/partial")
    with open(f"{place}/source.list", "w", encoding="ascii") as to:
        to.write(f"deb-src http://deb.debian.org/debian {codename[1]} main\n")
    options = ["-q", "-o", f"Dir::Etc::SourceList={place}/source.list", "-o", "Dir::Etc::SourceParts=-",
               "-o", f"Dir::State::Lists={place}/lists"]
    for words in (["update"], ["source", package]):
        if subprocess.run(["apt-get", *options, *words], cwd=place, capture_output=True,
                          timeout=300, check=False).returncode != 0:
            return None
    found = [name for name in os.listdir(place) if os.path.isdir(f"{place}/{name}/debian")]
    if not found:
        return None
    os.rename(f"{place}/{found[0]}", f"{place}/unpacked")
    return f"{place}/unpacked"


def build(result, commands):
    """Runs shell commands that make the file `result`, unless it is there; false where one fails."""
    if os.path.exists(result):
        return True
    for words in commands:
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{words}: {done.stderr[-500:]}")
            return False
    return os.path.exists(result)


# ---- CPython ----

def python_parts(_folder):
    names = lines_of([harness.real_python(), "-m", "test", "--list-tests"])
    return [name for name in names if name not in PYTHON_LEFT_OUT]


def python_command(part, _folder):
    return ["sh", "-c", 'exec "$@" --tempdir "$PWD" "$0"', part, harness.real_python(), "-m", "test", "-v",
            "--timeout", str(SECONDS - 50)]


def python_read(status, output):
    """Each test of the module; the module itself by its status; 4: nothing to run here."""
    found = re.findall(r"^(\S+ \([\w.]+\)).* \.\.\. (ok|FAIL|ERROR)$", output, re.M)
    return by_result(((name, result == "ok") for name, result in found), module=status in (0, 4))


# ---- redis ----

def redis_parts(folder):
    """The tests of the source package, on the programs that are installed."""
    source = debian_source("redis", folder) if shutil.which("tclsh") else None
    if not source:
        return []
    for name in ("redis-server", "redis-cli", "redis-benchmark", "redis-sentinel", "redis-check-aof",
                 "redis-check-rdb"):
        if not os.path.lexists(f"{source}/src/{name}"):
            os.symlink(shutil.which(name) or "/usr/bin/redis-server", f"{source}/src/{name}")
    return [unit for unit in REDIS_UNITS if os.path.exists(f"{source}/tests/unit/{unit}.tcl")]


def redis_command(part, folder):
    port = 21111 + os.getpid() % 200 * 100  # two runs do not meet
    return ["sh", "-c", f"cd {folder}/redis/unpacked && exec tclsh tests/test_helper.tcl --clients 1 "
                        f"--baseport {port} --single unit/{part}"]


def redis_read(status, output):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    found = re.findall(r"^\[(ok|err|exception)\]: (.*?)(?: \(\d+ ms\))?$", plain, re.M)
    return by_result(((name, result == "ok") for result, name in found), unit=status == 0)


# ---- stress-ng ----

def stress_command(part, _folder):
    return ["sh", "-c", f'exec stress-ng --{part} 2 --{part}-ops 200 --verify --timeout 4 --temp-path "$PWD"']


# ---- sqlite ----

def sqlite_parts(folder):
    source = debian_source("sqlite3", folder)
    tcl = sorted(glob.glob("/usr/lib/tcl8*/tclConfig.sh"))
    if not source or not tcl:
        return []
    made = f"{source}/made"
    if not build(f"{made}/testfixture", [
            f"mkdir -p {made} && cd {made} && ../configure --disable-shared --enable-all CFLAGS=-O1 "
            f"--with-tcl={os.path.dirname(tcl[-1])}", f"make -C {made} testfixture"]):
        return []
    return [name for name in SQLITE_TESTS if os.path.exists(f"{source}/test/{name}.test")]


def sqlite_command(part, folder):
    source = f"{folder}/sqlite3/unpacked"
    return [f"{source}/made/testfixture", f"{source}/test/{part}.test"]


def sqlite_read(status, output):
    """A test that fails has lines that begin with "!"."""
    good = re.findall(r"^(\S+)\.\.\. Ok$", output, re.M)
    bad = re.findall(r"^! (\S+) (?:expected|got)", output, re.M)
    return by_result([(name, True) for name in good] + [(name, False) for name in bad], file=status == 0)


# ---- git ----

def git_parts(folder):
    """The tests of the source package, on the installed git; their helper program is built."""
    source = debian_source("git", folder)
    without = " ".join(f"NO_{what}=1" for what in ("CURL", "EXPAT", "GETTEXT", "OPENSSL", "TCLTK"))
    if not source or not build(f"{source}/t/helper/test-tool", [
            f"make -C {source}/templates SHELL_PATH=/bin/sh PERL_PATH=$(which perl)",
            f"make -C {source} -j2 CFLAGS=-O0 {without} GIT-BUILD-OPTIONS t/helper/test-tool"]):
        return []
    names = sorted(os.path.basename(path)[:-3] for path in glob.glob(f"{source}/t/t[0-9]*.sh"))
    return [name for name in names if name.split("-")[0] in GIT_TESTS]


def git_command(part, folder):
    place = os.path.dirname(shutil.which("git"))
    return ["sh", "-c", f'export TEST_OUTPUT_DIRECTORY="$PWD" GIT_TEST_INSTALLED={place}; '
                        f'cd {folder}/git/unpacked/t && exec sh ./{part}.sh --root="$TEST_OUTPUT_DIRECTORY"']


# ---- perl ----

def perl_parts(folder):
    """The core's tests: they look for the library in ../lib, which here has the installed one."""
    source = debian_source("perl", folder)
    if not source:
        return []
    if not os.path.lexists(f"{source}/t/perl"):
        os.rename(f"{source}/lib", f"{source}/lib.of.sources")
        os.mkdir(f"{source}/lib")
        version = lines_of(["perl", "-e", "print $^V =~ s/^v//r"])[0]
        folders = [path for base in ("/usr/lib/*/perl", "/usr/share/perl") for path in glob.glob(f"{base}/{version}")]
        for path in [*folders, *glob.glob("/usr/lib/*/perl-base"), f"{source}/lib.of.sources"]:
            subprocess.run(["cp", "-rsn", f"{path}/.", f"{source}/lib/"], capture_output=True, check=False)
        os.symlink(shutil.which("perl"), f"{source}/t/perl")
    names = [f"{name}/{os.path.basename(path)}" for name in PERL_FOLDERS
             for path in sorted(glob.glob(f"{source}/t/{name}/*.t"))]
    return [name for name in names if not any(name.startswith(out) for out in PERL_LEFT_OUT)]


def perl_command(part, folder):
    return ["sh", "-c", f"cd {folder}/perl/unpacked/t && PERL_CORE=1 exec ./perl {part}"]


# ---- ruby ----

def ruby_package():
    return "ruby" + ".".join(lines_of(["ruby", "-e", "puts RUBY_VERSION"])[0].split(".")[:2])


def ruby_parts(folder):
    source = debian_source(ruby_package(), folder)
    return [name for name in RUBY_TESTS if source and os.path.exists(f"{source}/test/ruby/test_{name}.rb")]


def ruby_command(part, folder):
    source = f"{folder}/{ruby_package()}/unpacked"
    return ["ruby", f"{source}/tool/test/runner.rb", f"--ruby={shutil.which('ruby')}", "-v",
            "--test-order=alpha", f"{source}/test/ruby/test_{part}.rb"]


def ruby_read(status, output):
    run = re.findall(r"^\[ *\d+/\d+\] (\S+#\S+)", output, re.M)
    bad = re.findall(r"^ +\d+\) (?:Failure|Error):\n(\w+#[^\s:\[]+)", output, re.M)
    return by_result([(name, True) for name in run] + [(name, False) for name in bad], file=status == 0)


# ---- PostgreSQL ----

def postgres_folders():
    """Of the server's programs, and of the program that runs its tests."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found:
        return None, None, None
    programs = os.path.dirname(found[-1])
    base = os.path.dirname(programs)
    return programs, f"{base}/lib/pgxs/src/test/regress/pg_regress", os.path.basename(base)


def postgres_parts(folder):
    """The regression tests of the source package; the server's headers are taken out of its package."""
    programs, runner, version = postgres_folders()
    source = debian_source(f"postgresql-{version}", folder) if programs and os.path.exists(runner) else None
    if not source or not shutil.which("setpriv"):
        return []
    tests, headers = f"{source}/src/test/regress", f"{folder}/postgresql-{version}/headers"
    include = f"{headers}/usr/include/postgresql"
    # The package that has the headers also when it is no longer the newest one.
    exact = lines_of(["dpkg-query", "-W", "-f", "${Version}\n", f"postgresql-{version}"])[0]
    package = f"postgresql-server-dev-{version}"
    if not build(f"{tests}/regress.so", [
            f"mkdir -p {headers} && cd {headers} && (apt-get download {package}={exact} || apt-get download {package})"
            f" && dpkg-deb -x {package}_*.deb .",
            f"gcc -O1 -fPIC -shared -I{include}/{version}/server -I{include} -I/usr/include/postgresql "
            f"-o {tests}/regress.so {tests}/regress.c"]):
        return []
    return ["parallel_schedule"]


def postgres_command(part, folder):
    """As a user that is not root, whom the server refuses."""
    programs, runner, version = postgres_folders()
    tests = f"{folder}/postgresql-{version}/unpacked/src/test/regress"
    other = "setpriv --reuid=nobody --regid=nogroup --clear-groups" if os.getuid() == 0 else ""
    port = 24000 + os.getpid() % 9000
    return ["sh", "-c", f'chmod 777 "$PWD"; exec {other} {runner} --bindir={programs} --inputdir={tests} '
                        f'--dlpath={tests} --temp-instance="$PWD/instance" --outputdir="$PWD" --encoding=UTF8 '
                        f'--no-locale --max-connections=5 --port={port} --schedule={tests}/{part}']


def postgres_read(status, output):
    found = re.findall(r"^(?:test|    ) *(\S+) +\.\.\. (ok|FAILED|failed \(ignored\))", output, re.M)
    return by_result(((name, result == "ok") for name, result in found), schedule=status == 0)


# ---- OpenJDK ----

def java_parts(folder):
    made = f"{folder}/java"
    os.makedirs(made, exist_ok=True)
    if not shutil.which("javac") or not build(f"{made}/Collect.class", [f"javac -d {made} {HERE}/inputs/Collect.java"]):
        return []
    return list(JAVA_PARTS)


def java_command(part, folder):
    words = ["java", "-Xmx96m", *JAVA_PARTS[part]]
    return words if "-version" in words else [*words, "-cp", f"{folder}/java", "Collect"]


def java_read(status, output):
    found = re.findall(r"^(\w+) (right|wrong)$", output, re.M)
    return by_result(((name, result == "right") for name, result in found), end=status == 0)


SUITES = {
    "CPython": Suite("python", [harness.real_python(), "-V"], python_parts, python_command, python_read),
    # In Debian redis-server is a link.
    "redis": Suite(("redis-server", "redis-check-rdb"), ["redis-server", "--version"], redis_parts, redis_command,
                   redis_read),
    "sqlite": Suite("testfixture", ["sqlite3", "--version"], sqlite_parts, sqlite_command, sqlite_read),
    "git": Suite("git", ["git", "--version"], git_parts, git_command, read_tap),
    "perl": Suite("perl", ["perl", "-e", "print qq(perl $^V\n)"], perl_parts, perl_command, read_tap),
    "ruby": Suite("ruby", ["ruby", "--version"], ruby_parts, ruby_command, ruby_read),
    "PostgreSQL": Suite("postgres", ["psql", "--version"], postgres_parts, postgres_command, postgres_read, 1800),
    "OpenJDK": Suite("java", ["java", "--version"], java_parts, java_command, java_read),
    "stress-ng": Suite("stress-ng", ["stress-ng", "--version"], lambda _folder: list(STRESSORS),
                       stress_command, lambda status, _output: {"verified": status == 0}),
}
