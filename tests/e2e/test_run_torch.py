"""Stock torch under `lockstep run`: no import of lockstep, no argument."""

import os
import re
import signal
import time

import pytest

from commands import LOCKSTEP, ROOT, Command, Watched, clean_environment, serving

PYTHON = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(),
                                reason="scripts/setup.sh frameworks makes the environment")

# Steps until there is a file of that name; a step is a collective. Ends with the sum of the ranks.
PROGRAM = """
import os, time
import torch, torch.distributed as dist
imported = time.time()
dist.init_process_group("gloo")
e = os.environ
assert dist.get_world_size() == int(e["WORLD_SIZE"]) and dist.get_rank() == int(e["RANK"])
step = 0
while True:
    total = torch.tensor([dist.get_rank() + 1.0, float(os.path.exists(e["DONE"]))])
    dist.all_reduce(total)
    if step == 0:
        print("first step", e["TORCHELASTIC_RESTART_COUNT"], e["MASTER_PORT"], os.getpid(),
              imported, time.time(), flush=True)
    step += 1
    if total[1] > 0: break
    time.sleep(0.01)
print("sum", int(total[0]), flush=True)
dist.destroy_process_group()
"""


def start(tmp_path, *options, env=None, code=PROGRAM):
    script = tmp_path / "train.py"
    script.write_text(code)
    return Command(LOCKSTEP, "run", *options, "--", PYTHON, script,
                   env=clean_environment(DONE=str(tmp_path / "done"), **(env or {})))


def first_steps(command, restarts, count):
    found = command.wait_for(rf"first step {restarts} (\d+) (\d+) (\S+) (\S+)$", count)
    return [(int(m[1]), int(m[2]), float(m[3]), float(m[4])) for m in found]


def test_four_processes_meet_at_our_store(tmp_path):
    with start(tmp_path, "-n", "4") as command:
        first_steps(command, 0, 4)
        (tmp_path / "done").touch()
        assert command.end() == 0, command.text()
        assert sum(line.endswith("sum 10") for line in command.out) == 4


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_is_killed_costs_two_seconds_and_a_start(tmp_path, victim):
    with start(tmp_path, "-n", "4", "--max-restarts", "1") as command:
        before = first_steps(command, 0, 4)
        pid = int(command.wait_for(rf"\[task/{victim}\] first step 0 \d+ (\d+)")[0][1])
        killed_at = time.time()
        os.kill(pid, signal.SIGKILL)
        command.wait_for(rf"task/{victim} \(pid {pid}\) was killed by SIGKILL")
        told = time.time() - killed_at
        after = first_steps(command, 1, 4)
        assert {port for port, *_ in before}.isdisjoint({port for port, *_ in after})
        # What importing torch takes is its own.
        imports = max(imported for _, _, imported, _ in after) - killed_at
        steps = max(stepped for _, _, _, stepped in after) - killed_at
        print(f"told after {told:.2f} s; imported after {imports:.2f} s; first step after {steps:.2f} s")
        (tmp_path / "done").touch()
        assert command.end() == 0, command.text()
        assert re.search(rf"attempt 1 failed after .*: task/{victim} .* was killed by SIGKILL",
                         command.text())
        assert sum(line.endswith("sum 10") for line in command.out) == 4


def test_an_error_of_the_program_is_the_root_cause_and_shown(tmp_path):
    with start(tmp_path, "-n", "2", "--grace", "0s") as command:
        steps = first_steps(command, 0, 2)
        os.kill(steps[0][1], signal.SIGABRT)
        assert command.end() == 128 + signal.SIGABRT, command.text()
        assert re.search(r"was killed by SIGABRT .* <- the first to fail", command.text())


def test_the_error_that_torchs_record_writes_is_told(tmp_path):
    code = ("import os\n"
            "from torch.distributed.elastic.multiprocessing.errors import record\n"
            "@record\n"
            "def main():\n"
            "    if os.environ['RANK'] == '1': raise ValueError('loss is nan')\n"
            "main()\n")
    with start(tmp_path, "-n", "2", "--grace", "0s", code=code) as command:
        assert command.end() == 1, command.text()
        assert re.search(r"task/1 .*: ValueError: loss is nan, .* <- the first to fail", command.text())


def test_two_nodes_of_which_one_is_killed_and_the_job_goes_on(tmp_path):
    with serving(tmp_path) as server:
        options = ("--coordinator", server.address, "--job", "digits", "--nnodes", "1:2",
                   "--nproc-per-node", "2", "--max-restarts", "3")
        with start(tmp_path, *options) as first, start(tmp_path, *options) as second:
            before = first_steps(first, 0, 2) + first_steps(second, 0, 2)
            assert len({port for port, *_ in before}) == 1
            processes = [Watched(pid) for _, pid, *_ in first_steps(second, 0, 2)]
            second.signal(signal.SIGKILL)
            assert all(process.wait_gone() for process in processes)
            after = first_steps(first, 1, 2)
            assert {port for port, *_ in before}.isdisjoint({port for port, *_ in after})
            assert "(restart 1 of 3)" in first.text()
            # It comes back, and the world is whole again.
            with start(tmp_path, *options) as third:
                first_steps(first, 2, 2)
                first_steps(third, 2, 2)
                (tmp_path / "done").touch()
                assert first.end() == 0 and third.end() == 0, first.text() + third.text()
                assert sum(line.endswith("sum 10") for line in first.out + third.out) == 4
