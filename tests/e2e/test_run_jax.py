"""`lockstep run` with programs that know JAX and nothing of Lockstep."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command, clean_environment, run, serving

pytest.importorskip("jax")

PYTHON = sys.executable
ENVIRONMENT = clean_environment(JAX_PLATFORMS="cpu", JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
IMPLICIT = "jax.distributed.initialize()"
EXPLICIT = ("jax.distributed.initialize(os.environ['JAX_COORDINATOR_ADDRESS'],"
            " int(os.environ['JAX_NUM_PROCESSES']), int(os.environ['JAX_PROCESS_ID']))")
SUM = ("import os, jax\n{initialize}\n"
       "from jax.experimental import multihost_utils\n"
       "import numpy\n"
       "all = multihost_utils.process_allgather(numpy.array([jax.process_index() + 1]))\n"
       "print('sum', int(all.sum()), 'of', jax.process_count())\n")
# Everybody is in, then all wait at a barrier that the last process never reaches.
WAIT = ("import os, jax, signal\n" + IMPLICIT + "\n"
        "client = jax._src.distributed.global_state.client\n"
        "client.wait_at_barrier('loaded', 60_000)\n"
        "print('up', os.getpid())\n"
        "if jax.process_index() == jax.process_count() - 1: signal.pause()\n"
        "client.wait_at_barrier('never', 600_000)\n")


def status(address):
    answer = subprocess.run([LOCKSTEP, "status", "--coordinator", address, "-o", "json"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=DEADLINE_S, check=False)
    return json.loads(answer.stdout)["jobs"][0]


def await_condition(address, member, condition):
    """Polls the status until the member is so; returns the member."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = status(address)["members"][member]
        if found["condition"] == condition:
            return found
        assert time.monotonic() < deadline, found


@pytest.mark.parametrize("initialize", [IMPLICIT, EXPLICIT], ids=["implicit", "explicit"])
def test_stock_program_runs_unmodified(initialize):
    ended = run("-n", "2", "--", PYTHON, "-c", SUM.format(initialize=initialize), env=ENVIRONMENT)
    assert ended.code == 0, ended.text()
    sums = sorted(line for line in ended.out if "sum" in line)  # gloo talks too
    assert sums == ["[task/0] sum 3 of 2", "[task/1] sum 3 of 2"], ended.text()


def test_killed_process_is_named_by_the_others_and_in_the_verdict():
    with Command(LOCKSTEP, "run", "-n", "2", "--", PYTHON, "-c", WAIT, env=ENVIRONMENT) as command:
        pids = {int(m[1]): int(m[2]) for m in command.wait_for(r"\[task/(\d)\] up (\d+)", count=2)}
        os.kill(pids[1], signal.SIGKILL)
        assert command.end() == 128 + signal.SIGKILL, command.text()
    assert re.search(r"task/1 \(pid \d+\) was killed by SIGKILL after", command.text())
    # The other one was told by the coordinator, within its grace: SIGTERM was not needed.
    assert "SIGTERM to" not in command.text()
    assert any(line.startswith("[task/0]") and "task/1" in line for line in command.lines), \
        command.text()


# Everybody is in, and computes.
UP = ("import jax, os, threading\n" + IMPLICIT + "\n"
      "jax._src.distributed.global_state.client.wait_at_barrier('loaded', 60_000)\n"
      "print('up', os.getpid())\n"
      "threading.Event().wait()\n")


