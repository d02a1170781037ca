"""A stock JAX process that trains until it is told to save: prints where it saved, and ends.

Usage: preemption_worker.py STEPS SECONDS_A_STEP. Who it is and where the coordinator is comes from
the environment, as `lockstep run` sets it.
"""

import sys
import time

import jax
from jax.experimental import multihost_utils


def main():
    steps, pause = int(sys.argv[1]), float(sys.argv[2])
    jax.distributed.initialize()
    print("started", flush=True)
    for step in range(steps):
        # Slower in one process than in another, as on real hosts.
        time.sleep(pause * (1 + jax.process_index()))
        if step == 5:
            print("at work", flush=True)
        if multihost_utils.reached_preemption_sync_point(step):
            print(f"saved at {step}", flush=True)
            return
    print("not told", flush=True)


main()
