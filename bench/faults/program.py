"""A stock program of torch.distributed in which one rank does something wrong.

Usage: program.py FAULT RANK. It prints when.
"""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

FAULT, ODD = sys.argv[1], int(sys.argv[2])
STEPS, FAULTY_STEP = 1_000_000, 20


def is_odd():
    return int(os.environ["RANK"]) == ODD


def fault():
    print(f"fault at {time.time()} in pid {os.getpid()}", flush=True)


def load(step):
    if FAULT == "loops" and is_odd() and step == FAULTY_STEP:
        fault()
        while True:
            pass
    return torch.ones(1000)


def train(step):
    batch = load(step)
    if step == FAULTY_STEP and is_odd() and FAULT in ("killed", "stopped", "skips"):
        fault()
        if FAULT == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif FAULT == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            dist.barrier()
    dist.all_reduce(batch)
    time.sleep(0.01)


def main():
    torch.set_num_threads(1)
    if is_odd() and FAULT in ("never comes", "killed at the start"):
        fault()
        if FAULT == "killed at the start":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10**6)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    for step in range(STEPS):
        train(step)


main()
