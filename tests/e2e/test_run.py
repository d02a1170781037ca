"""`lockstep run` with real processes and a real server."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command, Watched, clean_environment, run

PYTHON = sys.executable


def python(code):
    return [PYTHON, "-c", code]


@pytest.fixture
def server(tmp_path):
    """A server with two jobs, as a person would start it."""
    ready = tmp_path / "ready.json"
    with Command(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--job", "digits=2", "--job",
                 "other=3", "--ephemeral", "--ready-file", ready) as command:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():  # it comes by rename, so it is whole
            assert time.monotonic() < deadline and command.process.poll() is None, command.text()
            time.sleep(0.01)
        command.ready = json.loads(ready.read_text())
        command.address = command.ready["listen"]
        yield command
        command.signal(signal.SIGTERM)
        assert command.end() == 0, command.text()


def status(address, job):
    answer = subprocess.run([LOCKSTEP, "status", job, "--coordinator", address, "-o", "json"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=DEADLINE_S, check=False)
    return json.loads(answer.stdout)["jobs"][0]


# --- Success, failure, verdict ------------------------------------------------------------------


def test_ends_although_its_parent_ignores_the_death_of_children():
    ended = subprocess.run(
        ["/bin/sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", LOCKSTEP, "run", "-n", "2", "--",
         PYTHON, "-c", "raise SystemExit(3)"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert ended.returncode == 3, ended.stderr


def test_all_succeed_and_nothing_is_left(tmp_path):
    ended = run("-n", "3", "--", *python("import os; print('I am', os.environ['LOCKSTEP_INDEX'])"),
                env=clean_environment(TMPDIR=str(tmp_path)))
    assert ended.code == 0, ended.text()
    assert sorted(ended.out) == [f"[task/{i}] I am {i}" for i in range(3)]
    for i in range(3):
        assert any(re.match(rf"lockstep run: task/{i} \(pid \d+\) ended with exit code 0 after", line)
                   for line in ended.err), ended.text()
    assert "all 3 succeeded" in ended.err[-1]
    assert not list(tmp_path.iterdir())


def test_exit_code_and_sentence_of_the_first_failure():
    ended = run("-n", "3", "--grace", "0s", "--", "sh", "-c",
                "[ $LOCKSTEP_INDEX = 1 ] && exit 3; exec sleep 1000")
    assert ended.code == 3
    assert re.search(r"task/1 \(pid \d+\) ended with exit code 3 after [\d.]+ s; the other 2 "
                     r"processes have 0\.0 s to end by themselves", ended.text())
    assert re.search(r"task/1 .* <- the first to fail", ended.text())
    assert re.search(r"task/0 \(pid \d+\) was killed by SIGTERM .*\(sent by lockstep run\)",
                     ended.text())


def test_who_ended_well_before_the_first_failure_is_told(tmp_path):
    ended = run("-n", "3", "--grace", "0s", "--", "sh", "-c", f"""cd {tmp_path}