def test_use_a03_a_healthy_job_is_well_though_jax_always_asks_for_a_notice():
    with Command(LOCKSTEP, "run", "-n", "2", "--", PYTHON, "-c", UP, env=ENVIRONMENT) as command:
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        pids = [int(m[1]) for m in command.wait_for(r"up (\d+)", count=2)]
        # Each process's thread asks: that, and its poll for errors.
        deadline = time.monotonic() + DEADLINE_S
        while status(address)["waits"] < 4:
            assert time.monotonic() < deadline, status(address)

        answer = subprocess.run([LOCKSTEP, "why", "job", "--coordinator", address, "-o", "json"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=False)
        assert answer.returncode == 0, answer
        why = json.loads(answer.stdout)
        assert why["verdict"] == "fine", why
        assert why["summary"].startswith("all is well"), why
        assert why["advice"] == [], why
        now = status(address)
        assert now["key_waits"] == [] and now["keys_awaited"] == 0, now
        assert [member["doing"] for member in now["members"]] == ["", ""], now
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        command.end()


def test_use_a05_a_killed_server_is_the_cause_and_not_who_dies_of_it(tmp_path):
    ready = tmp_path / "ready.json"
    with Command(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--state", tmp_path / "state", "--job",
                 "digits=2", "--ready-file", ready) as server:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline and server.process.poll() is None, server.text()
            time.sleep(0.01)
        address = json.loads(ready.read_text())["listen"]
        with Command(LOCKSTEP, "run", "-n", "2", "--coordinator", address, "--job", "digits", "--",
                     PYTHON, "-c", UP, env=ENVIRONMENT) as command:
            command.wait_for(r"up (\d+)", count=2)
            server.signal(signal.SIGKILL)
            server.end()
            assert command.end() == 125, command.text()
    broke = "the connection to the coordinator's server broke"
    named = [line for line in command.err if "<- the first to fail" in line]
    assert len(named) == 1 and broke in named[0], command.text()
    ended = [line for line in command.err if re.search(r"task/\d \(pid \d+\) (was|ended|raised)", line)]
    assert broke in ended[0], "the server comes first"


def planned_server(*arguments, **variables):
    """The server's line of a dry run."""
    ended = run(*arguments, "--dry-run", "--", "true",
                env=clean_environment(**variables))
    assert ended.code == 0, ended.text()
    return next(line for line in ended.out if line.startswith("server: "))


def test_the_job_is_recoverable_when_the_processes_environment_says_so():
    asked = {"JAX_ENABLE_RECOVERABILITY": "true"}
    assert "--recoverable" not in planned_server("-n", "2")
    assert "--recoverable job" in planned_server("-n", "2", **asked)
    assert "--recoverable job" in planned_server("-n", "2", "--env", "JAX_ENABLE_RECOVERABILITY=1")
    assert "--recoverable" not in planned_server("-n", "2", "--env", "JAX_ENABLE_RECOVERABILITY=0",
                                                 **asked)


def test_a_job_that_is_there_is_held_against_the_processes_environment(tmp_path):
    with serving(tmp_path, "--job", "plain=2", "--job", "elastic=2", "--recoverable",
                 "elastic") as server:
        def ended(job, value):
            return run("--coordinator", server.address, "--job", job, "--env",
                       f"JAX_ENABLE_RECOVERABILITY={value}", "--", "true",
                       env=clean_environment())
        refused = ended("plain", 1)
        assert refused.code == 2, refused.text()
        assert 'job "plain" is not recoverable' in refused.text(), refused.text()
        assert "--recoverable plain" in refused.text(), refused.text()
        for job, value, said in (("plain", 0, False), ("elastic", 1, False), ("elastic", 0, True)):
            one = ended(job, value)
            assert one.code == 0, one.text()
            assert ("is recoverable, but JAX_ENABLE_RECOVERABILITY" in one.text()) == said


def test_stopped_process_is_a_suspect_and_comes_back():
    with Command(LOCKSTEP, "run", "-n", "2", "--grace", "0s", "--", PYTHON, "-c", WAIT,
                 env=ENVIRONMENT) as command:
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        pids = {int(m[1]): int(m[2]) for m in command.wait_for(r"\[task/(\d)\] up (\d+)", count=2)}
        os.kill(pids[1], signal.SIGSTOP)
        command.wait_for(r"task/1 \(pid \d+\) was stopped by SIGSTOP")
        assert "SIGSTOP" in await_condition(address, 1, "suspect")["why"]
        os.kill(pids[1], signal.SIGCONT)
        command.wait_for(r"task/1 \(pid \d+\) goes on after")
        await_condition(address, 1, "connected")
        # JAX takes SIGTERM for a notice of preemption and goes on.
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        command.end()
