"""Threads that Ctrl-C may interrupt the start of."""

from __future__ import annotations

import threading
from typing import Any

#: Seconds that the start of a thread waits for it, once it has been interrupted.
_BEGINS_WITHIN = 1.0


class Thread(threading.Thread):
    """A thread that has begun when `start` returns, also by an exception of a signal's handler.

    Otherwise the program might end before the thread has run at all. The interpreter does not wait
    for such a thread and frees its state, which the thread then uses: CPython 3.11 crashes.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._begun = threading.Event()

    def start(self) -> None:
        try:
            super().start()
        except RuntimeError:
            raise  # there is none
        except BaseException:
            self._begun.wait(_BEGINS_WITHIN)
            raise

    def run(self) -> None:
        self._begun.set()
        super().run()
