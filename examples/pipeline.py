"""Trains a network in two stages, each a process: activations go one way, gradients the other.

    lockstep run -n 2 -- python examples/pipeline.py

Every batch is cut into parts. The first stage sends on what a part has become under the name
"activation/PART" while the second still works on the part before, and takes "gradient/PART" back.
Both print the same loss at the end.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

import lockstep

BATCH, PARTS, HIDDEN, LEARNING_RATE, SEED = 128, 4, 64, 0.3, 7


def first_stage(step, weights, parts):
    """From images to what the hidden layer makes of them. Returns the loss, which the last knows."""
    hidden = [np.maximum(images @ weights, 0) for images, _ in parts]
    for part, values in enumerate(hidden):
        step.send(f"activation/{part}", values, to=1)
    change = np.zeros_like(weights)
    for part, (images, _) in enumerate(parts):
        behind = step.recv(f"gradient/{part}", source=1, timeout=60).numpy()
        change += images.T @ (behind * (hidden[part] > 0))
    weights -= LEARNING_RATE * change / BATCH
    return float(step.recv("loss", source=1, timeout=60).numpy())


def second_stage(step, weights, parts):
    """From the hidden layer to the loss."""
    change, loss = np.zeros_like(weights), np.zeros(())
    for part, (_, labels) in enumerate(parts):
        hidden = step.recv(f"activation/{part}", source=0, timeout=60).numpy()
        scores = hidden @ weights
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss -= np.log(chances[rows, labels]).sum() / BATCH
        chances[rows, labels] -= 1
        step.send(f"gradient/{part}", chances @ weights.T, to=0)
        change += hidden.T @ chances
    step.send("loss", loss, to=0)
    weights -= LEARNING_RATE * change / BATCH
    return float(loss)


def train(me, epochs):
    stage, shape = [(first_stage, (64, HIDDEN)), (second_stage, (HIDDEN, 10))][me.member]
    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    weights = np.random.default_rng(me.member).standard_normal(shape) * np.sqrt(2 / shape[0])
    shuffle = np.random.default_rng(SEED)  # the same order at both stages
    number = 0
    for _ in range(epochs):
        order = shuffle.permutation(len(images))
        losses = []
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            rows = np.split(order[begin:begin + BATCH], PARTS)
            with me.step(number) as step:
                losses.append(stage(step, weights, [(images[r], labels[r]) for r in rows]))
            number += 1
    return np.mean(losses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10, help="passes over the images")
    options = parser.parse_args()
    with lockstep.join() as me:
        if me.size != 2:
            raise SystemExit(f"there are two stages, not {me.size}: lockstep run -n 2")
        loss = train(me, options.epochs)
        print(f"stage {me.member}: final loss {loss:.6f}", flush=True)
        me.barrier("trained", timeout=60)  # nobody leaves while the other still receives
