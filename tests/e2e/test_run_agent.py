"""`lockstep run --agent`: stock JAX programs outlive their server."""

import contextlib
import os
import re
import shutil
import signal
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command, StatefulServer, Watched, clean_environment, run
from stock_steps import STEPS

pytest.importorskip("jax")

PYTHON = sys.executable
ENVIRONMENT = clean_environment(JAX_PLATFORMS="cpu", JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo",
                                LOCKSTEP_AGENT_START_TIMEOUT="60s")


def steps(server, count, *arguments, processes=2):
    return Command(LOCKSTEP, "run", "--agent", "--coordinator", server.address, "--job", "digits",
                   "-n", processes, *arguments, "--", PYTHON, "-c", STEPS, count, env=ENVIRONMENT)


def wait_for_barrier(server, name):
    """Until a process waits at it."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        with Command(LOCKSTEP, "barriers", "--coordinator", server.address, "digits") as listed:
            if listed.end() == 0 and name in listed.text():
                return
        assert time.monotonic() < deadline, listed.text() + server.text()


def pids_of(job):
    """By member, of the first two."""
    return {int(m[1]): int(m[2]) for m in job.wait_for(r"\[task/(\d)\] up (\d+)", count=2)}


def test_a_stock_job_outlives_kills_of_its_server(tmp_path):
    count = 300
    with StatefulServer(tmp_path, "--job", "digits=2") as server, steps(server, count) as job:
        for kill in range(5):
            job.wait_for(rf"step {kill * 50 + 20}$")
            server.kill()
            # Longer than a heartbeat's time, once.
            time.sleep(12 if kill == 2 else 0.3)
            server.start()
        assert job.end() == 0, job.text()
        counted = [int(m[1]) for m in job.wait_for(r"counted (\d+)", count=2)]
        assert counted == [2 * count] * 2, "an increment was lost, or happened twice"


def test_a_stock_job_outlives_ends_of_its_server(tmp_path):
    count = 300
    with StatefulServer(tmp_path, "--job", "digits=2") as server, steps(server, count) as job:
        for end in range(5):
            job.wait_for(rf"step {end * 50 + 20}$")
            server.end()  # what waits is answered then; no stock process may hear that
            server.start()
        assert job.end() == 0, job.text()
        counted = [int(m[1]) for m in job.wait_for(r"counted (\d+)", count=2)]
        assert counted == [2 * count] * 2, "an increment was lost, or happened twice"


def test_a_barrier_half_filled_outlives_the_end_of_its_server(tmp_path):
    late = STEPS + """
