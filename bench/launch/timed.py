"""Runs an example as it is, and writes down when its training steps were: timed.py EXAMPLE [ARGUMENTS...]

A step is from one call of what updates the weights to the next: of torch's SGD.step, or of the function
`train_step` of a JAX example. The folder $STEPS_IN has a file for each process: doubles, in seconds of the
monotonic clock. Each rank keeps to a core of its own.
"""

import importlib.util
import os
import pathlib
import struct
import sys
import time


def marked(function):
    marks = (pathlib.Path(os.environ["STEPS_IN"]) / str(os.getpid())).open("wb", buffering=0)

    def call(*arguments, **named):
        marks.write(struct.pack("d", time.monotonic()))
        return function(*arguments, **named)
    return call


def main():
    # Else where the scheduler puts the ranks is worth more than all that is compared.
    cores = sorted(os.sched_getaffinity(0))
    rank = int(os.environ.get("RANK", 0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    path = sys.argv.pop(1)
    spec = importlib.util.spec_from_file_location("example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    if hasattr(example, "torch"):
        example.torch.optim.SGD.step = marked(example.torch.optim.SGD.step)
    else:
        example.train_step = marked(example.train_step)
    example.main()


main()
