"""Access to a job without being a member: for tools and launchers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lockstep import _address, _dispatch, _native, _nobody
from lockstep._keys import Keys
from lockstep._types import Timeout, seconds, text, whole

if TYPE_CHECKING:
    from types import TracebackType


class Session:
    """A conversation about one job: its keys, from outside. Thread-safe.

    It reconnects by itself when its connection breaks, for as long as `grace`. Calls that only
    members may make raise FailedPrecondition, reason "not_a_member". It is closed at the end of a
    `with` block.
    """

    def __init__(self, native: _native.Session, address: str | None) -> None:
        self._native = native
        self._keys = native.keys()
        self._pid = os.getpid()
        #: HOST:PORT of the server.
        self.address: str = _address.meant(address)
        #: The name of the job.
        self.job: str = native.job
        #: How many members the job has.
        self.size: int = native.size
        #: The number of the job's attempt when the session was opened.
        self.attempt: int = native.attempt

    @property
    def kv(self) -> Keys:
        """The keys of the job. They hold a reference to their session."""
        return Keys(self._keys, self, self._pid)

    def close(self) -> None:
        """Ends the session: what waits ends with Cancelled, later calls raise FailedPrecondition.
        """
        self._native.close()

    def __repr__(self) -> str:
        return f"<lockstep session of job {self.job!r}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def session(address: str | None = None, *, job: str | None = None, size: int = 0,
            who: str = "lockstep for Python", timeout: Timeout = 10,
            grace: Timeout = 60) -> Session:
    """Opens a session of a job.

    Args:
      address: HOST:PORT of the server, or its join string; several, with commas between them or in
        a file (file:///PATH). LOCKSTEP_COORDINATOR, 127.0.0.1:7070.
      job: its name. LOCKSTEP_JOB.
      size: creates the job with this many members if it does not exist.
      who: for the server's log.
      timeout: seconds until the session is open.
      grace: seconds to look for a lost server before waits fail.

    Raises:
      Unavailable, DeadlineExceeded: no server.
      NotFound: no such job, and no `size` to create it with.
    """
    for name, value in {"address": address, "job": job}.items():
        if value is not None:
            text(value, name)
    if whole(size, "size") < 0:
        raise ValueError(f"a job has at least one member, not {size}")
    _address.load_tls(_address.meant(address))
    with _nobody.Watch(address):
        native = _native.open_session(address or "", job or "", size, text(who, "who"),
                                      seconds(timeout), seconds(grace))
    opened = Session(native, address)
    _dispatch.close_at_exit(opened)
    return opened
