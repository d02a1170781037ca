"""`torchrun --rdzv-backend=lockstep`: nodes of one host, each a torchrun of its own."""

import contextlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import threading
import time
import tomllib

import pytest

from lockstep.torch._workers import environment_of
from torch_programs import (EXAMPLES, LIMIT_S, PACKAGE, ROOT, TORCHRUN, environment, final_losses,
                            needs_torch, run)

pytestmark = [needs_torch, pytest.mark.timeout(600)]


class Node:
    """A torchrun, and what it says as it comes."""

    def __init__(self, server, job, *arguments, nodes="2", conf="", per_node=1, **variables):
        conf = f"node_timeout=2,{conf}".rstrip(",")
        self.lines, self._ended, self._changed = [], False, threading.Condition()
        self.process = subprocess.Popen(
            [str(word) for word in (
                *TORCHRUN, "--nnodes", nodes, "--nproc-per-node", per_node, "--rdzv-backend",
                "lockstep", "--rdzv-endpoint", server.address, "--rdzv-id", job, "--rdzv-conf", conf,
                *arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment(**variables), start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def text(self):
        return "\n".join(self.lines)

    def has_said_all(self):
        return self._ended

    def wait_for(self, pattern):
        with self._changed:
            found = self._changed.wait_for(
                lambda: [match for match in (re.search(pattern, line) for line in self.lines) if match]
                or self._ended, LIMIT_S)
        assert found is not True and found, f"no {pattern!r} in:\n{self.text()}"
        return found[0]

    def end(self):
        code = self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        return code

    def kill(self):
        """Its workers, too: each is in a session of its own, and would go on."""
        workers = self._workers()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    def _workers(self):
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
                                  capture_output=True, text=True, check=False).stdout.split()
        return [int(pid) for pid in children if "LOCAL_RANK" in environment_of(int(pid))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.wait()


def test_the_entry_point_of_the_checkout_is_that_of_the_wheel():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (found,) = importlib.metadata.entry_points(group="torchrun.handlers", name="lockstep")
    assert {"torchrun.handlers": {found.name: found.value}} == declared


ABORTED = "terminate called without an active exception"


def test_two_nodes_train_and_all_come_to_the_same_loss(server, job):
    arguments = (EXAMPLES / "torch_digits.py", "--epochs", 3)
    with Node(server, job, *arguments, per_node=2) as one, \
            Node(server, job, *arguments, per_node=2) as other:
        def said():
            return one.text() + "\n" + other.text()

        def all_said():
            return one.has_said_all() and other.has_said_all()

        until(lambda: len(final_losses(said())) == 4 or all_said())
        losses = final_losses(said())
        assert sorted(losses) == [0, 1, 2, 3] and len(set(losses.values())) == 1, said()
        # A stock process that has trained now and then aborts as it ends, with torchrun's own
        # rendezvous too; the other torchrun may then wait for its node for five minutes.
        until(lambda: ABORTED in said() or all_said())
        assert ABORTED in said() or (one.end(), other.end()) == (0, 0), said()


# Fails once: the first time, rank 1 ends behind its first all_reduce.
FAILS_ONCE = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("round", os.environ["LOCKSTEP_ATTEMPT"], "sum", int(total), "at",
      os.environ["MASTER_PORT"], flush=True)
if dist.get_rank() == 1 and os.environ["LOCKSTEP_ATTEMPT"] == "1":
    os._exit(3)
dist.barrier()
print("done in", os.environ["LOCKSTEP_ATTEMPT"], flush=True)
dist.destroy_process_group()
"""


def test_workers_are_started_again_with_a_store_of_their_own(server, job, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FAILS_ONCE)
    with Node(server, job, "--max-restarts", 2, program) as one, \
            Node(server, job, "--max-restarts", 2, program) as other:
        assert (one.end(), other.end()) == (0, 0), one.text() + other.text()
        ports = set()
        for node in (one, other):
            first, second = re.findall(r"round (\d) sum 2 at (\d+)", node.text())
            assert (first[0], second[0]) == ("1", "2") and "done in 2" in node.text()
            ports.add((first[1], second[1]))
        ((first, second),) = ports
        assert first != second


# It dies with its torchrun, as with its host: torchrun gives workers sessions of their own.
GOES_ON = """
import ctypes, os
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
import torch, torch.distributed as dist
dist.init_process_group("gloo")
print("up", os.environ["LOCKSTEP_ATTEMPT"], dist.get_world_size(), flush=True)
if dist.get_world_size() == 2:
    dist.recv(torch.ones(1))  # which nobody sends
print("alone", flush=True)
"""


def test_a_node_that_is_killed_is_done_without(server, job, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(GOES_ON)
    with Node(server, job, program, nodes="1:2", conf="last_call_timeout=20") as one, \
            Node(server, job, program, nodes="1:2", conf="last_call_timeout=20") as other:
        one.wait_for("up 1 2")
        other.wait_for("up 1 2")
        one.kill()
        other.wait_for("up 2 1")
        assert other.end() == 0, other.text()


def test_a_node_that_is_missing_is_counted_and_one_that_was_there_is_named(server, job, tmp_path):
    with Node(server, job, "--no-python", "true", conf="join_timeout=2") as alone:
        assert alone.end() == 1
        assert re.search(rf"1 of 2 nodes came to round 1 of '{job}' within 2 s: \S+ \(pid \d+\); missing: "
                         "one more, which has never come", alone.text()), alone.text()
    program = tmp_path / "program.py"
    program.write_text(GOES_ON)
    again = job + "-again"
    with Node(server, again, program, conf="join_timeout=4") as one, \
            Node(server, again, program, conf="join_timeout=4") as other:
        one.wait_for("up 1 2")
        other.wait_for("up 1 2")
        one.kill()
        assert other.end() == 1
        assert re.search(rf"missing: \S+ \(pid {one.process.pid}\), which was in round 1 and was heard of "
                         r"last \d+\.\d s ago", other.text()), other.text()


def test_a_job_of_the_same_name_can_follow(server, job):
    for _ in range(2):
        with Node(server, job, "--no-python", "true", nodes="1") as node:
            assert node.end() == 0, node.text()


@pytest.mark.parametrize("arguments, why", [
    (("--rdzv-endpoint", "127.0.0.1:1"), "127.0.0.1:1"),
    ((), "takes --rdzv-endpoint HOST:PORT"),
    (("--rdzv-endpoint", "127.0.0.1:1", "--rdzv-conf", "join_timeout=soon"), "join_timeout=soon"),
])
def test_what_cannot_be_is_told(arguments, why):
    code, said = run(*TORCHRUN, "--nnodes", 1, "--rdzv-backend", "lockstep", "--rdzv-id", "x",
                     *arguments, "--no-python", "true")
    assert code == 1 and why in said, said



# Rank 1 sleeps while rank 0 waits for it.
ONE_SLEEPS = """
import os, time, torch.distributed as dist
dist.init_process_group("gloo")
# In one piece: both write to the same pipe.
os.write(1, f"up {dist.get_rank()}\\n".encode())
if dist.get_rank() == 1:
    time.sleep(600)
dist.barrier()
"""


def asked(server, *words):
    """What `lockstep WORDS` says, as JSON."""
    ended = subprocess.run([str(PACKAGE / "lockstep" / "bin" / "lockstep"), *words, "-o", "json"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                           check=False, env=environment(LOCKSTEP_COORDINATOR=server.address))
    assert ended.stdout, (words, ended.returncode, ended.stderr)
    return json.loads(ended.stdout)


def until(condition):
    """What it comes to once that is true."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def test_use_a13_status_why_and_stacks_know_the_workers(server, job, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ONE_SLEEPS)

    def running():
        (status,) = asked(server, "status", job)["jobs"]
        members = status["members"]
        return members if all(one["process"] == "running" for one in members) else None

    with Node(server, job, program, nodes="1", per_node=2) as node:
        node.wait_for("up 0")
        node.wait_for("up 1")
        members = until(running)
        assert len(members) == 2 and all(one["pid"] > 0 and one["host"] for one in members)
        assert {one["pid"] for one in members} == {one["pid"] for one in asked(server, "stacks", job)}
        assert asked(server, "why", job)["verdict"] != "trouble"
        assert asked(server, "why", f"{job}.nodes")["job"] == job
        os.kill(members[1]["pid"], signal.SIGKILL)
        assert node.end() != 0
        why = until(lambda: (one := asked(server, "why", job))["verdict"] == "trouble" and one)
        assert any("killed by SIGKILL" in finding for finding in why["findings"]), why
        assert why["suspects"][0]["pid"] == members[1]["pid"], why


# Rank 1 computes for ever while rank 0 waits for it.
ONE_LOOPS = """
import os, torch.distributed as dist
def load():
    while True:
        pass
dist.init_process_group("gloo")
os.write(1, f"up {dist.get_rank()}\\n".encode())
if dist.get_rank() == 1:
    load()
dist.barrier()
"""


def test_use_a13_why_names_a_rank_that_loops_without_any_tool(server, job, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ONE_LOOPS)
    # Nothing but Python and the system: no py-spy.
    with Node(server, job, program, nodes="1", per_node=2, PATH="/usr/bin:/bin") as node:
        node.wait_for("up 0")
        node.wait_for("up 1")

        def known():
            told = asked(server, "stacks", job)
            return told if len(told) == 2 and all(one["threads"] for one in told) else None

        looping = next(one for one in until(known) if one["member"] == 1)
        assert looping["source"] == "faulthandler", looping
        assert looping["threads"][0]["frames"][0]["function"] == "load", looping
        why = until(lambda: (one := asked(server, "why", job))["suspects"] and one)
        assert [one["pid"] for one in why["suspects"]] == [looping["pid"]], why
        folder = environment_of(looping["pid"])["PYTHONPATH"].split(":")[0]
        assert os.path.exists(os.path.join(folder, "sitecustomize.py"))
    until(lambda: not os.path.exists(folder))  # also after a SIGKILL of torchrun


ONE_RAISES = """
import os, time, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("bad sample")
time.sleep(600)
"""


def test_use_a13_an_exception_of_a_worker_is_told_with_its_place(server, job, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ONE_RAISES)
    with Node(server, job, program, nodes="1", per_node=2) as node:
        assert node.end() != 0
        events = subprocess.run([str(PACKAGE / "lockstep" / "bin" / "lockstep"), "events", job],
                                capture_output=True, text=True, timeout=LIMIT_S, check=True,
                                env=environment(LOCKSTEP_COORDINATOR=server.address)).stdout
        assert re.search(r"task/1 \(pid \d+ on \S+\) raised ValueError: bad sample, program.py:6",
                         events), events


def test_workers_are_left_alone_where_that_is_wanted(server, job, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import os; print('path', os.environ.get('PYTHONPATH', ''), flush=True)")
    for conf, found in (("", True), ("stacks=false", False)):
        with Node(server, f"{job}-{found}", program, nodes="1", conf=conf) as node:
            assert ("lockstep-run-" in node.wait_for("path .*").group()) == found
            assert node.end() == 0, node.text()
