"""A stock program of torch.distributed that steps until it is ended; a step is a collective.

Each rank prints when its process began, when torch was imported, and when its first step was made.
"""

import os
import time


def process_began():
    """By the clock of time.time()."""
    with open("/proc/self/stat", encoding="ascii") as stat:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


BEGAN = process_began()

import torch
import torch.distributed as dist

IMPORTED = time.time()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    batch = torch.ones(1000)
    dist.all_reduce(batch)
    # In one piece: torchrun's ranks share a pipe, and their lines would run into each other.
    print(f"first step of rank {dist.get_rank()} after {restarts} restarts, pid {os.getpid()}: "
          f"{BEGAN:.3f} {IMPORTED:.3f} {time.time():.3f}\n", end="", flush=True)
    while True:
        dist.all_reduce(batch.fill_(1))
        time.sleep(0.01)


main()
