"""Stock TensorFlow workers with Lockstep as the leader that they do not know to be another program."""

import re
import socket
import subprocess

import pytest

from processes import LIMIT_S
from servers import HERE, ROOT

PYTHON = ROOT / "build" / "peers" / "tensorflow" / "bin" / "python"


def free_addresses(count):
    """Each worker is told where all of them will listen, so the ports are chosen before."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


@pytest.mark.only_lockstep
@pytest.mark.parametrize("roles", [None, "worker:2"])
def test_workers_wait_for_all_share_keys_and_get_an_error(make_job, roles):
    job = make_job(2, roles=roles)
    addresses = free_addresses(job.size)
    workers = [subprocess.Popen(
        [PYTHON, HERE / "tensorflow_worker.py", job.server.address, str(index), *addresses],
        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for index in range(job.size)]
    outputs = []
    for worker in workers:
        try:
            outputs.append(worker.communicate(timeout=2 * LIMIT_S)[0])
        finally:
            worker.kill()
            worker.wait(LIMIT_S)
    for index, output in enumerate("\n" + output for output in outputs):
        assert "\nend\n" in output, output
        assert "\nsum 11.0\n" in output, output
        assert f"\nkey from {1 - index}\n" in output, output
        assert "\nhealthy True\n" in output, output
    assert re.search(r"^error .*worker 0 cannot go on", outputs[1], re.MULTILINE), outputs[1]
