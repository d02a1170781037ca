"""The Python threads on which results and callbacks arrive; what a fork and an exit end.

The extension's own threads never take the GIL. A daemon thread here fetches what they report; it
starts with the first callback or asynchronous call. It wakes asyncio's loops itself and passes
callbacks on to a second thread, so that a callback that waits holds up only callbacks.
"""

from __future__ import annotations

import asyncio
import atexit
# First: what is registered later is called earlier, and this module's function waits for threads
# that may wait for us.
import concurrent.futures.thread  # noqa: F401
import contextlib
import itertools
import logging
import os
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from lockstep import _native
from lockstep._errors import Error
from lockstep._threads import Thread

_log = logging.getLogger("lockstep")

#: Called with the result or the error, on a thread of the library.
Handler = Callable[[Any, "Error | None"], object]


class Closes(Protocol):
    """What is given up when the interpreter ends."""

    def close(self) -> None: ...


class _Dispatcher:
    """Threads: thread-safe. In a forked child there is another one, without the parent's calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tickets = itertools.count(1)
        self._handlers: dict[int, tuple[Handler, bool, bool]] = {}
        self._threads: list[threading.Thread] = []
        self._callbacks: queue.SimpleQueue[tuple[Handler, Any, Error | None] | None] = (
            queue.SimpleQueue())

    def expect(self, handler: Handler, *, again: bool, callback: bool) -> int:
        with self._lock:
            for target, name in [(self._fetch, "lockstep-results"),
                                 (self._call_back, "lockstep-callbacks")]:
                if all(thread.name != name for thread in self._threads):
                    self._start(target, name)
            ticket = next(self._tickets)
            self._handlers[ticket] = handler, again, callback
            return ticket

    def forget(self, ticket: int) -> None:
        with self._lock:
            self._handlers.pop(ticket, None)

    def join(self) -> None:
        _native.stop_dispatcher()
        self._callbacks.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                with contextlib.suppress(RuntimeError):  # Ctrl-C came before there was one
                    thread.join(5)

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)  # first: Ctrl-C may come while it starts
        thread.start()

    def _fetch(self) -> None:
        while completed := _native.take_completed():
            for ticket, value, error in completed:
                with self._lock:
                    known = self._handlers.get(ticket)
                    if known is not None and not known[1]:
                        del self._handlers[ticket]
                if known is None:
                    continue
                handler, _, callback = known
                if callback:
                    self._callbacks.put((handler, value, error))
                else:
                    _call(handler, value, error)

    def _call_back(self) -> None:
        while (one := self._callbacks.get()) is not None:
            _call(*one)


def _call(handler: Handler, value: Any, error: Error | None) -> None:
    try:
        handler(value, error)
    except Exception:
        _log.exception("a callback failed")


_dispatcher = _Dispatcher()
_open: weakref.WeakSet[Closes] = weakref.WeakSet()
#: Watches with callbacks: they run until they are closed, even without another reference.
_held: set[Closes] = set()


def expect_callback(handler: Handler, *, again: bool = True) -> int:
    """A ticket for what calls back; with `again` more than once."""
    return _dispatcher.expect(handler, again=again, callback=True)


def forget(ticket: int) -> None:
    """Drops what comes later under the ticket; calls that are queued already still run."""
    _dispatcher.forget(ticket)


def hold(watch: Closes) -> None:
    """Keeps a watch with a callback alive until `let_go`: the caller may drop it."""
    _held.add(watch)


def let_go(watch: Closes) -> None:
    """Ends `hold`; does nothing for a watch that is not held."""
    _held.discard(watch)


def close_at_exit(what: Closes) -> None:
    """Closes it when the interpreter ends, unless it has been collected before."""
    _open.add(what)


async def result_of(start: Callable[..., Any], *arguments: Any) -> Any:
    """Begins an asynchronous call of the extension and waits for its result, in asyncio.

    If the task is cancelled, so is the call, and it has ended when the task does: the same barrier
    or name may be waited at again.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    ended = asyncio.Event()

    def settle(value: Any, error: Error | None) -> None:
        ended.set()
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def completed(value: Any, error: Error | None) -> None:
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            pass  # the loop has been closed, and nobody waits

    ticket = _dispatcher.expect(completed, again=False, callback=False)
    try:
        pending = start(*arguments, ticket)
    except BaseException:
        forget(ticket)
        raise
    try:
        return await future
    except asyncio.CancelledError:
        pending.cancel()
        await ended.wait()  # a moment
        raise


def _after_fork_in_child() -> None:
    global _dispatcher, _open, _held
    _native.after_fork()
    _held = set()
    _dispatcher = _Dispatcher()
    _open = weakref.WeakSet()


def _at_exit() -> None:
    _native.cancel_waits(True)
    _dispatcher.join()
    # What has not left is given up: its connections end before the interpreter does.
    for one in [*_held, *_open]:
        one.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
# Threads that still wait would be waited for by the interpreter, maybe for ever.
try:
    threading._register_atexit(_native.cancel_waits, False)  # type: ignore[attr-defined]
except (AttributeError, RuntimeError):
    pass
