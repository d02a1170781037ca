"""A dataset in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep import _native
from lockstep._errors import forked
from lockstep.data._elements import builder
from lockstep.data._spec import Spec, to_spec

if TYPE_CHECKING:
    from types import TracebackType


class LocalIterator:
    """The elements of a dataset in exact order, made in this process: `for batch in ds.local()`.

    They are those of `ds.read(..., order="exact")`, byte for byte. Each is a NumPy array, or a dict
    of arrays by name; the arrays are read-only and keep their memory. Text comes as str and bytes,
    and in batches as lists of them.

    The next element raises FailedPrecondition, "source_changed", if a file was written to;
    InvalidArgument or DataLoss, "record_poisoned"; what a function of the dataset raised, as the
    cause of InvalidArgument, "function_failed"; FailedPrecondition, "forked", in a child.
    """

    def __init__(self, definition: _native.DataDefinition) -> None:
        self._pid = os.getpid()
        self._native: _native.DataLocal | None = _native.open_local_data(definition, 0, 0)
        raw = self._native.spec()
        self._build = builder(raw[0], [name for name, _, _ in raw[1]])
        #: What its elements are, known from the files.
        self.spec: Spec | None = to_spec(raw)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise forked("an iterator of a dataset")
        leaves = None if self._native is None else self._native.next()
        if leaves is None:
            raise StopIteration
        return self._build(leaves)

    def close(self) -> None:
        """No more elements: the next call raises StopIteration. Those that came stay valid."""
        self._native = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("an iterator of a dataset belongs to its process and cannot be pickled; the "
                        "dataset can")

    def __enter__(self) -> LocalIterator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
