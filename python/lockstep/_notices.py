"""Sources that announce the death of this host, watched by the members themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockstep import _native
from lockstep._errors import forked
from lockstep._types import SourceState, texts

if TYPE_CHECKING:
    from types import TracebackType

    from lockstep._member import Member


class HostNotices:
    """Notifies the job of what the sources of notices on this host report: `with me.notices():`.

    A notice covers all members of the job on this host. `lockstep run` does the same for programs
    that know nothing of it. Thread-safe.
    """

    def __init__(self, member: Member, sources: Iterable[str], once_a_host: bool) -> None:
        self._native = _native.open_notices(member._native, texts(sources, "a source"), once_a_host)
        self._pid = os.getpid()

    @property
    def looking(self) -> bool:
        """Whether this process watches the sources; otherwise another member on this host does."""
        self._check_here()
        return self._native.looking()

    def sources(self) -> list[SourceState]:
        """The state of each source, as far as this process watches it."""
        self._check_here()
        return [SourceState(*state) for state in self._native.sources()]

    def close(self) -> None:
        """Stops watching. Notices that were given stand."""
        if os.getpid() == self._pid:
            self._native.close()

    def _check_here(self) -> None:
        if os.getpid() != self._pid:
            raise forked("the notices of a host")

    def __enter__(self) -> HostNotices:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
