"""Bad input everywhere: scripts, commands of the lab, benchmark programs, the hakmem command.

Each try is one line on stderr that names the program, the status, and nothing left running. The
table has the fault; what it is tried on comes from the tables of the project itself, so that a new
script, command or program is tried without being named here.
"""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS
from hakmem_lab import front
from hakmem_lab.front import COMMANDS, SCRIPTS, SUITES
from hakmem_lab.paths import ROOT, build_folder
from scripts import MARK, marked

HUGE = "9" * 30
WORDS = ("0", "-1", HUGE, "text", "1e", "0x10", "")  # no number that any of them takes
USAGE = 2
LIMIT = 300  # seconds

# command -> options that take a number
NUMBERS = {
    "bench": ("--rounds", "--seconds", "--minutes"),
    "page": ("--rounds", "--seconds", "--minutes"),
    "run": ("--rounds", "--limit"),
    "tune": ("--rounds", "--limit", "--minutes"),
    "compare": ("--rounds", "--limit", "--minutes"),
}
NUMBERS.update({name: ("-d", "-t", "--rounds", "--timeout") for name in SUITES})
# what else cannot be: (words, a part of the line)
WRONG = [
    ([], "no command"),
    (["paint"], "no command 'paint'"),
    (["report"], "folder"),
    (["report", "/no/such"], "/no/such is not the folder of a run"),
    (["published", "--table", "/no/such"], "--table /no/such: no such file"),
    (["train"], "--library"),
    (["bench", "--rows", "none"], "unknown row 'none'"),
    (["bench", "--size", "tiny"], "invalid choice"),
    (["page", "--rows", ","], "no row"),
    (["tune"], "no program given"),
    (["tune", "--trace", "/no/such"], "No such file"),
    (["tune", "--trace", "/"], "Is a directory"),
    (["tune", "--trace", "/dev/null"], "it is no trace of `hakmem record`"),
    (["tune", "--out", "/dev/full", "--", "true"], "it is not a folder"),
    (["compare", "--out", "/dev/full", "--", "true"], "it is not a folder"),
    (["compare", "--out", "/dev/full/a/b", "--", "true"], "/dev/full is not a folder"),
    (["prof"], "no process or file given"),
    (["heap_report"], "no process or file given"),
    (["heap_report", "/dev/zero"], "/dev/zero is not a file"),
    (["prof", "/dev/zero"], "/dev/zero is not a file"),
    (["prof", "/no/such"], "/no/such: no such file"),
    (["prof", "/proc/self/mem"], "/proc/self/mem cannot be read: Input/output error"),
    (["heap_report", "/proc/self/mem"], "/proc/self/mem cannot be read: Input/output error"),
    (["prof", HUGE], f"there is no process {HUGE}"),
    (["heap_report", "/dev/null"], "/dev/null is not a file"),
    (["heap_report", "/"], "/ is not a file"),
    (["heap_report", "²"], "²: no such file"),
    (["compare"], "no program given"),
    (["compare", "--", "no-such-program"], "there is no program 'no-such-program'"),
    (["compare", "prog"], "unrecognized arguments: prog; the program stands behind --"),
    (["compare", "--alloc", "hakmem,emacs", "--", "true"], "unknown allocator 'emacs'"),
    (["compare", "--alloc", "/no/such.so", "--", "true"], "/no/such.so does not exist"),
    (["page", "--from", "/no/such"], "not the folder of a run"),
    (["perf_report", "a", "b"], "unrecognized"),
    (["larson"], "PROFILE"),
    (["larson", "none"], "none"),
    (["run_larson", "-m", "64", "-M", "8"], "MIN (-m 64) is larger than MAX (-M 8)"),
    (["run_larson", "-p", "walk"], "walk"),
    (["prof_sweep", "-m", "500", "-M", "100"], "MIN (-m 500) is larger than MAX (-M 100)"),
    (["save_prof_sweep", "-m", "2K", "-M", "1K"], "is larger than"),
    (["prof_sweep", "-s", "0"], "0 is not in 1..64"),
    (["prof_sweep", "-m", "1G"], "not a size"),
    (["prof_sweep", "-M", HUGE], "not in"),
    (["run_bench_suite", "--rows", "none"], "unknown row 'none'"),
    (["ab_sweep_mid", "--caps", "8;16"], "no value"),
    (["kill_bench", "--grace", "-1"], "not in"),
]
HAKMEM = [  # the command's own words; `run` has env(1)'s statuses
    ([], 2), (["paint"], 2), (["stat"], 2), (["stat", "1", "2"], 2), (["stat", "--no"], 2),
    (["stat", "/no/such"], 1), (["stat", "/dev/null"], 1), (["stat", "/"], 1), (["stat", HUGE], 1),
    (["top"], 2), (["top", "text"], 2), (["top", HUGE], 2), (["top", "0"], 2), (["top", "-1"], 2),
    (["top", "1", "--interval", "0"], 2), (["top", "1", "--interval", HUGE], 2),
    (["top", "1", "--sort", "none"], 2), (["top", "1", "--sort"], 2), (["explain"], 2),
    (["explain", "--no"], 2), (["explain", "/no/such"], 1), (["options", "NONE"], 2), (["options", "a", "b"], 2),
    (["run"], 125), (["run", "--no"], 125), (["run", "--opt", "X=1", "true"], 125),
    (["run", "--profile=no-such", "true"], 125), (["run", "/no/such"], 127), (["run", "/"], 126),
]  # fmt: skip


