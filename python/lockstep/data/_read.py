"""A dataset whose elements workers make, as one of its consumers reads it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Union

from lockstep import _address, _dispatch, _native, _nobody
from lockstep._errors import DeadlineExceeded, FailedPrecondition, forked
from lockstep._member import MemberBase
from lockstep._threads import Thread
from lockstep._types import Timeout, seconds, text, whole
from lockstep.data._elements import builder

if TYPE_CHECKING:
    from types import TracebackType

#: The server to use: a member's, HOST:PORT, or None for LOCKSTEP_COORDINATOR.
At = Union[MemberBase, str, None]

ORDERS = ("exact", "first_come", "rounds")
_VISITATIONS = ("exactly_once", "at_least_once", "at_most_once")
_ON_LOST = ("auto", "wait", "go_on")
_SHARDINGS = ("dynamic", "off", "static_data", "static_file")


class Place(NamedTuple):
    """Where an element stands, to keep with what was made of it."""

    segment: int
    element: int  #: Within the segment.
    round: int  #: In rounds; else -1.
    lane: int  #: In rounds one for each worker's share, otherwise the consumer's.


class Reader:
    """The elements that this consumer gets: `for batch in ds.read(me, name="train")`.

    Or `async for batch in reader`, in a coroutine. Each is as `local` gives it: NumPy arrays in the
    memory in which they arrived. The end of the loop is the end of the data. As a context manager
    it closes at the end of the block. One thread reads at a time; any thread may call `close`.

    Every wait releases the GIL, and Ctrl-C ends it. The reader waits out workers that die and a
    server that restarts.
    """

    def __init__(self, native: _native.DataReader, definition: _native.DataDefinition,
                 timeout: Timeout, expects_some: bool) -> None:
        self._native = native
        self._pid = os.getpid()
        self._timeout = timeout
        self._build = builder(*definition.names())
        #: The thread that waits for an element, if any. Ctrl-C may come between any two lines:
        #: whatever it leaves here, that thread's next call continues from it.
        self._reading: dict[str, int] = {}
        #: What a coroutine waits for, or waited for until it was cancelled.
        self._coming: concurrent.futures.Future[tuple[Any] | None] | None = None
        #: The iteration's name, generated if none was given.
        self.name: str = native.name()
        #: The place of the last element.
        self.place: Place | None = None
        # It came without a cursor, so it does not go on with an earlier reader's share.
        self._expects_some = expects_some
        # Of a reader that is closed.
        self._last_counters: dict[str, float] | None = None
        _dispatch.close_at_exit(self)

    def next(self, timeout: Timeout = None) -> Any:
        """Returns the next element; StopIteration at the end.

        Raises DeadlineExceeded after `timeout` seconds: the next call continues with the same
        element; what the iteration fails with, such as "source_changed" or "record_poisoned";
        Aborted, "consumer_replaced" or "consumer_lease_ended", when the place has gone to another;
        RuntimeError while another thread waits.
        """
        self._check_here()
        thread = threading.get_ident()
        try:
            if self._reading.setdefault("thread", thread) != thread:
                raise RuntimeError("another thread waits for an element of this reader")
            came = self._native.next(seconds(timeout))
        finally:
            if self._reading.get("thread") == thread:
                del self._reading["thread"]
        if came is None:
            self._warn_if_empty()
            raise StopIteration
        leaves, place = came
        self.place = Place(*place)
        return self._build(leaves)

    def _warn_if_empty(self) -> None:
        if not self._expects_some or self.place is not None:
            return
        self._expects_some = False
        warnings.warn(
            f"iteration {self.name!r} had no element for this reader: consumers that gave the same "
            "name have read it to its end. Give each pass a repetition= or a name of its own.",
            RuntimeWarning, stacklevel=3)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.next(self._timeout)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        """As `next`, while the event loop runs on.

        A cancelled call loses nothing: the next call returns what its wait brings.
        """
        if self._coming is None:
            try:
                return self.next(0)  # what was read ahead is there at once
            except StopIteration:
                raise StopAsyncIteration from None
            except DeadlineExceeded:
                self._coming = concurrent.futures.Future()
            # Not a pool's: nobody waits for a daemon at the interpreter's end, which closes us.
            Thread(target=self._await_next, args=(self._coming,), daemon=True,
                   name="lockstep-data-reader").start()
        try:
            came = await asyncio.shield(asyncio.wrap_future(self._coming))
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._coming = None
            raise
        self._coming = None
        if came is None:
            raise StopAsyncIteration
        return came[0]

    def _await_next(self, coming: concurrent.futures.Future[tuple[Any] | None]) -> None:
        try:
            coming.set_result((self.next(self._timeout),))
        except StopIteration:
            coming.set_result(None)
        except BaseException as error:
            coming.set_exception(error)

    def cursor(self) -> bytes:
        """Where the next element is: for a checkpoint, and `cursor=` of another `read`.

        Some hundred bytes. The same at all consumers that have read equally far. For the orders
        "exact" and "rounds" with the sharding "dynamic". Otherwise, and for "first_come", where
        acknowledgements decide: FailedPrecondition, "invalid_argument".
        """
        self._check_here()
        return self._native.cursor()

    def ack(self) -> None:
        """Acknowledges all elements that came so far: no consumer needs to get them again.

        Only needed with ack="manual"; otherwise asking for the next element acknowledges the one
        before. Order "first_come". Unacknowledged elements are counted: from `unacknowledged_max`
        of them on the reader raises FailedPrecondition, reason "ack_needed", and continues after
        `ack()`.
        """
        self._check_here()
        self._native.ack()

    def counters(self) -> dict[str, float]:
        """For the program's own metrics; docs/data.md says what each is, with its unit.

        After `close`: their final values.
        """
        self._check_here()
        if self._last_counters is not None:
            return dict(self._last_counters)
        return self._native.counters()

    def close(self) -> None:
        """Stops reading, and tells the server; a `next` that waits raises Cancelled."""
        if self._pid != os.getpid():
            return
        if self._last_counters is None:
            with contextlib.suppress(FailedPrecondition):  # another thread has just closed it
                self._last_counters = self._native.counters()
        self._native.close()

    def _check_here(self) -> None:
        if self._pid != os.getpid():
            raise forked("a reader of data")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reader is a living connection and cannot be pickled or copied; the dataset "
                        "can, and so can reader.cursor()")

    def __repr__(self) -> str:
        return f"<lockstep.data.Reader of {self.name!r}>"

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def open_reader(definition: _native.DataDefinition, at: At, *, name: str, repetition: int, order: str,
                consumer: int | str | None, consumers: int | None, cursor: bytes | None,
                rejoin: bytes | None, ack: str, unacknowledged_max: int,
                unacknowledged_bytes_max: int, visitation: str, on_lost: str, sharding: str,
                shares: int | None, timeout: Timeout) -> Reader:
    """What Dataset.read does, once it is known that workers can make the dataset."""
    member = at if isinstance(at, MemberBase) else None
    if at is not None and member is None and not isinstance(at, str):
        raise TypeError("a dataset is read at a member's server or at HOST:PORT, not at "
                        f"{type(at).__name__}")
    _one_of("an order", order, ORDERS)
    _one_of("a visitation", visitation, _VISITATIONS)
    _one_of("on_lost", on_lost, _ON_LOST)
    _one_of("a sharding", sharding, _SHARDINGS)
    _one_of("ack", ack, ("auto", "manual"))
    for one in cursor, rejoin:
        if one is not None and not isinstance(one, (bytes, bytearray, memoryview)):
            raise TypeError(f"a cursor is bytes, not {type(one).__name__}")
    index, own_name = -1, ""
    count = 1 if consumers is None else whole(consumers, "the number of consumers")
    if isinstance(consumer, str):
        own_name = text(consumer, "a consumer's name")
    elif consumer is not None:
        index = whole(consumer, "a consumer")
    elif order != "first_come":
        index = 0 if count == 1 else -1
    if order == "first_come":
        if index >= 0:
            own_name, index = f"consumer-{index}", -1
    elif index >= count:
        raise ValueError(f"there is no consumer {index} of {count}")
    options = {
        "address": member.address if member else at or "",
        "name": text(name, "a name"),
        "repetition": whole(repetition, "a repetition"),
        "order": order,
        "consumer": own_name,
        "index": index,
        "consumers": 0 if order == "first_come" else count,
        "cursor": bytes(cursor or b""),
        "ack": ack == "auto",
        "unacknowledged_max": _positive(unacknowledged_max, "unacknowledged_max"),
        "unacknowledged_bytes_max": _positive(unacknowledged_bytes_max, "unacknowledged_bytes_max"),
        "visitation": visitation,
        "on_lost": on_lost,
        "member": member is not None,
        "sharding": sharding,
        "shares": 0 if shares is None else whole(shares, "the number of shares"),
        "rejoin": bytes(rejoin or b""),
    }
    _address.load_tls(_address.meant(str(options["address"])))
    with _nobody.Watch(str(options["address"])):
        native = _native.open_data_reader(definition, options, seconds(timeout))
    expects_some = bool(name) and cursor is None and rejoin is None
    return Reader(native, definition, timeout, expects_some)


def _positive(value: int, what: str) -> int:
    if whole(value, what) < 1:
        raise ValueError(f"{what} is at least 1, and this is {value}")
    return value


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} is {' or '.join(repr(one) for one in allowed)}, not {value!r}")
