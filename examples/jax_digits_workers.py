"""Trains as jax_digits.py does, on digits that data workers make: shuffled, scaled, in batches.

    lockstep serve --ephemeral --job digits=4 &
    export LOCKSTEP_COORDINATOR=127.0.0.1:7070
    lockstep worker & lockstep worker &                  # on any hosts
    lockstep run -n 4 --job digits -- python examples/jax_digits_workers.py

Each process reads its share of every batch. Workers may come, go and be killed meanwhile: the batches
stay the same. After each epoch the processes compare which examples they got.
"""

import argparse
import os

from jax_digits import BATCH, SEED, accuracy_of, first_weights, load_images, say, train_step

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lockstep import data


def examples(images, labels, epochs, share):
    """What workers make of the digits: all of them in each epoch, each time in another order."""
    rows = {"image": (images * 16.0).astype(np.uint8), "label": labels,
            "number": np.arange(len(images), dtype=np.int32)}
    return (data.array(rows)
            .shuffle(seed=SEED)
            .repeat(epochs)
            .map(lambda row: {**row, "image": row["image"].cast("float32") / 16.0})
            .batch(share))


def train(address, name, epochs):
    process, processes = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("processes",))
    split, same = NamedSharding(mesh, PartitionSpec("processes")), NamedSharding(mesh, PartitionSpec())
    (images, labels), held_out = load_images()
    steps = len(images) // BATCH
    images, labels = images[:steps * BATCH], labels[:steps * BATCH]  # whole batches
    weights = first_weights()
    velocity = {key: np.zeros_like(value) for key, value in weights.items()}
    weights, velocity = jax.device_put(weights, same), jax.device_put(velocity, same)

    def spread(array):
        """A global array, of which each process provides its own rows."""
        return jax.make_array_from_process_local_data(split, array)

    losses, seen, good = [], [], 0
    dataset = examples(images, labels, epochs, BATCH // processes)
    with dataset.read(address, name=name, consumer=process, consumers=processes) as batches:
        for step, batch in enumerate(batches, start=1):
            weights, velocity, loss = train_step(
                weights, velocity, spread(batch["image"]), spread(batch["label"]))
            losses.append(float(loss))
            seen.append(batch["number"])
            if step % steps:
                continue
            all_seen = multihost_utils.process_allgather(np.concatenate(seen)).reshape(-1)
            good += np.array_equal(np.sort(all_seen), np.arange(len(images)))
            if process == 0:
                say(f"epoch {step // steps}/{epochs}, step {step}/{steps * epochs}: "
                    f"loss {np.mean(losses):.4f}")
            last, losses, seen = losses, [], []

    accuracy = float(accuracy_of(weights, *(jax.device_put(array, same) for array in held_out)))
    say(f"process {process}/{processes}: each of {len(images)} examples was seen exactly once in "
        f"{good} of {epochs} epochs")
    say(f"process {process}/{processes}: final loss {np.mean(last):.6f}, "
        f"held-out accuracy {accuracy:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images")
    parser.add_argument("--name", default="digits", help="of this pass over the data: what the "
                        "processes share")
    options = parser.parse_args()

    jax.distributed.initialize()
    train(os.environ["LOCKSTEP_COORDINATOR"], options.name, options.epochs)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
