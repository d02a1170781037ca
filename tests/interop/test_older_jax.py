"""Stock jaxlib 0.9.2, the last of the older family, as whole programs."""

import re
import subprocess

import pytest

from processes import LIMIT_S
from servers import OLDER_PYTHON, ROOT
from test_jax import digits_environment

# Everybody is in; then the second process is gone without a word, and the first one waits for it.
DIES = """
import jax, os, signal
jax.distributed.initialize()
client = jax._src.distributed.global_state.client
client.wait_at_barrier("all are in", 60_000)
if jax.process_index() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
client.wait_at_barrier("never", 600_000)
"""


def start(job, index, *arguments):
    return subprocess.Popen(
        [OLDER_PYTHON, *arguments], env=digits_environment(job.server.address, job.size, index),
        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ended(processes):
    """(exit code, output) of each."""
    results = []
    for process in processes:
        try:
            output, _ = process.communicate(timeout=2 * LIMIT_S)
        finally:
            process.kill()
        results.append((process.returncode, output))
    return results


@pytest.mark.only_lockstep
def test_the_example_trains_with_jaxlib_0_9_2(make_job):
    job = make_job(2)
    script = ROOT / "examples" / "jax_digits.py"
    results = ended([start(job, index, script, "--epochs", "8") for index in range(job.size)])
    finals = []
    for code, output in results:
        assert code == 0, output
        finals.append(re.search(r"final loss ([\d.]+), held-out accuracy ([\d.]+)", output).groups())
    assert finals[0] == finals[1]
    assert float(finals[0][1]) > 0.9


@pytest.mark.only_lockstep
def test_a_killed_process_ends_the_other_with_jaxlib_0_9_2(make_job):
    job = make_job(2)
    results = ended([start(job, index, "-c", DIES) for index in range(job.size)])
    code, output = results[0]
    assert code == -6, output
    assert re.search(r"UNAVAILABLE: task/1\b", output), output
    assert results[1][0] == -9
