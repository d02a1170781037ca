"""Saving at one step before hosts die."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockstep import _dispatch, _native
from lockstep._errors import forked
from lockstep._types import PreemptionNotice, Timeout, seconds, text, to_preemption_notice, whole

if TYPE_CHECKING:
    from types import TracebackType

    from lockstep._member import Member


class Preemption:
    """A member's view of the preemptions of its job: `with me.preemption() as preemption:`.

    Somebody learns that a host will die (a signal, the cloud, `lockstep preempt`) and tells the
    server, which picks one step that all members can still reach. `reached` is true for that step at
    each of them, and for no other. Thread-safe. At the end of the block no step is polled any more,
    and the others do not wait for this member.
    """

    def __init__(self, native: _native.Preemption, member: Member) -> None:
        self._native = native
        self._member = member  # lives as long as we do
        self._pid = os.getpid()
        #: `reached(step)`: whether to save at this step, which is done. True at the first poll at or
        #: after the sync step, once in each preemption, and again when asked again for that step.
        #: Call it for every step, or for every `stride`-th. Costs next to nothing; waits, without
        #: the GIL, only while the members agree, for some network round trips.
        self.reached: Callable[[int], bool] = native.reached

    def saved(self, step: int, path: str | os.PathLike[str] = "") -> None:
        """This member has saved at that step; `path` says where, for people who look."""
        self._check_here()
        self._native.saved(whole(step, "step"), text(os.fspath(path), "a path"))

    def failed_to_save(self, step: int, why: str) -> None:
        """This member could not save at that step."""
        self._check_here()
        self._native.failed_to_save(whole(step, "step"), text(why, "a reason"))

    def notice(self) -> PreemptionNotice:
        """The current preemption, or the last one: what, when, from whom, how it ended."""
        self._check_here()
        return to_preemption_notice(self._native.notice())

    def on_notice(self, callback: Callable[[PreemptionNotice], object]) -> None:
        """Calls back with every change of the notice. Replaces the callback before it.

        Runs on the callback thread; what it raises is logged.
        """
        self._check_here()
        self._native.on_notice(_dispatch.expect_callback(
            lambda value, _: callback(to_preemption_notice(value))))

    def notify(self, source: str, event: str = "", left: Timeout = None, reason: str = "",
               timeout: Timeout = 30) -> None:
        """Says that this member will die, as a source of its own.

        Args:
          source: how that is known, such as "cluster".
          event: the source's name of it; said again, it is the same notice. "": a new one.
          left: seconds until then; None when it is not known.
          reason: for people.
        """
        self._check_here()
        self._native.notify(text(source, "a source"), text(event, "an event"), seconds(left),
                            text(reason, "a reason"), seconds(timeout))

    def withdraw(self, source: str, event: str = "", timeout: Timeout = 30) -> None:
        """Takes a notice back. Behind the sync step all save nevertheless, and may go on."""
        self._check_here()
        self._native.withdraw(text(source, "a source"), text(event, "an event"), seconds(timeout))

    def close(self) -> None:
        """No step will be polled any more: the others do not wait for this member."""
        self._native.close()

    def __enter__(self) -> Preemption:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _check_here(self) -> None:
        if self._pid != os.getpid():
            raise forked("a preemption")
