"""Preemptions of unmodified JAX programs: a notice makes all of them save at one step."""

import json
import re
import subprocess
import sys
import time

import pytest

from processes import LIMIT_S
from servers import BIN, OLDER_PYTHON, ROOT
from test_jax import digits_environment

WORKER = ROOT / "tests" / "interop" / "preemption_worker.py"


def run(job, python):
    return [subprocess.Popen(
        [python, WORKER, "100000", "0.002"],
        env=digits_environment(job.server.address, job.size, index), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for index in range(job.size)]


def until(job, holds, what):
    give_up = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up:
        status = job.server.status()
        if holds(status):
            return status
        time.sleep(0.1)
    raise AssertionError(f"{what}: {json.dumps(status)[:2000]}")


def preempt(job, *arguments):
    return subprocess.run(
        [BIN / "lockstep", "preempt", "--coordinator", job.server.listen, "--job",
         job.server.status()["job"], *arguments],
        capture_output=True, text=True, timeout=2 * LIMIT_S)


@pytest.mark.only_lockstep
@pytest.mark.parametrize("python", [sys.executable, OLDER_PYTHON], ids=["new", "old"])
def test_stock_jax_saves_at_one_step(make_job, python):
    job = make_job(3)
    workers = run(job, python)
    try:
        until(job, lambda status: status["state"] == "running", "they do not start")
        time.sleep(1)  # some steps; how many does not matter
        told = preempt(job, "--member", "1", "--in", "30s", "--wait", "60s")
        assert told.returncode == 0, told.stdout + told.stderr
        outputs = [worker.communicate(timeout=LIMIT_S)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    steps = []
    for worker, output in zip(workers, outputs):
        assert worker.returncode == 0, output
        steps.append(int(re.search(r"saved at (\d+)", output).group(1)))
    assert len(set(steps)) == 1, steps
    preemption = job.server.status().get("preemption")
    assert preemption["state"]["outcome"] == "synced", preemption
    assert preemption["state"]["sync_step"] == steps[0]
