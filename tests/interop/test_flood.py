"""More idle connections than the server has descriptors: it serves on, at each of its listeners."""

import resource
import socket
import subprocess

import pytest

from servers import BIN, LockstepServer
from processes import LIMIT_S
from wire import WireMember, register_all

DESCRIPTORS = 1024
IDLE = 3000


@pytest.fixture
def descriptors_here():
    """Enough of them for the other ends of the flood."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 1000
    if before[1] != resource.RLIM_INFINITY and before[1] < wanted:
        pytest.skip(f"this user may open {before[1]} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], wanted), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def server(tmp_path, descriptors_here):
    server = LockstepServer(2, tmp_path)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    yield server
    server.end()


class Flood:
    """Connections that say nothing. One that the server has closed is opened anew by `again`."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._where = (host, int(port))
        self._open = []
        self.again()

    def again(self):
        still_open = []
        for stream in self._open:
            try:
                closed = stream.recv(4096) == b""
            except BlockingIOError:
                closed = False
            except ConnectionError:
                closed = True
            if closed:
                stream.close()
            else:
                still_open.append(stream)
        self._open = still_open
        while len(self._open) < IDLE:
            stream = socket.create_connection(self._where, timeout=LIMIT_S)
            stream.setblocking(False)
            self._open.append(stream)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for stream in self._open:
            stream.close()


@pytest.fixture
def follower(server):
    """`lockstep events --follow`: a link that stays open."""
    with subprocess.Popen([BIN / "lockstep", "events", "t", "--follow", "--coordinator",
                           server.listen], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("listener", ["listen", "address"], ids=["link", "stock"])
def test_idle_connections_are_more_than_the_server_has_descriptors(server, follower, listener):
    members = register_all([WireMember(server.address, index, 100 + index) for index in range(2)])
    polls = [member.poll() for member in members]
    while "runs" not in follower.stdout.readline():
        pass  # its link is open
    with Flood(getattr(server, listener)) as flood:
        for round_number in range(5):
            for member in members:
                member.heartbeat().value()
            waits = [member.barrier(f"b{round_number}") for member in members]
            assert all(wait.value() is not None for wait in waits)
            # A new link, with its own answer, within the time that the command gives itself.
            assert server.status()["state"] == "running"
            flood.again()
        for poll in polls:
            poll.assert_parked(0.05)
    # The links from before the flood live.
    for leave in [member.shut_down() for member in members]:
        leave.value()
    while "ended" not in (line := follower.stdout.readline()):
        assert line, "the follower lost its link"
    for member in members:
        member.close()
    with WireMemberOf(server, 0) as late:
        assert late.refusal("TryGetKeyValue", key="x").payloads
    assert server.alive()


class WireMemberOf(WireMember):
    """A new connection, which ends with the block."""

    def __init__(self, server, index):
        super().__init__(server.address, index, 200 + index)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
