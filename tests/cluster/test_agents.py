"""Stock jobs of two hosts, with an agent on each, whose server is killed, replaced and cut off."""

import json
import os
import shutil
import signal
import time

import pytest

from commands import LOCKSTEP
from test_secure_hosts import FRAMEWORKS, JOB, Cluster

KILLS = int(os.environ.get("LOCKSTEP_TEST_SERVER_KILLS", "10"))
CUT_S = 20
STEPS_PER_KILL = 15
CUT_AT = KILLS * STEPS_PER_KILL + 20
STEPS = CUT_AT + 80

# Unchanged: each step, the gradients of both processes by gloo, and a barrier by the coordination
# service. The losses are what they are whatever the server goes through.
JAX = """
import sys
import jax, numpy
jax.distributed.initialize(heartbeat_timeout_seconds=10)
from jax._src import distributed
from jax.experimental import multihost_utils
client = distributed.global_state.client
me = jax.process_index()
drawn = numpy.random.default_rng(me)
inputs = drawn.normal(size=(64, 8)).astype("float32")
targets = inputs @ numpy.arange(8, dtype="float32")
def loss_of(weights): return ((inputs @ weights - targets) ** 2).mean()
look = jax.jit(jax.value_and_grad(loss_of))
weights = numpy.zeros(8, "float32")
for step in range(int(sys.argv[1])):
    loss, gradient = look(weights)
    both = multihost_utils.process_allgather((loss, gradient))
    weights = weights - 0.02 * numpy.asarray(both[1]).mean(0)
    client.key_value_set(f"loss/{step}/{me}", repr(float(loss)))
    client.wait_at_barrier(f"step-{step}", 120_000)
    print("step", step, flush=True)
print("loss", repr(float(numpy.asarray(both[0]).mean())), flush=True)
jax.distributed.shutdown()
"""

TORCH = """
import sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
me, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(me)
inputs = torch.randn(64, 8)
targets = inputs @ torch.arange(8.0)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = ((model(inputs).squeeze(1) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    store.set(f"loss/{step}/{me}", repr(float(loss.detach())))
    other = float(store.get(f"loss/{step}/{1 - me}"))
    assert store.add(f"steps/{me}", 1) == step + 1
    print("step", step, flush=True)
print("loss", repr((float(loss.detach()) + other) / 2), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster(hosts, tmp_path_factory):
    made = Cluster(hosts, tmp_path_factory.mktemp("agents"), "--torch-store-durable")
    yield made
    made.server.process.terminate()
    made.server.end()


def train(cluster, program=JAX):
    return cluster.run_job(program, STEPS, python=FRAMEWORKS, options=("--agent",), JAX_PLATFORMS="cpu",
                           JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo",
                           LOCKSTEP_AGENT_START_TIMEOUT="60s")


def losses(launchers):
    """What both processes ended with."""
    found = []
    for launcher in launchers:
        assert launcher.end() == 0, launcher.text()
        found += [match[1] for match in launcher.wait_for(r"loss (\S+)$")]
    return found


def another_version(folder):
    """The programs as an upgrade would put them: other files."""
    folder.mkdir()
    for program in ("lockstep", "lockstep-server"):
        shutil.copy2(LOCKSTEP.with_name(program), folder / program)
    return folder / "lockstep"


@pytest.mark.parametrize("program", [JAX, TORCH], ids=["jax", "torch"])
def test_a_stock_job_outlives_kills_an_upgrade_and_a_pulled_cable(cluster, tmp_path, program):
    if not FRAMEWORKS.exists():
        pytest.skip("scripts/setup.sh frameworks makes the environment")
    undisturbed = losses(train(cluster, program))
    launchers = train(cluster, program)
    first = launchers[0]
    upgraded = another_version(tmp_path / "next")
    for kill in range(KILLS):
        first.wait_for(rf"step {kill * STEPS_PER_KILL + 5}$")
        cluster.server.signal(signal.SIGKILL)
        cluster.server.end()
        cluster.start(upgraded if kill == KILLS // 2 else LOCKSTEP)
    first.wait_for(rf"step {CUT_AT}$")
    cluster.hosts["head"].pull_cable()
    time.sleep(CUT_S)
    assert not any(line.endswith(f"step {STEPS - 1}") for line in first.lines), "the cut came too late"
    cluster.hosts["head"].plug_cable_in()
    assert losses(launchers) == undisturbed


def test_a_host_that_is_back_after_two_seconds_has_lost_nobody(cluster):
    if not FRAMEWORKS.exists():
        pytest.skip("scripts/setup.sh frameworks makes the environment")
    launchers = train(cluster)
    launchers[0].wait_for(r"step 50$")
    cluster.hosts["two"].pull_cable()
    time.sleep(2)
    cluster.hosts["two"].plug_cable_in()
    assert len(losses(launchers)) == 2


# Both ranks meet at each step.
STEPPER = """
import os, sys, time
import jax
jax.distributed.initialize(heartbeat_timeout_seconds=10)
from jax._src import distributed
client = distributed.global_state.client
for step in range(int(sys.argv[1])):
    client.wait_at_barrier(f"step-{step}", 120_000)
    print("attempt", os.environ["LOCKSTEP_ATTEMPT"], "step", step, flush=True)
    time.sleep(0.1)
