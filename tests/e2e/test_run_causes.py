"""Who is named when a run fails: by stock programs, and in what is left behind."""

import json
import re
import signal
import subprocess
import sys
import tarfile

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, run, serving

JAX = ROOT / "build" / "peers" / "jax" / "bin" / "python"

JAX_PROGRAM = """
import os, sys
import jax
from jax.experimental import multihost_utils
jax.distributed.initialize(initialization_timeout=60)
multihost_utils.sync_global_devices("all are here")
def load():
    raise ValueError("bad sample")
if jax.process_index() == 1:
    if sys.argv[1] == "raise": load()
    os._exit(0)
multihost_utils.sync_global_devices("never")
"""


def asked(*arguments):
    return subprocess.run([LOCKSTEP, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=DEADLINE_S, check=False).stdout


@pytest.mark.skipif(not JAX.exists(), reason="scripts/setup.sh venvs makes the environment")
def test_use_a07_an_exception_of_jax_is_named_at_once_and_ends_the_job(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(JAX_PROGRAM)
    with serving(tmp_path, "--job", "digits=2") as server:
        ended = run("--coordinator", server.address, "--job", "digits", "--grace", "2s", "--", JAX,
                    program, "raise")
        assert ended.code == 1, ended.text()
        text = "ValueError: bad sample, train.py:8 in load"
        assert re.search(rf"task/1 \(pid \d+\) raised {text}", ended.text())
        assert re.search(rf"task/1 .*: {text}.* <- the first to fail", ended.text())
        assert "preemption 1" not in ended.text()
        assert text in asked("events", "digits", "--coordinator", server.address)
        why = asked("why", "digits", "--coordinator", server.address)
        assert text in why and "preemption 1" not in why, why


@pytest.mark.skipif(not JAX.exists(), reason="scripts/setup.sh venvs makes the environment")
def test_use_a09_a_rank_that_leaves_early_is_named(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(JAX_PROGRAM)
    ended = run("-n", 2, "--grace", "2s", "--", JAX, program, "leave")
    assert ended.code not in (0, 125), ended.text()
    assert re.search(r"task/1 .* ended with exit code 0 .* without leaving the job <- the first",
                     ended.text())
    assert not re.search(r"\| +@ +0x", ended.text()), "frames are left out"


# Fails when another launcher's process is gone, as gloo does.
VICTIM = """
import os, sys, time
folder = sys.argv[1]
open(os.path.join(folder, os.environ["RANK"]), "w").write(str(os.getpid()))
other = os.path.join(folder, str(1 - int(os.environ["RANK"])))
while not os.path.exists(other) or not open(other).read(): time.sleep(0.01)
print("both", flush=True)
pid = open(other).read()
while os.path.exists("/proc/" + pid): time.sleep(0.001)
sys.exit(1)
"""


def test_use_a08_a_lost_node_is_the_cause_and_not_who_failed_by_it(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(VICTIM)
    with serving(tmp_path) as server:
        arguments = ("run", "--nnodes", "2", "--nproc-per-node", "1", "--coordinator", server.address,
                     "--job", "pair", "--", sys.executable, program, tmp_path)
        with Command(LOCKSTEP, *arguments) as first, Command(LOCKSTEP, *arguments) as second:
            first.wait_for("both")
            second.wait_for("both")
            second.signal(signal.SIGKILL)
            second.end()
            assert first.end() == 1, first.text()
        assert re.search(rf"pid {second.pid}\) is gone", first.text()), first.text()
        named = [line for line in first.lines if "<- the first to fail" in line]
        assert all(f"pid {second.pid}) is gone" in line for line in named), named


def test_a_failed_run_leaves_its_result_and_a_bundle(tmp_path):
    result = tmp_path / "my.json"
    code = "import sys; print('so it ends'); sys.exit(3)"
    ended = run("-n", 2, "--result", result, "--log-dir", tmp_path / "logs", "--bundle-on-failure",
                tmp_path / "bundles", "--job", "digits", "--", sys.executable, "-c", code)
    assert ended.code == 3, ended.text()
    told = json.loads(result.read_text())
    assert told == json.loads((tmp_path / "logs" / "result.json").read_text())
    assert (told["version"], told["outcome"], told["exit_code"], told["job"]) == (
        1, "failed", 3, "digits")
    assert [one["exit_code"] for one in told["processes"]] == [3, 3]
    assert told["processes"][told["first_failed"]]["last_lines"] == ["so it ends"]
    bundle, = (tmp_path / "bundles").iterdir()
    with tarfile.open(bundle) as archive:
        assert any(name.endswith("/why.txt") for name in archive.getnames())


def test_a_run_that_succeeds_leaves_no_bundle(tmp_path):
    ended = run("-n", 1, "--log-dir", tmp_path, "--bundle-on-failure", tmp_path / "bundles", "--",
                "true")
    assert ended.code == 0, ended.text()
    assert json.loads((tmp_path / "result.json").read_text())["outcome"] == "succeeded"
    assert not (tmp_path / "bundles").exists()


def test_use_a09_a_signal_to_the_run_is_nobodys_failure():
    with Command(LOCKSTEP, "run", "-n", 2, "--", "sh", "-c", "echo up; exec sleep 1000") as command:
        command.wait_for("up$", count=2)
        command.signal(signal.SIGTERM)
        assert command.end() == 128 + signal.SIGTERM
    assert "first to fail" not in command.text()
    assert "ended by SIGTERM after" in command.err[-1]


def test_the_same_failure_before_anybody_joined_is_not_tried_for_ever():
    ended = run("-n", 1, "--max-restarts", 50, "--restart-backoff", "10ms", "--", sys.executable, "-c",
                "import not_there")
    assert ended.code == 1, ended.text()
    assert "giving up: the same failure 3 times, each soon after the start" in ended.err[-1]
    assert sum("begins (restart" in line for line in ended.err) == 2
