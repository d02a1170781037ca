"""Looking changes nothing: what the main thread of a stock program does in C, with looks at it."""

import os
import re
import subprocess

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment

PYTHONS = {"torch": ROOT / "build/peers/frameworks/bin/python", "jax": ROOT / "build/peers/jax/bin/python"}
# Of each wait. scripts/soak.sh says 20: then nothing moves for a minute, and launchers look unasked.
SECONDS = int(os.environ.get("LOCKSTEP_TEST_LOOK_SECONDS", "3"))

PROGRAM = """
import ctypes, datetime, os, sys, time
rank = int(os.environ.get("RANK", "0"))
if sys.argv[1] == "torch":
    import torch.distributed as dist
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
else:
    import jax
    jax.distributed.initialize(initialization_timeout=60)
c = ctypes.CDLL(None, use_errno=True)
seconds = int(sys.argv[2])

def tell(name, call):
    began = time.monotonic()
    ctypes.set_errno(0)
    value = call()
    took = time.monotonic() - began
    print(f"{name} {value} errno {ctypes.get_errno()} took {took:.3f}", flush=True)

def sem_timedwait():
    sem = ctypes.create_string_buffer(64)
    c.sem_init(sem, 0, 0)
    now = time.time() + seconds
    return c.sem_timedwait(sem, (ctypes.c_long * 2)(int(now), int(now % 1 * 1e9)))

def wait_in_store():
    try:
        store.wait(["never"], datetime.timedelta(seconds=2))
    except dist.DistStoreError as error:
        return "gave up"

print("begins", flush=True)
tell("sleep", lambda: c.sleep(seconds))
tell("poll", lambda: c.poll(None, 0, 1000 * seconds))
tell("sem_timedwait", sem_timedwait)
if sys.argv[1] == "torch" and rank == 1:
    tell("store.wait", wait_in_store)
"""


@pytest.mark.parametrize("framework", PYTHONS)
def test_use_a02_what_c_code_waits_in_runs_its_full_time(framework, tmp_path):
    python = PYTHONS[framework]
    if not python.exists():
        pytest.skip("scripts/setup.sh frameworks makes the environment")
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    with Command(LOCKSTEP, "run", "-n", 2, "--", python, program, framework, SECONDS,
                 env=clean_environment(TMPDIR=str(tmp_path), PATH="/nowhere")) as command:
        address = command.wait_for(r"coordinator (\S+) \(started for this run\)")[0][1]
        command.wait_for("begins", count=2)
        looks = 0
        while len([line for line in command.lines if "sem_timedwait" in line]) < 2:
            assert command.process.poll() is None, command.text()
            said = subprocess.run([LOCKSTEP, "stacks", "job", "--coordinator", address],
                                  capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            looks += "train.py:" in said.stdout
        assert command.end() == 0, command.text()
    assert looks > 3, "nobody looked"
    ends = {"sleep": ("0", "0", SECONDS), "poll": ("0", "0", SECONDS),
            "sem_timedwait": ("-1", "110", SECONDS), "store.wait": ("gave up", "0", 2)}
    told = [re.search(r"\] (\S+) (.+) errno (\d+) took (\S+)$", line) for line in command.lines]
    told = [match for match in told if match]
    assert len(told) == (7 if framework == "torch" else 6), command.text()
    for match in told:
        value, errno, least = ends[match[1]]
        assert (match[2], match[3]) == (value, errno), match[0]
        # The machine may be slow to wake somebody; a wait that began anew would take far longer.
        assert least - 0.01 <= float(match[4]) < least + 1.2, match[0]
