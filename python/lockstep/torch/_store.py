"""A torch.distributed.Store over the keys of a job."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import quote, unquote

import torch.distributed as dist  # type: ignore[import-not-found]

from lockstep._errors import Aborted, DeadlineExceeded, FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from lockstep._keys import Keys

#: As torch passes values: bytes from C++, text from Python.
StoreValue = Union[bytes, str]

#: C++ keeps only its own half of a store. Without a reference here the Python half would be gone
#: when the caller drops it, and the next call of C++ would end the process; stores are few and
#: small, so each lives as long as the process.
_alive: list[Store] = []

#: What is left of a retry by compare-and-set: it loses only to others who have written.
_SWAPS_MAX = 10_000
#: The number that a value begins with, as torch's own server reads it.
_NUMBER = re.compile(rb"\s*[+-]?\d+")


class Store(dist.Store):  # type: ignore[misc]
    """The `store` for init_process_group, over the keys of a member or of a session.

        me = lockstep.join()
        dist.init_process_group("gloo", store=lockstep.torch.Store(me.kv), rank=me.member,
                                world_size=me.size)

    A wait that times out raises torch's DistStoreError, as with torch's own stores; when a member
    of the job is lost, waits raise at once, and the text names it. Each instance lives as long as
    the process. Queues are missing: torch does not let a Python Store have them.

    Threads: thread-safe.
    """

    def __init__(self, keys: Keys, prefix: str = "torch",
                 timeout: datetime.timedelta = datetime.timedelta(seconds=300)) -> None:
        super().__init__()
        self._keys = keys
        self._prefix = prefix
        self.set_timeout(timeout)
        _alive.append(self)

    def clone(self) -> Store:
        """Another store over the same keys, with the same prefix and time-out."""
        return Store(self._keys, self._prefix, self.timeout)

    def has_extended_api(self) -> bool:
        """True: `append`, `multi_get` and `multi_set` are here."""
        return True

    def set(self, key: str, value: StoreValue) -> None:
        """Writes; overwrites what is there."""
        self._keys.set(self._path(key), value)

    def get(self, key: str) -> bytes:
        """Waits until the key is there, at most the store's time-out; returns its value.

        Raises DistStoreError when the time is over.
        """
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Waits until all keys are there; returns their values in the order asked.

        Raises DistStoreError after the store's time-out; the text names the missing keys.
        """
        if not keys:
            return []
        return self._wait(keys, self.timeout)

    def multi_set(self, keys: Sequence[str], values: Sequence[StoreValue]) -> None:
        """Writes one after the other, in that order.

        Raises InvalidArgument, "invalid_argument", unless there are as many values as keys.
        """
        if len(keys) != len(values):
            raise InvalidArgument(f"multi_set of {len(keys)} keys and {len(values)} values",
                                  "invalid_argument")
        for key, value in zip(keys, values):
            self.set(key, value)

    def add(self, key: str, amount: int) -> int:
        """Adds to the number that the key's value begins with (0 if it does not exist); the sum.

        Raises InvalidArgument, "invalid_argument", if it begins with none.
        """
        try:
            return self._keys.increment(self._path(key), amount)
        except FailedPrecondition as error:
            if error.reason != "key_not_a_number":
                raise
        # Set as text by somebody, such as "12 of 64".
        total = 0

        def added(old: bytes | None) -> bytes:
            nonlocal total
            found = _NUMBER.match(old or b"0")
            if found is None:
                raise InvalidArgument(f"key {key!r} holds {old!r}, to which nothing can be added",
                                      "invalid_argument")
            total = int(found[0]) + amount
            return b"%d" % total

        self._change(key, added)
        return total

    def append(self, key: str, value: StoreValue) -> None:
        """Appends to the value; sets it if the key does not exist.

        Raises Aborted if others change the key all the time.
        """
        more = value.encode() if isinstance(value, str) else bytes(value)
        self._change(key, lambda old: (old or b"") + more)

    def compare_set(self, key: str, expected: StoreValue, desired: StoreValue) -> bytes:
        """Returns the value as it is now.

        As in torch's own store, a missing key is set if nothing is expected; otherwise the expected
        value is returned.
        """
        old = expected.encode() if isinstance(expected, str) else bytes(expected)
        new = desired.encode() if isinstance(desired, str) else bytes(desired)
        for must in ((old, None) if not old else (old,)):
            swap = self._keys.compare_and_set(self._path(key), must, new)
            if swap.swapped:
                return new
            if swap.entry is not None:
                return swap.entry.value
        return old

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there now; does not wait."""
        return all(self._keys.entry(self._path(key)) is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Waits until all keys are there, at most `timeout`, or the store's time-out.

        Raises DistStoreError when the time is over; the text names the missing keys.
        """
        if keys:
            self._wait(keys, self.timeout if timeout is None else timeout)

    def delete_key(self, key: str) -> bool:
        """Deletes the key; returns whether it was there."""
        return self._keys.delete(self._path(key)) > 0

    def num_keys(self) -> int:
        """How many keys the store's prefix has: those of all its clients."""
        return len(self._keys.list(self._prefix))

    def list_keys(self) -> list[str]:
        """The keys as the callers named them, in the order of their escaped names."""
        return [unquote(entry.key.rpartition("/")[2]) for entry in self._keys.list(self._prefix)]

    # C++ looks for these two under its own names.
    deleteKey = delete_key
    getNumKeys = num_keys

    def _path(self, key: str) -> str:
        # One part of a path: torch's keys have slashes at both ends and in a row, which count.
        return f"{self._prefix}/{quote(key, safe='')}"

    def _wait(self, keys: Sequence[str], timeout: datetime.timedelta) -> list[bytes]:
        began = time.monotonic()
        try:
            return self._keys.wait_many([self._path(key) for key in keys], timeout=timeout)
        except DeadlineExceeded as error:
            missing = [key for key in keys if not self.check([key])]
            raise dist.DistStoreError(
                f"wait timeout after {round((time.monotonic() - began) * 1000)}ms, keys: "
                f"{', '.join(missing or keys)} ({error})") from error

    def _change(self, key: str, change: Any) -> None:
        path = self._path(key)
        for _ in range(_SWAPS_MAX):
            entry = self._keys.entry(path)
            if entry is None:
                swap = self._keys.compare_and_set(path, None, change(None))
            else:
                swap = self._keys.compare_and_set(path, None, change(entry.value),
                                                  revision=entry.revision)
            if swap.swapped:
                return
        raise Aborted(f"key {key!r} was changed by others {_SWAPS_MAX} times in a row", "aborted")
