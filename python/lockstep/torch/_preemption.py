"""Saving at one step before hosts die, in a training loop of PyTorch."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Union

from lockstep._errors import goes_well
from lockstep._member import Member, join
from lockstep._types import Timeout, whole
from lockstep.torch._launcher import place_of_this_process

if TYPE_CHECKING:
    from types import TracebackType

    from lockstep._preemption import Preemption

_log = logging.getLogger("lockstep")

#: A save may return where it saved, for people who look.
Saved = Union[str, "os.PathLike[str]", None]


class TrainingPreemption:
    """The result of `lockstep.torch.preemption`: one process's part in its job's preemptions.

    Without a server, in a program started by hand, it says so once, and no step is ever the one to
    save at: the same program runs everywhere.
    """

    def __init__(self, member: Member | None, preemption: Preemption | None, owned: bool) -> None:
        self._preemption = preemption
        self._owned = owned  # joined for this, so it leaves with this
        #: This process in its job; None without a server.
        self.member = member

    def reached(self, step: int) -> bool:
        """Whether to save after this step, which is done: the same step in all processes.

        Call it for every step, from 0 or from where the program continues. See
        lockstep.Preemption.reached.
        """
        if self._preemption is None:
            whole(step, "step")
            return False
        return self._preemption.reached(step)

    def saved(self, step: int, path: Saved = None) -> None:
        """Reports that this process saved at that step. Returns at once."""
        if self._preemption is not None:
            self._preemption.saved(step, path or "")

    def failed_to_save(self, step: int, why: str) -> None:
        """Reports that this process could not save at that step. Returns at once."""
        if self._preemption is not None:
            self._preemption.failed_to_save(step, why)

    @property
    def withdrawn(self) -> bool:
        """Whether the notice was withdrawn, so that training continues after the save."""
        return self._preemption is not None and self._preemption.notice().withdrawn

    def save_and_end(self, step: int, save: Callable[[int], Saved]) -> bool:
        """At the step to save at, calls `save(step)` and reports the result to the job.

        Returns whether the program should end now: true after the save, unless the notice was
        withdrawn. At any other step: False. `save` may return where it saved. The exceptions that
        it raises leave this call, and are reported to the job.
        """
        if not self.reached(step):
            return False
        try:
            path = save(step)
        except BaseException as error:
            self.failed_to_save(step, f"{type(error).__name__}: {error}")
            raise
        self.saved(step, path)
        return not self.withdrawn

    def __enter__(self) -> TrainingPreemption:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._preemption is not None:
            self._preemption.close()
        if self.member is not None and self._owned:
            self.member.__exit__(kind, error, trace)
        elif not goes_well(error):
            _log.debug("the block of the preemption ended with %r", error)


def preemption(*, member: Member | None = None, stride: int = 0, last_step: int | None = None,
               save_estimate: Timeout = None, wait_max: Timeout = 30,
               timeout: Timeout = 300) -> TrainingPreemption:
    """Follows the preemptions of this process's job; put `with` it around the training loop.

    Under `lockstep run`, and under `torchrun --rdzv-backend=lockstep`, it joins the job by itself,
    and returns when all processes of the job have arrived. It leaves at the end of the block.

    Args:
      member: this process in its job, if it has joined already; then it is left alone.
      stride, last_step, save_estimate, wait_max: as Member.preemption takes them.
      timeout: seconds within which all processes must arrive.

    Raises:
      Unavailable, DeadlineExceeded: no server, or processes are missing; the text names them.
    """
    owned = member is None
    if member is None:
        place = place_of_this_process()
        if place is None:
            _log.info("no LOCKSTEP_COORDINATOR: nobody tells this process of preemptions")
            return TrainingPreemption(None, None, False)
        member = join(place.address, job=place.job, index=place.index, size=place.size,
                      attempt=place.attempt, timeout=timeout)
    try:
        follows = member.preemption(stride, last_step, save_estimate, wait_max)
    except BaseException:
        if owned:
            member.close()
        raise
    return TrainingPreemption(member, follows, owned)
