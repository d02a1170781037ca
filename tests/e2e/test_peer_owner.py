"""Another user of the host, who reaches every port of the loopback interface, is served at none."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from commands import DEADLINE_S, LOCKSTEP, serving

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture(name="strangers_lockstep")
def strangers_lockstep_fixture(tmp_path):
    """The program where another user may start it: the checkout may be closed to others."""
    folder = pathlib.Path("/tmp") / f"lockstep-stranger-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        yield shutil.copy(LOCKSTEP, folder / "lockstep")
    finally:
        shutil.rmtree(folder)


def call(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False, **more)


def as_nobody(*command):
    return call(*command, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": "/"})


def what_nobody_hears(address):
    """What a raw connection of another user is sent before it is closed."""
    host, port = address.rsplit(":", 1)
    program = (f"import socket, sys\n"
               f"s = socket.create_connection(({host!r}, {port}), timeout={DEADLINE_S})\n"
               f"heard = b''\n"
               f"try:\n"
               f"    while piece := s.recv(4096): heard += piece\n"
               f"except ConnectionResetError: pass\n"
               f"sys.stdout.write(heard.decode(errors='replace'))\n")
    told = as_nobody("/usr/bin/python3", "-c", program)
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_finding_13_another_user_is_refused_at_every_listener(tmp_path, strangers_lockstep):
    with serving(tmp_path, "--job", "digits=1", "--http", "127.0.0.1:0") as server:
        ready = json.loads((tmp_path / "ready.json").read_text())
        ended = as_nobody(strangers_lockstep, "job", "delete", "digits", "--force",
                          "--coordinator", server.address)
        assert ended.returncode != 0
        assert "this address serves root of this host only" in ended.stderr
        assert "--allow-uid" in ended.stderr
        assert what_nobody_hears(ready["http"]).startswith("HTTP/1.1 403 ")
        assert what_nobody_hears(ready["jobs"]["digits"]["grpc"]) == ""
        assert what_nobody_hears(ready["jobs"]["digits"]["store"]) == ""
        mine = call(LOCKSTEP, "status", "-o", "json", "--coordinator", server.address)
        assert [job["job"] for job in json.loads(mine.stdout)["jobs"]] == ["digits"]


def test_who_is_allowed_is_served(tmp_path, strangers_lockstep):
    with serving(tmp_path, "--job", "digits=1", "--allow-uid", NOBODY) as server:
        told = as_nobody(strangers_lockstep, "status", "--coordinator", server.address)
        assert told.returncode == 0, told.stderr
        assert "digits" in told.stdout


def test_a_user_who_does_not_exist_cannot_be_allowed():
    told = call(LOCKSTEP, "serve", "--ephemeral", "--allow-uid", "nobody-of-that-name")
    assert told.returncode == 2
    assert "--allow-uid nobody-of-that-name: no user of this host" in told.stderr
