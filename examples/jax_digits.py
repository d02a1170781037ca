"""Trains a small network on handwritten digits, on all processes of a JAX job at once.

Plain JAX: nothing in this file knows of Lockstep. Start four processes of it with

    lockstep run -n 4 -- python examples/jax_digits.py

or by hand, each in a shell of its own, with the variables that JAX itself looks for.

The digits come with scikit-learn (1797 images of 8x8 pixels, no download). Each process holds its
share of every batch; JAX adds up the gradients over all processes, so all hold the same weights
after each step, and each prints the same loss at the end.

With --checkpoint FOLDER it asks JAX after each step whether a process is about to be taken away. All
get the same answer at the same step: each saves, and ends. Started again, they go on from there.
"""

import argparse
import os
import pathlib

# One device for each process, on the CPU. Before JAX is imported, since it looks once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

BATCH = 128          # images a step, over all processes
HIDDEN = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9
HELD_OUT = 360       # images that are never trained on
SEED = 7


def load_images():
    """(training images, labels), (held-out images, labels): the same split in every process."""
    digits = load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(SEED).permutation(len(images))
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    return (images[training], labels[training]), (images[held_out], labels[held_out])


def first_weights():
    """Two layers; equal in every process, since they come from the same seed."""
    random = np.random.default_rng(SEED)
    shapes = {"in": (64, HIDDEN), "out": (HIDDEN, 10)}
    weights = {}
    for name, (rows, columns) in shapes.items():
        scale = np.sqrt(2.0 / rows)
        weights[name] = (scale * random.standard_normal((rows, columns))).astype(np.float32)
        weights[name + "_bias"] = np.zeros(columns, np.float32)
    return weights


def scores(weights, images):
    hidden = jax.nn.relu(images @ weights["in"] + weights["in_bias"])
    return hidden @ weights["out"] + weights["out_bias"]


def loss_of(weights, images, labels):
    log_probabilities = jax.nn.log_softmax(scores(weights, images))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


@jax.jit
def train_step(weights, velocity, images, labels):
    """One step of gradient descent. The mean over the batch is where the processes meet."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v - LEARNING_RATE * g, velocity, gradient)
    weights = jax.tree.map(jnp.add, weights, velocity)
    return weights, velocity, loss


@jax.jit
def accuracy_of(weights, images, labels):
    return jnp.mean(jnp.argmax(scores(weights, images), axis=1) == labels)


def say(text):
    print(text, flush=True)


class Checkpoints:
    """What each process saved, a file for each step; a step counts once all have saved it."""

    def __init__(self, folder, process, processes):
        self._folder, self._process, self._processes = folder, process, processes

    def save(self, step, state):
        folder = self._folder / f"step-{step}"
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"process-{self._process}.unfinished.npz"
        np.savez(unfinished, **state)
        unfinished.rename(folder / f"process-{self._process}.npz")  # whole, or not there

    def newest(self):
        """(step, state) of the last step that all have saved; None when there is none."""
        whole = [int(folder.name.removeprefix("step-")) for folder in self._folder.glob("step-*")
                 if len(list(folder.glob("process-*[0-9].npz"))) == self._processes]
        if not whole:
            return None
        with np.load(self._folder / f"step-{max(whole)}" / f"process-{self._process}.npz") as file:
            return max(whole), dict(file)


def train(epochs, folder=None):
    process, processes = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))   # each device has a part of the rows
    same = NamedSharding(mesh, PartitionSpec())          # each device has all of it

    (images, labels), held_out = load_images()
    batch = BATCH - BATCH % len(jax.devices())
    steps = len(images) // batch
    weights = first_weights()
    velocity = {name: np.zeros_like(array) for name, array in weights.items()}
    done, losses = 0, []  # steps, and what the last epoch's came to
    checkpoints = Checkpoints(folder, process, processes) if folder else None
    if saved := checkpoints and checkpoints.newest():
        done, state = saved
        weights = {name: state[f"weights_{name}"] for name in weights}
        velocity = {name: state[f"velocity_{name}"] for name in velocity}
        losses = list(state["losses"])
        say(f"process {process}/{processes}: goes on after step {done}")
    weights, velocity = jax.device_put(weights, same), jax.device_put(velocity, same)

    def spread(array):
        """A global array, of which each process provides the rows of its own devices."""
        return jax.make_array_from_callback(array.shape, split, lambda rows: array[rows])

    shuffle = np.random.default_rng(SEED)
    for epoch in range(1, epochs + 1):
        order = shuffle.permutation(len(images))
        for step in range(steps):
            if (epoch - 1) * steps + step < done:
                continue
            if step == 0:
                losses = []
            rows = order[step * batch:(step + 1) * batch]
            weights, velocity, loss = train_step(
                weights, velocity, spread(images[rows]), spread(labels[rows]))
            losses.append(float(loss))
            done += 1
            if checkpoints and multihost_utils.reached_preemption_sync_point(done):
                state = {f"weights_{name}": array for name, array in weights.items()}
                state |= {f"velocity_{name}": array for name, array in velocity.items()}
                checkpoints.save(done, {**state, "losses": np.array(losses)})
                say(f"process {process}/{processes}: saved after step {done}, and ends")
                return
        if process == 0 and done == epoch * steps:
            say(f"epoch {epoch}/{epochs}, step {epoch * steps}/{epochs * steps}: "
                f"loss {np.mean(losses):.4f}")

    accuracy = float(accuracy_of(weights, *(jax.device_put(array, same) for array in held_out)))
    say(f"process {process}/{processes}: final loss {np.mean(losses):.6f}, "
        f"held-out accuracy {accuracy:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images")
    parser.add_argument("--checkpoint", type=pathlib.Path, metavar="FOLDER",
                        help="where to save when a process is about to be taken away")
    options = parser.parse_args()

    jax.distributed.initialize()
    train(options.epochs, options.checkpoint)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
