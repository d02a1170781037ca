"""The data of the program: a reader of its own, as a training has one."""

import time

import torch


class Loader:
    """Batches by step. `until`: what to do before the batch of a step is there."""

    def __init__(self, seed, before=None):
        self.seed, self.before = seed, before or {}

    def batch(self, step):
        if step in self.before:
            self.before[step]()
        generator = torch.Generator().manual_seed(self.seed + step)
        return torch.randn(16, 64, generator=generator)


def read_for_ever():
    """As a reader does that looks for a file that never comes."""
    found = 0
    while found == 0:
        found += sum(0 for _ in range(1000))


def wait_for_ever():
    """As a reader does whose file system hangs."""
    time.sleep(10**6)