@pytest.fixture(scope="module")
def tried():
    """Counts the tries, and says at the end how many there were."""
    count = []
    yield count
    print(f"\nbad input: {len(count)} tries")


@pytest.fixture(scope="module")
def built():
    folder = build_folder()
    if not (folder / "bench_larson").exists():
        pytest.fail(f"{folder} is not built; run 'make' first")
    return folder


def programs():
    """All benchmark programs and helpers, by their sources."""
    names = [path.stem for path in PROGRAMS.glob("bench_*.c")]
    names = [name for name in names if name != "bench_random_mixed"]
    return sorted([*names, "larson", "bench_random_mixed_system", "bench_random_mixed_hakmem",
                   "empty", "whose", "hugewarm", "linedist", "launch"])  # fmt: skip


def start(command, **more):
    """A try that could build or install nothing."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    if "scripts" in Path(command[0]).parts:
        clean["HAKMEM_BENCH_BUILD"] = "/no/such"
    return subprocess.run(
        [str(word) for word in command], stdin=subprocess.DEVNULL, timeout=LIMIT, check=False,
        env={**clean, MARK: "test-bad-input"},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
    )  # fmt: skip


def one_line(tried, command, status, part="", name=None, **more):
    """The try ends with that status and one line that begins with the program's name."""
    done = start(command, **more)
    err = done.stderr.decode()
    tried.append(command)
    where = f"{' '.join(map(str, command))}: status {done.returncode}: {err!r}, {done.stdout!r}"
    assert done.returncode == status and err.count("\n") == 1 and err.endswith("\n"), where
    assert part in err and (name or Path(command[0]).name) in err and not done.stdout, where


def shown(tried, command, part):
    """Help: on stdout, status 0; on a full disk one line and 1, and a reader that is gone is no news."""
    done = start(command)
    where = f"{' '.join(map(str, command))}: {done}"
    assert done.returncode == 0 and part in done.stdout.decode() and not done.stderr, where
    with open("/dev/full", "w") as full:
        done = start(command, stdout=full)
    err = done.stderr.decode()
    assert done.returncode in (1, 127) and "cannot write" in err, f"{where}: {err}"
    assert err.count("\n") == 1, err
    reader, writer = os.pipe()
    os.close(reader)
    done = start(command, stdout=writer)
    os.close(writer)
    assert done.returncode in (1, -13) and not done.stderr, f"{where}, closed pipe: {done}"
    done = start(["sh", "-c", 'exec "$0" "$@" >&-', *command])
    assert done.returncode in (1, 127) and b"cannot write" in done.stderr and done.stderr.count(b"\n") == 1, f"{where}: {done}"
    tried += [command] * 4


