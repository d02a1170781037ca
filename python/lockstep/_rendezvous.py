"""Tensors from one member to another, by step and key."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep import _dispatch, _native
from lockstep._arrays import extents, type_name
from lockstep._errors import FailedPrecondition, error_to_report, forked, goes_well
from lockstep._native import NewTensor, Tensor
from lockstep._types import PeerTransport, Timeout, number_of, seconds, text, whole

if TYPE_CHECKING:
    from types import TracebackType

    from lockstep import aio as _aio


class StepBase:
    """The common part of the two interfaces of a step: everything that does not wait."""

    def __init__(self, native: _native.Step, number: int) -> None:
        self._native = native
        self._pid = os.getpid()
        #: Its number.
        self.number = number

    def __repr__(self) -> str:
        return f"<lockstep step {self.number}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a step belongs to its process and cannot be pickled or copied")

    def _check_here(self) -> None:
        if self._pid != os.getpid():
            raise forked("a rendezvous")

    def send_dead(self, name: str, to: int, reason: str = "") -> None:
        """Says that there is no value: the receive succeeds with a tensor that is `dead`.

        `reason` is for people: `why_dead` of the tensor. Does not wait for the receiver.
        """
        self._check_here()
        self._native.send_dead(text(name, "a name"), number_of(to), text(reason, "a reason"))

    def abort(self, error: BaseException | str) -> None:
        """Fails the step for all members: what waits in it ends with this error.

        The first abort counts. Its text and code reach all; the reason is "step_aborted".
        """
        self._check_here()
        self._native.abort(*error_to_report(error))

    def close(self) -> None:
        """Ends the use of the step here. What was sent may still be received.

        Receives that wait end with FailedPrecondition, "step_closed".
        """
        self._check_here()
        self._native.close()

    def _end(self, error: BaseException | None) -> None:
        if self._pid != os.getpid():
            return
        if not goes_well(error):
            assert error is not None
            self._native.abort(*error_to_report(error))
        self._native.close()


class Step(StepBase):
    """One step of a member: `with rendezvous.step(7) as step:`. Thread-safe.

    A key is the sender, the receiver and a name of at most 512 bytes. The k-th value sent under a
    key goes to the k-th receive of that key, whichever comes first. Members are given by their
    number in the job, `Member.member`.

    The end of the block closes the step. An exception that leaves the block aborts the step for all
    members, with its text. Every wait releases the GIL, and Ctrl-C ends it.

    Every call raises the error that aborted the step (reason "step_aborted", details["origin"]: the
    member), FailedPrecondition "step_closed", Unavailable "peer_lost" if the other member is gone,
    InvalidArgument "unknown_member" or "key_invalid", and FailedPrecondition "forked" in a child.
    """

    def send(self, name: str, value: Any, to: int, *, wait: Timeout = 0) -> None:
        """Sends, without waiting for the receiver. You may change the value afterwards.

        Args:
          value: bytes, a `Tensor`, a `NewTensor`, or an array of numbers in host memory with the
            buffer protocol or `__dlpack__`, of any shape: NumPy, torch, JAX. Tensors are not
            copied, arrays once; the copy puts other arrays into C order. Other types raise
            TypeError.
          to: the member that receives it; this one, too.
          wait: seconds to wait for room when the quota is used up; None for no limit.

        Raises ResourceExhausted, "quota_exceeded", if there is no room.
        """
        self._check_here()
        self._native.send(text(name, "a name"), value, number_of(to), seconds(wait))

    def send_acked(self, name: str, value: Any, to: int, timeout: Timeout = None) -> None:
        """Sends, and returns when a receive took the value.

        Raises DeadlineExceeded, "receive_timed_out", after `timeout` seconds; the value may still
        be received.
        """
        self._check_here()
        self._native.send_acked(text(name, "a name"), value, number_of(to), seconds(timeout))

    def recv(self, name: str, source: int, timeout: Timeout = None) -> Tensor:
        """Returns the next value of the key, of the shape and type that was sent; read-only.

        Raises DeadlineExceeded, "receive_timed_out", after `timeout` seconds: the receive has then
        left the queue, and the value goes to the next receive. If the sender said that there is no
        value, the tensor is `dead`.
        """
        self._check_here()
        tensor: Tensor = self._native.recv(text(name, "a name"), number_of(source),
                                           seconds(timeout))
        return tensor

    def recv_into(self, name: str, array: Any, source: int, timeout: Timeout = None) -> None:
        """Receives into an array of yours, in C order, of as many bytes as the value has.

        Only the number of bytes is compared. Raises InvalidArgument, "size_mismatch", if it differs
        or the value is dead; the array is then unchanged.
        """
        self._check_here()
        self._native.recv_into(text(name, "a name"), array, number_of(source), seconds(timeout))

    @property
    def aio(self) -> _aio.Step:
        """The same step for asyncio: `await step.aio.recv("grad/w0", source=1)`."""
        from lockstep import aio

        return aio.Step(self._native, self.number)

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._end(error)


class RendezvousBase:
    """The common part of the two interfaces of a rendezvous."""

    def __init__(self, native: _native.Rendezvous, closed: Callable[[], None]) -> None:
        self._native = native
        self._closed = closed
        self._pid = os.getpid()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a rendezvous belongs to its process and cannot be pickled or copied")

    def _check_here(self) -> None:
        if self._pid != os.getpid():
            raise forked("a rendezvous")

    def empty(self, shape: int | Iterable[int], dtype: Any = "float32") -> NewTensor:
        """An array to fill and send without a copy. Its content is undefined.

        Args:
          shape: extents, such as (3, 4), or one.
          dtype: "float32", numpy.float32, torch.bfloat16, ...

        Raises ResourceExhausted, "arena_bytes_max", if too much of such memory is in use.
        """
        self._check_here()
        return self._native.empty(extents(shape), type_name(dtype))

    def transports(self) -> list[PeerTransport]:
        """How values travel, for each member with which something was exchanged."""
        self._check_here()
        return [PeerTransport(*each) for each in self._native.transports()]

    def counters(self) -> dict[str, float]:
        """For the program's own metrics; docs/rendezvous.md says what each is."""
        self._check_here()
        return self._native.counters()

    def close(self) -> None:
        """Ends all waits with Cancelled; the others find this member gone. Tensors stay valid.

        What was sent and not yet received may be lost: meet at a barrier first, or use
        `send_acked`.
        """
        if self._pid != os.getpid():
            return
        self._native.close()
        self._closed()


