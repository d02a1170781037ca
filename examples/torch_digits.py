"""Trains a small network on handwritten digits, on all processes of a PyTorch job at once.

Plain PyTorch: nothing in this file knows of Lockstep. Start four processes of it with

    lockstep run -n 4 -- python examples/torch_digits.py

or with torchrun, alone or on Lockstep's server:

    torchrun --nproc-per-node 4 examples/torch_digits.py
    torchrun --nproc-per-node 4 --rdzv-backend lockstep --rdzv-endpoint HOST:7070 examples/torch_digits.py

The digits come with scikit-learn (1797 images of 8x8 pixels, no download). Each process holds its
share of every batch; DistributedDataParallel adds up the gradients over all processes, so all hold
the same weights after each step, and each prints the same loss at the end.
"""

import argparse

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

BATCH = 128          # images a step, over all processes
HIDDEN = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9
HELD_OUT = 360       # images that are never trained on
SEED = 7


def load_images():
    """(training images, labels), (held-out images, labels): the same split in every process."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = np.random.default_rng(SEED).permutation(len(images))
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    return (images[training], labels[training]), (images[held_out], labels[held_out])


def new_model():
    """Two layers; equal in every process, since they come from the same seed."""
    torch.manual_seed(SEED)
    return torch.nn.Sequential(
        torch.nn.Linear(64, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10))


def mean_of_all(value):
    """The mean over the processes: the same number in each."""
    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def say(text):
    print(text, flush=True)


def train(epochs):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    (images, labels), held_out = load_images()
    batch = BATCH - BATCH % ranks
    steps = len(images) // batch
    model = DistributedDataParallel(new_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    loss_of = torch.nn.CrossEntropyLoss()

    shuffle = np.random.default_rng(SEED)
    for epoch in range(1, epochs + 1):
        order = shuffle.permutation(len(images))
        losses = []
        for step in range(steps):
            rows = order[step * batch:(step + 1) * batch][rank::ranks]
            optimizer.zero_grad()
            loss = loss_of(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        mean = mean_of_all(np.mean(losses))
        if rank == 0:
            say(f"epoch {epoch}/{epochs}, step {epoch * steps}/{epochs * steps}: loss {mean:.4f}")

    with torch.no_grad():
        correct = model.module(held_out[0]).argmax(dim=1) == held_out[1]
    say(f"rank {rank}/{ranks}: final loss {mean:.6f}, held-out accuracy {correct.float().mean():.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images")
    options = parser.parse_args()

    torch.set_num_threads(1)        # several processes share a host
    dist.init_process_group("gloo")  # which finds RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    train(options.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
