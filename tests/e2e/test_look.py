"""The commands that ask a server, and what it answers over HTTP."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command, clean_environment

PYTHON = sys.executable


class Served(Command):
    """A server as a person would start it, with its addresses."""

    def __init__(self, tmp_path, *arguments, listen="127.0.0.1:0", env=None):
        self.ready_file = tmp_path / "ready.json"
        super().__init__(LOCKSTEP, "serve", "--listen", listen, "--http", "127.0.0.1:0",
                         "--ephemeral", "--ready-file", self.ready_file, *arguments, env=env)
        deadline = time.monotonic() + DEADLINE_S
        while not self.ready_file.exists():  # it comes by rename, so it is whole
            assert time.monotonic() < deadline and self.process.poll() is None, self.text()
            time.sleep(0.01)
        self.ready = json.loads(self.ready_file.read_text())
        self.address = self.ready["listen"]

    def ask(self, *words, code=0):
        """What `lockstep WORDS` prints."""
        ended = subprocess.run(
            [LOCKSTEP, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False,
            env=clean_environment(LOCKSTEP_COORDINATOR=self.address))
        assert ended.returncode == code, (words, ended.returncode, ended.stdout, ended.stderr)
        return ended.stdout if code == 0 or ended.stdout else ended.stderr

    def ask_json(self, *words, code=0):
        return json.loads(self.ask(*words, "-o", "json", code=code))

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.ready['http']}{path}", timeout=DEADLINE_S) as page:
            return page.read().decode()

    def get_json(self, path):
        return json.loads(self.get(path))


@pytest.fixture
def server(tmp_path):
    with Served(tmp_path, "--job", "digits=2", "--job", "other=3") as served:
        yield served
        served.signal(signal.SIGTERM)
        assert served.end() == 0, served.text()


def refused(code, *words, env=None):
    ended = subprocess.run([LOCKSTEP, *words], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=DEADLINE_S, check=False,
                           env=env or clean_environment())
    assert ended.returncode == code, (words, ended.returncode, ended.stdout, ended.stderr)
    return ended.stderr


def test_why_says_that_nobody_has_come(server):
    text = server.ask("why", "digits")
    assert "0 of 2 members have registered" in text
    assert server.ready["jobs"]["digits"]["grpc"] in text
    assert server.ask_json("why", "digits")["verdict"] == "waiting"


def test_tables_of_a_job(server):
    assert re.search(r"task/0\s+missing", server.ask("members", "digits"))
    assert len(server.ask_json("members", "other")["members"]) == 3
    assert server.ask("barriers", "digits") == "job digits: no open barriers\n"
    assert server.ask_json("barriers", "digits")["barriers"] == []
    assert re.search(r"^digits\s+2\s", server.ask("jobs"), re.M)
    assert [job["job"] for job in server.ask_json("jobs")["jobs"]] == ["digits", "other"]


def test_exit_codes(server, tmp_path):
    assert "no job 'x'" in server.ask("why", "x", code=3)
    assert "unknown_job" not in server.ask("members", "x", code=3)
    assert "digits, other" in server.ask("events", "x", code=3)
    server.ask("why", code=2)
    server.ask("why", "digits", "--timeout", "soon", code=2)
    assert "lockstep serve" in refused(5, "why", "digits", "--coordinator", "127.0.0.1:1")
    # Somebody listens there and never speaks.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        refused(4, "why", "digits", "--timeout", "200ms", "--coordinator",
                f"127.0.0.1:{silent.getsockname()[1]}")


def test_output_that_cannot_be_written_is_an_error(server, tmp_path):
    server.ask("kv", "set", "digits", "a", "1")
    env = clean_environment(LOCKSTEP_COORDINATOR=server.address)
    for words in (["status"], ["status", "-o", "json"], ["why", "digits"], ["kv", "get", "digits", "a"],
                  ["events", "digits"], ["events", "digits", "--follow"], ["jobs"], ["--help"],
                  ["kv", "watch", "digits"], ["config", "show", "client"], ["config", "show"],
                  ["run", "--job", "digits", "--dry-run", "true"],
                  ["bundle", "digits", "--timeout", "1s", "--to", tmp_path / "b.tar"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ended = subprocess.run([LOCKSTEP, *words], stdin=subprocess.DEVNULL, stdout=full,
                                   stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S,
                                   check=False, env=env)
        assert ended.returncode == 1, (words, ended)
        assert "cannot write to standard output: No space left on device" in ended.stderr, words
    assert "lockstep bundle: " in ended.stderr


@pytest.mark.parametrize("handling", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_reader_that_has_gone_is_told_nothing(server, handling):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([LOCKSTEP, "status", "-o", "json", "--coordinator", server.address],
                           stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE,
                           text=True, timeout=DEADLINE_S, check=False, env=clean_environment(),
                           restore_signals=False,
                           preexec_fn=lambda: signal.signal(signal.SIGPIPE, handling))
    os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode == (-signal.SIGPIPE if handling == signal.SIG_DFL else 0)


def test_programs_that_never_join_are_told_of_by_their_processes(server):
    env = clean_environment(LOCKSTEP_COORDINATOR=server.address)
    with Command(LOCKSTEP, "run", "--job", "digits", "--", "sh", "-c", "echo up; sleep 1000",
                 env=env) as run:
        run.wait_for("up", count=2)
        text = server.ask("status", "digits")
        assert "attempt 1 running  2 members: 2 processes run, none joined" in text
        assert "missing" not in text and "waiting" not in text
        assert re.search(r"task/1\s+process runs", server.ask("members", "digits"))
        row = server.ask_json("jobs")["jobs"][0]
        assert row["processes"] == {"running": 2} and row["members"]["missing"] == 2
        # Somebody may have had something to save, and nobody said that it was.
        server.ask("preempt", "--job", "digits", "--in", "200ms", "--wait", code=6)
        why = server.ask_json("why", "digits", code=1)
        assert why["verdict"] == "trouble" and "without a checkpoint" in why["summary"]
        run.signal(signal.SIGTERM)
        run.end()
    assert re.search(r"task/0\s+process failed", server.ask("status", "digits", code=1))
    with Command(LOCKSTEP, "run", "--job", "digits", "--", "true", env=env) as run:
        assert run.end() == 0
    assert "attempt 1 ended  2 members: 2 processes ended well" in server.ask("status", "digits")


def test_jobs_are_created_and_deleted(server):
    assert "job new created" in server.ask("job", "create", "new=4")
    assert "already exists" in server.ask("job", "create", "new=4")
    server.ask("job", "create", "new=5", code=1)
    assert server.ask_json("jobs")["jobs"][1]["size"] == 4
    kinds = [event["kind"] for event in events_of(server, "new")]
    assert kinds == ["job_created"]
    server.ask("job", "delete", "new")
    server.ask("why", "new", code=3)
    kinds = [event["kind"] for event in events_of(server)]
    assert kinds[-2:] == ["job_created", "job_deleted"]


def events_of(server, *job):
    return [json.loads(line) for line in server.ask("events", *job, "-o", "json").splitlines()]


def test_keys(server):
    assert server.ask("kv", "set", "digits", "config/lr", "0.1").startswith("revision ")
    assert server.ask("kv", "get", "digits", "config/lr") == "0.1\n"
    assert server.ask_json("kv", "get", "digits", "config/lr")["value"] == "0.1"
    server.ask("kv", "set", "digits", "config/lr", "0.2", "--new", code=1)
    assert "config/lr" in server.ask("kv", "list", "digits")
    assert server.ask("kv", "list", "other") == "no keys\n"
    with Command(LOCKSTEP, "kv", "watch", "digits", "config", "--coordinator",
                 server.address) as watch:
        watch.wait_for(r"set  config/lr  0\.1")
        server.ask("kv", "set", "digits", "config/lr", "0.3")
        watch.wait_for(r"set  config/lr  0\.3")
        server.ask("kv", "delete", "digits", "config/lr")
        watch.wait_for(r"deleted  config/lr")
    server.ask("kv", "get", "digits", "config/lr", code=3)
    server.ask("kv", "get", "digits", "config/lr", "--wait", "100ms", code=4)


def test_events_are_followed_through_a_restart(tmp_path):
    with Served(tmp_path, "--job", "digits=2") as first:
        listen = first.address
        with Command(LOCKSTEP, "events", "digits", "--follow", "--coordinator", listen) as follow:
            follow.wait_for("job_created")
            first.process.kill()
            first.end()
            follow.wait_for("trying again")
            (tmp_path / "again").mkdir()
            with Served(tmp_path / "again", "--job", "digits=2", listen=listen):
                follow.wait_for("the server was restarted")
                follow.wait_for("job_created", count=2)


def test_a_killed_process_is_told_of_everywhere(tmp_path):
    with Served(tmp_path, "--job", "digits=2", "--log-format", "json") as server:
        with Command(LOCKSTEP, "run", "--job", "digits", "--grace", "0s", "--", "sh", "-c",
                     "kill -9 $$", env=clean_environment(LOCKSTEP_COORDINATOR=server.address)) as run:
            assert run.end() == 128 + signal.SIGKILL
        kinds = [event["kind"] for event in events_of(server, "digits")]
        assert kinds.count("process_started") == 2
        server.signal(signal.SIGTERM)
        assert server.end() == 0
        # Every line of the log is an object.
        lines = [json.loads(line) for line in server.err]
        assert any(line.get("kind") == "process_started" and line["job"] == "digits"
                   and line["member"].startswith("task/") for line in lines)


@pytest.fixture
def running(server):
    """A run of the job digits, in which nobody joins."""
    with Command(LOCKSTEP, "run", "-n", 2, "--job", "digits", "--coordinator", server.address, "--",
                 "sleep", "1000") as run:
        deadline = time.monotonic() + DEADLINE_S
        while "2 processes run" not in server.ask("jobs"):
            assert time.monotonic() < deadline, server.ask("jobs")
            time.sleep(0.05)
        yield run
        run.process.kill()


@pytest.mark.usefixtures("running")
def test_a_preemption_is_opened_moved_and_cancelled(server):
    assert "no member 'task/2'" in server.ask("preempt", "--job", "digits", "--member", "task/2",
                                              code=3)
    assert "has no open preemption" in server.ask("preempt", "--job", "digits", "--cancel", code=3)
    assert "runs on host 'x'" in server.ask("preempt", "--job", "digits", "--host", "x", code=3)
    server.ask("preempt", "--job", "digits", "--extend", "1h", "--cancel", code=2)

    opened = server.ask_json("preempt", "--job", "digits", "--member", "task/1", "--in", "2h",
                             "--reason", "the rack is moved")
    assert opened == {"preemption": 1}
    text = server.ask("status", "digits")
    assert "preemption 1 of task/1: pending" in text and "the rack is moved" in text
    assert "dies in 119m" in server.ask("members", "digits")
    state = server.ask_json("status", "digits")["jobs"][0]["preemption"]["state"]
    assert state["phase"] == "pending" and state["notices"][0]["subjects"] == [1]
    assert "Preemption 1 of task/1 (operator)" in server.ask("why", "digits")
    metrics = server.get("/metrics")
    assert 'lockstep_preemption_phase{job="digits",phase="pending"} 1' in metrics
    server.ask("preempt", "--job", "digits", "--extend", "3h")
    assert "dies in 2h59m" in server.ask("members", "digits")

    with Command(LOCKSTEP, "preempt", "--job", "digits", "--in", "2h", "--wait", "--coordinator",
                 server.address) as waiting:
        waiting.wait_for("opened: preemption 1 of everybody")
        server.ask("preempt", "--job", "digits", "--cancel")
        waiting.wait_for("ended: cancelled")
        assert waiting.end() == 0
    kinds = [event["kind"] for event in events_of(server, "digits")]
    assert kinds[-1] == "preemption_ended" and kinds.count("preemption_notice") == 3
    assert 'lockstep_preemptions_ended_total{outcome="cancelled"} 1' in server.get("/metrics")


def test_use_a11_nobody_preempts_a_job_that_does_not_run(server):
    said = refused(1, "preempt", "--job", "digits", "--coordinator", server.address)
    assert "no member of job 'digits' is running" in said
    assert server.ask_json("status", "digits")["jobs"][0]["preemption"] is None


@pytest.mark.usefixtures("running")
def test_a_preemption_that_nobody_hears_ends(server):
    text = server.ask("preempt", "--job", "digits", "--in", "500ms", "--wait", code=6)
    assert re.search(r"opened: preemption 1 of everybody, \d+ms left", text)
    assert "ended: nobody_answered" in text
    assert server.ask_json("why", "digits", code=1)["verdict"] == "trouble"
    late = refused(4, "preempt", "--job", "digits", "--wait", "100ms", "--coordinator",
                   server.address)
    assert "preemption 2 has not ended within 100ms" in late


def test_http(server):
    assert server.get("/healthz") == "ok\n"
    assert server.get("/readyz") == "ready\n"
    assert 'lockstep_members{condition="missing",job="digits"} 2' in server.get("/metrics")
    status = server.get_json("/v1/status.json")
    assert [job["job"] for job in status["jobs"]] == ["digits", "other"]
    assert server.get_json("/v1/jobs.json")["jobs"][0]["members"]["missing"] == 2
    members = server.get_json("/v1/members.json?job=digits")["members"]
    ours = server.ask_json("members", "digits")["members"]
    assert [m["name"] for m in members] == [m["name"] for m in ours]
    assert server.get_json("/v1/barriers.json?job=digits")["barriers"] == []
    assert server.get_json("/v1/why.json?job=digits")["verdict"] == "waiting"
    events = server.get_json("/v1/events.json?job=digits")
    assert [event["kind"] for event in events["events"]] == ["job_created"]
    with pytest.raises(urllib.error.HTTPError) as wrong:
        server.get("/v1/members.json?job=x")
    assert wrong.value.code == 404
    assert json.loads(wrong.value.read())["reason"] == "unknown_job"


def test_config_show_says_where_values_came_from(tmp_path):
    path = tmp_path / "lockstep.yaml"
    path.write_text("server:\n  job: [digits=4]\n  keys_max: 5\nclient:\n  coordinator: head:1\n")
    env = clean_environment(LOCKSTEP_CONFIG=str(path), LOCKSTEP_SERVER_KEYS_MAX="6")

    def show(*words):
        return subprocess.run([LOCKSTEP, "config", "show", *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True,
                              env=env).stdout

    server = json.loads(show("server", "-o", "json", "--waits-max", "7"))["server"]
    assert server["job"] == {"value": ["digits=4"], "origin": "file", "where": f"{path}:2"}
    assert server["keys_max"]["where"] == "LOCKSTEP_SERVER_KEYS_MAX"
    assert server["waits_max"] == {"value": "7", "origin": "flag", "where": "--waits-max"}
    assert re.search(r"register_timeout\s+1h\s+default", show())
    assert re.search(rf"coordinator\s+head:1\s+file {re.escape(str(path))}:5", show("client"))
    assert re.search(r"grace\s+10s\s+default", show("run"))
    assert re.search(r"cache_bytes\s+256MiB\s+default", show("worker"))

    path.write_text("worker:\n  cache_bytes: 1MiB\n")
    assert re.search(rf"cache_bytes\s+1MiB\s+file {re.escape(str(path))}:2", show("worker"))
    path.write_text("worker:\n  keys_max: 5\n")
    assert "section 'worker' has no option 'keys_max'" in refused(2, "worker", env=env)

    path.write_text("server:\n  keys-max: 5\n")
    assert "write keys_max" in refused(2, "serve", env=env)


def test_a_limit_from_the_command_line_is_kept(tmp_path):
    with Served(tmp_path, "--job", "digits=2", "--keys-max", "1") as server:
        server.ask("kv", "set", "digits", "a", "1")
        assert "keys_max" in server.ask("kv", "set", "digits", "b", "1", code=1)
