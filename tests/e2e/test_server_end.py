"""What clients that drip, hang or never read can do to a server: nothing when it is told to end, and
little before."""

import contextlib
import json
import signal
import socket
import struct
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command

# What `--end-timeout` says, and what a loaded machine may add. Without a bound it was "never".
END_S = 5
SLACK_S = 10
LONG = "10m"


def connect(address, *pieces):
    host, port = address.rsplit(":", 1)
    client = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
    for piece in pieces:
        client.sendall(piece)
    return client


def frame(kind, flags, stream, payload=b""):
    """Of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def text(value):
    return bytes((len(value),)) + value


def call_of(method, stream):
    path = b"/xla.coordination.CoordinationService/" + method
    headers = (b"\x83\x86" + b"\x04" + text(path) + b"\x01" + text(b"server") +
               b"\x0f\x10" + text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers"))
    return frame(1, 4, stream, headers)


def stuck_grpc_client(address):
    """Waits for a key that nobody sets, and is in the midst of a second call. Reads no more than shows
    that the server is there."""
    key = b"\x0a" + text(b"never")
    client = connect(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(4, 0, 0),
                     call_of(b"GetKeyValue", 1),
                     frame(0, 1, 1, b"\x00" + struct.pack(">I", len(key)) + key),
                     call_of(b"InsertKeyValue", 3),
                     frame(0, 0, 3, b"\x00" + struct.pack(">I", 1 << 20) + b"half of it"))
    assert client.recv(1)
    return client


def dripping_http_client(address):
    return connect(address, b"GET /healthz HTTP/1.1\r\nHost: loc")


@contextlib.contextmanager
def serving(folder, *more):
    """A server, and what its ready file says."""
    ready = folder / "ready.json"
    with Command(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state",
                 folder / "state", "--job", "digits=2", "--ready-file", ready, *more) as server:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline and server.process.poll() is None, server.text()
            time.sleep(0.01)
        server.told = json.loads(ready.read_text())
        yield server


@contextlib.contextmanager
def besieged(server):
    """By everybody who could hold up its end."""
    job = server.told["jobs"]["digits"]
    with contextlib.ExitStack() as clients:
        for _ in range(8):
            clients.enter_context(dripping_http_client(server.told["http"]))
        for _ in range(2):
            clients.enter_context(stuck_grpc_client(job["grpc"]))
        for address in (server.told["listen"], job["store"], job["grpc"], server.told["http"]):
            clients.enter_context(connect(address))
        # A link that is idle, after its hello.
        events = clients.enter_context(Command(LOCKSTEP, "events", "--follow",
                                               "--coordinator", server.told["listen"]))
        events.wait_for("serves at")
        # Half a request of torch's.
        clients.enter_context(connect(job["store"], TORCH_HELLO, TORCH_HALF))
        yield


TORCH_HELLO = b"\x00" + struct.pack("<I", 0x3C85F7CE)
TORCH_HALF = b"\x01" + struct.pack("<Q", 3) + b"key" + struct.pack("<Q", 1 << 20) + b"half of it"


def test_finding_04_a_signal_ends_the_server_whatever_clients_do(tmp_path):
    with serving(tmp_path) as server, besieged(server):
        begin = time.monotonic()
        server.signal(signal.SIGTERM)
        code = server.end()
        took = time.monotonic() - begin
        assert took < END_S + SLACK_S, server.text()
        assert code == 0, server.text()


def test_finding_04_a_second_signal_ends_the_server_at_once(tmp_path):
    with serving(tmp_path, "--drain-time", LONG, "--end-timeout", LONG) as server, besieged(server):
        server.signal(signal.SIGTERM)
        server.wait_for("shutting down; a second signal ends the server at once")
        server.signal(signal.SIGTERM)
        assert server.end() == 128 + signal.SIGTERM, server.text()


@pytest.mark.parametrize("what", ["a request that is never whole", "answers that are never read"])
def test_finding_09_who_stands_still_at_torchs_store_loses_the_connection(tmp_path, what):
    with serving(tmp_path, "--torch-progress-timeout", "1s") as server:
        store = server.told["jobs"]["digits"]["store"]
        if what.startswith("a request"):
            client = connect(store, TORCH_HELLO, TORCH_HALF)
        else:
            # More than the kernel keeps for who does not read, of one key asked for again and again.
            value = b"x" * (1 << 20)
            get = b"\x03" + struct.pack("<Q", 3) + b"key"
            client = connect(store, TORCH_HELLO, b"\x01" + struct.pack("<Q", 3) + b"key" +
                             struct.pack("<Q", len(value)) + value, get * 60)
        with client:
            server.wait_for(r"connection from 127\.0\.0\.1:\d+ closed: .* for 1s")
            with contextlib.suppress(ConnectionResetError):
                while client.recv(1 << 20):
                    pass
        # Others are served.
        with connect(store, TORCH_HELLO, b"\x01" + struct.pack("<Q", 1) + b"k" + struct.pack("<Q", 1) + b"v",
                     b"\x03" + struct.pack("<Q", 1) + b"k") as honest:
            assert honest.recv(9, socket.MSG_WAITALL) == struct.pack("<Q", 1) + b"v"
        server.signal(signal.SIGTERM)
        assert server.end() == 0, server.text()
