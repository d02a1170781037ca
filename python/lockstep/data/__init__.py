"""Data for training: what to read, shuffled, mapped and batched, in this process or by workers.

    from lockstep import data

    digits = data.npy("images-*.npy").shuffle(seed=7).map(lambda x: x / 255.0).batch(64)
    for batch in digits.local():                                # in this process
        ...
    for batch in digits.read(me, name="train", consumer=0, consumers=1):      # by `lockstep worker`
        ...

Elements are NumPy arrays; `as_torch` and `as_jax` show the same memory.
"""

from lockstep.data._dataset import Dataset
from lockstep.data._elements import as_jax, as_torch
from lockstep.data._local import LocalIterator
from lockstep.data._read import Place, Reader
from lockstep.data._sources import (array, concat, fill, lines, mix, npy, range, records, tfrecord,
                                    windows, zip)
from lockstep.data._spec import Leaf
from lockstep.data._trace import Column, maximum, minimum, where

__all__ = [
    "Column", "Dataset", "Leaf", "LocalIterator", "Place", "Reader", "array", "as_jax", "as_torch",
    "concat", "fill", "lines", "maximum", "minimum", "mix", "npy", "range", "records", "tfrecord",
    "where", "windows", "zip",
]
