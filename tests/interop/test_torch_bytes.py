"""Every command of the protocol of torch's TCPStore, byte by byte, against torch's own server and ours.

Torch's server needs build/peers/frameworks (scripts/setup.sh frameworks); ours is held against the bytes
anyway.
"""

import os
import resource
import selectors
import socket
import struct
import subprocess
import time

import pytest

import torch_bytes
from processes import LIMIT_S
from servers import ROOT, LockstepServer
from torch_bytes import BETTER, CLOSED, EXACT, FOREIGN, HELLO, PING, READY, SET, SHORT_S, WAIT

PYTHON = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"
TORCH_SERVER = """
from torch.distributed import TCPStore
import sys
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
print(store.port, flush=True)
sys.stdin.read()
"""

# How many connect and wait for one key at once; scripts/soak.sh has all that the issue asks for.
CONNECTIONS = int(os.environ.get("LOCKSTEP_TORCH_CONNECTIONS", "3000"))
RELEASED_WITHIN_S = 5.0
PER_TURN = 500


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    server = LockstepServer(4, tmp_path_factory.mktemp("bytes"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def theirs():
    if not PYTHON.exists():
        pytest.skip("scripts/setup.sh frameworks has not been run")
    with subprocess.Popen([PYTHON, "-c", TORCH_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True,
                          env=os.environ | {"TORCH_CPP_LOG_LEVEL": "ERROR"}) as server:
        yield f"127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


def test_every_command_has_a_conversation():
    told = {int(part) for name in EXACT for part in name.split("_") if part.isdigit()}
    assert told >= set(range(19))


@pytest.mark.parametrize("name", EXACT)
def test_ours_answers_to_the_byte(ours, name):
    conversation, expected = EXACT[name]
    assert torch_bytes.converse(conversation, ours.store, name) == expected


@pytest.mark.parametrize("name", EXACT)
def test_torchs_answers_the_same(theirs, name):
    conversation, expected = EXACT[name]
    assert torch_bytes.converse(conversation, theirs, name) == expected


@pytest.mark.parametrize("name", BETTER)
def test_where_ours_is_better(ours, name):
    conversation, expected = BETTER[name]
    assert torch_bytes.converse(conversation, ours.store, name) == expected


@pytest.mark.parametrize("name", BETTER)
def test_where_torchs_is_not(theirs, name):
    conversation, expected = BETTER[name]
    assert torch_bytes.converse(conversation, theirs, name, patience=SHORT_S) != expected


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_client_is_closed_at_once(ours, name):
    began = time.monotonic()
    assert torch_bytes.Connection(ours.store, LIMIT_S).send(FOREIGN[name]).receive(1) == CLOSED
    assert time.monotonic() - began < LIMIT_S / 2


def test_thousands_wait_for_one_key(ours):
    least = CONNECTIONS + 200
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[1] < least:
        pytest.skip(f"this process may have {limit[1]} descriptors, and needs {least}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], least), limit[1]))
    host, port = ours.store.rsplit(":", 1)
    pong = struct.pack("<I", 7)
    hello = HELLO + WAIT + torch_bytes.keys("/thousands") + PING + pong
    began = time.monotonic()
    sockets = []
    try:
        while len(sockets) < CONNECTIONS:
            turn = []
            for _ in range(min(PER_TURN, CONNECTIONS - len(sockets))):
                turn.append(socket.create_connection((host, int(port)), timeout=LIMIT_S))
                turn[-1].sendall(hello)
            sockets += turn
            assert all(one.recv(4) == pong for one in turn)  # all of them wait
        assert ours.status()["torch_store"]["waits"] == CONNECTIONS
        with selectors.DefaultSelector() as selector:
            for one in sockets:
                selector.register(one, selectors.EVENT_READ)
            setter = torch_bytes.Connection(ours.store, LIMIT_S)
            setter.send(HELLO, SET, torch_bytes.text("/thousands"), torch_bytes.text("1"))
            left = len(sockets)
            while left:
                ready = selector.select(LIMIT_S)
                assert ready, f"{left} of {CONNECTIONS} were not released"
                for key, _ in ready:
                    assert key.fileobj.recv(1) == READY
                    selector.unregister(key.fileobj)
                    left -= 1
        took = time.monotonic() - began
        print(f"{CONNECTIONS} connected and released in {took:.2f} s")
        # Of 10,000, and as much for fewer: others may use the machine meanwhile.
        assert took < RELEASED_WITHIN_S
    finally:
        for one in sockets:
            one.close()
