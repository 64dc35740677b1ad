"""Time-outs, clean-up and the figures of the launcher."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from hakmem_lab.errors import LabError
from hakmem_lab.launch import Launcher
from scripts import wait_until


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_figures_and_output(launcher):
    outcome = launcher.run([sys.executable, "-c", "print('x' * 100000); b'1' * 30_000_000"])
    assert outcome.good
    assert outcome.stdout == b"x" * 100000 + b"\n"
    cost = outcome.cost
    assert cost["exit"] == 0 and cost["signal"] == 0
    assert cost["wall_s"] > 0 and cost["user_s"] + cost["sys_s"] > 0
    assert cost["minor_faults"] > 100 and cost["max_rss_kb"] > 30_000


def test_a_large_parent_does_not_leak_into_the_childs_rss(launcher, build):
    ballast = bytearray(100 << 20)
    outcome = launcher.run([build / "empty"])
    assert outcome.cost["max_rss_kb"] < 20_000
    del ballast


def test_exit_status_and_signal_are_reported(launcher):
    failed = launcher.run(["sh", "-c", "echo oops >&2; exit 3"])
    assert not failed.good and failed.reason() == "exit status 3: oops"
    killed = launcher.run(["sh", "-c", "kill -SEGV $$"])
    assert not killed.good and "SIGSEGV" in killed.reason()


def run_too_long(launcher, note, script):
    """What becomes of a script that outlives its time limit. It gets more time, if it has not come as
    far as to write the note: on a busy machine a process may be seconds old before it does anything."""
    for limit in (0.2, 2, 20, 100):
        outcome = launcher.run(["sh", "-c", script], limit=limit)
        if note.is_file() and note.read_text().endswith("\n"):
            note.rename(note.with_suffix(".read"))
            return outcome
    raise AssertionError(f"after {limit} s there is no note: {outcome}")


def test_time_limit_ends_the_whole_group(launcher, tmp_path):
    note = tmp_path / "pid"
    outcome = run_too_long(launcher, note, f"sleep 600 & echo $! > {note}; wait")
    note = note.with_suffix(".read")
    assert outcome.cost["timed_out"] and not outcome.good
    assert "time limit" in outcome.reason()
    assert wait_until(lambda: gone(int(note.read_text())))


def test_a_command_that_ignores_term_is_killed(launcher, tmp_path):
    note = tmp_path / "note"
    deaf = f"trap '' TERM; echo > {note}; while :; do sleep 0.1; done"
    outcome = run_too_long(launcher, note, deaf)
    assert outcome.cost["timed_out"] and outcome.cost["signal"] == signal.SIGKILL


def test_what_a_command_leaves_behind_is_killed(launcher, tmp_path):
    note = tmp_path / "pid"
    outcome = launcher.run(["sh", "-c", f"sleep 600 & echo $! > {note}"])
    assert outcome.good
    assert wait_until(lambda: gone(int(note.read_text())))


def test_the_grace_between_term_and_kill(build, tmp_path):
    patient, note = Launcher(build / "launch", grace=100), tmp_path / "note"
    slow = f"trap 'sleep 0.5; exit 9' TERM; echo > {note}; while :; do sleep 0.1; done"
    outcome = run_too_long(patient, note, slow)
    assert outcome.cost["timed_out"] and outcome.cost["exit"] == 9
    hasty = Launcher(build / "launch", grace=0)
    assert run_too_long(hasty, note, slow).cost["signal"] == signal.SIGKILL


def test_a_daemon_that_left_the_group_is_killed(launcher, tmp_path):
    note = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {note}; exec sleep 600' & while ! test -s {note}; do :; done"
    assert launcher.run(["sh", "-c", script]).good
    assert gone(int(note.read_text()))


def test_switches_are_counted(launcher):
    cost = launcher.run(["sleep", "0.1"]).cost
    assert cost["voluntary_switches"] >= 1 and cost["involuntary_switches"] >= 0


def test_preload_reaches_the_command_only(launcher, build):
    outcome = launcher.run([build / "whose"], library=build / "libnull.so")
    assert f"malloc {build}/libnull.so" in outcome.stdout.decode()
    assert "LD_PRELOAD" not in os.environ


def test_unknown_command_and_missing_launcher(launcher, build):
    with pytest.raises(LabError, match="no-such-program"):
        launcher.run(["no-such-program"])
    with pytest.raises(LabError, match="cannot start"):
        Launcher(build / "absent").run(["true"])


def test_while_running_is_called(launcher, tmp_path):
    """The command ends after three calls, whenever they come."""
    seen, note = [], tmp_path / "note"

    def look(pid):
        seen.append(pid)
        if len(seen) == 3:
            note.write_text("")

    launcher.run(["sh", "-c", f"until test -e {note}; do sleep 0.01; done"], while_running=look)
    assert len(seen) >= 3 and len(set(seen)) == 1


def test_interrupt_inside_the_wait_ends_the_command(launcher):
    children = []

    def stop(pid):
        children.extend(psutil.Process(pid).children())
        if children:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launcher.run(["sleep", "600"], while_running=stop)
    assert wait_until(lambda: gone(children[0].pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_the_launcher_ends_the_command(build, number):
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [build / "launch", "-j", str(writer), "--", "sleep", "600"], pass_fds=(writer,)
    )
    os.close(writer)
    assert wait_until(lambda: psutil.Process(process.pid).children())
    child = psutil.Process(process.pid).children()[0].pid
    process.send_signal(number)
    assert process.wait(300) == 128 + signal.SIGTERM
    with os.fdopen(reader) as report:
        assert json.loads(report.read())["interrupted"] is True
    assert gone(child)


def test_killed_launcher_takes_the_command_with_it(build):
    process = subprocess.Popen([build / "launch", "--", "sleep", "600"])
    assert wait_until(lambda: psutil.Process(process.pid).children())
    child = psutil.Process(process.pid).children()[0].pid
    process.kill()
    process.wait()
    assert wait_until(lambda: gone(child))


@pytest.mark.parametrize(
    "arguments",
    [[], ["--"], ["-t", "x", "--", "true"], ["-j", "77", "--", "true"], ["-g", "-1", "--", "true"]],
)
def test_bad_use_of_the_launcher(build, arguments):
    done = subprocess.run(
        [build / "launch", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 127 and "launch" in done.stderr
