"""A stock JAX process whose Orbax manager saves every 1,000,000 steps, or when it is told to.

Usage: orbax_worker.py FOLDER. Prints at which step it was told, and which steps are saved then. Who
it is and where the coordinator is comes from the environment, as `lockstep run` sets it.
"""

import sys
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def main():
    jax.distributed.initialize()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    rows = np.arange(4 * jax.device_count(), dtype=np.float32)
    weights = jax.make_array_from_callback(rows.shape, split, lambda index: rows[index])
    options = ocp.CheckpointManagerOptions(save_interval_steps=1_000_000)
    with ocp.CheckpointManager(sys.argv[1], options=options) as manager:
        for step in range(1, 1_000_000):
            time.sleep(0.002)
            if step == 5:
                print("at work", flush=True)
            manager.save(step, args=ocp.args.StandardSave({"weights": weights}))
            if manager.reached_preemption(step):
                manager.wait_until_finished()
                print(f"saved at {step}", flush=True)
                print("checkpoints", sorted(manager.all_steps()), flush=True)
                return


main()
