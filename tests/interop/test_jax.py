"""Whole JAX processes, which know nothing of Lockstep, on either server."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from members import all_of
from processes import LIMIT_S, Process

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class _Jax:
    """Runs in the member's process."""

    def __init__(self, address, size, index):
        self._address, self._size, self._index = address, size, index
        os.environ["JAX_COORDINATOR_BIND_ADDRESS"] = "127.0.0.1:0"
        os.environ["JAX_PLATFORMS"] = "cpu"

    def initialize(self):
        import jax
        jax.distributed.initialize(self._address, self._size, self._index)

    def sum_over_all(self, value):
        import jax
        import numpy as np
        from jax.experimental import multihost_utils
        gathered = multihost_utils.process_allgather(np.array([float(value)]))
        return float(np.sum(gathered)), jax.device_count()

    def sync(self, name):
        from jax.experimental import multihost_utils
        multihost_utils.sync_global_devices(name)

    def live(self):
        import jax
        from jax.experimental import multihost_utils
        with multihost_utils.live_devices(jax.devices()) as devices:
            return sorted(device.process_index for device in devices)

    def step(self, number):
        from jax.experimental import multihost_utils
        return multihost_utils.reached_preemption_sync_point(number)

    def key_value_set(self, key, value):
        from jax._src import distributed
        distributed.global_state.client.key_value_set(key, value)

    def shutdown(self):
        import jax
        jax.distributed.shutdown()


def jax_processes(job):
    processes = [Process(f"jax-{index}", _Jax, job.folder, job.server.address, job.size, index)
                 for index in range(job.size)]
    job.adopt(processes)
    all_of([process.start("initialize") for process in processes])
    return processes


def test_collectives_between_processes(make_job):
    processes = jax_processes(make_job(2))
    sums = all_of([process.start("sum_over_all", 10 ** process_index)
                   for process_index, process in enumerate(processes)])
    assert sums == [(11.0, 2), (11.0, 2)]
    all_of([process.start("sync", "done") for process in processes])
    all_of([process.start("shutdown") for process in processes])


@pytest.mark.row(127)
def test_row_127_live_devices(make_job):
    processes = jax_processes(make_job(2))
    assert all_of([process.start("live") for process in processes]) == [[0, 1], [0, 1]]
    all_of([process.start("shutdown") for process in processes])


@pytest.mark.row(160)
@pytest.mark.parametrize("zone", ["Z", "-05:00"])
def test_row_160_a_notice_by_an_outside_client(make_job, zone):
    """Nobody in the job gets a signal; all save at the same step, once."""
    job = make_job(2)
    processes = jax_processes(job)
    assert all_of([process.start("step", 1) for process in processes]) == [False, False]

    outside = job.wire()
    outside.learn_incarnation()
    outside.call("InsertKeyValue", kv={"key": "RECEIVED_PREEMPTION_NOTICE",
                                       "value": f"2026-11-20T19:32:35.276588307{zone}".encode()})

    # Which step it is depends on when the notice arrives; that all agree on it does not.
    reached = []
    for number in range(2, 5000):
        answers = all_of([process.start("step", number) for process in processes])
        assert answers[0] == answers[1], f"step {number}: {answers}"
        if answers[0]:
            reached.append(number)
        if reached and number > reached[0] + 3:
            break
    assert len(reached) == 1
    all_of([process.start("shutdown") for process in processes])


@pytest.mark.mended("a dead process is noticed by the heartbeat time-out only, after up to 100 s")
def test_a_killed_process_ends_the_others(make_job):
    job = make_job(3)
    processes = jax_processes(job)
    job.wait_until_all_poll()
    processes[1].kill()
    for survivor in (processes[0], processes[2]):
        assert survivor.wait_ended() == -6
        assert re.search(r"UNAVAILABLE: task/1\b", survivor.output())


def digits_environment(address, size, index):
    """What `lockstep run` sets, so that jax.distributed.initialize() needs no arguments."""
    return {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0",
            "JAX_COORDINATOR_ADDRESS": address, "OMPI_MCA_orte_hnp_uri": "x",
            "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_RANK": str(index),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(index)}


@pytest.mark.only_lockstep
def test_the_example_trains(make_job):
    job = make_job(2)
    started = [subprocess.Popen(
        [sys.executable, ROOT / "examples" / "jax_digits.py", "--epochs", "8"],
        env=digits_environment(job.server.address, job.size, index), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for index in range(job.size)]
    outputs = []
    for process in started:
        try:
            output, _ = process.communicate(timeout=3 * LIMIT_S)
        finally:
            process.kill()
        assert process.returncode == 0, output
        outputs.append(output)

    finals = [re.search(r"final loss ([\d.]+), held-out accuracy ([\d.]+)", output).groups()
              for output in outputs]
    assert finals[0] == finals[1]
    assert float(finals[0][1]) > 0.9
