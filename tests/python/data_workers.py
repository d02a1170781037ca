"""Data workers that tests start, kill and wait for."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import lockstep

_INSTALLED = pathlib.Path(lockstep.__file__).parent / "bin" / "lockstep"
LOCKSTEP = pathlib.Path(os.environ.get("LOCKSTEP_PROGRAM") or _INSTALLED)
LIMIT_S = 60


_libc = ctypes.CDLL(None)


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)


class Worker:
    """`lockstep worker`, ready to be asked when this is made."""

    def __init__(self, address, folder=None, *options, **environment):
        self._log = tempfile.NamedTemporaryFile("w+", encoding="utf-8", prefix="lockstep-worker-")
        self.process = subprocess.Popen(
            [str(LOCKSTEP), "worker", "--dispatcher", address, *map(str, options)],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT, cwd=folder,
            env={**os.environ, **environment}, preexec_fn=_die_with_parent)
        deadline = time.monotonic() + LIMIT_S
        while "answers at" not in self.log():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.01)
        self.pid = self.process.pid

    def log(self):
        return pathlib.Path(self._log.name).read_text(encoding="utf-8")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()


class Cluster:
    """A server of its own and its workers."""

    def __init__(self, workers=2, folder=None, options=(), state=None):
        self._stack = contextlib.ExitStack()
        self.folder, self.options = folder, options
        self.server = self._stack.enter_context(lockstep.serve(state=state))
        self.address = self.server.address
        self.workers = []
        for _ in range(workers):
            self.add()

    def add(self, **environment):
        worker = Worker(self.address, self.folder, *self.options, **environment)
        self._stack.callback(worker.stop)
        self.workers.append(worker)
        return worker

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()
