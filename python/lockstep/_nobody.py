"""Warns early that nothing listens at a server's address, while a call keeps looking for it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from types import TracebackType

from lockstep import _address
from lockstep._threads import Thread

_log = logging.getLogger("lockstep")

#: Seconds until the first warning, and between warnings.
_FIRST, _AGAIN = 2.0, 30.0
#: Seconds that one attempt to connect takes at most.
_TRY_MAX = 0.5


def why_nobody(address: str) -> str:
    """Why no connection can be made to any of the servers; empty: something listens, or an address
    names no place.
    """
    why = ""
    for server in _address.servers(address):
        why = _why_not(server)
        if not why:
            return ""
    return why


def _why_not(server: str) -> str:
    host, port = _address.host_and_port(server)
    if not port.isdecimal():
        return ""
    try:
        socket.create_connection((host, int(port)), _TRY_MAX).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


class Watch:
    """While its block runs, warns if nothing listens. It uses a thread of its own, and holds up no
    caller.
    """

    def __init__(self, address: str | None) -> None:
        self._address = _address.meant(address)
        self._over = threading.Event()

    def __enter__(self) -> Watch:
        # The thread does not know this watch, which is thus over even when Ctrl-C comes before its
        # block has begun.
        thread = Thread(target=_follow, args=(self._address, self._over), name="lockstep-nobody",
                        daemon=True)
        try:
            thread.start()
        except BaseException:
            self._over.set()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._over.set()

    def __del__(self) -> None:
        self._over.set()


def _follow(address: str, over: threading.Event) -> None:
    began = time.monotonic()
    wait = _FIRST
    while not over.wait(wait):
        wait = _AGAIN
        why = why_nobody(address)
        if why and not over.is_set():
            _log.warning("nobody listens at %s (%s); looked for it for %.0f s, and goes on: is "
                         "`lockstep serve` running there, and is LOCKSTEP_COORDINATOR right?",
                         address, why, time.monotonic() - began)
