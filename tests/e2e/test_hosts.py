"""Hosts that have an agent: who is heard, who is given up, and who is only slow."""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import time

from commands import LOCKSTEP, Command, StatefulServer

# scripts/soak.sh takes five minutes.
LOAD_S = float(os.environ.get("LOCKSTEP_TEST_LOAD_S", "12"))
LOAD_PER_CORE = 8
JOB = "digits"


def agent(server, *arguments):
    return Command(LOCKSTEP, "agent", "--coordinator", server.address, "--job", JOB, *arguments)


def ask(server, *words):
    """What such a command prints."""
    with Command(LOCKSTEP, *words, "--coordinator", server.address) as asked:
        assert asked.end() == 0, asked.text()
        return "\n".join(asked.out)


def hosts(server):
    return json.loads(ask(server, "hosts", JOB, "-o", "json"))["hosts"]


def heard(server):
    return [host for host in hosts(server) if host["round_trip_us"] > 0 and not host["lost"]]


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


@contextlib.contextmanager
def three_hosts(folder, *options):
    """Agents that know each other, by their pids; all on this machine, which is no matter to them."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(StatefulServer(folder, "--job", f"{JOB}=4", *options))
        agents = [stack.enter_context(agent(server)) for _ in range(3)]
        for one in agents:
            one.wait_for("stock clients of job")
        until(lambda: len(heard(server)) == 3)
        time.sleep(1.5)  # and have told the server whom they count
        yield server, agents


def given_up(server):
    return [host for host in hosts(server) if host["lost"]]


def burn():
    while True:
        pass


@contextlib.contextmanager
def load():
    processes = [multiprocessing.Process(target=burn, daemon=True)
                 for _ in range(LOAD_PER_CORE * os.cpu_count())]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def test_a_host_that_is_stopped_for_long_is_given_up_and_knows_it_when_it_goes_on(tmp_path):
    with three_hosts(tmp_path) as (server, agents):
        agents[0].signal(signal.SIGSTOP)
        until(lambda: given_up(server), seconds=10)
        assert "has not been heard for 3" in ask(server, "events", JOB)
        agents[0].signal(signal.SIGCONT)
        assert agents[0].end() == 4, agents[0].text()
        assert "cut off" in agents[0].text() or "given this host up" in agents[0].text()
        assert len(given_up(server)) == 1
        assert all(one.process.poll() is None for one in agents[1:])


def test_slow_hosts_are_not_lost(tmp_path):
    drawn = random.Random(1)
    with three_hosts(tmp_path) as (server, agents), load():
        end = time.monotonic() + LOAD_S
        while time.monotonic() < end:
            one = drawn.choice(agents)
            one.signal(signal.SIGSTOP)
            time.sleep(2)
            one.signal(signal.SIGCONT)
            time.sleep(drawn.uniform(0.5, 1.5))
        assert not given_up(server), [one.text() for one in agents]
        assert all(one.process.poll() is None for one in agents), [one.text() for one in agents]


def test_a_server_that_is_stopped_or_killed_loses_no_host(tmp_path):
    with three_hosts(tmp_path) as (server, agents):
        server.signal(signal.SIGSTOP)
        time.sleep(6)
        server.signal(signal.SIGCONT)
        time.sleep(1)
        server.kill()
        time.sleep(4)
        server.start()
        until(lambda: len(heard(server)) == 3)
        time.sleep(4)
        assert not given_up(server)
        assert all(one.process.poll() is None for one in agents), [one.text() for one in agents]


def test_an_agent_that_ends_has_left(tmp_path):
    with three_hosts(tmp_path) as (server, agents):
        agents[0].signal(signal.SIGKILL)
        until(lambda: len(hosts(server)) == 2, seconds=5)
        agents[1].signal(signal.SIGTERM)
        until(lambda: len(hosts(server)) == 1, seconds=5)
        assert not given_up(server)


def test_who_waits_is_not_given_up(tmp_path):
    with three_hosts(tmp_path) as (server, _), agent(server, "--on-partition", "wait") as one:
        until(lambda: len(heard(server)) == 4)
        time.sleep(1.5)
        one.signal(signal.SIGSTOP)
        time.sleep(5)
        assert not given_up(server)
        silent = [host for host in hosts(server) if host["waits"]]
        assert silent[0]["heard_ago_us"] > 4_000_000, silent
        table = ask(server, "hosts", JOB)
        assert "4 hosts with an agent" in table and "silent" in table, table
        one.signal(signal.SIGCONT)
        time.sleep(1.5)
        assert one.process.poll() is None, one.text()


def test_a_job_without_agents_says_so(tmp_path):
    with StatefulServer(tmp_path, "--job", f"{JOB}=4") as server:
        assert "no host has an agent" in ask(server, "hosts", JOB)
