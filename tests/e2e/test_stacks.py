"""`lockstep stacks`, `why` and `bundle` of stock programs that hang."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment, run, serving

FRAMEWORKS = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"

# All but the last wait for something; that one is busy with its data.
PROGRAM = """
import os, sys, threading
def load():
    while True: pass  # one line, which is where it is
def step():
    print("up", os.getpid(), flush=True)
    if os.environ["LOCKSTEP_INDEX"] == "2":
        load()
    threading.Event().wait()
step()
"""


def ask(*arguments, code=0):
    answer = subprocess.run([LOCKSTEP, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=DEADLINE_S, check=False)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture
def hanging(tmp_path):
    """(address, pids by member) of a run of three that hang."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    with Command(LOCKSTEP, "run", "-n", 3, "--grace", "0s", "--", sys.executable, program,
                 env=clean_environment(TMPDIR=str(tmp_path), PATH="/nowhere")) as command:
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        pids = {int(m[1]): int(m[2]) for m in command.wait_for(r"\[task/(\d)\] up (\d+)", count=3)}
        deadline = time.monotonic() + DEADLINE_S
        while "2 of 3 wait in wait" not in ask("stacks", "job", "--coordinator", address):
            assert time.monotonic() < deadline  # they have printed, and are about to hang
        yield address, pids
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):  # the launcher kills them too
                os.kill(pid, signal.SIGKILL)
        command.end()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"], "nothing is left behind"


def test_those_at_one_place_are_grouped_and_the_odd_one_is_named(hanging):
    address, pids = hanging
    for _ in range(2):  # again and again
        said = ask("stacks", "job", "--coordinator", address)
        first = said.splitlines()[0]
        assert first.startswith("2 of 3 wait in wait, train.py:9; task/2 (pid "
                                f"{pids[2]} on "), said
        assert first.endswith(" runs load, train.py:4"), said
    told = json.loads(ask("stacks", "job", "--coordinator", address, "-o", "json"))
    assert [(one["member"], one["pid"], one["source"]) for one in told] == [
        (member, pids[member], "faulthandler") for member in range(3)]


def test_a_stopped_process_is_said_to_be_stopped(hanging):
    address, pids = hanging
    os.kill(pids[1], signal.SIGSTOP)
    said = ask("stacks", "job", "--coordinator", address)
    assert f"task/1 (pid {pids[1]} on " in said and "is stopped" in said.splitlines()[0], said
    os.kill(pids[1], signal.SIGCONT)


def suspects_of(address, job="job"):
    """What `lockstep why` says of whom, once it names somebody."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        why = json.loads(subprocess.run(
            [LOCKSTEP, "why", job, "--coordinator", address, "-o", "json"], capture_output=True,
            text=True, timeout=DEADLINE_S, check=False).stdout)
        if why["suspects"]:
            return why["suspects"], why
        time.sleep(0.2)
    raise AssertionError(f"nobody is suspected: {why}")


def test_why_names_the_odd_one_since_when_and_where_it_is(hanging):
    address, pids = hanging
    suspects, why = suspects_of(address)
    assert [(one["member"], one["pid"], one["name"]) for one in suspects] == [(2, pids[2], "task/2")]
    assert suspects[0]["host"] == os.uname().nodename
    assert suspects[0]["stack_place"] == "runs load, train.py:4"
    assert suspects[0]["evidence"].endswith("while 2 of 3 wait in wait, train.py:9")
    assert suspects[0]["since_ago_us"] >= 2_000_000, "what is younger is no hang"
    assert why["verdict"] == "waiting" and why["summary"] == "the others probably wait for task/2"
    said = ask("why", "job", "--coordinator", address)
    assert f"task/2 (pid {pids[2]} on " in said and "runs load, train.py:4" in said, said


def test_why_names_the_one_that_is_stopped(hanging):
    address, pids = hanging
    os.kill(pids[0], signal.SIGSTOP)
    try:
        while [one["member"] for one in suspects_of(address)[0]] != [0]:
            time.sleep(0.1)  # its launcher has not seen it yet
        suspects, _ = suspects_of(address)
        assert "stopped" in suspects[0]["evidence"] and suspects[0]["pid"] == pids[0]
    finally:
        os.kill(pids[0], signal.SIGCONT)


# Rank 2 does not come, and the others give up soon.
TORCH_PROGRAM = """
import datetime, os
import torch.distributed as dist
def load():
    while True: pass  # one line, which is where it is
