"""Real programs while the system refuses what the engine asks of it.

    os_programs.py LIBRARY CALLS PROGRAMS EVERY

CALLS is os_calls.c as a library. Of the first so many PROGRAMS of the table every so manieth call of the
engine fails, alone, with all that follow, and at random, with five errors by turns. A program either prints
what it prints elsewhere, or says that it has no memory and ends: no crash, no diagnosis, no wrong output.
Perl is not among them: without memory for its message about that it calls itself until its stack ends.
"""

import errno
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

ERRORS = (errno.ENOMEM, errno.EPERM, errno.EAGAIN, errno.EINVAL, errno.ENOSYS)
HOWS = 3  # enum os_how

PYTHON_SECONDS = 20
PYTHON_WORK = f"""
import faulthandler, os, sys, threading
faulthandler.dump_traceback_later({PYTHON_SECONDS}, exit=True)
def end_without_memory(args):
    if issubclass(args.exc_type, MemoryError): os._exit({errno.ENOMEM})
    threading.__excepthook__(args)
threading.excepthook = end_without_memory
t = threading.Thread(target=lambda: print(len(str(list(range(30000))))))
t.start(); t.join(); print(len(bytearray(3 << 20)), sum(map(len, map(str, range(9999)))))
"""
SQL_WORK = "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where " \
           "i < 8000) insert into t select i, hex(i * i) from n; create index k on t(b); " \
           "select count(*), sum(length(b)) from t where b > '4'; select length(zeroblob(2000000));"
LUA_WORK = 'local t = {} for i = 1, 20000 do t[i] = {tostring(i)} end print(#t, #string.rep("z", 2000000))'
PROGRAMS = (
    ("sqlite3", ["sqlite3", ":memory:", SQL_WORK]),
    ("lua", ["lua5.4", "-e", LUA_WORK]),
    ("sort", ["sort", "-R", "--random-source=/bin/sh", "-S", "4M", "/etc/services"]),
    ("git", ["git", "-c", "core.pager=cat", "--version", "--build-options"]),
    ("python3", ["{python}", "-S", "-c", PYTHON_WORK]),
)


def run(command, library, calls, extra):
    environment = {"LD_PRELOAD": f"{calls}:{library}", "PYTHONMALLOC": "malloc", "LC_ALL": "C", **extra}
    return harness.run(command, seconds=40, env=environment, what=str(extra))


def ends_well(result, right):
    """The right output, or a refusal."""
    if b"hakmem:" in result.err or result.status is None:
        return False
    if result.status == 0:
        return result.out == right.out
    if b"Timeout (" in result.err:
        # CPython waits for ever for a thread that has no memory for its first steps.
        return b" in start" in result.err
    return result.status > 0 or result.status == -signal.SIGABRT


def try_program(name, command, library, calls, every):
    """Returns the calls of one program, and the runs that it did."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "count")
        right = run(command, library, calls, {"TEST_OS_COUNT_FILE": path})
        if right.status != 0:
            harness.fail(f"{name} fails where no call fails: {right.last_words()}")
        with open(path, encoding="ascii") as file:
            count = int(file.read())
    if count < 10:
        harness.fail(f"{name}: only {count} calls were seen, the library {calls} is not at work")
    refused = done = 0
    for step, at in enumerate(range(1, count + 1, every)):
        how, error = step % HOWS, ERRORS[step // HOWS % len(ERRORS)]
        plan = f"{at} {how} {error}"
        result = run(command, library, calls, {"TEST_OS_PLAN": plan})
        if not ends_well(result, right):
            harness.fail(f"{name}, plan \"{plan}\": status {result.status}, {result.last_words()}")
        refused += result.status != 0
        done += 1
    print(f"{name}: {count} calls, {done} runs, {refused} ended for want of memory, the others are right")
    return count, done


def main():
    library, calls = map(os.path.realpath, sys.argv[1:3])
    rows = PROGRAMS[:int(sys.argv[3])]
    totals = [0, 0]
    for name, command in rows:
        command = [word.format(python=harness.real_python()) if word == "{python}" else word
                   for word in command]
        for i, more in enumerate(try_program(name, command, library, calls, int(sys.argv[4]))):
            totals[i] += more
    print(f"{len(rows)} programs, {totals[0]} indices, {totals[1]} runs, all survived")


if __name__ == "__main__":
    main()
