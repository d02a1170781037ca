"""Runs an example as it is, and prints what its training steps took: timed.py EXAMPLE [ARGUMENTS...]

A step is from one call of what updates the weights to the next: of torch's SGD.step, or of the function
`train_step` of a JAX example.
"""

import importlib.util
import os
import sys
import time

WARM_UP = 50  # steps that do not count

marks = []


def marked(function):
    def call(*arguments, **named):
        marks.append(time.perf_counter())
        return function(*arguments, **named)
    return call


def main():
    path = sys.argv.pop(1)
    spec = importlib.util.spec_from_file_location("example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    if hasattr(example, "torch"):
        example.torch.optim.SGD.step = marked(example.torch.optim.SGD.step)
    else:
        example.train_step = marked(example.train_step)
    print("training", os.getpid(), flush=True)
    example.main()
    counted = marks[WARM_UP:]
    mean = (counted[-1] - counted[0]) / (len(counted) - 1)
    print(f"mean step {mean * 1e6:.2f} us of {len(counted) - 1}", flush=True)


main()
