"""Members: joining a job, waiting for the others, sharing values."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lockstep import _address, _dispatch, _native, _nobody
from lockstep._errors import Error, error_to_report, forked, goes_well
from lockstep._keys import Keys
from lockstep._notices import HostNotices
from lockstep._preemption import Preemption
from lockstep._rendezvous import Rendezvous, RendezvousOfMember, Step
from lockstep._types import (AliveMember, JobChange, MemberInfo, OpenBarriers, Timeout, Value,
                             numbers_of, seconds, text, to_alive, to_barriers, to_bytes,
                             to_job_change, whole)

if TYPE_CHECKING:
    from types import TracebackType

    from lockstep import aio as _aio

_log = logging.getLogger("lockstep")
#: Seconds that a failing program takes at most to report its error: `last_words_max`.
_LAST_WORDS_MAX = 5.0


class JobWatch:
    """Follows a job; also an iterator and a context manager.

    The first change contains the whole state of the job.
    """

    def __init__(self, native: _native.JobWatch, ticket: int | None = None,
                 member: object = None) -> None:
        self._native = native
        self._member = member  # kept alive by the watch
        self._ticket = ticket
        if ticket is not None:
            _dispatch.hold(self)

    def next(self, timeout: Timeout = None) -> JobChange:
        """Waits for the next change.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds; the watch continues.
        """
        return to_job_change(self._native.next(seconds(timeout)))

    def __iter__(self) -> Iterator[JobChange]:
        return self

    def __next__(self) -> JobChange:
        return self.next()

    def close(self) -> None:
        """Ends the watch; a `next` that waits raises Cancelled, later ones FailedPrecondition."""
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
    """The common part of the two interfaces of a member: everything that does not wait."""

    def __init__(self, native: _native.Member, address: str | None,
                 rendezvous: RendezvousOfMember | None = None) -> None:
        self._native = native
        self._rendezvous = rendezvous or RendezvousOfMember(native)
        self._given_up = False
        self._pid = os.getpid()
        # Read once, so that the program can still ask after the end.
        #: HOST:PORT of the server.
        self.address: str = _address.meant(address)
        #: The name of the job.
        self.job: str = native.job
        #: The role; "" in a job with a single role without a name.
        self.role: str = native.role
        #: The index in the role.
        self.index: int = native.index
        #: The number in the whole job, as in lists of members.
        self.member: int = native.member
        #: How many members the job has.
        self.size: int = native.size
        #: Such as "trainer/4#1": role, index, life.
        self.name: str = native.name
        #: The number of this attempt of the job, from 1.
        self.attempt: int = native.attempt

    def __repr__(self) -> str:
        return f"<lockstep member {self.name} of job {self.job!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a member is a living connection and cannot be pickled or copied; "
                        "in another process, join there")

    def _check_here(self) -> None:
        # For calls without an answer that could say so.
        if self._pid != os.getpid():
            raise forked(f"{self.name} of job {self.job!r}")

    def progress(self, step: int, phase: str = "") -> None:
        """Reports where this member is in its work, for people who look.

        Costs next to nothing and never waits: the newest report is sent, at most every 100 ms. An
        empty phase keeps the previous one. The first 256 bytes of a phase are shown.

        Raises ValueError for a negative step.
        """
        self._check_here()
        if whole(step, "a step") < 0:
            raise ValueError(f"steps count from 0, and this is {step}")
        self._native.progress(step, text(phase, "a phase"))

    def on_error(self, callback: Callable[[Error], object]) -> None:
        """Calls back, once, with the first error of the attempt, whichever member it befell.

        The callback runs at once if the error has already happened, and also if the server is lost
        for good. Everything that waits fails with the same error. A second call replaces the
        callback. It runs on the callback thread; the exceptions that it raises are logged.
        """
        self._check_here()
        self._native.on_error(_dispatch.expect_callback(
            lambda error, _: callback(error), again=False))

    def on_change(self, callback: Callable[[JobChange | Error], object]) -> JobWatch:
        """Calls back with each change of the job, until the watch is closed.

        The first change contains the whole state. If the watch cannot continue, the callback gets
        an Error, and then no more calls.
        """
        self._check_here()

        def changed(value: Any, error: Error | None) -> None:
            callback(error if error is not None else to_job_change(value))

        ticket = _dispatch.expect_callback(changed)
        return JobWatch(self._native.watch_job(ticket), ticket)

    def close(self) -> None:
        """Gives up the membership without leaving: to the others, the process has died.

        Waits end with Cancelled, later calls raise FailedPrecondition. Does nothing after `leave`.
        """
        self._given_up = True
        self._rendezvous.close()
        self._native.close()


class Member(MemberBase):
    """One life of a member, from `join` to `leave`. Thread-safe.

    As a context manager it leaves at the end, unless it was closed in the block. If an exception
    leaves the block, the others get that error instead, and their waits fail.

    Every wait releases the GIL, and Ctrl-C ends it within 100 ms. `timeout` is in seconds or a
    timedelta, None for no limit; DeadlineExceeded says who is missing. Waits also fail with the
    first error of the attempt, whichever member it befell, and with Unavailable if the server is
    lost for good. In a forked child everything raises FailedPrecondition, reason "forked".
    """

    def __init__(self, native: _native.Member, address: str | None) -> None:
        super().__init__(native, address)
        self._keys = native.keys()

    @property
    def kv(self) -> Keys:
        """The keys of the job.

        They hold a reference to their member; the member holds none to them.
        """
        return Keys(self._keys, self, self._pid)

    @property
    def aio(self) -> _aio.Member:
        """The same member for asyncio: `await me.aio.barrier("loaded")`."""
        from lockstep import aio

        return aio.Member(self._native, self.address, self._rendezvous)

    def barrier(self, id: str, timeout: Timeout = None, members: Sequence[int] = ()) -> None:
        """Waits until all have arrived: all members, or those listed, which include this one.

        An id may be used again and again. The time counts from the first arrival.

        Raises:
          DeadlineExceeded: "barrier_timed_out", with the missing members in details["missing"].
          Cancelled: "barrier_cancelled", with the member that cancelled it in the text.
          Internal: "barrier_member_failed", "barrier_member_left": a participant cannot come.
          InvalidArgument: "barrier_not_participant", "barrier_conflicting_members",
            "barrier_unknown_member": the lists are wrong.
          FailedPrecondition: "call_open", if this member waits there already.
        """
        self._native.barrier(text(id, "an id"), seconds(timeout), numbers_of(members), None)

    def gather(self, id: str, value: Value, timeout: Timeout = None,
               members: Sequence[int] = ()) -> list[bytes]:
        """A barrier to which each member brings a value; returns all, in the order of the members.

        Raises as `barrier`; DataLoss, "barrier_values_forgotten", if this member comes so late that
        the values are no longer kept.
        """
        values: list[bytes] = self._native.gather(text(id, "an id"), to_bytes(value),
                                                  seconds(timeout), numbers_of(members))
        return values

    def cancel_barrier(self, id: str, timeout: Timeout = None) -> None:
        """Fails the barrier that is open under this id, for all that wait.

        Raises FailedPrecondition, "barrier_already_passed", if it is over.
        """
        self._native.cancel_barrier(text(id, "an id"), seconds(timeout))

    def agree(self, name: str, index: int, stride: int = 1, timeout: Timeout = None,
              members: Sequence[int] = ()) -> int:
        """Agrees on an index that no member has passed; all get the same answer.

        Args:
          index: the first index at which this member can still act.
          stride: the answer is a multiple of it.

        Raises DeadlineExceeded, "agreement_timed_out", with the missing members in
        details["missing"]; InvalidArgument, "agreement_conflict", if the callers name different
        members or strides; OutOfRange, "number_overflow", if 64 bits do not hold the multiple;
        FailedPrecondition, "call_open", if this member already waits under the name.
        """
        agreed: int = self._native.agree(text(name, "a name"), whole(index, "index"),
                                        whole(stride, "stride"), seconds(timeout),
                                        numbers_of(members))
        return agreed

    def barriers(self, timeout: Timeout = 30) -> OpenBarriers:
        """Returns the barriers that are open: who waits there, and for whom.

        Raises Unavailable or DeadlineExceeded if no server answers.
        """
        return to_barriers(self._native.barriers(seconds(timeout)))

    def alive(self, members: Sequence[int] = (), timeout: Timeout = None) -> list[AliveMember]:
        """Which of these members, or of all, are alive; all callers get the same answer.

        Every one of them that is alive must ask: it is a barrier of the living.

        Raises InvalidArgument, "caller_not_listed", if `members` leaves out this member.
        """
        return to_alive(self._native.alive(numbers_of(members), seconds(timeout)))

    def members(self, timeout: Timeout = 30) -> list[MemberInfo]:
        """The state of each member, as the server sees it now. No other member has to ask.

        Raises DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        with self.watch() as watch:
            return list(watch.next(timeout).members)

    def watch(self) -> JobWatch:
        """Follows the job: its members, the state of each, and errors."""
        return JobWatch(self._native.watch_job(), member=self)

    def preemption(self, stride: int = 0, last_step: int | None = None,
                   save_estimate: Timeout = None, wait_max: Timeout = 30) -> Preemption:
        """Follows the preemptions of the job, to save at one step with all others.

        Args:
          stride: steps between two polls: 10 if every tenth is polled. 0: learnt from the polls.
          last_step: the last step that will be polled, if that is known.
          save_estimate: seconds that a save takes. None: learnt from the previous save.
          wait_max: seconds that `reached` waits at most while the server is away.
        """
        return Preemption(_native.open_preemption(
            self._native, whole(stride, "stride"),
            None if last_step is None else whole(last_step, "last_step"),
            seconds(save_estimate) or 0.0, seconds(wait_max) or 30.0), self)

    def notices(self, sources: Iterable[str] = ("auto",), once_a_host: bool = True) -> HostNotices:
        """Watches the sources that announce the death of this host, and notifies the job.

        Args:
          sources: each NAME or NAME:KEY=VALUE,... of docs/preemption-sources.md; "auto" is what
            fits this host, "signal" the first SIGTERM to this process.
          once_a_host: only one member of the job on each host watches the sources, except for
            signals.
        """
        return HostNotices(self, sources, once_a_host)

    def rendezvous(self, quota_bytes: int | None = None, shared_memory: bool = True,
                   process_memory: bool = True) -> Rendezvous:
        """Opens this member's part in the exchange of tensors; one at a time.

        Args:
          quota_bytes: limit on what was sent and not yet received, in bytes. None: 4 GiB.
          shared_memory: whether processes of one host share the memory of values.
          process_memory: whether processes that cannot share it read long values from the memory of
            their sender (process_vm_readv). Both False: by the network, as between hosts.

        Raises FailedPrecondition, "rendezvous_open", if the member has an open one.
        """
        return self._rendezvous.open(quota_bytes, shared_memory, process_memory)

    def step(self, number: int) -> Step:
        """Opens a step of the exchange of tensors: `with me.step(7) as step:`.

        It belongs to the open rendezvous. If there is none, the first call opens one, which ends
        with the member. Raises FailedPrecondition, "step_closed", if the step was closed here.
        """
        return self._rendezvous.get().step(number)

    def report_error(self, error: BaseException | str, timeout: Timeout = None) -> None:
        """This member cannot continue: the others get the error, and their waits fail.

        They get the code of a lockstep.Error, else INTERNAL, with the reason "reported_error".
        """
        self._native.report_error(*error_to_report(error), seconds(timeout))

    def leave(self, timeout: Timeout = None) -> None:
        """Leaves the job. Returns when all have left, if the job is set to wait for all.

        Afterwards calls on the member, its keys and its watches raise FailedPrecondition, reason
        "member_left"; what still waits then, such as a watch, ends with Cancelled, of the same
        reason.

        Raises Internal, "shutdown_failed", if not all reach the end in time.
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
    """Arguments in the extension's form; empty ones are looked up in LOCKSTEP_*.

    Raises ValueError for a size below 1, TypeError for what is not of its type.
    """
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
    _address.load_tls(_address.meant(address))
    return (address or "", job or "", role or "", index, size or 0, attempt or 0, host or "",
            dict(labels or {}), seconds(timeout), seconds(grace))


def join(address: str | None = None, *, job: str | None = None, role: str | None = None,
         index: int | None = None, size: int | None = None, labels: Mapping[str, str] | None = None,
         attempt: int | None = None, host: str | None = None, timeout: Timeout = 300,
         grace: Timeout = 60) -> Member:
    """Becomes a member of a job; returns when all members have joined.

    What you omit comes from the environment, then from the default: a program that `lockstep run`
    starts needs only `lockstep.join()`.

    Args:
      address: HOST:PORT of the server, or its join string; several, with commas between them or in
        a file (file:///PATH). LOCKSTEP_COORDINATOR, 127.0.0.1:7070.
      job: its name. LOCKSTEP_JOB.
      role: LOCKSTEP_ROLE; the only one there is.
      index: in the role. LOCKSTEP_INDEX; the lowest free one.
      size: creates the job with this many members if it does not exist. LOCKSTEP_SIZE.
      labels: for people who look.
      attempt: refuse to join another attempt of the job. LOCKSTEP_ATTEMPT.
      host: for people; the system's name of this host.
      timeout: seconds until all members have joined, including the search for the server.
      grace: seconds to look for a lost server before waits fail.

    Raises:
      InvalidArgument: the arguments or the environment are invalid.
      Unavailable, DeadlineExceeded: no server, or members are missing; the text names them.
      AlreadyExists: another process, named, is that member.
      NotFound: no such job, and no `size` to create it with.
    """
    arguments = join_arguments(address, job, role, index, size, attempt, host, labels, timeout, grace)
    with _nobody.Watch(address):
        native = _native.join(*arguments)
    return _joined(Member(native, address))


def _joined(member: Member) -> Member:
    _dispatch.close_at_exit(member)
    return member
