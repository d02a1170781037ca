"""`lockstep run` on several nodes: launchers on one host, with one server."""

import json
import os
import re
import signal
import socket
import struct
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command, Watched, clean_environment, run, serving

PYTHON = sys.executable
# Says who it is, then waits until it is stopped, or until there is a file of that name.
MEMBER = ("import os, sys, time\n"
          "e = os.environ\n"
          "print('begun', e['RANK'], 'of', e['WORLD_SIZE'], 'node', e['GROUP_RANK'], 'attempt',"
          " e['LOCKSTEP_ATTEMPT'], 'restarts', e['TORCHELASTIC_RESTART_COUNT'], os.getpid(),"
          " 'store', e.get('MASTER_PORT'), flush=True)\n"
          "while not os.path.exists(e['DONE']): time.sleep(0.02)\n"
          "sys.exit(int(open(e['DONE']).read() or 0))\n")


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as command:
        yield command


@pytest.fixture
def node(server, tmp_path):
    """Starts a launcher; all are ended with the test."""
    started = []

    def start(*options, processes=2, nodes="2", code=MEMBER):
        script = tmp_path / "member.py"
        script.write_text(code)
        command = Command(LOCKSTEP, "run", "--coordinator", server.address, "--job", "digits",
                          "--nnodes", nodes, "--nproc-per-node", processes, "--grace",
                          "0s", *options, "--", PYTHON,
                          script, env=clean_environment(DONE=str(tmp_path / "done")))
        started.append(command)
        return command

    yield start
    for command in started:
        command.__exit__()


def begun(command, attempt, count):
    """(rank, size, node, pid, store) of each process of that attempt."""
    found = command.wait_for(rf"begun (\d+) of (\d+) node (\d+) attempt {attempt} restarts \d+ (\d+) "
                             r"store (\S+)$", count)
    return sorted((*(int(match[i]) for i in range(1, 5)), match[5]) for match in found)


class StoreClient:
    """What a process of an attempt has of its store: a connection of torch's TCPStore protocol."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", int(port)), DEADLINE_S)
        self._socket.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))

    def set(self, key, value):
        self._socket.sendall(b"\1" + self._text(key) + self._text(value))

    def has(self, key):
        self._socket.sendall(b"\5" + struct.pack("<Q", 1) + self._text(key))
        return self._socket.recv(1) == b"\0"

    def wait_closed(self):
        """Whether the server ends the connection; nothing was asked."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    @staticmethod
    def _text(text):
        return struct.pack("<Q", len(text)) + text


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), DEADLINE_S).close()
    except ConnectionRefusedError:
        return True
    return False


def test_two_nodes_make_one_world_and_end_together(node, tmp_path):
    first = node("--node-rank", 0)
    second = node("--node-rank", 1)
    ranks = [begun(command, 1, 2) for command in (first, second)]
    assert [[rank[:3] for rank in of] for of in ranks] == [[(0, 4, 0), (1, 4, 0)],
                                                           [(2, 4, 1), (3, 4, 1)]]
    assert len({rank[4] for of in ranks for rank in of}) == 1, "one store"
    (tmp_path / "done").touch()
    for command in (first, second):
        assert command.end() == 0, command.text()
        assert "all 2 nodes succeeded" in command.text()


def test_use_a07_a_failure_that_comes_at_once_each_time_uses_up_no_more_than_three_attempts(node):
    nodes = [node("--max-restarts", 50, "--restart-backoff", "10ms", code="import not_there")
             for _ in range(2)]
    for one in nodes:
        assert one.end() == 1, one.text()
        assert "giving up: the same failure 3 times, each within 10s of the start" in one.err[-1]
        assert sum(": node " in line and "attempt" in line and "members" in line
                   for line in one.err) == 3, one.text()


