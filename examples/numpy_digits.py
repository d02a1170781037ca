"""Trains a small network on handwritten digits, on all members of a job at once, with NumPy alone.

    lockstep run -n 4 -- python examples/numpy_digits.py

Each member takes its share of every batch, and the gradients are added up around a ring of tensors:
what a member sends to its right neighbour under a name, that one receives under the same name. All
hold the same weights after each step, and each prints the same loss at the end. The digits come with
scikit-learn (1797 images of 8x8 pixels, no download).
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

import lockstep

BATCH, HIDDEN, LEARNING_RATE, SEED = 128, 64, 0.3, 7


def add_up(step, me, vector):
    """Adds the vectors of all members, in place: an all-reduce around a ring, in pieces."""
    right, left = (me.member + 1) % me.size, (me.member - 1) % me.size
    pieces = np.array_split(vector, me.size)
    for turn in range(me.size - 1):  # each piece goes around once, and grows to the sum
        step.send(f"sum/{turn}", pieces[(me.member - turn) % me.size], to=right)
        theirs = step.recv(f"sum/{turn}", source=left, timeout=60).numpy()
        pieces[(me.member - turn - 1) % me.size] += theirs
    for turn in range(me.size - 1):  # and once more, to be had by all
        step.send(f"all/{turn}", pieces[(me.member + 1 - turn) % me.size], to=right)
        theirs = step.recv(f"all/{turn}", source=left, timeout=60).numpy()
        pieces[(me.member - turn) % me.size][:] = theirs


def loss_and_gradients(weights, images, labels):
    """Both summed over the images, not averaged, so that members can add theirs up."""
    first, second = weights
    hidden = np.maximum(images @ first, 0)
    scores = hidden @ second
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).sum()
    chances[rows, labels] -= 1  # now the gradient by the scores
    behind = (chances @ second.T) * (hidden > 0)
    return loss, [images.T @ behind, hidden.T @ chances]


def train(me, epochs):
    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    random = np.random.default_rng(SEED)  # the same numbers at every member
    weights = [random.standard_normal(shape) * np.sqrt(2 / shape[0])
               for shape in ((images.shape[1], HIDDEN), (HIDDEN, 10))]
    number = 0
    for _ in range(epochs):
        order = random.permutation(len(images))
        losses = []
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            mine = order[begin:begin + BATCH][me.member::me.size]
            loss, gradients = loss_and_gradients(weights, images[mine], labels[mine])
            total = np.concatenate([each.ravel() for each in gradients] + [[loss]]) / BATCH
            with me.step(number) as step:
                add_up(step, me, total)
            number += 1
            losses.append(total[-1])
            change = np.split(total[:-1], [weights[0].size])
            for each, gradient in zip(weights, change):
                each -= LEARNING_RATE * gradient.reshape(each.shape)
    return np.mean(losses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10, help="passes over the images")
    options = parser.parse_args()
    with lockstep.join() as me:
        loss = train(me, options.epochs)
        print(f"member {me.member}/{me.size}: final loss {loss:.6f}", flush=True)
        me.barrier("trained", timeout=60)  # nobody leaves while a neighbour still receives
