"""Lockstep for asyncio: the same members and keys, every wait a coroutine.

    async with await lockstep.aio.join("10.0.0.1:7070", job="digits", size=4) as me:
        await me.barrier("loaded", timeout=60)

Cancelling a task cancels its wait. `me.aio` is this interface of a member that joined otherwise.
Arguments and errors are those of `lockstep.Member` and `lockstep.Keys`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockstep import _dispatch, _native, _nobody
from lockstep._dispatch import result_of
from lockstep._errors import Error, error_to_report, goes_well
from lockstep._keys import _revision
from lockstep._member import _LAST_WORDS_MAX, MemberBase, join_arguments
from lockstep._rendezvous import RendezvousBase, RendezvousOfMember, StepBase
from lockstep._types import (AliveMember, JobChange, KeyChanges, KeyEntry, MemberInfo, OpenBarriers,
                             SwapResult, Timeout, Value, number_of, numbers_of, seconds, text, texts,
                             to_alive, to_barriers, to_bytes, to_entries, to_entry_or_none,
                             to_job_change, to_key_changes, to_swap, whole)

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["JobWatch", "KeyWatch", "Keys", "Member", "Rendezvous", "Step", "join"]

_log = logging.getLogger("lockstep")


class KeyWatch:
    """As lockstep.KeyWatch, an asynchronous iterator."""

    def __init__(self, native: _native.KeyWatch, member: object = None) -> None:
        self._native = native
        self._member = member

    async def next(self, timeout: Timeout = None) -> KeyChanges:
        """The changes since the last call; the first time the whole content.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds; the watch continues.
        """
        return to_key_changes(await result_of(self._native.next, seconds(timeout)))

    def __aiter__(self) -> AsyncIterator[KeyChanges]:
        return self

    async def __anext__(self) -> KeyChanges:
        return await self.next()

    def close(self) -> None:
        """Ends the watch; a `next` that waits raises Cancelled."""
        self._native.close()


class JobWatch:
    """As lockstep.JobWatch, an asynchronous iterator."""

    def __init__(self, native: _native.JobWatch, member: object = None) -> None:
        self._native = native
        self._member = member

    async def next(self, timeout: Timeout = None) -> JobChange:
        """The changes since the last call; the first time the whole state of the job.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds; the watch continues.
        """
        return to_job_change(await result_of(self._native.next, seconds(timeout)))

    def __aiter__(self) -> AsyncIterator[JobChange]:
        return self

    async def __anext__(self) -> JobChange:
        return await self.next()

    def close(self) -> None:
        """Ends the watch; a `next` that waits raises Cancelled."""
        self._native.close()


class Keys:
    """As lockstep.Keys."""

    def __init__(self, native: _native.Keys, member: object = None) -> None:
        self._native = native
        self._member = member  # which lives as long as somebody has its keys

    async def get(self, key: str, *, timeout: Timeout = None) -> bytes:
        """The current value. Raises NotFound, "key_not_found", if there is none."""
        value: bytes = (await result_of(self._native.get, text(key), seconds(timeout)))[1]
        return value

    async def entry(self, key: str, *, timeout: Timeout = None) -> KeyEntry | None:
        """The current value with its revision, or None."""
        return to_entry_or_none(await result_of(self._native.try_get, text(key), seconds(timeout)))

    async def wait(self, key: str, *, timeout: Timeout = None) -> bytes:
        """Waits until the key has a value, and returns it.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        value: bytes = (await result_of(self._native.wait, text(key), seconds(timeout)))[1]
        return value

    async def wait_many(self, keys: Sequence[str], *, timeout: Timeout = None) -> list[bytes]:
        """Waits until each key has a value; returns the values in the order asked.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        found = await result_of(self._native.wait_many, texts(keys), seconds(timeout))
        return [raw[1] for raw in found]

    async def set(self, key: str, value: Value, *, overwrite: bool = True, ttl: Timeout = None,
                  with_member: bool = False, timeout: Timeout = None) -> int:
        """Writes, and returns the revision of the write.

        Raises AlreadyExists, "key_exists", if the key has a value and `overwrite` is False.
        """
        revision: int = await result_of(self._native.set, text(key), to_bytes(value), overwrite,
                                        seconds(ttl), with_member, seconds(timeout))
        return revision

    async def compare_and_set(self, key: str, expected: Value | None, value: Value, *,
                              revision: int | None = None, ttl: Timeout = None,
                              with_member: bool = False, timeout: Timeout = None) -> SwapResult:
        """Writes if the key is as expected; the result says whether it wrote.

        What `expected` and `revision` mean: lockstep.Keys.compare_and_set.
        """
        return to_swap(await result_of(
            self._native.compare_and_set, text(key),
            None if expected is None else to_bytes(expected), _revision(revision), to_bytes(value),
            seconds(ttl), with_member, seconds(timeout)))

    async def increment(self, key: str, by: int = 1, *, timeout: Timeout = None) -> int:
        """Adds to the number in the key (0 if it does not exist); returns the sum.

        Raises FailedPrecondition, "key_not_a_number", and OutOfRange, "number_overflow", if the sum
        exceeds 64 bits; the value is then unchanged.
        """
        total: int = await result_of(self._native.increment, text(key), whole(by, "by"),
                                     seconds(timeout))
        return total

    async def max(self, key: str, value: int, *, timeout: Timeout = None) -> int:
        """Sets the key to the greater of its number and this one; returns that.

        Raises FailedPrecondition, "key_not_a_number", if the key holds no number.
        """
        greatest: int = await result_of(self._native.max, text(key), whole(value, "value"),
                                        seconds(timeout))
        return greatest

    async def delete(self, key: str, *, below: bool = False, revision: int | None = None,
                     timeout: Timeout = None) -> int:
        """Deletes the key, with `below` also everything below it; returns how many there were.

        Raises FailedPrecondition, "condition_failed", unless the key was last written at
        `revision`.
        """
        deleted: int = await result_of(self._native.delete, text(key), below,
                                       _revision(revision), seconds(timeout))
        return deleted

    async def list(self, directory: str = "", *, timeout: Timeout = None) -> list[KeyEntry]:
        """The entries below the directory, in the order of the keys; "": all entries."""
        return to_entries(await result_of(self._native.list, text(directory, "a directory"),
                                          seconds(timeout)))

    def watch(self, key: str, *, after: int = 0) -> KeyWatch:
        """Follows the key and what is below it; `after`: a revision to continue from."""
        return KeyWatch(self._native.watch(text(key), whole(after, "after")), self._member)


class Step(StepBase):
    """As lockstep.Step: `async with rendezvous.step(7) as step:`."""

    async def send(self, name: str, value: Any, to: int, *, wait: Timeout = 0) -> None:
        """As lockstep.Step.send. Copying an array holds up the loop."""
        self._check_here()
        send = functools.partial(self._native.send, text(name, "a name"), value, number_of(to))
        patience = seconds(wait)
        if patience == 0:
            return send(patience)
        # Who waits for room does it on a thread; a task that is cancelled leaves it there.
        await asyncio.get_running_loop().run_in_executor(None, send, patience)

    async def send_acked(self, name: str, value: Any, to: int, timeout: Timeout = None) -> None:
        """As lockstep.Step.send_acked: returns when a receive took the value.

        Raises DeadlineExceeded, "receive_timed_out", after `timeout` seconds; the value may still
        be received.
        """
        self._check_here()
        await result_of(self._native.send_acked, text(name, "a name"), value, number_of(to),
                        seconds(timeout))

    async def recv(self, name: str, source: int, timeout: Timeout = None) -> _native.Tensor:
        """As lockstep.Step.recv: the next value of the key.

        Raises DeadlineExceeded, "receive_timed_out", after `timeout` seconds.
        """
        self._check_here()
        tensor: _native.Tensor = await result_of(self._native.recv, text(name, "a name"),
                                                 number_of(source), seconds(timeout))
        return tensor

    async def __aenter__(self) -> Step:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self._end(error)


class Rendezvous(RendezvousBase):
    """As lockstep.Rendezvous: `async with await me.rendezvous() as rendezvous:`."""

    def step(self, number: int) -> Step:
        """Opens a step, from 0, or returns the open one.

        Raises FailedPrecondition, "step_closed", if it was closed here.
        """
        self._check_here()
        return Step(self._native.step(whole(number, "a step")), number)

    async def __aenter__(self) -> Rendezvous:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()


class Member(MemberBase):
    """As lockstep.Member."""

    def __init__(self, native: _native.Member, address: str | None,
                 rendezvous: RendezvousOfMember | None = None) -> None:
        super().__init__(native, address, rendezvous)
        self._keys = native.keys()

    @property
    def kv(self) -> Keys:
        """The keys of the job."""
        return Keys(self._keys, self)

    async def barrier(self, id: str, timeout: Timeout = None,
                      members: Sequence[int] = ()) -> None:
        """As lockstep.Member.barrier, with its errors: waits until all have arrived."""
        await result_of(self._native.barrier, text(id, "an id"), seconds(timeout),
                        numbers_of(members), None)

    async def gather(self, id: str, value: Value, timeout: Timeout = None,
                     members: Sequence[int] = ()) -> list[bytes]:
        """As lockstep.Member.gather: what each member brought, in the order of the members."""
        values: list[bytes] = await result_of(self._native.gather, text(id, "an id"),
                                              to_bytes(value), seconds(timeout),
                                              numbers_of(members))
        return values

    async def cancel_barrier(self, id: str, timeout: Timeout = None) -> None:
        """As lockstep.Member.cancel_barrier.

        Raises FailedPrecondition, "barrier_already_passed", if it is over.
        """
        await result_of(self._native.cancel_barrier, text(id, "an id"), seconds(timeout))

    async def agree(self, name: str, index: int, stride: int = 1, timeout: Timeout = None,
                    members: Sequence[int] = ()) -> int:
        """As lockstep.Member.agree, with its errors: an index that no member has passed."""
        agreed: int = await result_of(self._native.agree, text(name, "a name"),
                                      whole(index, "index"), whole(stride, "stride"),
                                      seconds(timeout), numbers_of(members))
        return agreed

    async def barriers(self, timeout: Timeout = 30) -> OpenBarriers:
        """The barriers that are open: who waits there, and for whom. No other member has to ask."""
        return to_barriers(await result_of(self._native.barriers, seconds(timeout)))

    async def alive(self, members: Sequence[int] = (),
                    timeout: Timeout = None) -> list[AliveMember]:
        """As lockstep.Member.alive, with its errors: every one that is alive must ask."""
        return to_alive(await result_of(self._native.alive, numbers_of(members), seconds(timeout)))

    async def members(self, timeout: Timeout = 30) -> list[MemberInfo]:
        """The state of each member, as the server sees it now. No other member has to ask.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        watch = self.watch()
        try:
            return list((await watch.next(timeout)).members)
        finally:
            watch.close()

    def watch(self) -> JobWatch:
        """Follows the job: its members, the state of each, and errors."""
        return JobWatch(self._native.watch_job(), self)

    async def rendezvous(self, quota_bytes: int | None = None, shared_memory: bool = True,
                         process_memory: bool = True) -> Rendezvous:
        """As lockstep.Member.rendezvous, opened on a thread, since it waits for the server.

        Raises FailedPrecondition, "rendezvous_open", if the member has an open one.
        """
        opened = await asyncio.get_running_loop().run_in_executor(
            None, self._rendezvous.open, quota_bytes, shared_memory, process_memory)
        return opened.aio

    async def step(self, number: int) -> Step:
        """As lockstep.Member.step: `async with await me.step(7) as step:`."""
        opened = await asyncio.get_running_loop().run_in_executor(None, self._rendezvous.get)
        return opened.aio.step(number)

    async def report_error(self, error: BaseException | str, timeout: Timeout = None) -> None:
        """This member cannot continue: the others get the error, and their waits fail."""
        await result_of(self._native.report_error, *error_to_report(error), seconds(timeout))

    async def leave(self, timeout: Timeout = None) -> None:
        """Leaves the job, as lockstep.Member.leave.

        Raises Internal, "shutdown_failed", if not all reach the end in time.
        """
        await result_of(self._native.leave, seconds(timeout))

    async def __aenter__(self) -> Member:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._given_up:
            return
        if goes_well(error):
            try:
                await self.leave()
            except Error as failed:
                if failed.reason != "member_left":
                    raise
            finally:
                self.close()
            return
        assert error is not None
        try:
            await self.report_error(error, _LAST_WORDS_MAX)
        except Exception as failed:
            _log.debug("the error could not be reported: %s", failed)
        finally:
            self.close()


async def join(address: str | None = None, *, job: str | None = None, role: str | None = None,
               index: int | None = None, size: int | None = None,
               labels: Mapping[str, str] | None = None, attempt: int | None = None,
               host: str | None = None, timeout: Timeout = 300, grace: Timeout = 60) -> Member:
    """As lockstep.join, with its arguments and errors."""
    arguments = join_arguments(address, job, role, index, size, attempt, host, labels, timeout, grace)
    with _nobody.Watch(address):
        member = Member(await result_of(_native.join, *arguments), address)
    _dispatch.close_at_exit(member)
    return member
