"""Members: joining a job, waiting for the others, sharing values."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep import _dispatch, _native, _nobody
from lockstep._errors import Error, error_to_report, forked, goes_well
from lockstep._keys import Keys
from lockstep._notices import HostNotices
from lockstep._preemption import Preemption
from lockstep._rendezvous import Rendezvous, RendezvousOfMember, Step
from lockstep._types import (AliveMember, JobChange, MemberInfo, Timeout, Value, numbers_of,
                             seconds, text, to_alive, to_bytes, to_job_change, whole)

if TYPE_CHECKING:
    from types import TracebackType

    from lockstep import aio as _aio

_log = logging.getLogger("lockstep")
#: Seconds that a program which fails takes at most to tell the others why: `last_words_max`.
_LAST_WORDS_MAX = 5.0


class JobWatch:
    """Follows a job; also an iterator, and a context manager. The first change says all there is."""

    def __init__(self, native: _native.JobWatch, ticket: int | None = None,
                 member: object = None) -> None:
        self._native = native
        self._member = member  # which lives as long as somebody watches
        self._ticket = ticket
        if ticket is not None:
            _dispatch.hold(self)

    def next(self, timeout: Timeout = None) -> JobChange:
        """Waits for the next change. Raises DeadlineExceeded; the watch goes on."""
        return to_job_change(self._native.next(seconds(timeout)))

    def __iter__(self) -> Iterator[JobChange]:
        return self

    def __next__(self) -> JobChange:
        return self.next()

    def close(self) -> None:
        """Ends it, and a `next` that waits with Cancelled."""
        self._native.close()
        if self._ticket is not None:
            _dispatch.forget(self._ticket)
            _dispatch.let_go(self)

    def __enter__(self) -> JobWatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class MemberBase:
    """What the two faces of a member have in common: all that does not wait."""

    def __init__(self, native: _native.Member, address: str | None,
                 rendezvous: RendezvousOfMember | None = None) -> None:
        self._native = native
        self._rendezvous = rendezvous or RendezvousOfMember(native)
        self._given_up = False
        self._pid = os.getpid()
        # Said once, so that it can still be asked for after the end.
        #: HOST:PORT of the server.
        self.address: str = address or os.environ.get("LOCKSTEP_COORDINATOR") or "127.0.0.1:7070"
        #: The name of the job.
        self.job: str = native.job
        #: The role; "" in a job that has but one, without a name.
        self.role: str = native.role
        #: The index in the role.
        self.index: int = native.index
        #: The number in the whole job; what lists of members count.
        self.member: int = native.member
        #: How many members the job has.
        self.size: int = native.size
        #: Such as "trainer/4#1": role, index, life.
        self.name: str = native.name
        #: Which life of the job this is, from 1.
        self.attempt: int = native.attempt

    def __repr__(self) -> str:
        return f"<lockstep member {self.name} of job {self.job!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a member is a living connection and cannot be pickled or copied; "
                        "in another process, join there")

    def _check_here(self) -> None:
        # For what has no answer that could say so.
        if self._pid != os.getpid():
            raise forked(f"{self.name} of job {self.job!r}")

    def progress(self, step: int, phase: str = "") -> None:
        """Tells where this member is in its work, for those who look.

        Costs next to nothing and never waits: the newest is sent, at most every 100 ms. An empty
        phase: as before. Of a phase the first 256 bytes are shown.
        """
        self._check_here()
        if whole(step, "a step") < 0:
            raise ValueError(f"steps count from 0, and this is {step}")
        self._native.progress(step, text(phase, "a phase"))

    def on_error(self, callback: Callable[[Error], object]) -> None:
        """Calls back, once, with the first error of the attempt, whoever it befell.

        At once when it has happened already; also when the server is lost for good. Everything that
        waits fails with the same error. Replaces the callback before it. Runs on the callback
        thread; what it raises is logged.
        """
        self._check_here()
        self._native.on_error(_dispatch.expect_callback(
            lambda error, _: callback(error), again=False))

    def on_change(self, callback: Callable[[JobChange | Error], object]) -> JobWatch:
        """Calls back with what becomes of the job, first with all there is, until it is closed.

        It is called with an Error, and then no more, when the watch cannot go on.
        """
        self._check_here()

        def changed(value: Any, error: Error | None) -> None:
            callback(error if error is not None else to_job_change(value))

        ticket = _dispatch.expect_callback(changed)
        return JobWatch(self._native.watch_job(ticket), ticket)

    def close(self) -> None:
        """Gives the membership up without leaving: to the others it is as if the process had died.

        Ends what waits with Cancelled. Does nothing after `leave`.
        """
        self._given_up = True
        self._rendezvous.close()
        self._native.close()


class Member(MemberBase):
    """One life of a member, from `join` to `leave`. Thread-safe.

    As a context manager it leaves at the end, unless it was closed in the block. When an exception
    gets out of the block, the others are told of it instead, and what they wait for fails.

    Every wait releases the GIL, and Ctrl-C ends it within 100 ms. `timeout` is in seconds or a
    timedelta, None for no limit; DeadlineExceeded says who is missing. Waits also fail with the
    first error of the attempt, whoever it befell, and with Unavailable when the server is lost for
    good. In a forked child everything raises FailedPrecondition, reason "forked".
    """

    def __init__(self, native: _native.Member, address: str | None) -> None:
        super().__init__(native, address)
        self._keys = native.keys()

    @property
    def kv(self) -> Keys:
        """The keys of the job. They keep their member; the member does not keep them."""
        return Keys(self._keys, self, self._pid)

    @property
    def aio(self) -> _aio.Member:
        """The same member for asyncio: `await me.aio.barrier("loaded")`."""
        from lockstep import aio

        return aio.Member(self._native, self.address, self._rendezvous)

    def barrier(self, id: str, timeout: Timeout = None, members: Sequence[int] = ()) -> None:
        """Waits until all have come here: all members, or those listed, this one among them.

        An id may be used again and again. The time counts from the first arrival.
        """
        self._native.barrier(text(id, "an id"), seconds(timeout), numbers_of(members), None)

    def gather(self, id: str, value: Value, timeout: Timeout = None,
               members: Sequence[int] = ()) -> list[bytes]:
        """A barrier to which each brings a value; returns them all, in the order of the members."""
        values: list[bytes] = self._native.gather(text(id, "an id"), to_bytes(value),
                                                  seconds(timeout), numbers_of(members))
        return values

    def cancel_barrier(self, id: str, timeout: Timeout = None) -> None:
        """Fails the barrier that is open under this id for all who wait."""
        self._native.cancel_barrier(text(id, "an id"), seconds(timeout))

    def agree(self, name: str, index: int, stride: int = 1, timeout: Timeout = None,
              members: Sequence[int] = ()) -> int:
        """From which index on do we all ...? The same answer for all, which none has passed.

        Args:
          index: the first at which this member can still act.
          stride: the answer is a multiple of it.
        """
        agreed: int = self._native.agree(text(name, "a name"), whole(index, "index"),
                                        whole(stride, "stride"), seconds(timeout),
                                        numbers_of(members))
        return agreed

    def alive(self, members: Sequence[int] = (), timeout: Timeout = None) -> list[AliveMember]:
        """Who of these, or of all, is alive; the same answer for all who ask.

        Every one of them that is alive must ask: it is a barrier of the living.
        """
        return to_alive(self._native.alive(numbers_of(members), seconds(timeout)))

    def members(self, timeout: Timeout = 30) -> list[MemberInfo]:
        """How each member is, as the server sees it now. Nobody else has to ask."""
        with self.watch() as watch:
            return list(watch.next(timeout).members)

    def watch(self) -> JobWatch:
        """Follows the job: who is in it, how each is, what went wrong."""
        return JobWatch(self._native.watch_job(), member=self)

    def preemption(self, stride: int = 0, last_step: int | None = None,
                   save_estimate: Timeout = None, wait_max: Timeout = 30) -> Preemption:
        """Follows the preemptions of the job, to save at one step with all others.

        Args:
          stride: steps between two polls: 10 when every tenth is polled. 0: learnt.
          last_step: the last that will be polled, when that is known.
          save_estimate: seconds that a save takes. None: learnt from the one before.
          wait_max: seconds that `reached` waits at most while the server is away.
        """
        return Preemption(_native.open_preemption(
            self._native, whole(stride, "stride"),
            None if last_step is None else whole(last_step, "last_step"),
            seconds(save_estimate) or 0.0, seconds(wait_max) or 30.0), self)

    def notices(self, sources: Iterable[str] = ("auto",), once_a_host: bool = True) -> HostNotices:
        """Listens to who tells that this host will be taken away, and tells the job.

        Args:
          sources: each NAME or NAME:KEY=VALUE,... of docs/preemption-sources.md; "auto" is what fits
            this host, "signal" the first SIGTERM to this process.
          once_a_host: of all members of the job on this host one looks, but for signals.
        """
        return HostNotices(self, sources, once_a_host)

    def rendezvous(self, quota_bytes: int | None = None, shared_memory: bool = True,
                   process_memory: bool = True) -> Rendezvous:
        """Opens this member's part in the exchange of tensors; one at a time.

        Args:
          quota_bytes: of what was sent and not yet received, in bytes. None: 4 GiB.
          shared_memory: whether processes of one host share the memory of values.
          process_memory: whether those that cannot share it read long values from the memory of
            their sender (process_vm_readv). Both False: by the network, as between hosts.
        """
        return self._rendezvous.open(quota_bytes, shared_memory, process_memory)

    def step(self, number: int) -> Step:
        """Opens a step of the exchange of tensors: `with me.step(7) as step:`.

        In the rendezvous that is open; the first call opens one if there is none, which ends with the
        member.
        """
        return self._rendezvous.get().step(number)

    def report_error(self, error: BaseException | str, timeout: Timeout = None) -> None:
        """This member cannot go on: the others are told, and what they wait for fails."""
        self._native.report_error(*error_to_report(error), seconds(timeout))

    def leave(self, timeout: Timeout = None) -> None:
        """Done. Returns when all are, if the job is set to wait for all.

        After it, calls raise FailedPrecondition, reason "member_left", those on its keys and watches
        too; what still waits then, a watch for example, ends with Cancelled, of the same reason.
        """
        self._native.leave(seconds(timeout))

    def __enter__(self) -> Member:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._given_up:  # in the block, which knew what it did
            return
        if goes_well(error):
            try:
                self.leave()
            except Error as failed:
                if failed.reason != "member_left":  # left in the block already
                    raise
            finally:
                self.close()
            return
        assert error is not None
        try:
            self.report_error(error, _LAST_WORDS_MAX)
        except Exception as failed:
            _log.debug("the error could not be reported: %s", failed)
        finally:
            self.close()


def join_arguments(address: str | None, job: str | None, role: str | None, index: int | None,
                   size: int | None, attempt: int | None, host: str | None,
                   labels: Mapping[str, str] | None, timeout: Timeout,
                   grace: Timeout) -> tuple[Any, ...]:
    """As the extension takes them: what is empty is looked for in LOCKSTEP_*."""
    if size is not None and whole(size, "size") < 1:
        raise ValueError(f"a job has at least one member, not {size}")
    for name, value in {"address": address, "job": job, "role": role, "host": host}.items():
        if value is not None:
            text(value, name)
    for name, number in {"index": index, "size": size, "attempt": attempt}.items():
        if number is not None:
            whole(number, name)
    for label, value in (labels or {}).items():
        text(label, "a label's name")
        text(value, "a label")
    return (address or "", job or "", role or "", index, size or 0, attempt or 0, host or "",
            dict(labels or {}), seconds(timeout), seconds(grace))


def join(address: str | None = None, *, job: str | None = None, role: str | None = None,
         index: int | None = None, size: int | None = None, labels: Mapping[str, str] | None = None,
         attempt: int | None = None, host: str | None = None, timeout: Timeout = 300,
         grace: Timeout = 60) -> Member:
    """Becomes a member of a job; returns when all members have joined.

    What is not given is taken from the environment, then from the default: `lockstep.join()` is all
    that a program which `lockstep run` starts needs.

    Args:
      address: HOST:PORT of the server. LOCKSTEP_COORDINATOR, 127.0.0.1:7070.
      job: its name. LOCKSTEP_JOB.
      role: LOCKSTEP_ROLE; the only one there is.
      index: in the role. LOCKSTEP_INDEX; the lowest that nobody has.
      size: makes the job with so many members if it is not there. LOCKSTEP_SIZE.
      labels: for people who look.
      attempt: refuse to join another attempt of the job. LOCKSTEP_ATTEMPT.
      host: for people; the system's name of this host.
      timeout: seconds until everybody has joined, the search for the server included.
      grace: seconds that a lost server is looked for before waits fail.

    Raises:
      InvalidArgument: the arguments or the environment make no sense.
      Unavailable, DeadlineExceeded: no server, or not everybody came; the text names them.
      AlreadyExists: another process, named, is that member.
      NotFound: no such job, and no `size` to make it with.
    """
    arguments = join_arguments(address, job, role, index, size, attempt, host, labels, timeout, grace)
    with _nobody.Watch(address):
        native = _native.join(*arguments)
    return _joined(Member(native, address))


def _joined(member: Member) -> Member:
    _dispatch.close_at_exit(member)
    return member