jax.distributed.shutdown()
"""


def run_on(cluster, name, program, *arguments, options=()):
    """A launcher whose host is called so."""
    return cluster.hosts[name].run_as(
        name, LOCKSTEP, "run", "--coordinator", cluster.join, "--job", JOB, "--nnodes", 2,
        "--nproc-per-node", 1, "--agent", *options, "--", FRAMEWORKS, "-c", program, *arguments,
        LOCKSTEP_TOKEN_FILE=str(cluster.token("launch")), JAX_PLATFORMS="cpu",
        LOCKSTEP_AGENT_START_TIMEOUT="60s")


def seconds_until(command, pattern, since):
    command.wait_for(pattern)
    return time.monotonic() - since


def test_a_host_without_cable_is_named_and_a_spare_takes_its_place(cluster):
    if not FRAMEWORKS.exists():
        pytest.skip("scripts/setup.sh frameworks makes the environment")
    again = ("--max-restarts", 1)
    launchers = {name: run_on(cluster, name, STEPPER, 60, options=again)
                 for name in ("one", "two")}
    launchers["one"].wait_for(r"step 20$")
    following = int(launchers["one"].wait_for(r"attempt (\d+): node 0 of 2")[0][1]) + 1
    spare = run_on(cluster, "stranger", STEPPER, 60, options=again)
    spare.wait_for(r"agent of this host")
    time.sleep(2)  # its agent is a peer of the others
    cluster.hosts["two"].pull_cable()
    pulled = time.monotonic()
    try:
        named = seconds_until(launchers["one"], r"host two has not been heard for \d(\.\d)?s", pulled)
        assert named < 3.5, launchers["one"].text()
        status = cluster.ask("one", "why", JOB, token=cluster.token("launch"))[1]
        begun = seconds_until(launchers["one"], rf"attempt {following}: node 0 of 2", pulled)
        # The host that is cut off knows it, and has ended its process before another one begins.
        assert "task/1 (pid" in launchers["two"].text(), launchers["two"].text()
        stepped = seconds_until(launchers["one"], rf"attempt {following} step 0$", pulled)
        assert launchers["two"].end() == 125, launchers["two"].text()
    finally:
        cluster.hosts["two"].plug_cable_in()
    print(f"named after {named:.2f} s, begun after {begun:.2f} s, next step after {stepped:.2f} s")
    assert "host two has not been heard" in status, status
    assert begun < 5, launchers["one"].text()
    assert "it is cut off" in launchers["two"].text(), launchers["two"].text()
    assert launchers["one"].end() == 0, launchers["one"].text()
    assert spare.end() == 0, spare.text()
