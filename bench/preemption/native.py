"""Runs preemption_bench: members in C++, and the agreement among them."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
LIMIT_S = 300
SIZES = ((4, 200), (64, 100), (1000, 10))  # members, and rounds


def native(members, rounds, state):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ready = folder / "ready.json"
        where = ["--state", folder / "state"] if state else ["--ephemeral"]
        server = subprocess.Popen([BIN / "lockstep-server", "--listen", "127.0.0.1:0", *where,
                                   "--ready-file", ready], stderr=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        end = time.monotonic() + 60
        while not ready.exists():
            assert time.monotonic() < end and server.poll() is None
            time.sleep(0.01)
        address = json.loads(ready.read_text())["listen"]
        return json.loads(subprocess.run(
            [BIN / "preemption_bench", "--address", address, "--members", str(members), "--rounds",
             str(rounds)], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout)
