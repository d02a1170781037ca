"""Stock torch programs come to the same under `lockstep run` and with torch's own server.

Needs build/peers/frameworks (scripts/setup.sh frameworks); skipped without.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from processes import LIMIT_S
from servers import BIN, ROOT

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"
RANKS = 2

pytestmark = pytest.mark.skipif(not PYTHON.exists(),
                                reason="scripts/setup.sh frameworks has not been run")

OWN = ("MASTER_", "TORCHELASTIC_", "LOCKSTEP_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return kept | {"TORCH_CPP_LOG_LEVEL": "ERROR", "GLOO_SOCKET_IFNAME": "lo"} | more


def start(command, **more):
    return subprocess.Popen([str(part) for part in command], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=environment(**more))


def program(case, folder):
    return [HERE / "torch_programs.py", case, folder]


def by_lockstep(case, folder):
    return [start([BIN / "lockstep", "run", "-n", RANKS, "--", PYTHON, *program(case, folder)])]


def by_torchrun(case, folder):
    return [start([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
                   *program(case, folder)])]


def told_by(processes):
    """What the ranks said, in their order."""
    try:
        outputs = [process.communicate(timeout=3 * LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    text = "\n".join(outputs)
    assert [process.returncode for process in processes] == [0] * len(processes), text
    told = dict(re.findall(r"rank (\d+): (.*)", text))
    assert len(told) == RANKS, text
    return [told[str(rank)] for rank in range(RANKS)]


def run(start_case, case, folder):
    folder.mkdir()
    return told_by(start_case(case, folder))


@pytest.mark.parametrize("case", ["preset", "preset_and_end"])
def test_use_a04_a_key_is_there_though_who_set_it_has_left(tmp_path, case):
    theirs = run(by_torchrun, case, tmp_path / "theirs")
    assert theirs == ["hello"] * RANKS
    assert run(by_lockstep, case, tmp_path / "ours") == theirs


@pytest.mark.parametrize("case", ["rpc", "groups", "spawn", "file_store", "own_address"])
def test_a_program_comes_to_the_same(tmp_path, case):
    assert run(by_lockstep, case, tmp_path / "ours") == run(by_torchrun, case, tmp_path / "theirs")


def test_a_group_that_is_made_again_by_the_same_processes(tmp_path):
    # Ours alone. Under torchrun the next group finds the addresses of the one before; and where rank 0
    # makes torch's own server, rank 1 may reach that of the group before, and both fail.
    assert run(by_lockstep, "again", tmp_path / "ours") == [str([3] * 10)] * RANKS


@contextlib.contextmanager
def serving(folder):
    """A server without jobs: what torchrun is pointed at."""
    ready = folder / "ready.json"
    with open(folder / "server.log", "ab") as log:
        server = subprocess.Popen([BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--ephemeral",
                                   "--ready-file", ready], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        give_up = time.monotonic() + LIMIT_S
        while not ready.exists():
            assert server.poll() is None and time.monotonic() < give_up, (folder / "server.log").read_text()
            time.sleep(0.005)
        yield json.loads(ready.read_text())["listen"]
    finally:
        server.terminate()
        server.wait()


def torchrun_at(server, run_id, case, folder):
    package = ROOT / "build" / "release" / "python"
    return start([PYTHON, "-m", "torch.distributed.run", "--nnodes", 1, "--nproc-per-node", RANKS,
                  "--rdzv-backend", "lockstep", "--rdzv-endpoint", server, "--rdzv-id", run_id,
                  *program(case, folder)], PYTHONPATH=str(package))


@pytest.mark.parametrize("case", ["preset", "preset_and_end"])
def test_use_a04_the_same_under_torchrun_with_our_rendezvous(tmp_path, case):
    with serving(tmp_path) as server:
        assert told_by([torchrun_at(server, "one", case, tmp_path)]) == ["hello"] * RANKS


def test_two_torchruns_at_once(tmp_path):
    with serving(tmp_path) as server:
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder in folders:
            folder.mkdir()
        both = [torchrun_at(server, folder.name, "groups", folder) for folder in folders]
        assert [told_by([one]) for one in both] == [["[3, 3, 3, 1]", "[3, 3, 3]"]] * 2


def test_two_torchruns_at_once_inside_of_lockstep_run(tmp_path):
    # Each of the two processes is a torchrun with a store of its own; what `lockstep run` set is not theirs.
    one = tmp_path / "one.sh"
    one.write_text(f'mkdir "$1/$RANK" && exec "{PYTHON}" -m torch.distributed.run --standalone'
                   f' --nproc-per-node {RANKS} "{HERE / "torch_programs.py"}" groups "$1/$RANK"\n')
    both = start([BIN / "lockstep", "run", "-n", 2, "--", "sh", one, tmp_path])
    text = both.communicate(timeout=3 * LIMIT_S)[0]
    assert both.returncode == 0, text
    assert text.count("rank 0: [3, 3, 3, 1]") == text.count("rank 1: [3, 3, 3]") == 2, text
