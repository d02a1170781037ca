"""`lockstep serve` and `lockstep worker`s, for bench/data. They end with this process's session."""

import json
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
LIMIT_S = 60


class Service:
    """A server without jobs that keeps nothing on disk, and workers."""

    def __init__(self, workers):
        self.folder = tempfile.TemporaryDirectory()
        ready = pathlib.Path(self.folder.name) / "ready.json"
        start("serve", "--listen", "127.0.0.1:0", "--ephemeral", "--ready-file", ready)
        self.address = json.loads(wait_for(ready))["listen"]
        self.workers = [start("worker", "--dispatcher", self.address) for _ in range(workers)]

    def wait_for_workers(self):
        for worker in self.workers:
            if not worker.stdout.readline():
                raise RuntimeError("a worker did not start")

    def kill_worker(self):
        self.workers[0].kill()
        self.workers[0].wait()


def start(*arguments):
    return subprocess.Popen([BIN / "lockstep", *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def wait_for(path):
    """What is in the file, once it is there."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return text
        time.sleep(0.002)
    raise RuntimeError("lockstep serve did not start")