class Rendezvous(RendezvousBase):
    """A member's part in the exchange of tensors: `with me.rendezvous() as rendezvous:`. Thread-safe.

    On one host, processes share the memory of values. The end of the block closes it.
    """

    def step(self, number: int) -> Step:
        """Opens a step, from 0, or returns the open one.

        Raises FailedPrecondition, "step_closed", if it was closed here: a step is used once in an
        attempt; InvalidArgument, "invalid_argument", below 0.
        """
        self._check_here()
        return Step(self._native.step(whole(number, "a step")), number)

    @property
    def aio(self) -> _aio.Rendezvous:
        """The same rendezvous for asyncio."""
        from lockstep import aio

        return aio.Rendezvous(self._native, self._closed)

    def __enter__(self) -> Rendezvous:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class RendezvousOfMember:
    """The rendezvous of a member, of which there is one at a time. Thread-safe.

    The interfaces of the member share it.
    """

    def __init__(self, member: _native.Member) -> None:
        self._member = member
        self._lock = threading.Lock()
        self._open: Rendezvous | None = None
        self._pid = os.getpid()

    def open(self, quota_bytes: int | None, shared_memory: bool,
             process_memory: bool) -> Rendezvous:
        """Opens the rendezvous. `quota_bytes`: sent and not yet received; None: 4 GiB.

        Raises FailedPrecondition, "rendezvous_open", if there is an open one; ValueError for a
        quota below 1 byte.
        """
        quota = None if quota_bytes is None else whole(quota_bytes, "quota_bytes")
        if quota is not None and quota < 1:
            raise ValueError(f"a quota is at least one byte, not {quota}")
        self._check_here()
        with self._lock:
            if self._open is not None:
                raise FailedPrecondition("the member has an open rendezvous already: use that, or close "
                                         "it first", "rendezvous_open")
            return self._opened(quota, shared_memory, process_memory)

    def get(self) -> Rendezvous:
        """The open one; opens one if there is none."""
        self._check_here()
        with self._lock:
            return self._open or self._opened(None, True, True)

    def close(self) -> None:
        """Closes the open one, if any; does nothing in a forked child."""
        if self._pid == os.getpid() and (rendezvous := self._open) is not None:
            rendezvous.close()

    def _check_here(self) -> None:
        # The lock may have been somebody's in the parent.
        if self._pid != os.getpid():
            raise forked("a member with its rendezvous")

    def _opened(self, quota: int | None, shared_memory: bool, process_memory: bool) -> Rendezvous:
        opened = _native.open_rendezvous(self._member, quota, bool(shared_memory),
                                         bool(process_memory))
        self._open = Rendezvous(opened, self._closed)
        _dispatch.close_at_exit(self._open)
        return self._open

    def _closed(self) -> None:
        self._open = None
