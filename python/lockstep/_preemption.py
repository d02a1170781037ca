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

    A notice that a host will die (from a signal, the cloud, `lockstep preempt`) reaches the server,
    which picks one step that all members can still reach. `reached` is true for that step at each
    of them, and for no other. Thread-safe. At the end of the block this member polls no more steps,
    and the others do not wait for it.
    """

    def __init__(self, native: _native.Preemption, member: Member) -> None:
        self._native = native
        self._member = member  # lives as long as we do
        self._pid = os.getpid()
        #: `reached(step)`: whether to save at this step, which is done. True at the first poll at or
        #: after the sync step, once in each preemption, and again for the same step. Call it for
        #: every step, or for every `stride`-th. It costs next to nothing, and waits, without the
        #: GIL, only while the members agree, for some network round trips.
        self.reached: Callable[[int], bool] = native.reached

    def saved(self, step: int, path: str | os.PathLike[str] = "") -> None:
        """Reports that this member saved at that step; `path` says where, for people who look.

        Returns at once: the report is sent in the background.
        """
        self._check_here()
        self._native.saved(whole(step, "step"), text(os.fspath(path), "a path"))

    def failed_to_save(self, step: int, why: str) -> None:
        """Reports that this member could not save at that step. Returns at once."""
        self._check_here()
        self._native.failed_to_save(whole(step, "step"), text(why, "a reason"))

    def notice(self) -> PreemptionNotice:
        """The current preemption, or the last one: what, when, which source, how it ended."""
        self._check_here()
        return to_preemption_notice(self._native.notice())

    def on_notice(self, callback: Callable[[PreemptionNotice], object]) -> None:
        """Calls back with every change of the notice. A second call replaces the callback.

        It runs on the callback thread; the exceptions that it raises are logged.
        """
        self._check_here()
        self._native.on_notice(_dispatch.expect_callback(
            lambda value, _: callback(to_preemption_notice(value))))

    def notify(self, source: str, event: str = "", left: Timeout = None, reason: str = "",
               timeout: Timeout = 30) -> None:
        """Gives notice that this member will die, as a separate source.

        Args:
          source: how that is known, such as "cluster".
          event: the source's name of it; repeated, it is the same notice. "": a new one.
          left: seconds until then; None if that is not known.
          reason: for people.
        """
        self._check_here()
        self._native.notify(text(source, "a source"), text(event, "an event"), seconds(left),
                            text(reason, "a reason"), seconds(timeout))

    def withdraw(self, source: str, event: str = "", timeout: Timeout = 30) -> None:
        """Withdraws a notice. Once the sync step is known, all save nevertheless, and may continue.

        An empty `event` withdraws all that this source said. Raises NotFound, "no_preemption", if
        no preemption is open; DeadlineExceeded, "deadline_exceeded", after `timeout` seconds.
        """
        self._check_here()
        self._native.withdraw(text(source, "a source"), text(event, "an event"), seconds(timeout))

    def close(self) -> None:
        """This member polls no more steps: the others do not wait for it."""
        self._native.close()

    def __enter__(self) -> Preemption:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _check_here(self) -> None:
        if self._pid != os.getpid():
            raise forked("a preemption")