import time
client.wait_at_barrier('together', 60_000)
print('waits', flush=True)
if me == 1: client.blocking_key_value_get('go', 60_000)
client.wait_at_barrier('late', 60_000)
print('released', flush=True)
"""
    with StatefulServer(tmp_path, "--job", "digits=2") as server, Command(
            LOCKSTEP, "run", "--agent", "--coordinator", server.address, "--job", "digits",
            "-n", "2", "--", PYTHON, "-c", late, "3", env=ENVIRONMENT) as job:
        job.wait_for("waits", count=2)
        for _ in range(3):
            wait_for_barrier(server, "late")
            server.end()
            server.start()
        wait_for_barrier(server, "late")
        with Command(LOCKSTEP, "kv", "set", "--coordinator", server.address, "digits", "go",
                     "now") as told:
            assert told.end() == 0, told.text()
        assert job.end() == 0, job.text()
        job.wait_for("released", count=2)


def test_a_server_that_is_stopped_is_a_pause(tmp_path):
    with StatefulServer(tmp_path, "--job", "digits=2") as server, steps(server, 40) as job:
        job.wait_for(r"step 10$")
        server.signal(signal.SIGSTOP)
        time.sleep(12)
        server.signal(signal.SIGCONT)
        assert job.end() == 0, job.text()
        job.wait_for(r"\[agent\].* is unreachable \(.*\); calls wait for it, at most 10m")
        job.wait_for(r"\[agent\].* is back after \d")
        assert {m[1] for m in job.wait_for(r"counted (\d+)", count=2)} == {"80"}


def test_a_process_that_dies_is_named_at_once(tmp_path):
    wait = STEPS + "\nprint('waits', flush=True)\nclient.wait_at_barrier('never', 600_000)\n"
    with StatefulServer(tmp_path, "--job", "digits=2") as server, \
            Command(LOCKSTEP, "run", "--agent", "--coordinator", server.address, "--job", "digits",
                    "-n", "2", "--", PYTHON, "-c", wait, "1", env=ENVIRONMENT) as job:
        pids = pids_of(job)
        job.wait_for("waits", count=2)
        os.kill(pids[1], signal.SIGKILL)
        assert job.end() == 128 + signal.SIGKILL, job.text()
        assert re.search(r"task/1 \(pid \d+\) was killed by SIGKILL after", job.text())
        # Told by the coordinator, through the agent.
        assert any(line.startswith("[task/0]") and "task/1" in line for line in job.lines), \
            job.text()


def test_the_agent_ends_with_its_run(tmp_path):
    with StatefulServer(tmp_path, "--job", "digits=2") as server, steps(server, 3) as job:
        agent = int(job.wait_for(r"agent of this host: pid (\d+)")[0][1])
        watched = Watched(agent)
        assert job.end() == 0, job.text()
        assert watched.wait_gone()


def test_an_agent_that_dies_ends_the_run_and_is_named(tmp_path):
    with StatefulServer(tmp_path, "--job", "digits=2") as server, steps(server, 100_000) as job:
        agent = int(job.wait_for(r"agent of this host: pid (\d+)")[0][1])
        job.wait_for(r"step 5$")
        os.kill(agent, signal.SIGKILL)
        assert job.end() != 0
        assert "the agent of this host was killed by SIGKILL although nobody asked it to" \
            in job.text(), job.text()


def test_the_other_hosts_are_told_which_agent_ended(tmp_path):
    wait = STEPS.replace("initialize(", "initialize(num_processes=2, process_id=int(sys.argv[2]), ")
    wait += "\nclient.wait_at_barrier('never', 600_000)\n"
    with StatefulServer(tmp_path, "--job", "digits=2") as server, contextlib.ExitStack() as running:
        def start(member):
            agent = running.enter_context(Command(
                LOCKSTEP, "agent", "--coordinator", server.address, "--job", "digits"))
            address = agent.wait_for(r"call (127\.0\.0\.1:\d+)")[0][1]
            process = running.enter_context(Command(PYTHON, "-c", wait, "1", member, env={
                **ENVIRONMENT, "JAX_COORDINATOR_ADDRESS": address,
                "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0"}))
            return agent, process

        (agent, _), (_, other) = start(0), start(1)
        other.wait_for("counted 2")
        began = time.monotonic()
        agent.signal(signal.SIGKILL)
        other.wait_for(r"task/0#1.* was lost: the agent of its host disconnected")
        assert time.monotonic() - began < 5
        why = Command(LOCKSTEP, "why", "digits", "--coordinator", server.address)
        why.end()
        assert "[agent_ended]" in why.text() and "Start the agent" in why.text(), why.text()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_do_not_outlive_a_restart_of_their_agent(tmp_path, how):
    wait = STEPS.replace("initialize(", "initialize(num_processes=2, process_id=int(sys.argv[2]), ")
    wait += "\nclient.blocking_key_value_get('never', 600_000)\n"
    with StatefulServer(tmp_path, "--job", "digits=2") as server, contextlib.ExitStack() as running:
        def agent(*arguments):
            started = running.enter_context(Command(
                LOCKSTEP, "agent", "--coordinator", server.address, "--job", "digits", *arguments))
            return started, started.wait_for(r"call (127\.0\.0\.1:\d+)")[0][1]

        def start(member, address):
            return running.enter_context(Command(PYTHON, "-c", wait, "1", member, env={
                **ENVIRONMENT, "JAX_COORDINATOR_ADDRESS": address,
                "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0"}))

        (first, address), (_, elsewhere) = agent(), agent()
        mine, other = start(0, address), start(1, elsewhere)
        mine.wait_for("counted 2")
        other.wait_for("counted 2")
        began = time.monotonic()
        first.signal(how)
        first.end()
        agent("--listen", address)
        assert mine.end() != 0 and other.end() != 0
        assert time.monotonic() - began < 10
        assert "task/0#1 was lost: the agent of its host disconnected" in other.text()
        if how == signal.SIGTERM:
            assert "cannot go on with another one: start them again" in mine.text(), mine.text()
            assert "calls of this host's processes were open" in first.text(), first.text()


def test_a_process_that_dies_while_the_server_is_away_is_not_its_successor(tmp_path):
    with StatefulServer(tmp_path, "--job", "digits=2") as server, \
            steps(server, 40, "--max-restarts", "1") as job:
        pids = pids_of(job)
        job.wait_for(r"step 5$")
        server.kill()
        os.kill(pids[1], signal.SIGKILL)
        time.sleep(9)  # then the launcher tries every 2 s to report the death: its successor is faster
        server.start()
        assert job.end() == 0, job.text()


def test_an_agent_of_its_own_says_why_it_ends(tmp_path):
    with StatefulServer(tmp_path, "--job", "digits=2") as server:
        def agent(*arguments, job="digits"):
            return Command(LOCKSTEP, "agent", "--coordinator", server.address, "--job", job,
                           *arguments, env=ENVIRONMENT)

        with agent("--listen", "0.0.0.0:0") as open_to_all:
            assert open_to_all.end() == 1
            assert "listen at a loopback address" in open_to_all.text()
        with agent(job="other") as lost:
            assert lost.end() == 1 and "no job 'other'" in lost.text()
        with agent("--patience", "1s") as impatient:
            impatient.wait_for(r"stock clients of job 'digits' call 127\.0\.0\.1:\d+")
            server.kill()
            assert impatient.end() == 3
            assert re.search(r"has been away for 1(\.\d+)?s", impatient.text()), impatient.text()
        server.start()
        with agent() as forgotten:
            forgotten.wait_for(r"stock clients of job 'digits' call")
            server.kill()
            shutil.rmtree(tmp_path / "state")
            server.start()
            assert forgotten.end() == 3
            assert "does not know this session any more" in forgotten.text(), forgotten.text()


def test_a_private_server_needs_no_agent():
    ended = run("--agent", "-n", "1", "--", "true")
    assert ended.code == 2 and "--agent needs --coordinator" in ended.text(), ended.text()


def test_the_environment_of_an_agent_that_does_not_run_is_not_shown():
    ended = run("--agent", "--print-env", "--coordinator", "127.0.0.1:1", "--job", "digits", "-n", "1",
                "--", "true")
    assert ended.code == 2 and "start `lockstep agent`" in ended.text(), ended.text()
