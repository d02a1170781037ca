"""Where elements come from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from lockstep import _native
from lockstep._arrays import extents, type_name
from lockstep._types import whole
from lockstep.data._dataset import Dataset
from lockstep.data._nodes import Attribute, Node, where

#: One glob or more: "train-*.npy", a pathlib.Path, a list of them.
Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def range(start: int, stop: int | None = None, step: int = 1) -> Dataset:  # noqa: A001
    """Whole numbers, int64, as Python's `range` counts them."""
    first, last = (0, start) if stop is None else (start, stop)
    if whole(step, "a step") == 0:
        raise ValueError("a step is not 0")
    return _source("range", start=whole(first, "the start"), stop=whole(last, "the stop"),
                   step=whole(step, "a step"))


def array(arrays: Any) -> Dataset:
    """Arrays that travel with the definition, at most 32 MiB: each row is an element.

    Args:
      arrays: one array, or a dict of arrays with as many rows each, by name: NumPy, torch, JAX, or
        anything else with the buffer protocol or `__dlpack__`.
    """
    named = isinstance(arrays, Mapping)
    names, dtypes, shapes, data = [], [], [], []
    for name, one in (arrays.items() if named else [("", arrays)]):
        if not isinstance(name, str):
            raise TypeError(f"a field has a text as its name, not {type(name).__name__}")
        raw, dtype, shape = _native.array_parts(one)
        names.append(name)
        dtypes.append(dtype)
        shapes.append(",".join(map(str, shape)))
        data.append(raw)
    return _source("array", names=names, dtypes=dtypes, shapes=shapes, data=data)


def npy(paths: Paths) -> Dataset:
    """The rows of .npy files, file by file: what is below the first dimension is an element.

    An element has the type of the file and its shape without the first extent.
    """
    return _source("npy", paths=_listed(paths))


def windows(paths: Paths, dtype: Any, length: int, stride: int | None = None) -> Dataset:
    """Runs of numbers from files that hold nothing else, such as tokens: arrays of shape (length,).

    Args:
      dtype: type of the numbers in the files.
      length: of a run, in numbers.
      stride: from the beginning of a run to that of the next, in numbers; without it, `length`.
    """
    return _source("windows", paths=_listed(paths), dtype=type_name(dtype),
                   length=_positive(length, "a length"),
                   stride=_positive(length if stride is None else stride, "a stride"))


def records(paths: Paths, bytes: int) -> Dataset:  # noqa: A002
    """The records of files that are cut every so many bytes: each an array of uint8, (bytes,)."""
    return _source("records", paths=_listed(paths), bytes=_positive(bytes, "a record"))


def lines(paths: Paths, *, text: bool = True) -> Dataset:
    """The lines of files, without their line ends: as str, or as bytes if `text` is False."""
    return _source("lines", paths=_listed(paths), text=bool(text))


def tfrecord(paths: Paths) -> Dataset:
    """The records of TFRecord files, as bytes."""
    return _source("tfrecord", paths=_listed(paths))


def fill(count: int, dtype: Any, shape: int | Iterable[int], seed: int = 0) -> Dataset:
    """So many synthetic arrays of one type and shape, for measurements."""
    return _source("fill", count=whole(count, "a count"), dtype=type_name(dtype),
                   shape=tuple(extents(shape)), seed=whole(seed, "a seed"))


def concat(*datasets: Dataset) -> Dataset:
    """One after the other; their elements must have one spec.

    Raises ValueError for fewer than two, or for one with a `segment` of its own.
    """
    return _joined("concat", datasets)


def zip(*datasets: Dataset, **named: Dataset) -> Dataset:  # noqa: A001
    """Elements side by side: `data.zip(images, label=labels)`.

    Name those that are a single array; those that are dicts bring their names with them. Ends with
    the shortest.
    """
    return _joined("zip", [*datasets, *named.values()], names=list(named))


def mix(datasets: Sequence[Dataset], weights: Sequence[int]) -> Dataset:
    """Elements of several in turn, evenly and as often as the weights say, in each prefix too.

    Ends with the first that ends.
    """
    if len(datasets) != len(weights):
        raise ValueError(f"{len(datasets)} datasets have {len(weights)} weights")
    return _joined("mix", datasets, weights=tuple(_positive(one, "a weight") for one in weights))


def _joined(op: str, datasets: Sequence[Dataset], **attributes: Attribute) -> Dataset:
    for one in datasets:
        if not isinstance(one, Dataset):
            raise TypeError(f"{op} joins datasets, not {type(one).__name__}")
    if len(datasets) < 2:
        raise ValueError(f"{op} joins two datasets or more")
    if any(one._segment is not None for one in datasets):
        raise ValueError("segments are made of the joined dataset: call segment() on that")
    return Dataset(Node(op, tuple(one._root for one in datasets), attributes, where()))


def _source(op: str, **attributes: Attribute) -> Dataset:
    return Dataset(Node(op, (), attributes, where()))


def _listed(paths: Paths) -> list[str]:
    one = isinstance(paths, (str, os.PathLike))
    listed = [paths] if one else list(paths)  # type: ignore[arg-type]
    result = []
    for path in listed:
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
        if not isinstance(text, str):
            raise TypeError(f"a path is str or pathlib.Path, not {type(path).__name__}")
        result.append(text)
    if not result:
        raise ValueError("no path is given")
    return result


def _positive(value: int, what: str) -> int:
    if whole(value, what) < 1:
        raise ValueError(f"{what} is at least 1, and this is {value}")
    return whole(value, what)
