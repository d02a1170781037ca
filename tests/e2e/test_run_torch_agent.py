"""`lockstep run --agent`: stock torch programs outlive their server."""

import contextlib
import os
import signal
import time

import pytest

from commands import LOCKSTEP, ROOT, Command, StatefulServer, clean_environment

PYTHON = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(),
                                reason="scripts/setup.sh frameworks makes the environment")

# Each step: what must happen once, a value from the other process, and a collective.
PROGRAM = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
me, size = dist.get_rank(), dist.get_world_size()
print("up", os.getpid(), os.environ["MASTER_PORT"], flush=True)
for step in range(int(sys.argv[1])):
    assert store.add(f"count/{me}", 1) == step + 1
    store.append("log", "x")
    store.queue_push("queue", str(me))
    store.set(f"step/{step}/{me}", str(me + step))
    other = store.get(f"step/{step}/{(me + 1) % size}")
    assert int(other) == (me + 1) % size + step, other
    store.queue_pop("queue", False)
    found = store.compare_set(f"turn/{me}", str(step - 1) if step else "", str(step))
    assert int(found) == step, found
    total = torch.tensor([1.0])
    dist.all_reduce(total)
    assert int(total) == size
    if me == 0: print("step", step, flush=True)
dist.barrier()
print("counted", len(store.get("log")), store.queue_len("queue"), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def start(server, count, *arguments, code=PROGRAM):
    return Command(LOCKSTEP, "run", "--agent", "--coordinator", server.address, "--job", "digits",
                   "-n", 2, *arguments, "--", PYTHON, "-c", code, count,
                   env=clean_environment(LOCKSTEP_AGENT_START_TIMEOUT="60s"))


def durable(tmp_path):
    return StatefulServer(tmp_path, "--job", "digits=2", "--torch-store-durable")


def test_a_torch_job_outlives_kills_of_its_server(tmp_path):
    count = 500
    with durable(tmp_path) as server, start(server, count) as job:
        for kill in range(5):
            job.wait_for(rf"step {kill * 80 + 20}$")
            server.kill()
            time.sleep(3 if kill == 2 else 0.1)
            server.start()
        assert job.end() == 0, job.text()
        assert {m[1] for m in job.wait_for(r"counted (\d+ \d+)", count=2)} == {f"{2 * count} 0"}


def test_a_server_that_is_stopped_is_a_pause(tmp_path):
    with durable(tmp_path) as server, start(server, 200) as job:
        job.wait_for(r"step 10$")
        server.signal(signal.SIGSTOP)
        time.sleep(5)
        server.signal(signal.SIGCONT)
        assert job.end() == 0, job.text()


def test_a_client_gives_up_a_wait_while_the_server_is_away(tmp_path):
    code = """
import datetime, os, sys, time
import torch.distributed as dist
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
store.set("mine", "1")
print("up", flush=True)
began = time.time()
try:
    store.wait(["never"], datetime.timedelta(seconds=2))
except dist.DistStoreError:
    print("gave up after", round(time.time() - began), flush=True)
print("mine is", store.get("mine").decode(), flush=True)
"""
    with durable(tmp_path) as server, start(server, 1, code=code) as job:
        job.wait_for("up", count=2)
        server.signal(signal.SIGSTOP)
        assert {m[1] for m in job.wait_for(r"gave up after (\d+)", count=2)} == {"2"}
        server.signal(signal.SIGCONT)
        assert job.end() == 0, job.text()
        job.wait_for("mine is 1", count=2)


def test_each_attempt_has_a_store_of_its_own(tmp_path):
    with durable(tmp_path) as server, start(server, 100_000, "--max-restarts", "1") as job:
        first = {int(m[1]): m[2] for m in job.wait_for(r"up (\d+) (\d+)", count=2)}
        job.wait_for(r"step 5$")
        os.kill(next(iter(first)), signal.SIGKILL)
        again = job.wait_for(r"up (\d+) (\d+)", count=4)[2:]
        assert {m[2] for m in again}.isdisjoint(first.values())
        job.wait_for(r"step 5$", count=2)
        job.signal(signal.SIGTERM)
        job.end()


def test_a_store_that_is_not_durable_ends_the_job_with_its_server(tmp_path):
    with StatefulServer(tmp_path, "--job", "digits=2") as server, start(server, 100_000) as job:
        job.wait_for(r"step 5$")
        server.kill()
        server.start()
        assert job.end() != 0
        job.wait_for(r"torch's store: .* attempt 1 of the store is over")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_do_not_outlive_a_restart_of_their_agent(tmp_path, how):
    code = """
import torch.distributed as dist
dist.init_process_group("gloo")
print("up", flush=True)
dist.distributed_c10d._get_default_store().get("never")
"""
    with durable(tmp_path) as server, contextlib.ExitStack() as running:
        def agent(*arguments):
            started = running.enter_context(Command(
                LOCKSTEP, "agent", "--coordinator", server.address, "--job", "digits", *arguments))
            return started, started.wait_for(r"PyTorch's (127\.0\.0\.1):(\d+)")[0].groups()

        first, (host, port) = agent()
        processes = [running.enter_context(Command(PYTHON, "-c", code, env=clean_environment(
            MASTER_ADDR=host, MASTER_PORT=port, TORCHELASTIC_USE_AGENT_STORE="True", RANK=str(rank),
            WORLD_SIZE="2"))) for rank in range(2)]
        for process in processes:
            process.wait_for("up")
        began = time.monotonic()
        first.signal(how)
        first.end()
        agent("--torch-listen", f"{host}:{port}")
        for process in processes:
            assert process.end() != 0
            assert "Connection" in process.text() or "connection" in process.text(), process.text()
        assert time.monotonic() - began < 20