if os.environ["RANK"] == "2":
    print("up", os.getpid(), flush=True)
    load()
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
"""


@pytest.mark.skipif(not FRAMEWORKS.exists(), reason="scripts/setup.sh frameworks makes the environment")
def test_when_a_wait_at_torchs_store_is_given_up_stacks_are_taken_and_kept(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(TORCH_PROGRAM)
    with Command(LOCKSTEP, "run", "-n", 3, "--grace", "60s", "--", FRAMEWORKS, program,
                 env=clean_environment(TMPDIR=str(tmp_path))) as command:
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        pid = int(command.wait_for(r"up (\d+)")[0][1])
        said = command.wait_for(r"lockstep run: torch's store: rank \d.*gave up waiting.*: (.*)")[0][1]
        assert f"task/2 (pid {pid} on " in said and "runs load, train.py:5" in said, said
        # The others have failed by it, or are about to: that tells nothing.
        command.wait_for(r"task/[01] .*(raised|failed|exit code)")
        suspects, why = suspects_of(address)
        assert [(one["member"], one["pid"]) for one in suspects] == [(2, pid)], why
        assert suspects[0]["stack_place"] == "runs load, train.py:5"
        assert any(place.startswith("when torch's store: rank ") for place in why["places"]), why
        os.kill(pid, signal.SIGKILL)
        command.end()


def test_finding_11_looks_that_processes_feel_are_seldom(hanging):
    address, _ = hanging
    looks = [json.loads(ask("stacks", "job", "--native", "--coordinator", address, "-o", "json"))
             for _ in range(2)]
    seldom = "which were last used less than 5s ago"
    assert not any(seldom in one["note"] for one in looks[0]), looks[0]
    assert all(seldom in one["note"] for one in looks[1]), looks[1]


def test_finding_11_only_its_owner_reads_a_bundle(hanging, tmp_path_factory):
    file = tmp_path_factory.mktemp("bundles") / "job.tar"
    ask("bundle", "job", "--coordinator", hanging[0], "--to", str(file))
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_bundle_has_all_of_it(hanging, tmp_path_factory):
    address, pids = hanging
    file = tmp_path_factory.mktemp("bundles") / "job.tar"
    assert "stacks.txt" in ask("bundle", "job", "--coordinator", address, "--to", str(file))
    with tarfile.open(file) as archive:
        content = {name.split("/", 1)[1]: archive.extractfile(name).read().decode()
                   for name in archive.getnames()}
    assert {"status.json", "status.txt", "why.txt", "events.jsonl", "stacks.txt", "stacks.json",
            "output/0.txt"} <= set(content), content.keys()
    assert "runs load, train.py:4" in content["stacks.txt"]
    assert content["output/1.txt"] == f"up {pids[1]}\n"
    assert json.loads(content["status.json"])["jobs"][0]["job"] == "job"


def test_a_bundle_says_that_no_launcher_is_left(tmp_path):
    with serving(tmp_path, "--job", "alone=1") as server:
        assert run("--coordinator", server.address, "--job", "alone", "--", "false").code == 1
        file = tmp_path / "job.tar"
        ask("bundle", "alone", "--coordinator", server.address, "--to", str(file), "--timeout", "1s")
    with tarfile.open(file) as archive:
        content = {name.split("/", 1)[1]: archive.extractfile(name).read().decode()
                   for name in archive.getnames()}
    assert "stacks.txt" not in content
    for name in ("output.missing", "stacks.txt.missing"):
        assert "no launcher of job 'alone' answered" in content[name]
        assert "--log-dir" in content[name]


def test_why_says_how_processes_ended_whose_launcher_was_killed(tmp_path):
    with serving(tmp_path, "--job", "alone=2") as server:
        with Command(LOCKSTEP, "run", "-n", "2", "--coordinator", server.address, "--job", "alone",
                     "--", "sleep", "1000") as launcher:
            launcher.wait_for("job \"alone\": 2 processes")
            while "2 of 2 processes run" not in ask("why", "alone", "--coordinator", server.address):
                time.sleep(0.1)  # the server has not been told yet
            launcher.signal(signal.SIGKILL)
            launcher.end()
        # The guardian kills them, and tells the server.
        deadline = time.monotonic() + DEADLINE_S
        while True:
            ended = subprocess.run([LOCKSTEP, "why", "alone", "--coordinator", server.address, "-o",
                                    "json"], capture_output=True, text=True, check=False)
            why = json.loads(ended.stdout)
            if why["summary"] == "2 processes failed":
                break
            assert time.monotonic() < deadline, why
            time.sleep(0.1)  # it has not been told yet
        assert why["verdict"] == "trouble" and ended.returncode == 1
        assert all("killed by SIGKILL" in finding for finding in why["findings"][:2]), why
        assert "Check whether their `lockstep run` was killed" in why["advice"][0], why


def test_without_launchers_it_says_so(tmp_path):
    with serving(tmp_path, "--job", "alone=1") as server:
        said = ask("stacks", "alone", "--coordinator", server.address, "--timeout", "200ms", code=4)
        assert "no process of this job belongs to a launcher that answered" in said
        ask("stacks", "nobody", "--coordinator", server.address, code=3)
