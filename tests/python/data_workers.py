"""Data workers that tests start, kill and wait for."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

import lockstep

LOCKSTEP = pathlib.Path(lockstep.__file__).parent / "bin" / "lockstep"
LIMIT_S = 60


class Worker:
    """`lockstep worker`, ready to be asked when this is made."""

    def __init__(self, address, folder=None, *options, **environment):
        self._ready = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-worker-")) / "ready.json"
        self._log = open(self._ready.with_name("log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [str(LOCKSTEP), "worker", "--dispatcher", address, "--ready-file", str(self._ready),
             "--parent", str(os.getpid()), *map(str, options)],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT, cwd=folder,
            env={**os.environ, **environment})
        deadline = time.monotonic() + LIMIT_S
        while not self._ready.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.01)
        self.pid = self.process.pid

    def told(self):
        return json.loads(self._ready.read_text())

    def log(self):
        self._log.seek(0)
        return self._log.read()

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
