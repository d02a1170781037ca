"""A stock JAX process that trains until it is told to save: prints where it saved, and ends.

Usage: preemption_worker.py STEPS SECONDS_A_STEP. Who it is and where the coordinator is comes from
`lockstep run`.
"""

import os
import sys
import time

import jax
from jax.experimental import multihost_utils


def main():
    steps, pause = int(sys.argv[1]), float(sys.argv[2])
    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]))
    print("started", flush=True)
    for step in range(steps):
        # Slower in one process than in another, as on real hosts.
        time.sleep(pause * (1 + jax.process_index()))
        if multihost_utils.reached_preemption_sync_point(step):
            print(f"saved at {step}", flush=True)
            return
    print("not told", flush=True)


main()
