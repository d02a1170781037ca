"""Processes for the interop tests, forked within milliseconds from one that has imported jax.

A stock client aborts its process when its coordinator tells it of an error, so each client lives in
a process of its own. Nothing here sleeps: answers and deaths both arrive on a process's pipe.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import re
import signal
import threading

# A wait of the tests that takes longer than this has failed. Generous: two busy cores.
LIMIT_S = 60

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["jaxlib._jax", "jax", "jax.experimental.multihost_utils"])


class ClientError(Exception):
    """What a call of a stock client raised, as Python sees it."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text
        match = re.match(r"([A-Z_]+): ", text)
        self.code = match.group(1) if match else ""


class ProcessEnded(Exception):
    """The process ended before it answered."""


class Process:
    """A forked process that carries out named calls on threads of its own, and what it wrote.

    `target(calls)` runs in the child; `calls` is its end of the pipe. Thread-safe.
    """

    def __init__(self, name, target, folder, *arguments):
        self.name = name
        self.output_path = pathlib.Path(folder) / f"{name}.log"
        self._pipe, child_end = _context.Pipe()
        self._process = _context.Process(
            target=_child, args=(child_end, str(self.output_path), target, arguments), daemon=True)
        self._process.start()
        child_end.close()
        self.pid = self._process.pid
        self._lock = threading.Lock()
        self._waiting = {}
        self._ended = False
        self._calls = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, method, *arguments, **options):
        """Begins a call; the future has its value, ClientError or ProcessEnded."""
        future = concurrent.futures.Future()
        with self._lock:
            if self._ended:
                future.set_exception(ProcessEnded(f"{self.name} had ended"))
                return future
            self._calls += 1
            self._waiting[self._calls] = future
            try:
                self._pipe.send((self._calls, method, arguments, options))
            except OSError:
                pass  # The reader is about to see the end and to tell every waiter.
        return future

    def call(self, method, *arguments, **options):
        return self.start(method, *arguments, **options).result(LIMIT_S)

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def end(self):
        """Kills it and waits until it is gone."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join(LIMIT_S)
        self._reader.join(LIMIT_S)
        self._pipe.close()

    def wait_ended(self, limit_s=LIMIT_S):
        """Its exit code (minus the signal's number) once it has ended by itself."""
        self._process.join(limit_s)
        assert not self._process.is_alive(), f"{self.name} did not end within {limit_s} s"
        return self._process.exitcode

    def output(self):
        return self.output_path.read_text(errors="replace")

    def _read(self):
        while True:
            try:
                number, answer, value = self._pipe.recv()
            except (EOFError, OSError):
                break
            with self._lock:
                future = self._waiting.pop(number)
            if answer == "value":
                future.set_result(value)
            else:
                future.set_exception(ClientError(*value))
        with self._lock:
            self._ended = True
            left = list(self._waiting.values())
            self._waiting.clear()
        for future in left:
            future.set_exception(ProcessEnded(f"{self.name} ended before it answered"))


def _child(pipe, output_path, target, arguments):
    output = os.open(output_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    methods = target(*arguments)
    lock = threading.Lock()

    def carry_out(number, method, arguments, options):
        try:
            answer, value = "value", getattr(methods, method)(*arguments, **options)
        except Exception as error:  # Whatever it is, the test has to see it.
            answer, value = "error", (type(error).__name__, str(error))
        with lock:
            pipe.send((number, answer, value))

    while True:
        try:
            call = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)  # The test is over, or its process died: leave without a farewell.
        threading.Thread(target=carry_out, args=call, daemon=True).start()
