"""What the Python tests share: bounded runs, one failure line, HAKMEM by preload."""

import ctypes
import glob
import os
import resource
import signal
import shutil
import subprocess
import sys
import tempfile

# Bounds on time find what hangs. They are said for an idle machine, and so many times as long are given, as
# in check.h and tests.cmake.
PATIENCE = 4
NOBODY = 65534  # the number of a user without rights


def have_huge_pages_when_asked():
    """As in check.c: where the system makes them unasked, tests have those that the engine asks for, or none."""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
            makes_unasked = "[always]" in file.read()
    except OSError:
        return
    prctl, set_disable, except_advised = ctypes.CDLL(None).prctl, 41, 2
    if makes_unasked and prctl(set_disable, 1, except_advised, 0, 0) != 0:
        prctl(set_disable, 1, 0, 0, 0)


have_huge_pages_when_asked()


def fail(text):
    """Ends the test with one line that says what is wrong."""
    print(f"FAIL: {text}", file=sys.stderr)
    sys.exit(1)


class Result:
    """How a program ended: status as of subprocess, and its two outputs as bytes."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    def last_words(self):
        """The end of stderr, for a failure line."""
        return self.err.decode(errors="replace").strip()[-300:]


def where(pid):
    """What each thread of a process does: its state and, if it waits, the number and words of its system call."""
    threads = []
    for task in sorted(glob.glob(f"/proc/{pid}/task/*")):
        try:
            with open(f"{task}/stat", encoding="ascii") as stat, open(f"{task}/syscall", encoding="ascii") as call:
                threads.append(f"{os.path.basename(task)} {stat.read().rpartition(') ')[2][0]} {call.read().strip()}")
        except OSError:
            continue
    return "; ".join(threads)


def run(argv, *, seconds=60, env=None, cwd=None, stdin=b"", address_space=None, what=""):
    """Runs a program to its end. Past its time, times PATIENCE, the whole process group is killed, and that fails.

    env holds additions to the environment (None removes a name); address_space is a limit in bytes; what
    tells this run from others of the program.
    """
    environment = dict(os.environ)
    for name, value in (env or {}).items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value

    def limit():
        if address_space:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    try:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment, cwd=cwd,
                                   start_new_session=True, preexec_fn=limit)
    except FileNotFoundError:
        fail(f"{argv[0]} is missing; tests/install_deps.sh installs what the tests need")
    try:
        out, err = process.communicate(stdin, timeout=seconds * PATIENCE)
    except subprocess.TimeoutExpired:
        fail(f"{' '.join(argv)}: still running after {seconds} s; {what} {where(process.pid)}")
    finally:
        # Also a program that ended may have left children behind.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return Result(process.returncode, out, err)


def must_run(argv, **options):
    """The same, and anything but exit status 0 fails the test."""
    result = run(argv, **options)
    if result.status != 0:
        fail(f"{' '.join(argv)}: status {result.status}: {result.last_words()}")
    return result


def real_python():
    """The interpreter itself; a shim or wrapper would hide what is measured."""
    return os.path.realpath(sys.executable)


def nobody_runs(path):
    """May this process become nobody, and nobody run what lies there? Not in every container, and not below a folder
    that is its owner's alone."""
    try:
        return subprocess.run(["test", "-x", path], user=NOBODY, group=NOBODY, extra_groups=[],
                              check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def gets_no_rights():
    """Do programs get no rights beyond those of who starts them? Some containers want that (PR_GET_NO_NEW_PRIVS)."""
    return ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 1


def skip_untraced():
    """Ends the test as skipped where no process may trace another, as debuggers do: some filters of containers."""
    pid = os.fork()
    if pid == 0:
        os._exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)  # PTRACE_TRACEME
    if os.waitpid(pid, 0)[1] != 0:
        print("skipped: a process may not trace another here")
        sys.exit(77)


def reads_memory():
    """May a process read another's memory, or its own by that call?"""
    word, copy = ctypes.c_long(1), ctypes.c_long(0)
    local, remote = ((ctypes.c_size_t * 2)(ctypes.addressof(value), 8) for value in (copy, word))
    return ctypes.CDLL(None).process_vm_readv(os.getpid(), local, ctypes.c_ulong(1), remote, ctypes.c_ulong(1),
                                              ctypes.c_ulong(0)) == 8


def need(*programs):
    """Ends the test as skipped, with the reason, where one of the programs is missing."""
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        print(f"skipped: there is no {', '.join(missing)}")
        sys.exit(77)


def run_case(cases, name):
    """Runs the function case_NAME of a test's namespace with an empty folder, which is removed after it."""
    with tempfile.TemporaryDirectory(prefix="hakmem-test-") as folder:
        cases[f"case_{name}"](folder)
    print(f"{name}: as it must be")
