"""`lockstep run` that starts processes again, under torchrun's flags, with logs in files."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command, clean_environment, run

PYTHON = sys.executable


def script(tmp_path, code, name="train.py"):
    path = tmp_path / name
    path.write_text(code)
    return path


# --- Restarts -----------------------------------------------------------------------------------


def test_all_are_started_again_with_the_next_numbers(tmp_path):
    # Process 1 fails in its first two lives; the others wait until they are stopped.
    code = ("import os, signal, sys\n"
            "e = os.environ\n"
            "print('life', e['TORCHELASTIC_RESTART_COUNT'], e['LOCKSTEP_ATTEMPT'], flush=True)\n"
            "if int(e['TORCHELASTIC_RESTART_COUNT']) < 2:\n"
            "    if e['RANK'] == '1': sys.exit('gradient exploded')\n"
            "    signal.pause()\n")
    ended = run("-n", "3", "--max-restarts", "2", script(tmp_path, code))
    assert ended.code == 0, ended.text()
    for rank in range(3):
        assert [line for line in ended.out if line.startswith(f"[task/{rank}]")] == [
            f"[task/{rank}] life {n} {n + 1}" for n in range(3)]
    for n in (1, 2):
        assert re.search(rf"attempt {n} failed after [\d.]+ s: task/1 \(pid \d+\) ended with exit "
                         rf"code 1 after [\d.]+ s; attempt {n + 1} begins \(restart {n} of 2\)",
                         ended.text())
    assert "all 3 succeeded" in ended.err[-1]


def test_when_no_restart_is_left_the_root_cause_stands_first_with_its_last_words(tmp_path):
    code = ("import os, signal, sys\n"
            "if os.environ['RANK'] == '2': sys.exit('gradient exploded')\n"
            "signal.pause()\n")
    ended = run("-n", "3", "--grace", "0s", "--max-restarts", "1", script(tmp_path, code))
    assert ended.code == 1
    table = [line for line in ended.err if re.search(r"task/\d \(pid \d+\) .* after", line)][-3:]
    assert re.search("task/2 .* <- the first to fail; the last that it wrote:", table[0]), table
    assert "  | gradient exploded" in ended.err


def test_what_a_process_leaves_in_its_error_file_stands_in_the_table_of_ends(tmp_path):
    # As torch's `record` does; each attempt has a file of its own.
    code = ("import json, os, sys\n"
            "e = os.environ\n"
            "path = e['TORCHELASTIC_ERROR_FILE']\n"
            "assert not os.path.exists(path)\n"
            "if e['RANK'] == '1':\n"
            "    said = 'ValueError: loss is nan, restart ' + e['TORCHELASTIC_RESTART_COUNT']\n"
            "    json.dump({'message': {'message': said, 'extraInfo': {}}}, open(path, 'w'))\n"
            "    sys.exit(1)\n")
    ended = run("-n", "2", "--max-restarts", "1", script(tmp_path, code))
    assert ended.code == 1, ended.text()
    assert re.search(r"attempt 1 failed after .*: task/1 .*: ValueError: loss is nan, restart 0",
                     ended.text())
    assert re.search(r"task/1 .* s: ValueError: loss is nan, restart 1 <- the first to fail",
                     ended.text())


def test_a_rank_alone_is_started_again(tmp_path):
    code = ("import os, sys, time, pathlib\n"
            "e = os.environ\n"
            "print('life', e['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
            "done = pathlib.Path(e['DONE'])\n"
            "if e['RANK'] == '1':\n"
            "    if e['TORCHELASTIC_RESTART_COUNT'] == '0': os.kill(os.getpid(), 9)\n"
            "    done.touch()\n"
            "while not done.exists(): time.sleep(0.01)\n")
    ended = run("-n", "2", "--max-restarts", "1", "--restart-scope", "rank", "--env",
                f"DONE={tmp_path / 'done'}", script(tmp_path, code))
    assert ended.code == 0, ended.text()
    assert sorted(ended.out) == ["[task/0] life 0", "[task/1] life 0", "[task/1] life 1"]


def test_who_does_not_stop_is_killed_after_the_stop_grace(tmp_path):
    code = ("import os, signal, sys, time\n"
            "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '1': sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, lambda *_: print('not now', flush=True))\n"
            "print('up', os.getpid(), flush=True)\n"
            "while True: time.sleep(1)\n")
    with Command(LOCKSTEP, "run", "-n", "2", "--max-restarts", "1", "--stop-grace", "500ms",
                 script(tmp_path, code)) as command:
        victim = command.wait_for(r"\[task/0\] up (\d+)$")[0][1]
        command.wait_for(r"\[task/1\] up")
        os.kill(int(victim), signal.SIGKILL)
        assert command.end() == 0, command.text()
        command.wait_for("] not now$")
        assert "SIGKILL to 1 process" in command.text()


def test_a_signal_ends_it_whatever_restarts_are_left():
    with Command(LOCKSTEP, "run", "-n", "2", "--max-restarts", "5", "--", "sh", "-c",
                 "echo up; exec sleep 1000") as command:
        command.wait_for("] up$", 2)
        command.signal(signal.SIGTERM)
        assert command.end() == 128 + signal.SIGTERM
        assert "begins" not in command.text()


# --- Files --------------------------------------------------------------------------------------


def test_files_of_each_attempt_and_rank(tmp_path):
    code = ("import os, sys\n"
            "print('out', os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
            "print('err', file=sys.stderr)\n"
            "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')\n")
    ended = run("-n", "1", "--max-restarts", "1", "--log-dir", tmp_path / "logs",
                script(tmp_path, code))
    assert ended.code == 0, ended.text()
    for attempt in (1, 2):
        folder = tmp_path / "logs" / f"attempt_{attempt}" / "rank_0"
        assert (folder / "stdout.log").read_text() == f"out {attempt - 1}\n"
        assert (folder / "stderr.log").read_text() == "err\n"
    assert "[task/0] out 0" in ended.out


def test_redirects_tee_and_filter_as_with_torchrun(tmp_path):
    ended = run("--nproc_per_node", "3", "-r", "0:3", "-t", "1:1", "--local-ranks-filter", "0,1",
                "--no-prefix", "--log_dir", tmp_path, "--", "sh", "-c",
                "echo out $RANK; echo err $RANK >&2")
    assert ended.code == 0, ended.text()
    assert sorted(ended.out) == ["out 1"]
    assert [line for line in ended.err if line.startswith("err")] == ["err 1"]
    files = {str(path.relative_to(tmp_path)): path.read_text()
             for path in tmp_path.rglob("*.log")}
    assert files == {"attempt_1/rank_0/stdout.log": "out 0\n",
                     "attempt_1/rank_0/stderr.log": "err 0\n",
                     "attempt_1/rank_1/stdout.log": "out 1\n"}


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_start(tmp_path):
    (tmp_path / "file").touch()
    for folder in ("/proc/nope", "/proc", tmp_path / "file", tmp_path / "file" / "below"):
        ended = run("-n", "2", "--log-dir", folder, "--redirects", "3", "--", "touch",
                    tmp_path / "started")
        assert ended.code == 2 and "--log-dir: cannot make" in ended.text(), ended.text()
        assert str(folder) in ended.text() and not (tmp_path / "started").exists()


def test_what_a_file_cannot_take_is_shown(tmp_path):
    second = tmp_path / "attempt_2"
    first_attempt = f"[ -e {second} ] || {{ mkdir {second}; touch {second}/rank_1; exit 1; }}"
    ended = run("-n", "2", "--max-restarts", "1", "--log-dir", tmp_path, "--redirects", "3", "--",
                "sh", "-c", f"[ $RANK = 0 ] || {first_attempt}; echo $RANK")
    assert ended.code == 0 and ended.out == ["[task/1] 1"], ended.text()
    assert "what task/1 writes there is shown instead" in ended.text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attempt_1", "attempt_2",
                                                                "result.json"]


def test_a_second_run_leaves_the_files_of_the_first_alone(tmp_path):
    for number, folder in ((1, tmp_path), (2, tmp_path / "run_2"), (3, tmp_path / "run_3")):
        ended = run("-n", "1", "--log-dir", tmp_path, "--redirects", "3", "--", "echo", number)
        assert ended.code == 0, ended.text()
        assert (f"this run writes to {folder}" in ended.text()) == (number > 1)
    for number, folder in ((1, tmp_path), (2, tmp_path / "run_2"), (3, tmp_path / "run_3")):
        assert (folder / "attempt_1/rank_0/stdout.log").read_text() == f"{number}\n"
        assert (folder / "result.json").exists()


def test_streams_without_a_folder_are_told():
    ended = run("-n", "1", "--tee", "3", "--", "echo", "shown")
    assert ended.code == 0 and ended.out == ["[task/0] shown"]
    assert ended.text().count("--tee writes no files without --log-dir") == 1
    ended = run("-n", "1", "--tee", "0", "--redirects", "0", "--", "true")
    assert ended.code == 0 and "--log-dir" not in ended.text()


def test_much_output_is_complete_in_files_too(tmp_path):
    ended = run("-n", "2", "--log-dir", tmp_path, "-r", "3", "--", "seq", "1", "300000")
    assert ended.code == 0 and not ended.out
    expected = "".join(f"{n}\n" for n in range(1, 300001))
    for rank in range(2):
        assert (tmp_path / "attempt_1" / f"rank_{rank}" / "stdout.log").read_text() == expected


# --- torchrun's command line --------------------------------------------------------------------


def test_what_follows_torchrun_can_follow_lockstep_run(tmp_path):
    code = "import os, sys; print(os.environ['WORLD_SIZE'], sys.argv[1:])"
    path = script(tmp_path, code)
    ended = run("--standalone", "--nnodes=1", "--nproc-per-node=2", "--rdzv-backend=c10d",
                "--rdzv_endpoint=localhost:0", "--rdzv-id=abc", path, "--lr", "1")
    assert ended.code == 0, ended.text()
    assert sorted(ended.out) == [f"[task/{i}] 2 ['--lr', '1']" for i in range(2)]
    assert ended.text().count("--rdzv-backend is ignored: processes meet at") == 1
    assert "--rdzv-endpoint is ignored" in ended.text()


def test_a_module_a_program_and_variables_of_torchrun(tmp_path):
    script(tmp_path, "import os; print('module', os.environ['LOCAL_WORLD_SIZE'])", "tool.py")
    ended = run("-m", "tool", env=clean_environment(PYTHONPATH=str(tmp_path),
                                                    PET_NPROC_PER_NODE="1"))
    assert ended.out == ["[task/0] module 1"], ended.text()
    shell = script(tmp_path, "#!/bin/sh\necho a program\n", "odd.py")
    shell.chmod(0o755)
    assert run("-n", "1", "--no-python", shell).out == ["[task/0] a program"]


@pytest.mark.parametrize("arguments, text", [
    (["--nnodes", "2:1", "--nproc-per-node", "1"], "must be a number of nodes"),
    (["--nnodes", "2", "--nproc-per-node", "1"], "--coordinator HOST:PORT"),
    (["--nproc-per-node", "many"], "auto, cpu or gpu"),
    (["-n", "1", "--redirects", "5"], "1 (standard output)"),
    (["-n", "1", "--redirects", "3"], "--redirects needs --log-dir"),
    (["-n", "1", "--env", "A"], "must be NAME=VALUE"),
    (["-n", "1", "--signals-to-handle", "SIGKILL"], "must be a comma-separated list of SIGTERM"),
    (["-n", "1", "--hosts-file", "/none"], "cannot be read"),
    (["-n", "1", "--restart-scope", "group"], "must be world or node or rank"),
    (["-n", "1", "--max-restarts", "-1"], "--max-restarts"),
])
def test_what_makes_no_sense_is_refused(arguments, text):
    ended = run(*arguments, "--", "true")
    assert ended.code == 2, ended.text()
    assert text in ended.text()


# --- Looking ------------------------------------------------------------------------------------


def test_print_env_shows_what_was_detected_and_what_each_process_gets():
    ended = run("-n", "2", "--print-env", "--env", "X=1", "--", "false")
    assert ended.code == 0, ended.text()
    assert "# no scheduler is seen" in ended.out[0] and ended.out[1] == "# one node"
    at = ended.out.index("# task/1")
    assert {"RANK=1", "WORLD_SIZE=2", "X=1"} <= set(ended.out[at:])
    assert not any(line.startswith("PATH=") for line in ended.out)


def test_dry_run_starts_nothing(tmp_path):
    ended = run("-n", "2", "--dry-run", "--max-restarts", "3", "--", "touch", tmp_path / "no")
    assert ended.code == 0 and not (tmp_path / "no").exists()
    assert "after a failure: restarts all processes, at most 3 times" in ended.out
    assert any(line.startswith("command: touch ") for line in ended.out)


def test_a_scheduler_is_detected_and_can_be_overruled():
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1",
             "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "n[1-2]"}
    ended = run("--nproc-per-node", "1", "--", "true", env=clean_environment(**slurm))
    assert ended.code == 2 and "for example on n1" in ended.text()
    ended = run("--nnodes", "1", "--print-env", "--nproc-per-node", "1", "--", "true",
                env=clean_environment(**slurm))
    assert ended.code == 0 and "slurm started this: node 1" in ended.out[0]


# --- Process 1 ----------------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True,
        timeout=DEADLINE_S, check=False).returncode != 0,
    reason="takes a namespace of processes")
def test_as_process_1_it_reaps_orphans_and_hears_signals():
    # A process that has ended stays in /proc until it is reaped.
    script_text = ("pid=$(sh -c 'setsid sleep 0.1 >/dev/null 2>&1 & echo $!')\n"
                   "while [ -e /proc/$pid ]; do sleep 0.05; done\n"
                   "echo none left; exec sleep 1000")
    with Command("unshare", "--pid", "--fork", "--mount-proc", LOCKSTEP, "run", "-n", "1", "--",
                 "sh", "-c", script_text) as command:
        command.wait_for("none left")
        child = subprocess.run(["ps", "-o", "pid=", "--ppid", str(command.pid)],
                               capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        os.kill(int(child.stdout.split()[0]), signal.SIGTERM)
        assert command.end() == 128 + signal.SIGTERM, command.text()