def script(name):
    return ROOT / "scripts" / name


def read(capsys, monkeypatch, words, **environment):
    """(status, stdout, stderr) of the lab's reading of a line, in this process: nothing is begun."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        front.read([str(word) for word in words])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def refused(tried, capsys, monkeypatch, words, part="", **environment):
    """One line that names the command, status 2."""
    status, out, err = read(capsys, monkeypatch, words, **environment)
    tried.append(words)
    name = words[0] if words and words[0] in (*COMMANDS, *SUITES) else "lab"
    where = f"{words}, {environment}: {status}, {err!r}, {out!r}"
    assert status == USAGE and err.count("\n") == 1 and not out, where
    assert name in err and part in err, where


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_reads_before_it_builds(tried, name):
    """As a user calls it, where nothing is built: help, and what it does not know."""
    done = start([script(f"{name}.sh"), "-h"])
    assert done.returncode == 0 and b"usage: " in done.stdout and not done.stderr
    words = ["mixed"] if name == "larson" else []
    one_line(tried, [script(f"{name}.sh"), *words, "--no-such-option"], USAGE, "--no-such-option")


HELPERS = ("scripts/install_deps.sh", "scripts/jobs.sh", "scripts/guides.py", "scripts/site.py", "tests/install_deps.sh",
           "tests/run.sh", "tests/fuzz/run.sh", "tests/changed.py")  # fmt: skip


@pytest.mark.parametrize("name", HELPERS)
def test_helpers_explain_themselves_and_do_nothing_else(tried, tmp_path, name):
    """Nothing is installed, started or written, least of all a folder of the name -h."""
    command = [ROOT / name, "-h"]
    done = start(command if name.endswith(".sh") else ["python3", *command], cwd=tmp_path)
    tried.append(name)
    assert done.returncode in (1, 2) and done.stderr.count(b"\n") > 1 and not done.stdout
    assert not list(tmp_path.iterdir())


def test_names_of_allocators_need_no_package(tried):
    command = [script("lab"), "compare", "--alloc", "emacs", "--", "true"]
    one_line(tried, command, USAGE, "unknown allocator 'emacs'")


@pytest.mark.parametrize("words", [["-h"], ["bench", "--list"], ["prof_sweep", "-h"]])
def test_output_of_the_lab_that_cannot_be_written(tried, words):
    shown(tried, [script("lab"), *words], "" if "--list" in words else "usage: ")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_explains_itself(tried, capsys, monkeypatch, flag):
    for name in (*COMMANDS, *SUITES):
        status, out, err = read(capsys, monkeypatch, [name, flag])
        tried.append(name)
        assert status == 0 and out.startswith("usage: ") and not err


def test_every_command_refuses_an_unknown_option(tried, capsys, monkeypatch):
    for name in (*COMMANDS, *SUITES):
        words = {"larson": ["mixed"], "report": ["x"], "train": ["--library", "x"]}.get(name, [])
        refused(tried, capsys, monkeypatch, [name, *words, "--no-such-option"], "--no-such-option")


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_of_a_command_has_a_range(tried, capsys, monkeypatch, name):
    words = ["mixed"] if name == "larson" else []
    for option in NUMBERS[name]:
        for word in WORDS:
            refused(tried, capsys, monkeypatch, [name, *words, f"{option}={word}" if option[1] == "-"
                    else f"{option}{word or ' '}"], option)  # fmt: skip


@pytest.mark.parametrize("words, part", WRONG)
def test_what_cannot_be_is_one_line(tried, capsys, monkeypatch, words, part):
    refused(tried, capsys, monkeypatch, words, part)


@pytest.mark.parametrize("variable", ["RUNTIME", "THREADS", "ROUNDS", "BENCH_TIMEOUT", "KILL_GRACE"])
def test_the_environment_is_read_as_options_are(tried, capsys, monkeypatch, variable):
    for word in ("text", "-1", HUGE):
        for name in SUITES:
            words = ["mixed"] if name == "larson" else []
            refused(tried, capsys, monkeypatch, [name, *words], **{variable: word})


@pytest.mark.parametrize("name", programs())
def test_every_program_explains_itself_and_refuses(tried, built, name):
    program = built / name
    for flag in ("-h", "--help")[: 1 if name == "launch" else 2]:
        shown(tried, [program, flag], "usage: ")
    first = {"bench_scenario": ["json"], "bench_frag": ["phase"]}.get(name, [])
    if name == "launch":
        for words in ([], ["-z"], ["-t"], ["-t", "-1", "true"], ["-g", "text", "true"],
                      ["-j", "99", "true"], ["/no/such"], ["-t", HUGE, "true"]):  # fmt: skip
            one_line(tried, [program, *words], 127)
        return
    for word in ("-1", HUGE, "text", "1x", "", "--no-such-option"):
        one_line(tried, [program, *first, word], USAGE, name="" if first else name)
    one_line(tried, [program, *first, *["2"] * 9], USAGE, name="" if first else name)
    if first:
        one_line(tried, [program], USAGE)
        one_line(tried, [program, "none"], USAGE)


@pytest.mark.parametrize(
    "words",
    [["bench_random_mixed_system", "1", "1", "1", "9", "8"], ["larson", "1", "9", "8"],
     ["bench_large", "1", "70000", "65536"], ["bench_aligned", "10", "10", "64", "16"]],
)  # fmt: skip
def test_swapped_bounds_of_a_program(tried, built, words):
    one_line(tried, [built / words[0], *words[1:]], USAGE, "larger than")


@pytest.mark.parametrize(
    "words", [["larson", "0.01"], ["bench_bulk", "10", "8", "0", "1"], ["bench_startup", "1"],
              ["bench_random_mixed_hakmem", "100"], ["whose"], ["linedist", "0", "0", "21"]],
)  # fmt: skip
def test_a_result_that_cannot_be_written_is_a_failure(tried, built, words):
    with open("/dev/full", "w") as full:
        done = start([built / words[0], *words[1:]], stdout=full)
    tried.append(words)
    assert done.returncode == 1 and b"cannot write the result: No space" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_run_without_arguments_says_what_it_is(tried, built):
    process = subprocess.Popen([built / "larson"], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    tried.append("larson")
    assert line.startswith("larson: runs with seconds 5 min 8 max 1000") and "-h explains" in line


@pytest.mark.parametrize("words, status", HAKMEM)
def test_the_hakmem_command(tried, built, words, status):
    one_line(tried, [built / "hakmem", *words], status)


@pytest.mark.parametrize("name", ["run", "stat", "top", "explain", "options", ""])
def test_the_hakmem_command_explains_itself(tried, built, name):
    for flag in ("-h", "--help"):
        shown(tried, [built / "hakmem", *filter(None, [name]), flag], "Usage: ")


@pytest.mark.parametrize("words", [["options"], ["options", "LIMIT"], ["--version"]])
def test_output_of_the_hakmem_command_that_cannot_be_written(tried, built, words):
    with open("/dev/full", "w") as full:
        done = start([built / "hakmem", *words], stdout=full)
    tried.append(words)
    assert done.returncode == 1 and b"cannot write the output: No space" in done.stderr


@pytest.mark.parametrize("goal", [["bench-report", "FROM=/no/such"], ["bench-report", "FROM=/dev"]])
def test_make_reads_before_it_builds(tried, goal):
    """One line; the rest of make's is not ours."""
    done = start(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", "-C", ROOT,
                  "--no-print-directory", *goal])  # fmt: skip
    tried.append(goal)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and not done.stdout
    assert b"bench-report: FROM=" in done.stderr and b"hakmem_lab" not in done.stderr


def test_nothing_of_these_tries_is_left(tried, request):
    assert not marked("test-bad-input")
    here = [item for item in request.session.items if item.path == request.path]
    assert len(tried) > 900 or len(here) < 100  # not when somebody has chosen some of them
