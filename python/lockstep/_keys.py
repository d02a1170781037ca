"""The keys of a job: what its members tell each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lockstep import _dispatch, _native
from lockstep._errors import Error, forked
from lockstep._types import (KeyChanges, KeyEntry, SwapResult, Timeout, Value, seconds, text, texts,
                             to_bytes, to_entries, to_entry_or_none, to_key_changes, to_swap,
                             whole)

if TYPE_CHECKING:
    from types import TracebackType


class KeyWatch:
    """Follows a key and everything below it; also an iterator and a context manager.

    The first change contains everything that is there. Changes of one key that come faster than the
    program asks may arrive as one; none is lost.
    """

    def __init__(self, native: _native.KeyWatch, ticket: int | None = None,
                 member: object = None) -> None:
        self._native = native
        self._member = member
        self._ticket = ticket
        if ticket is not None:
            _dispatch.hold(self)

    def next(self, timeout: Timeout = None) -> KeyChanges:
        """Waits for the next change.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds; the watch continues.
        """
        return to_key_changes(self._native.next(seconds(timeout)))

    def __iter__(self) -> Iterator[KeyChanges]:
        return self

    def __next__(self) -> KeyChanges:
        return self.next()

    def close(self) -> None:
        """Ends the watch; a `next` that waits raises Cancelled, later ones FailedPrecondition."""
        self._native.close()
        if self._ticket is not None:
            _dispatch.forget(self._ticket)
            _dispatch.let_go(self)

    def __enter__(self) -> KeyWatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Keys:
    """The keys of a member's job. Thread-safe.

    Keys are paths, such as "config/lr"; values are bytes, and text is sent as UTF-8. The writes of
    one member take effect in the order in which they were called, also across broken connections,
    and each once. `timeout` is in seconds or a timedelta, None for no limit.

    Every call raises DeadlineExceeded when the time is over, ResourceExhausted when a limit of the
    job is reached, InvalidArgument for an invalid key, and Unavailable when the server is lost for
    good. The member lives on while its keys, or a watch made from them, are referenced.
    """

    def __init__(self, native: _native.Keys, member: object, pid: int) -> None:
        self._native = native
        self._member = member  # which lives as long as somebody has its keys
        self._pid = pid  # that joined

    def get(self, key: str, *, timeout: Timeout = None) -> bytes:
        """The current value. Raises NotFound, "key_not_found", if there is none."""
        value: bytes = self._native.get(text(key), seconds(timeout))[1]
        return value

    def entry(self, key: str, *, timeout: Timeout = None) -> KeyEntry | None:
        """The current value with its revision, or None."""
        return to_entry_or_none(self._native.try_get(text(key), seconds(timeout)))

    def wait(self, key: str, *, timeout: Timeout = None) -> bytes:
        """Waits until the key has a value, and returns it.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        value: bytes = self._native.wait(text(key), seconds(timeout))[1]
        return value

    def wait_many(self, keys: Sequence[str], *, timeout: Timeout = None) -> list[bytes]:
        """Waits until each key has a value; returns the values in the order asked.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        return [raw[1] for raw in self._native.wait_many(texts(keys), seconds(timeout))]

    def set(self, key: str, value: Value, *, overwrite: bool = True, ttl: Timeout = None,
            with_member: bool = False, timeout: Timeout = None) -> int:
        """Writes, and returns the revision of the write.

        Args:
          overwrite: False raises AlreadyExists, "key_exists", if the key has a value.
          ttl: seconds after which the key is deleted.
          with_member: the key is deleted when this member leaves or is lost.
        """
        revision: int = self._native.set(text(key), to_bytes(value), overwrite, seconds(ttl),
                                         with_member, seconds(timeout))
        return revision

    def compare_and_set(self, key: str, expected: Value | None, value: Value, *,
                        revision: int | None = None, ttl: Timeout = None,
                        with_member: bool = False, timeout: Timeout = None) -> SwapResult:
        """Writes if the key has the value `expected`; None: if it does not exist.

        With `revision`, and None expected: if it was last written at that revision. The result says
        whether it wrote, and has the entry as it is now.
        """
        return to_swap(self._native.compare_and_set(
            text(key), None if expected is None else to_bytes(expected), _revision(revision),
            to_bytes(value), seconds(ttl), with_member, seconds(timeout)))

    def increment(self, key: str, by: int = 1, *, timeout: Timeout = None) -> int:
        """Adds to the number in the key (0 if it does not exist); returns the sum.

        Raises FailedPrecondition, "key_not_a_number", and OutOfRange, "number_overflow", if the sum
        exceeds 64 bits; the value is then unchanged.
        """
        total: int = self._native.increment(text(key), whole(by, "by"), seconds(timeout))
        return total

    def max(self, key: str, value: int, *, timeout: Timeout = None) -> int:
        """Sets the key to the greater of its number and this one; returns that.

        Raises FailedPrecondition, "key_not_a_number", if the key holds no number.
        """
        greatest: int = self._native.max(text(key), whole(value, "value"), seconds(timeout))
        return greatest

    def delete(self, key: str, *, below: bool = False, revision: int | None = None,
               timeout: Timeout = None) -> int:
        """Deletes the key, with `below` also everything below it; returns how many there were.

        `delete("", below=True)` deletes all keys of the job, as `list("")` lists them. With
        `revision`, which excludes `below`, raises FailedPrecondition, "condition_failed", unless
        the key was last written at that revision.
        """
        deleted: int = self._native.delete(text(key), below, _revision(revision),
                                           seconds(timeout))
        return deleted

    def list(self, directory: str = "", *, timeout: Timeout = None) -> list[KeyEntry]:
        """The entries below the directory, in the order of the keys; "": all entries.

        The list is read page by page, so a long one does not show one moment.
        """
        return to_entries(self._native.list(text(directory, "a directory"), seconds(timeout)))

    def watch(self, key: str, *, after: int = 0) -> KeyWatch:
        """Follows the key and what is below it; `after`: a revision to continue from."""
        return KeyWatch(self._native.watch(text(key), whole(after, "after")), member=self._member)

    def on_change(self, key: str, callback: Callable[[KeyChanges | Error], object], *,
                  after: int = 0) -> KeyWatch:
        """Calls back with each change, on a thread of the library, until the watch is closed.

        If the watch cannot continue, the callback gets an Error, and then no more calls. The
        exceptions that the callback raises are logged.
        """
        if self._pid != os.getpid():
            raise forked("the member whose keys these are")

        def changed(value: Any, error: Error | None) -> None:
            callback(error if error is not None else to_key_changes(value))

        text(key)
        whole(after, "after")
        ticket = _dispatch.expect_callback(changed)
        return KeyWatch(self._native.watch(key, after, ticket), ticket)


def _revision(revision: int | None) -> int | None:
    return None if revision is None else whole(revision, "revision")