[ $RANK = 1 ] && {{ echo $$ >pid.new; mv pid.new pid; exit 0; }}
until [ -e pid ]; do sleep 0.02; done
while [ -e /proc/$(cat pid) ]; do sleep 0.02; done  # until it was reaped, so its end is known
exit 1""")
    told = (r"task/1 \(pid \d+\) ended with exit code 0 after [\d.]+ s, [\d.]+ s before the first "
            "failure: the others may have needed it")
    assert ended.code == 1 and len(re.findall(told, ended.text())) == 2, ended.text()


def test_who_was_stopped_before_the_first_failure_stands_so_in_the_table(tmp_path):
    fail = tmp_path / "fail"
    with Command(LOCKSTEP, "run", "-n", "2", "--grace", "0s", "--", *python(
            "import os, signal, sys, time\n"
            "if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGSTOP)\n"
            f"while not os.path.exists({str(fail)!r}): time.sleep(0.02)\n"
            "sys.exit(1)\n")) as command:
        command.wait_for(r"task/1 \(pid \d+\) was stopped by SIGSTOP")
        fail.touch()
        assert command.end() == 1, command.text()
        assert re.search(r"task/1 .*; it was stopped by SIGSTOP [\d.]+ s before the first failure: "
                         "the others may have waited for it", command.text()), command.text()


def test_process_killed_from_outside():
    with Command(LOCKSTEP, "run", "-n", "2", "--grace", "0s", "--", "sh", "-c",
                 "echo pid $$; exec sleep 1000") as command:
        found = command.wait_for(r"\[task/1\] pid (\d+)")
        os.kill(int(found[0][1]), signal.SIGKILL)
        assert command.end() == 128 + signal.SIGKILL
        assert re.search(r"task/1 \(pid \d+\) was killed by SIGKILL after [\d.]+ s, not by lockstep",
                         command.text())


def test_its_own_server_hears_nothing_of_others(tmp_path):
    config = tmp_path / "lockstep.yaml"
    config.write_text(f"server:\n  state: {tmp_path}\n  http: 127.0.0.1:1\n  recoverable: [other]\n"
                      "run:\n  role: trainer\n")
    ended = run("-n", "1", "--", *python("import os; print(os.environ['LOCKSTEP_ROLE'],"
                                         " os.environ.get('LOCKSTEP_ATTEMPT', 'none'))"),
                env=clean_environment(LOCKSTEP_CONFIG=str(config), LOCKSTEP_SERVER_HTTP="nonsense",
                                      LOCKSTEP_ATTEMPT="3"))
    assert ended.code == 0, ended.text()
    assert "[trainer/0] trainer none" in ended.text()


@pytest.mark.parametrize("arguments, code, text", [
    (["-n", "2", "--", "no-such-program"], 127, "no-such-program: there is no such command in PATH"),
    (["-n", "2", "--", "/etc/passwd"], 126, "/etc/passwd cannot be executed"),
    (["-n", "2", "--", "./none"], 127, "./none: there is no such file"),
    (["--", "true"], 2, "-n is required: the number of processes"),
    (["-n", "2"], 2, "no command given"),
    (["-n", "0", "--", "true"], 2, "--processes: '0': must be from 1 to 1024"),
    (["-n", "2", "--grace", "soon", "--", "true"], 2, "'soon': not a duration"),
    (["-n", "2", "--nonsense", "--", "true"], 2, "unknown flag --nonsense"),
    (["-n", "2", "--role", "a/b", "--", "true"], 2, "a role name has"),
])
def test_mistakes_are_told_and_have_codes(arguments, code, text):
    ended = run(*arguments)
    assert ended.code == code, ended.text()
    assert text in ended.text()


# --- Environment --------------------------------------------------------------------------------


def test_environment_is_what_the_documentation_says():
    names = ["LOCKSTEP_JOB", "LOCKSTEP_INDEX", "LOCKSTEP_SIZE", "LOCKSTEP_ROLE",
             "LOCKSTEP_COORDINATOR", "LOCKSTEP_RUN_ID", "JAX_COORDINATOR_BIND_ADDRESS",
             "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID",
             "OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PYTHONUNBUFFERED",
             "no_proxy", "NO_PROXY", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK", "ROLE_NAME", "ROLE_RANK",
             "ROLE_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
             "TORCHELASTIC_MAX_RESTARTS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS",
             "TF_CONFIG"]
    ended = run("-n", "2", "--job", "digits", "--role", "trainer", "--", *python(
        f"import json, os; print(json.dumps({{n: os.environ.get(n) for n in {names}}}))"),
                env=clean_environment(https_proxy="http://proxy.invalid:3128"))
    assert ended.code == 0, ended.text()
    assert ended.text().count("OMP_NUM_THREADS is not set") == 1
    found = {line.split(" ", 1)[0]: json.loads(line.split(" ", 1)[1]) for line in ended.out}
    for index in (0, 1):
        e = found[f"[trainer/{index}]"]
        assert re.fullmatch(r"127\.0\.0\.1:\d+", e.pop("LOCKSTEP_COORDINATOR"))
        assert re.fullmatch(r"127\.0\.0\.1:\d+", e.pop("JAX_COORDINATOR_ADDRESS"))
        assert re.fullmatch(r"[0-9a-f]{16}", e.pop("LOCKSTEP_RUN_ID"))
        assert "127.0.0.1,localhost" in e.pop("no_proxy")
        assert "127.0.0.1,localhost" in e.pop("NO_PROXY")
        assert e.pop("OMPI_MCA_orte_hnp_uri")
        cluster = json.loads(e.pop("TF_CONFIG"))
        assert cluster["task"] == {"type": "worker", "index": index}
        workers = cluster["cluster"]["worker"]
        assert len(set(workers)) == 2 and all(w.startswith("127.0.0.1:") for w in workers)
        rank = str(index)
        assert e == {
            "RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "NODE_RANK": "0", "ROLE_NAME": "trainer",
            "ROLE_RANK": rank, "ROLE_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "digits",
            "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "OMP_NUM_THREADS": "1",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "LOCKSTEP_JOB": "digits", "LOCKSTEP_INDEX": str(index), "LOCKSTEP_SIZE": "2",
            "LOCKSTEP_ROLE": "trainer", "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0",
            "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(index), "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_RANK": str(index), "OMPI_COMM_WORLD_LOCAL_RANK": str(index),
            "PYTHONUNBUFFERED": "1"}


# --- Signals ------------------------------------------------------------------------------------


def test_sigterm_is_a_notice_that_every_process_gets():
    code = ("import signal, sys\n"
            "signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)))\n"
            "print('up')\n"
            "while True: signal.pause()")
    with Command(LOCKSTEP, "run", "-n", "2", "--", *python(code)) as command:
        command.wait_for("] up$", count=2)
        command.signal(signal.SIGTERM)
        assert command.end() == 0, command.text()
        assert sorted(command.out)[1::2] == ["[task/0] up", "[task/1] up"]
        assert sorted(command.out)[0::2] == ["[task/0] saved", "[task/1] saved"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT])
def test_other_signals_are_passed_on(number):
    with Command(LOCKSTEP, "run", "-n", "1", "--", "sh", "-c", "echo up; exec sleep 1000") as command:
        command.wait_for("] up$")
        command.signal(number)
        assert command.end() == 128 + number, command.text()
        assert f"{number.name}: passed on to 1 process" in command.text()


@pytest.mark.parametrize("grace", ["0s", "10s"])
def test_second_interrupt_kills_and_nobody_has_failed(grace):
    code = ("import signal\n"
            "signal.signal(signal.SIGINT, lambda *_: print('no'))\n"
            "print('up')\n"
            "while True: signal.pause()")
    with Command(LOCKSTEP, "run", "-n", "2", "--grace", grace, "--", *python(code)) as command:
        command.wait_for("] up$", count=2)
        command.signal(signal.SIGINT)
        command.wait_for("] no$", count=2)
        command.signal(signal.SIGINT)
        assert command.end() == 128 + signal.SIGINT, command.text()
        assert "first to fail" not in command.text() and "interrupted after" in command.err[-1]


def test_signal_before_the_server_is_ready_ends_it(tmp_path):
    slow = tmp_path / "slow-server"
    slow.write_text("#!/bin/sh\necho starting slowly\nexec sleep 1000\n")
    slow.chmod(0o755)
    with Command(LOCKSTEP, "run", "-n", "1", "--server-log", "--", "true",
                 env=clean_environment(LOCKSTEP_SERVER=str(slow))) as command:
        command.wait_for("starting slowly")
        command.signal(signal.SIGTERM)
        assert command.end() == 128 + signal.SIGTERM
        assert "SIGTERM before the processes were started" in command.text()


# --- Nothing outlives it ------------------------------------------------------------------------


def test_nothing_outlives_a_run_that_is_killed(tmp_path):
    # Each process has a child in its group and one that went into a session of its own.
    script = "sleep 1000 & echo pid $!; setsid sleep 1001 & echo pid $!; echo pid $$; wait"
    with Command(LOCKSTEP, "run", "-n", "2", "--", "sh", "-c", script,
                 env=clean_environment(TMPDIR=str(tmp_path))) as command:
        pids = [int(m[1]) for m in command.wait_for(r"\] pid (\d+)", count=6)]
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        answer = subprocess.run([LOCKSTEP, "status", "--coordinator", address, "-o", "json"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=True)
        pids.append(json.loads(answer.stdout)["server"]["pid"])
        watched = [Watched(pid) for pid in pids]
        command.signal(signal.SIGKILL)
        assert all(w.wait_gone() for w in watched)
        # Its output ends too: nobody is left who holds it.
        assert command.end() == -signal.SIGKILL


def test_run_within_a_run_is_killed_with_it():
    inner = [str(LOCKSTEP), "run", "-n", "1", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]
    with Command(LOCKSTEP, "run", "-n", "1", "--", "env", "-u", "LOCKSTEP_COORDINATOR",
                 *inner) as command:
        innermost = Watched(int(command.wait_for(r"pid (\d+)$")[0][1]))
        command.signal(signal.SIGKILL)
        assert innermost.wait_gone()


# --- Output -------------------------------------------------------------------------------------


def test_much_output_is_complete_and_in_order():
    lines = 100_000
    ended = run("-n", "3", "--", "seq", "1", lines)
    assert ended.code == 0
    for index in range(3):
        prefix = f"[task/{index}] "
        numbers = [int(line[len(prefix):]) for line in ended.out if line.startswith(prefix)]
        assert numbers == list(range(1, lines + 1))
    assert len(ended.out) == 3 * lines


def test_long_line_comes_in_marked_pieces():
    size = 200_000
    ended = run("-n", "1", "--", *python(f"print('x' * {size})"))
    assert ended.code == 0
    assert all(re.fullmatch(r"\[task/0\][ +]x+", line) for line in ended.out)
    assert ended.out[0].startswith("[task/0] ") and ended.out[1].startswith("[task/0]+")
    assert sum(line.count("x") for line in ended.out) == size


def test_reader_that_goes_away_does_not_end_the_job(tmp_path):
    done = tmp_path / "done"
    code = (f"for i in range(100000): print('line', i)\n"
            f"open({str(done)!r}, 'w').close()")
    process = subprocess.Popen([LOCKSTEP, "run", "-n", "1", "--", *python(code)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=clean_environment())
    assert process.stdout.readline() == "[task/0] line 0\n"
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(DEADLINE_S) == 0, said
    assert "cannot write standard output: Broken pipe" in said
    assert done.exists()


# --- Servers ------------------------------------------------------------------------------------


def test_server_that_does_not_start_is_quoted(tmp_path):
    broken = tmp_path / "broken-server"
    broken.write_text("#!/bin/sh\necho 'cannot bind: address in use' >&2\nexit 1\n")
    broken.chmod(0o755)
    ended = run("-n", "1", "--", "true", env=clean_environment(LOCKSTEP_SERVER=str(broken)))
    assert ended.code == 125
    assert "ended with exit code 1 before it was ready" in ended.text()
    assert "cannot bind: address in use" in ended.text()


def test_server_program_that_is_not_there():
    ended = run("-n", "1", "--", "true", env=clean_environment(LOCKSTEP_SERVER="/none/server"))
    assert ended.code == 125
    assert "LOCKSTEP_SERVER names a program that is not there" in ended.text()


# Until its server is gone.
NEEDS_SERVER = ("import os, socket, sys, time\n"
                "host, port = os.environ['LOCKSTEP_COORDINATOR'].rsplit(':', 1)\n"
                "print('up', flush=True)\n"
                "while True:\n"
                "    try: socket.create_connection((host, int(port))).close()\n"
                "    except OSError: sys.exit(int(sys.argv[1]))\n"
                "    time.sleep(0.05)\n")


@pytest.mark.parametrize("own, code", [(3, 125), (0, 0)])
def test_use_a06_own_server_that_dies_is_the_cause_of_a_failure_only(own, code):
    with Command(LOCKSTEP, "run", "-n", "1", "--", sys.executable, "-c", NEEDS_SERVER,
                 own) as command:
        command.wait_for("] up$")
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        answer = subprocess.run([LOCKSTEP, "status", "--coordinator", address, "-o", "json"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=DEADLINE_S, check=True)
        os.kill(json.loads(answer.stdout)["server"]["pid"], signal.SIGKILL)
        assert command.end() == code, command.text()
        gone = "the coordinator's server was killed by SIGKILL although nobody asked it to"
        assert gone in command.text()
        assert (f"{gone} <- the first to fail" in command.text()) == (code != 0)


def test_running_server_gives_size_and_addresses_and_learns_of_the_processes(server):
    code = ("import os, time, signal\n"
            "print('me', os.getpid(), os.environ['JAX_COORDINATOR_ADDRESS'],"
            " os.environ['LOCKSTEP_COORDINATOR'], os.environ['LOCKSTEP_SIZE'])\n"
            "signal.pause()")
    with Command(LOCKSTEP, "run", "--coordinator", server.address, "--job", "digits", "--grace",
                 "0s", "--", *python(code)) as command:
        found = command.wait_for(r"\[task/(\d)\] me (\d+) (\S+) (\S+) (\d)", count=2)
        pids = {int(m[1]): int(m[2]) for m in found}
        for m in found:
            assert m[3] == server.ready["jobs"]["digits"]["grpc"]
            assert (m[4], m[5]) == (server.address, "2")
        members = status(server.address, "digits")["members"]
        assert {m["index"]: m["pid"] for m in members} == pids
        assert all(m["host"] for m in members)
        command.signal(signal.SIGTERM)
        command.end()
    # The server lives on, and takes the next run.
    assert run("--coordinator", server.address, "--job", "digits", "--", "true").code == 0


def test_coordinator_comes_from_the_environment_too(server):
    ended = run("--", "true", env=clean_environment(LOCKSTEP_COORDINATOR=server.address,
                                                    LOCKSTEP_JOB="other"))
    assert ended.code == 0, ended.text()
    assert "all 3 succeeded" in ended.text()


@pytest.mark.parametrize("arguments, code, text", [
    (["--job", "none", "-n", "2"], 125, 'has no job "none": it has "digits" (size 2), "other"'),
    (["--job", "digits", "-n", "3"], 2, "has size 2, but -n asks for 3 processes"),
    (["-n", "2"], 2, "--job is required"),
])
def test_running_server_with_another_job(server, arguments, code, text):
    ended = run("--coordinator", server.address, *arguments, "--", "true")
    assert ended.code == code, ended.text()
    assert text in ended.text()


def test_no_server_there():
    ended = run("--coordinator", "127.0.0.1:1", "--job", "digits", "--", "true")
    assert ended.code == 125
    assert "127.0.0.1:1" in ended.text()


# --- serve --------------------------------------------------------------------------------------


def test_serve_is_the_servers_own_command_line():
    with Command(LOCKSTEP, "serve", "--help") as command:
        assert command.end() == 0
        assert "lockstep-server" in command.text() and "--ready-file" in command.text()
    with Command(LOCKSTEP, "serve", "--help",
                 env=clean_environment(LOCKSTEP_SERVER="/none/server")) as command:
        assert command.end() == 127


def test_a_commands_help_has_no_footer_of_its_parents():
    parent = "`lockstep COMMAND --help`"
    for words, shown in ((["--help"], True), (["run", "--help"], False), (["run", "--help-all"], False),
                         (["status", "--help"], False)):
        with Command(LOCKSTEP, *words) as command:
            assert command.end() == 0
            assert (parent in command.text()) == shown, words


def running_children_of(pid):
    """Those that are no zombies."""
    running = 0
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        for child in children.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{child}/stat", encoding="ascii") as stat:
                running += stat.read().rpartition(")")[2].split()[0] != "Z"
    return running


def test_use_18_a_signal_after_the_last_process_ended_drops_no_last_words():
    # More than the pipe takes: what is said last waits for its reader.
    fills = "import sys\nfor _ in range(90): print('x' * 1000, file=sys.stderr)\nsys.exit(3)"
    with subprocess.Popen([LOCKSTEP, "run", "-n", "1", "--", sys.executable, "-c", fills],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, env=clean_environment()) as launcher:
        deadline = time.monotonic() + DEADLINE_S
        began = False
        while True:
            assert time.monotonic() < deadline and launcher.poll() is None
            number = running_children_of(launcher.pid)  # the guardian, the server, the process
            began = began or number == 3
            if began and number < 3:
                break
            time.sleep(0.01)  # for what nobody tells
        launcher.send_signal(signal.SIGTERM)
        said = launcher.stderr.read()
        assert launcher.wait(DEADLINE_S) == 3, said[-2000:]
    assert "exit code 3" in said.splitlines()[-1], said[-2000:]
