"""`lockstep run` when its job is preempted: who is told, what it ends with, who is started again."""

import os
import pathlib
import re
import signal
import sys
import time

import pytest

from commands import LOCKSTEP, ROOT, Command, clean_environment, run

MEMBER = pathlib.Path(__file__).parent / "preempted_member.py"
PYTHON = ROOT / "build" / "venv" / "bin" / "python"
SIZE = 3
LONG = 1_000_000  # steps; nobody comes to the end of them


def start(tmp_path, *options, steps=LONG, code=0):
    return Command(LOCKSTEP, "run", "-n", SIZE, *options, "--", PYTHON, MEMBER, tmp_path, steps, code,
                   env=clean_environment(TMPDIR=str(tmp_path)))


def saved_steps(command, lives=1):
    """The steps at which all saved, in each of their lives."""
    found = command.wait_for(r"^\[task/\d\] saved at (\d+)$", SIZE * lives)
    steps = [int(match.group(1)) for match in found]
    return [set(steps[life * SIZE:(life + 1) * SIZE]) for life in range(lives)]


def all_work(command, lives=1):
    command.wait_for(r"^\[task/\d\] works$", SIZE * lives)


def test_a_notice_of_this_host_makes_all_save_and_end(tmp_path):
    notice = tmp_path / "notice"
    with start(tmp_path, "--notice", f"file:path={notice},interval=50ms", code=75) as command:
        all_work(command)
        notice.write_text("60s")
        (steps,) = saved_steps(command)
        assert len(steps) == 1
        assert command.end() == 75, "the processes' own exit code"
        (step,) = steps
        command.wait_for(rf"preempted after .*, exit code 75; preemption 1 \(file\): saved: "
                         rf"{SIZE} of {SIZE} members saved at step {step}")


def test_the_first_sigterm_can_be_the_notice(tmp_path):
    with start(tmp_path, "--notice", "signal:lead=30s") as command:
        all_work(command)
        command.wait_for("notices come from signal")
        command.signal(signal.SIGTERM)
        assert len(saved_steps(command)[0]) == 1
        assert command.end() == 83, "it is no finished run"
        command.wait_for(r"preemption 1 \(signal\): saved")


def test_a_sigterm_that_nobody_heeds_is_passed_on(tmp_path):
    # Without a step to save at it is passed on after 10 s; a second SIGTERM does it at once.
    with Command(LOCKSTEP, "run", "-n", 1, "--notice", "signal", "--", sys.executable, "-c",
                 "import time; print('up', flush=True); time.sleep(600)",
                 env=clean_environment(TMPDIR=str(tmp_path))) as command:
        command.wait_for("up$")
        command.wait_for("notices come from signal")
        command.signal(signal.SIGTERM)
        command.wait_for("once more passes it on")
        command.wait_for("processes will be taken away")
        # Two within a moment count as one. No flood of them: one that comes once all have ended ends
        # the command before its last words are out.
        while command.process.poll() is None and "passed on to" not in command.text():
            command.signal(signal.SIGTERM)
            time.sleep(0.2)
        assert command.end() == 143
        assert "killed by SIGTERM" in command.text()


def test_all_are_started_again_and_go_on(tmp_path):
    notice = tmp_path / "notice"
    with start(tmp_path, "--on-preempt", "restart", "--notice",
               f"file:path={notice},interval=50ms") as command:
        all_work(command)
        notice.touch()
        (first,) = saved_steps(command)
        assert len(first) == 1
        found = command.wait_for(r"^\[task/\d\] begins at (\d+)$", 2 * SIZE)
        assert {int(match.group(1)) for match in found[SIZE:]} == {next(iter(first)) + 1}
        all_work(command, lives=2)
        notice.unlink()
        command.signal(signal.SIGTERM)
        assert command.end() == 143
        assert len(re.findall("starting them again", command.text())) == 1


def test_a_second_preemption_of_the_restarted_is_one_as_well(tmp_path):
    notices = [tmp_path / "notice-1", tmp_path / "notice-2"]
    with start(tmp_path, "--on-preempt", "restart",
               "--notice", f"command:command=test ! -e {notices[0]},interval=50ms",
               "--notice", f"file:path={notices[1]},interval=50ms") as command:
        all_work(command)
        notices[0].touch()
        all_work(command, lives=2)
        notices[1].touch()
        all_work(command, lives=3)
        first, second = saved_steps(command, lives=2)
        assert len(first) == len(second) == 1 and max(first) < max(second)
        command.signal(signal.SIGTERM)
        command.end()
        assert re.search(r"preemption 1 \(command\): saved", command.text())
        assert re.search(r"preemption 1 \(file\): saved", command.text())


def test_waits_until_the_host_has_lived_on(tmp_path):
    notice = tmp_path / "notice"
    with start(tmp_path, "--on-preempt", "wait", "--notice",
               f"file:path={notice},interval=50ms") as command:
        all_work(command)
        notice.write_text("3s")
        saved_steps(command)
        command.wait_for("they are started again when this host turns out to live on")
        all_work(command, lives=2)
        command.signal(signal.SIGTERM)
        assert command.end() == 143


def test_a_process_that_is_taken_away_is_no_failure(tmp_path):
    notice = tmp_path / "notice"
    with start(tmp_path, "--notice", f"file:path={notice},interval=50ms",
               code="killed") as command:
        all_work(command)
        notice.write_text("60s")
        saved_steps(command)
        assert command.end() == 83
        assert "was killed by SIGKILL after" in command.text() and ", preempted" in command.text()
        assert "first to fail" not in command.text()


@pytest.mark.parametrize("spec, why", [
    ("gcp", "there is no source of notices 'gcp'"),
    ("file", "path"),
    ("file:path=/x,intervall=1s", "intervall"),
])
def test_a_wrong_source_is_told_before_anything_starts(spec, why):
    ended = run("-n", "1", "--notice", spec, "--", sys.executable, "-c", "print('started')")
    assert ended.code == 2 and why in ended.text() and "started" not in ended.text()


def test_the_work_that_finishes_first_is_not_done_again(tmp_path):
    notice = tmp_path / "notice"
    with start(tmp_path, "--on-preempt", "restart", "--notice",
               f"file:path={notice},interval=50ms", steps=2000) as command:
        all_work(command)
        command.wait_for(r"^\[task/\d\] done$", SIZE)
        notice.touch()
        assert command.end() == 0
        assert "starting them again" not in command.text()
        assert not list(tmp_path.glob("member-*")) and os.path.exists(notice)
