"""Functions that tests of datasets name by their reference."""

import os
import time

import numpy


def double(x):
    return x * 2


def describe(row):
    return {"sum": numpy.float64(row["x"].sum()), "text": f"row {int(row['n'])}"}


def pid(_):
    return os.getpid()


def fails_at_five(x):
    if x == 5:
        raise ValueError("five is not for me")
    return x


def takes_for_ever(x):
    time.sleep(1000)
    return x


def wrong_type(x):
    return float(x) / 2


def interrupts(_):
    raise KeyboardInterrupt


def dies_at_seven(x):
    if x == 7:
        os._exit(3)
    return x


def sees(x):
    assert not x.flags.writeable
    return numpy.ascontiguousarray(x[::-1])