def test_tensorflow_is_told_of_the_processes_of_all_nodes(node):
    code = "import json, os; print('told', os.environ['RANK'], os.environ['TF_CONFIG'], flush=True)"
    nodes = [node(code=code), node(code=code)]
    told = {int(match[1]): json.loads(match[2])
            for one in nodes for match in one.wait_for(r"told (\d) (.*)$", 2)}
    assert sorted(told) == [0, 1, 2, 3]
    workers = told[0]["cluster"]["worker"]
    assert len(set(workers)) == 4 and all(re.fullmatch(r"127\.0\.0\.1:\d+", one) for one in workers)
    for rank, config in told.items():
        assert config == {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    for one in nodes:
        assert one.end() == 0, one.text()


def test_a_failure_on_one_node_starts_all_again_in_an_attempt_of_its_own(node, tmp_path):
    first = node("--node-rank", 0, "--max-restarts", 1)
    second = node("--node-rank", 1, "--max-restarts", 1)
    before = begun(first, 1, 2) + begun(second, 1, 2)
    killed_at = time.monotonic()
    os.kill(before[3][3], signal.SIGKILL)
    first.wait_for(r"node 1 on \S+ \(lockstep run, pid \d+\): task/3 \(pid \d+\) was killed by SIGKILL")
    told_after = time.monotonic() - killed_at
    after = begun(first, 2, 2) + begun(second, 2, 2)
    began_after = time.monotonic() - killed_at
    print(f"told after {told_after:.2f} s, begun after {began_after:.2f} s")
    assert [rank[:3] for rank in after] == [(0, 4, 0), (1, 4, 0), (2, 4, 1), (3, 4, 1)]
    if before[0][4] != "None":
        assert before[0][4] != after[0][4], "a store of its own"
    (tmp_path / "done").write_text("7")
    assert {first.end(), second.end()} == {7}


def test_a_launcher_that_is_killed_is_missed_and_the_other_goes_on(node, tmp_path):
    first = node("--max-restarts", 3, nodes="1:2")
    second = node("--max-restarts", 3, nodes="1:2")
    before = begun(first, 1, 2) + begun(second, 1, 2)
    assert {rank[1] for rank in before} == {4}
    killed = [Watched(int(rank[3])) for rank in begun(second, 1, 2)]
    second.signal(signal.SIGKILL)
    first.wait_for(r"\(lockstep run, pid \d+\) is gone: it died, or its host")
    assert all(process.wait_gone() for process in killed), "they die with their launcher"
    assert [rank[:3] for rank in begun(first, 2, 2)] == [(0, 2, 0), (1, 2, 0)]
    assert "(restart 1 of 3)" in first.text()
    # Another one comes, and is let in.
    third = node("--max-restarts", 3, nodes="1:2")
    assert [rank[:3] for rank in begun(first, 3, 2)] == [(0, 4, 0), (1, 4, 0)]
    assert [rank[:3] for rank in begun(third, 3, 2)] == [(2, 4, 1), (3, 4, 1)]
    assert first.text().count("(restart 1 of 3)") == 2, "who comes uses up none"
    (tmp_path / "done").touch()
    assert first.end() == 0 and third.end() == 0


def test_a_process_of_an_attempt_that_is_over_touches_nothing_of_the_next(node, tmp_path):
    first = node("--max-restarts", 1, nodes="1:2")
    second = node("--max-restarts", 1, nodes="1:2")
    (old_store,) = {rank[4] for rank in begun(first, 1, 2) + begun(second, 1, 2)}
    # It stands for a process that outlives its launcher's node: connected, and about to write.
    with StoreClient(old_store) as survivor:
        survivor.set(b"/rank/3", b"address")
        assert survivor.has(b"/rank/3")
        second.signal(signal.SIGKILL)
        (new_store,) = {rank[4] for rank in begun(first, 2, 2)}
        assert new_store != old_store
        assert survivor.wait_closed()
    assert refuses(old_store), "nor can it come back"
    with StoreClient(new_store) as successor:
        assert not successor.has(b"/rank/3"), "stale keys"
    (tmp_path / "done").touch()
    assert first.end() == 0, first.text()


def test_a_launcher_that_was_cut_off_stops_what_it_runs_and_comes_again(node, tmp_path):
    first = node("--max-restarts", 1, nodes="1:2")
    second = node("--max-restarts", 1, nodes="1:2")
    begun(first, 1, 2)
    cut_off = begun(second, 1, 2)
    # It is silent; its processes go on, in an attempt that the others give up.
    second.signal(signal.SIGSTOP)
    processes = [Watched(int(rank[3])) for rank in cut_off]
    after = begun(first, 2, 2)
    assert [rank[:3] for rank in after] == [(0, 2, 0), (1, 2, 0)]
    assert refuses(cut_off[0][4]) and after[0][4] != cut_off[0][4]
    assert all(os.path.exists(f"/proc/{rank[3]}") for rank in cut_off), "they live on"
    second.signal(signal.SIGCONT)
    assert all(process.wait_gone() for process in processes)
    both = begun(first, 3, 2) + begun(second, 3, 2)
    assert sorted(rank[0] for rank in both) == [0, 1, 2, 3] and {rank[1] for rank in both} == {4}
    (tmp_path / "done").touch()
    assert first.end() == 0 and second.end() == 0


@pytest.mark.parametrize("look", ["--dry-run", "--print-env"])
def test_who_only_looks_changes_nothing_at_the_server(server, look):
    ended = run("--coordinator", server.address, "--job", "looked-at", "--nnodes", "2",
                "--nproc-per-node", "3", look, "--", "true")
    assert ended.code == 0, ended.text()
    assert re.search(r"creates it, with 6 members|has created job \"looked-at\"",
                     ended.text()), ended.text()
    with Command(LOCKSTEP, "jobs", "--coordinator", server.address) as jobs:
        assert jobs.end() == 0 and "looked-at" not in jobs.text(), jobs.text()


RANKS = {"LOCKSTEP_INDEX", "NODE_RANK", "GROUP_RANK", "RANK", "JAX_PROCESS_ID"}
SIZES = {"LOCKSTEP_SIZE", "WORLD_SIZE", "GROUP_WORLD_SIZE", "JAX_NUM_PROCESSES"}
SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1",
         "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "n[1-2]"}


def looked_at(server, *options, **environment):
    return run("--coordinator", server.address, "--job", "digits", "--nproc-per-node", "3",
               *options, "--print-env", "--", "true", env=clean_environment(**environment))


@pytest.mark.parametrize("options, environment, count", [
    (("--nnodes", "2", "--node-rank", "1"), {}, "2 nodes by --nnodes, of which this is node 1"),
    ((), SLURM, "2 nodes, of which this is node 1")])
def test_print_env_knows_the_ranks_of_a_node_that_says_its_own(server, options, environment, count):
    ended = looked_at(server, *options, **environment)
    assert ended.code == 0 and f"# {count}" in ended.out and "one node" not in ended.text()
    assert [line for line in ended.out if line.startswith("RANK=")] == ["RANK=3", "RANK=4", "RANK=5"]
    for said in ("NODE_RANK=1", "WORLD_SIZE=6", "GROUP_WORLD_SIZE=2", "LOCAL_WORLD_SIZE=3"):
        assert ended.out.count(said) == 3, ended.text()
    assert "# assuming that each node gives its rank, and 3 processes on each node" in ended.out


@pytest.mark.parametrize("nodes, unknown, known", [("2", RANKS, SIZES), ("1:3", RANKS | SIZES, set())])
def test_print_env_shows_no_rank_that_is_settled_only_when_the_nodes_meet(server, nodes, unknown,
                                                                          known):
    ended = looked_at(server, "--nnodes", nodes)
    assert ended.code == 0, ended.text()
    line = next(line for line in ended.out if line.startswith("# known only when all nodes have joined"))
    shown = {line.split("=")[0] for line in ended.out}
    assert unknown <= set(re.findall(r"[A-Z_]+", line)) and not unknown & shown, ended.text()
    assert known | {"LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= shown, ended.text()


def test_a_node_that_does_not_come_is_named(node):
    only = node("--node-rank", 0, "--join-timeout", "1s")
    assert only.end() == 1, only.text()
    assert re.search(r"not enough nodes came within 1s: node 1 of 2 have not come; there: node 0 on",
                     only.text())


def test_a_node_that_says_something_else_is_refused(node, tmp_path):
    first = node("--node-rank", 0)
    second = node("--node-rank", 1)
    begun(first, 1, 2)
    other = node("--node-rank", 1)
    assert other.end() == 125
    assert "has node rank 1 already" in other.text()
    (tmp_path / "done").touch()
    assert first.end() == 0 and second.end() == 0


def test_a_spare_takes_the_place_of_a_node_that_is_lost(node, tmp_path):
    nodes = [node("--max-restarts", 1) for _ in range(2)]
    for command in nodes:
        begun(command, 1, 2)
    spare = node("--max-restarts", 1)
    spare.wait_for("on this node")
    nodes[0].signal(signal.SIGKILL)
    assert {rank[1] for rank in begun(nodes[1], 2, 2) + begun(spare, 2, 2)} == {4}
    (tmp_path / "done").touch()
    assert nodes[1].end() == 0 and spare.end() == 0


def test_a_signal_to_one_node_ends_it_and_is_told_to_the_other(node):
    first = node("--node-rank", 0)
    second = node("--node-rank", 1)
    begun(first, 1, 2)
    begun(second, 1, 2)
    second.signal(signal.SIGTERM)
    assert second.end() == 128 + signal.SIGTERM
    first.wait_for(r"was told to end")
    assert first.end() == 1, first.text()
