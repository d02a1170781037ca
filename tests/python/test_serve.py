"""lockstep.serve, and the programs that the package carries."""

import json
import os
import select
import subprocess
import sys

import pytest

import lockstep
from conftest import LIMIT_S
from programs import Program


def test_a_server_for_a_block(job):
    with lockstep.serve(jobs={"digits": 1, "letters": 2}) as server:
        assert server.address.startswith("127.0.0.1:")
        assert server.grpc("digits") != server.grpc("letters")
        with pytest.raises(lockstep.NotFound) as raised:
            server.grpc("words")
        assert raised.value.reason == "unknown_job"
        with lockstep.join(server.address, job="digits", timeout=LIMIT_S) as me:
            assert me.size == 1
        pid = server.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    server.stop()


def test_what_is_said_of_other_servers_is_not_meant_for_it(monkeypatch, tmp_path):
    config = tmp_path / "lockstep.yaml"
    config.write_text(f"server:\n  state: {tmp_path}\n  recoverable: [other]\n")
    monkeypatch.setenv("LOCKSTEP_CONFIG", str(config))
    monkeypatch.setenv("LOCKSTEP_SERVER_KEYS_MAX", "nonsense")
    with lockstep.serve(jobs={"digits": 1}) as server:
        assert server.grpc("digits")


def test_its_end_is_told_with_its_last_words():
    with pytest.raises(lockstep.Unavailable) as raised:
        lockstep.serve(options=["--no-such-option"])
    assert "--no-such-option" in str(raised.value) and "exit code 2" in str(raised.value)


def test_it_dies_with_a_parent_that_is_killed():
    program = Program("""
        import sys, os, lockstep
        server = lockstep.serve(jobs={"digits": 1})
        if os.fork() == 0:
            sys.stdin.readline()  # a child that lives on does not keep the server
        print("serves", server.pid)
        sys.stdin.readline()
    """)
    with program:
        pid = int(program.line("serves").split()[-1])
        watched = os.pidfd_open(pid)
        program.kill()
        assert select.select([watched], [], [], LIMIT_S)[0] == [watched]
        os.close(watched)


def test_it_ends_with_the_interpreter_and_without_a_word():
    program = Program("""
        import lockstep
        server = lockstep.serve(jobs={"digits": 1})
        me = lockstep.join(server.address, job="digits")
        print("serves", server.pid)
    """)
    with program:
        pid = int(program.line("serves").split()[-1])
        assert program.end() == (0, f"serves {pid}")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_module_is_the_command():
    with lockstep.serve(jobs={"digits": 1}) as server:
        out = subprocess.run([sys.executable, "-m", "lockstep", "status", "--coordinator",
                              server.address, "-o", "json"], capture_output=True, text=True,
                             timeout=LIMIT_S, check=True)
    assert [job["job"] for job in json.loads(out.stdout)["jobs"]] == ["digits"]
