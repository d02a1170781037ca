"""Fixtures of the interop tests. See README.md beside this file."""

import contextlib
import os
import time

import pytest

from members import Crowd, Member, all_of
from processes import LIMIT_S
from proxy import Proxy
from older_wire import OlderMember, OlderWire
from servers import OLDER_SERVERS, SERVERS
from wire import Wire, WireMember, register_all


def pytest_configure(config):
    config.addinivalue_line("markers", "row(number): a row of the conformance list that it shows")
    config.addinivalue_line("markers", "mended(text): upstream's defect; runs against Lockstep only")
    config.addinivalue_line("markers", "older: of tensorflow.CoordinationService")
    config.addinivalue_line("markers", "soak: too long for every change; see scripts/soak.sh")
    config.addinivalue_line("markers", "only_lockstep: takes long and compares nothing")


def pytest_generate_tests(metafunc):
    """Every test that makes a job runs against both servers, unless it shows a mended defect."""
    if "kind" in metafunc.fixturenames:
        markers = {marker.name for marker in metafunc.definition.iter_markers()}
        ours = markers & {"mended", "only_lockstep"} and "INTEROP_UPSTREAM_TOO" not in os.environ
        upstream = "jaxlib-0.9.2" if metafunc.definition.get_closest_marker("older") else "jaxlib"
        metafunc.parametrize("kind", ["lockstep"] if ours else [upstream, "lockstep"])


class Job:
    """A server with a job of some size, and its members."""

    def __init__(self, kind, folder, size, server_options):
        self.kind = kind
        self.folder = folder
        self.size = size
        self._made = 0
        self._members = []
        self._wires = []
        self.server = (SERVERS | OLDER_SERVERS)[kind](size, folder, **server_options)

    def member(self, index, **options):
        self._made += 1
        member = Member(index, self.server.address, self.folder,
                        name=f"member-{index}-{self._made}", **options)
        self._members.append(member)
        return member

    def members(self, **options):
        """All members, connected, with their polls for errors parked at our server."""
        members = [self.member(index, **options) for index in range(self.size)]
        all_of([member.start("connect") for member in members])
        self.wait_until_all_poll()
        return members

    def wait_until_all_poll(self):
        """Returns once every member's poll for errors is parked at our server.

        A stock client polls on a thread of its own once it is connected. Killed before that poll is on
        its way, it is lost by its heartbeats only.
        """
        give_up = time.monotonic() + LIMIT_S
        while self.kind == "lockstep" and self.server.status()["waits"] < self.size:
            assert time.monotonic() < give_up, f"they do not poll: {self.server.status()}"

    def crowd(self, indices, **options):
        """Members that share a process."""
        crowd = Crowd(indices, self.server.address, self.folder, **options)
        self._members.append(crowd)
        return crowd

    def adopt(self, processes):
        """They end with the job."""
        self._members += processes

    def wire(self):
        wire = Wire(self.server.address)
        self._wires.append(wire)
        return wire

    def wire_member(self, index):
        """A member that a test plays by hand."""
        self._made += 1
        member = WireMember(self.server.address, index, 1000 + self._made)
        self._wires.append(member)
        return member

    def older_wire(self):
        wire = OlderWire(self.server.address)
        self._wires.append(wire)
        return wire

    def older_member(self, index, role="jax_worker", **options):
        """A member that speaks the older family's protocol, by hand."""
        self._made += 1
        member = OlderMember(self.server.address, role, index, 1000 + self._made, **options)
        self._wires.append(member)
        return member

    def older_members(self):
        """All members, registered; nobody polls yet."""
        return register_all([self.older_member(index) for index in range(self.size)])

    def wire_members(self):
        """All members, registered; nobody polls yet."""
        return register_all([self.wire_member(index) for index in range(self.size)])

    def end(self):
        for wire in self._wires:
            wire.close()
        for member in self._members:
            member.end()
        self.server.end()


@pytest.fixture
def make_job(kind, tmp_path):
    """make_job(size, **server_options): a Job that ends with the test."""
    with contextlib.ExitStack() as stack:
        def make(size, **server_options):
            job = Job(kind, tmp_path, size, server_options)
            stack.callback(job.end)
            return job
        yield make


@pytest.fixture
def make_proxied():
    """make_proxied(job, index, piece_bytes): a member behind a proxy, and the proxy."""
    with contextlib.ExitStack() as stack:
        def make(job, index, **options):
            proxy = Proxy(job.server.address, **options)
            stack.callback(proxy.close)
            member = Member(index, proxy.address, job.folder, name="behind-the-proxy")
            stack.callback(member.end)
            return member, proxy
        yield make
