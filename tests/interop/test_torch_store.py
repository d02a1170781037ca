"""Torch's own clients, unchanged: the same calls against torch's TCPStore server and ours; process groups.

Needs build/peers/frameworks (scripts/setup.sh frameworks); skipped without.
"""

import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from processes import LIMIT_S
from servers import BIN, JOB, ROOT, LockstepServer

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(),
                                reason="scripts/setup.sh frameworks has not been run")

SCENARIOS = re.findall(r"^@scenario\ndef (\w+)", (HERE / "torch_calls.py").read_text(), re.MULTILINE)
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    one = LockstepServer(4, tmp_path_factory.mktemp("torch"))
    yield one
    one.end()


@pytest.fixture
def own_server(tmp_path):
    """One whose store nobody has used."""
    one = LockstepServer(4, tmp_path)
    yield one
    one.end()


def calls(*arguments):
    ran = subprocess.run([PYTHON, HERE / "torch_calls.py", *arguments], capture_output=True, text=True,
                         timeout=3 * LIMIT_S, env=os.environ | QUIET, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def told(server):
    """What each scenario came to, on torch's server and on ours."""
    return {"torch": calls(), "lockstep": calls(server.store)}


def test_there_are_scenarios(told):
    assert len(SCENARIOS) > 20
    assert set(SCENARIOS) == set(told["torch"]) == set(told["lockstep"])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_calls_come_to_the_same(told, scenario):
    assert told["lockstep"][scenario] == told["torch"][scenario]
    assert not str(told["torch"][scenario]).endswith("Error"), "the scenario itself is broken"


def start_rank(rank, size, store, timeout):
    host, port = store.rsplit(":", 1)
    environment = os.environ | QUIET | {
        "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": host,
        "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    return subprocess.Popen([PYTHON, HERE / "torch_worker.py", str(timeout)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


def test_a_process_group_of_four(own_server):
    server = own_server
    ranks = [start_rank(rank, 4, server.store, LIMIT_S) for rank in range(4)]
    outputs = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 4, outputs
    assert [output.split()[0] for output in outputs] == ["20.0", "20.0", "10.0", "10.0"]
    assert all("[0, 1, 2, 3]" in output for output in outputs)


def test_a_group_on_the_port_of_one_that_has_ended(tmp_path):
    # What the first leaves behind would lead the second astray. No launcher tells that it has ended, so it is
    # known by a rest and by processes that are others.
    server = LockstepServer(2, tmp_path, more=["--torch-store-idle-timeout", "0s"])
    try:
        for _ in range(2):
            ranks = [start_rank(rank, 2, server.store, LIMIT_S) for rank in range(2)]
            outputs = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
            assert [rank.returncode for rank in ranks] == [0] * 2, outputs
            give_up = time.monotonic() + LIMIT_S
            while server.status()["torch_store"]["connections"]:
                assert time.monotonic() < give_up
    finally:
        server.end()


def test_the_rank_that_never_comes_is_named(own_server):
    server = own_server
    ranks = [start_rank(rank, 4, server.store, LIMIT_S) for rank in (0, 1, 3)]
    try:
        give_up = time.monotonic() + LIMIT_S
        awaited = []
        while not (awaited and awaited[0]["rank"] == 2 and awaited[0]["waiters"] == 3):
            assert time.monotonic() < give_up, awaited
            awaited = server.status()["torch_store"]["awaited"]
        assert sorted(one["rank"] for one in awaited[0]["first_waiters"]) == [0, 1, 3]
        assert "probably of rank 2" in server.ask("status")
        assert "3 wait at torch's store for rank 2" in server.ask("why", JOB)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


WRITES = """
store.set("a", "x")
store.append("a", "y")
store.multi_set(["m1", "m2"], ["1", "2"])
store.queue_push("q", "first")
store.queue_push("q", "second")
told = [store.add("n", 41), store.compare_set("c", "", "v").decode(), store.delete_key("m1")]
"""
READS = """
told = [store.get("a").decode(), store.add("n", 1), store.queue_pop("q").decode(), store.queue_len("q"),
        store.get("c").decode(), store.check(["m1"]), store.get("m2").decode()]
"""


def run_client(store, code):
    """What torch's client is told by these calls; it ends without leaving in order."""
    host, port = store.rsplit(":", 1)
    program = (f"import datetime, json, os\nfrom torch.distributed import TCPStore\n"
               f"store = TCPStore('{host}', {port}, is_master=False, wait_for_workers=False,\n"
               f"                 timeout=datetime.timedelta(seconds={LIMIT_S}))\n{code}\n"
               f"print(json.dumps(told), flush=True)\n")
    client = subprocess.Popen([PYTHON, "-c", program + "import sys; sys.stdin.read()"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | QUIET)
    return client, json.loads(client.stdout.readline())


def start_durable(folder):
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    with open(folder / "durable.log", "ab") as log:
        server = subprocess.Popen(
            [BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--job", f"{JOB}=2", "--state",
             folder / "state", "--torch-store-durable", "--ready-file", ready],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    give_up = time.monotonic() + LIMIT_S
    while not ready.exists():
        assert server.poll() is None and time.monotonic() < give_up, (folder / "durable.log").read_text()
        time.sleep(0.005)
    return server, json.loads(ready.read_text())["jobs"][JOB]["store"]


def test_a_durable_store_is_there_after_a_kill(tmp_path):
    server, store = start_durable(tmp_path)
    writer, told = run_client(store, WRITES)
    assert told == [41, "v", True]
    server.kill()  # while the client is connected: nobody has left the store
    server.wait()
    writer.kill()
    writer.communicate()
    server, again = start_durable(tmp_path)
    try:
        assert again == store, "at the same port"
        reader, told = run_client(store, READS)
        assert told == ["xy", 42, "first", 1, "v", False, "2"]
        reader.kill()
        reader.communicate()
    finally:
        server.kill()
        server.wait()
