"""Preemptions of unmodified JAX programs: a notice makes all of them save at one step."""

import re
import subprocess
import sys
import time

import pytest

from processes import LIMIT_S
from servers import BIN, OLDER_PYTHON, ROOT
from test_jax import digits_environment

WORKER = ROOT / "tests" / "interop" / "preemption_worker.py"
ORBAX_WORKER = ROOT / "tests" / "interop" / "orbax_worker.py"


class Worker:
    """A stock JAX process that saves when it is told to, and what it printed."""

    def __init__(self, job, command, index, folder):
        self.log = folder / f"worker-{index}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command,
                env=digits_environment(job.server.address, job.size, index),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def until_at_work(self):
        give_up = time.monotonic() + LIMIT_S
        while "at work" not in self.log.read_text():
            assert time.monotonic() < give_up and self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def saved_at(self):
        """Waits until it has ended well; the step at which it saved."""
        assert self.process.wait(LIMIT_S) == 0, self.log.read_text()
        return int(re.search(r"saved at (\d+)", self.log.read_text()).group(1))


def preempt(job, *arguments):
    return subprocess.run(
        [BIN / "lockstep", "preempt", "--coordinator", job.server.listen, "--job",
         job.server.status()["job"], *arguments],
        capture_output=True, text=True, timeout=2 * LIMIT_S)


def preempt_in_the_middle(job, command, folder):
    """Runs the job, preempts one of its members; the step at which all saved."""
    workers = [Worker(job, command, index, folder) for index in range(job.size)]
    try:
        for worker in workers:
            worker.until_at_work()
        told = preempt(job, "--member", "1", "--in", "30s", "--wait", "60s")
        assert told.returncode == 0, told.stdout + told.stderr
        steps = [worker.saved_at() for worker in workers]
    finally:
        for worker in workers:
            worker.process.kill()
    assert len(set(steps)) == 1, steps
    preemption = job.server.status().get("preemption")
    assert preemption["state"]["outcome"] == "synced", preemption
    assert preemption["state"]["sync_step"] == steps[0]
    return steps[0]


@pytest.mark.only_lockstep
@pytest.mark.parametrize("python", [sys.executable, OLDER_PYTHON], ids=["new", "old"])
def test_stock_jax_saves_at_one_step(make_job, tmp_path, python):
    job = make_job(3)
    preempt_in_the_middle(job, [python, WORKER, "100000", "0.002"], tmp_path)


@pytest.mark.only_lockstep
def test_an_orbax_manager_saves_at_one_step(make_job, tmp_path):
    saved = tmp_path / "saved"
    saved.mkdir()
    step = preempt_in_the_middle(make_job(2), [sys.executable, ORBAX_WORKER, saved], tmp_path)
    # Orbax saves the first step that it is given, too; a folder with its last file is whole.
    whole = {path.parent.name for path in saved.glob("*/_CHECKPOINT_METADATA")}
    assert whole == {"1", str(step)}
