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
    """A server without jobs that keeps nothing on disk, and workers; all are up when this is made."""

    def __init__(self, workers):
        self.folder = tempfile.TemporaryDirectory()
        ready = pathlib.Path(self.folder.name) / "ready.json"
        self.start("serve", "--listen", "127.0.0.1:0", "--ephemeral", "--ready-file", ready)
        self.address = json.loads(wait_for(ready))["listen"]
        self.workers = [self.start("worker", "--dispatcher", self.address) for _ in range(workers)]
        self.wait_for_workers(workers)

    def start(self, *arguments):
        return subprocess.Popen([BIN / "lockstep", *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_for_workers(self, count):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            done = subprocess.run([BIN / "lockstep", "data", "workers", "--json",
                                   "--address", self.address],
                                  capture_output=True, text=True, check=False, timeout=LIMIT_S)
            if done.returncode == 0 and len(json.loads(done.stdout)) >= count:
                return
            time.sleep(0.005)
        raise RuntimeError(f"the {count} workers did not come")

    def kill_worker(self):
        self.workers[0].kill()
        self.workers[0].wait()


def wait_for(path):
    """What is in the file, once it is there."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return text
        time.sleep(0.002)
    raise RuntimeError("lockstep serve did not start")
