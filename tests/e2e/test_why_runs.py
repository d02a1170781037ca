"""What `why`, `status` and `jobs` say of the newest run of a job, and of runs that nobody named."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment
from test_look import Served

PYTHON = sys.executable
JAX = ("import jax; jax.distributed.initialize(); jax.distributed.shutdown()")
FAILS = "import there_is_no_such_module"


@pytest.fixture
def server(tmp_path):
    with Served(tmp_path, "--job", "c=2") as served:
        yield served
        served.signal(signal.SIGTERM)
        assert served.end() == 0, served.text()


def run(server, program, **variables):
    """The exit code of `lockstep run -n 2 -- python -c PROGRAM`."""
    environment = clean_environment(LOCKSTEP_COORDINATOR=server.address, JAX_PLATFORMS="cpu",
                                    **variables)
    with Command(LOCKSTEP, "run", "-n", "2", "--job", "c", "--", PYTHON, "-c", program,
                 env=environment) as command:
        return command.end()


def test_use_a01_the_newest_run_decides_although_nobody_of_it_joined(server):
    pytest.importorskip("jax")
    assert run(server, JAX) == 0
    assert "ended successfully: 2 left" in server.ask("why", "c")
    assert server.ask_json("jobs")["jobs"][0]["state"] == "ended"

    assert run(server, FAILS) == 1

    text = server.ask("why", "c", code=1)
    # The second may have been ended before it failed by itself.
    assert re.match(r"job c: (a process|2 processes) failed\n", text), text
    assert "exited with code 1" in text and "left" not in text
    why = server.ask_json("why", "c", code=1)
    assert why["verdict"] == "trouble"
    job = server.ask_json("jobs")["jobs"][0]
    assert job["state"] == "failed" and job["attempt"] == 2
    status = server.ask_json("status", "c", code=1)["jobs"][0]
    assert status["state"] == "failed"
    assert {member["condition"] for member in status["members"]} == {"missing"}
    assert "left" not in server.ask("status", "c", code=1)

    assert run(server, JAX) == 0
    assert "ended successfully: 2 left" in server.ask("why", "c")


def test_use_a01_a_run_that_fails_at_once_fails_a_job_that_nobody_ever_joined(server):
    assert run(server, FAILS) == 1
    assert server.ask_json("why", "c", code=1)["verdict"] == "trouble"
    assert run(server, "pass") == 0
    assert server.ask_json("why", "c")["verdict"] == "fine"


def without_a_server(tmp_path):
    """The environment of somebody who has named none, and whose default one is not there."""
    return clean_environment(XDG_RUNTIME_DIR=str(tmp_path), HOME=str(tmp_path))


def ask(environment, *words):
    return subprocess.run([LOCKSTEP, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=DEADLINE_S, check=False, env=environment)


def test_why_and_stacks_find_the_private_run_of_this_host(tmp_path):
    environment = without_a_server(tmp_path)
    with Command(LOCKSTEP, "run", "-n", "2", "--", PYTHON, "-c",
                 "import time; print('up', flush=True); time.sleep(600)", env=environment) as command:
        command.wait_for(r"\bup\b", count=2)
        (file,) = (tmp_path / "lockstep").iterdir()
        assert (tmp_path / "lockstep").stat().st_mode & 0o777 == 0o700
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text())["pid"] == command.pid
        ended = ask(environment, "why")
        assert ended.returncode == 0, ended.stderr
        assert "2 of 2 processes run" in ended.stdout
        ended = ask(environment, "stacks")
        assert ended.returncode == 0, ended.stderr
        assert "task/1" in ended.stdout
        command.signal(signal.SIGTERM)
        command.end()
    assert not list((tmp_path / "lockstep").iterdir())
    ended = ask(environment, "why")
    assert ended.returncode == 5, (ended.stdout, ended.stderr)


def test_the_file_of_a_run_that_was_killed_is_ignored(tmp_path):
    environment = without_a_server(tmp_path)
    with Command(LOCKSTEP, "run", "-n", "1", "--", "sleep", "600", env=environment) as command:
        command.wait_for(r'job "')
        deadline = time.monotonic() + DEADLINE_S
        while not (tmp_path / "lockstep").exists() or not list((tmp_path / "lockstep").iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(command.pid, signal.SIGKILL)
        command.end()
    assert list((tmp_path / "lockstep").iterdir()), "nobody has removed it"
    ended = ask(environment, "why")
    assert ended.returncode == 5 and "refused" in ended.stderr, (ended.stdout, ended.stderr)


def test_why_without_a_job_asks_for_one_when_there_are_several(tmp_path):
    with Served(tmp_path, "--job", "a=1", "--job", "b=1") as served:
        text = served.ask("why", code=2)
        assert f"a --coordinator {served.address}" in text and "b --coordinator" in text
        served.signal(signal.SIGTERM)
        served.end()


PACKAGE = ROOT / "build" / "release" / "python"
READS = """
import lockstep
from lockstep import data
with lockstep.join() as me:
    print("in", flush=True)
    with data.windows("/no/such/tokens.bin", "uint16", 16).batch(4).read(
            name="train", consumer=me.index, consumers=2, timeout=600) as reader:
        next(iter(reader))
"""


@pytest.mark.skipif(not list((PACKAGE / "lockstep").glob("_native*.so")),
                    reason="the Python package has not been built")
def test_use_a14_why_knows_who_waits_for_data(server):
    pytest.importorskip("numpy")
    environment = clean_environment(LOCKSTEP_COORDINATOR=server.address, PYTHONPATH=str(PACKAGE))
    with Command(LOCKSTEP, "run", "-n", "2", "--job", "c", "--", PYTHON, "-c", READS,
                 env=environment) as command:
        command.wait_for(r"\bin\b", count=2)
        deadline = time.monotonic() + DEADLINE_S
        while (why := server.ask_json("why", "c"))["verdict"] == "fine":
            assert time.monotonic() < deadline, why
            time.sleep(0.1)
        while len(server.ask_json("data")["iterations"][0]["consumers"]) < 2:
            assert time.monotonic() < deadline, why
            time.sleep(0.1)
        why = server.ask_json("why", "c")
        assert why["verdict"] == "waiting" and why["summary"] == "2 of 2 members wait for data", why
        (finding,) = [text for text in why["findings"] if "iteration 'train'" in text]
        assert finding.startswith("task/0-1 wait for data") and "worker" in finding
        assert any("lockstep worker" in text for text in why["advice"])
        command.signal(signal.SIGTERM)
        command.end()
