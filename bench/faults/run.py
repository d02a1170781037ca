#!/usr/bin/python3
"""What torchrun says when one of four ranks goes wrong, and what Lockstep says; and when.

    build/peers/frameworks/bin/python bench/faults/run.py [FAULT...]

For each fault first torchrun, whose first line about an error is told; then `lockstep run` on a
server, where somebody asks `lockstep why` every half second, until it names the right rank.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "bench" / "faults" / "program.py"
LOCKSTEP = ROOT / "build" / "bin" / "lockstep"
SIZE = 4
LIMIT_S = 60  # of one fault with one launcher
FAULTS = {"killed at the start": 0, "never comes": 3, "killed": 0, "stopped": 1, "loops": 2,
          "skips": 1}
ERROR = re.compile(r"(Error|error|Timed out|timed out|failed|Connection closed|exitcode)")


class Watched:
    """A launcher, its lines, and when they came."""

    def __init__(self, *command):
        self.lines, self.changed = [], threading.Condition()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen([str(word) for word in command], text=True, env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append((time.time(), line.rstrip()))
                self.changed.notify_all()

    def find(self, pattern, limit_s=LIMIT_S):
        """(when, match) of the first line with that; None when there is none in time."""
        def found():
            for at, line in self.lines:
                if match := pattern.search(line):
                    return at, match
            return None

        with self.changed:
            return self.changed.wait_for(found, limit_s)

    def stop(self):
        for number in (signal.SIGCONT, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass
        self.process.wait()


FAULT_AT = re.compile(r"fault at (\S+) in pid (\d+)")


def under_torchrun(fault, rank):
    watched = Watched(sys.executable, "-m", "torch.distributed.run", "--standalone",
                      "--nproc-per-node", SIZE, PROGRAM, fault, rank)
    try:
        _, match = watched.find(FAULT_AT)
        at, pid = float(match[1]), int(match[2])
        told = watched.find(ERROR)
        if told is None:
            return f"nothing within {LIMIT_S} s"
        return f"{told[0] - at:.1f} s: {told[1].string[-160:]}"
    finally:
        watched.stop()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def under_lockstep(fault, rank, folder):
    ready = pathlib.Path(folder) / f"ready-{fault.replace(' ', '-')}"
    server = subprocess.Popen([LOCKSTEP, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--job",
                               f"faults={SIZE}", "--ready-file", ready], stderr=subprocess.DEVNULL)
    try:
        while not ready.exists():
            time.sleep(0.02)
        address = json.loads(ready.read_text())["listen"]
        watched = Watched(LOCKSTEP, "run", "-n", SIZE, "--coordinator", address, "--grace", "60s",
                          "--", sys.executable, PROGRAM, fault, rank)
        try:
            _, match = watched.find(FAULT_AT)
            at = float(match[1])
            while time.time() - at < LIMIT_S:
                why = subprocess.run([LOCKSTEP, "why", "faults", "--coordinator", address], text=True,
                                     capture_output=True, check=False).stdout
                lines = [line for line in why.splitlines() if re.search(rf"task/{rank}\b", line)]
                if lines:
                    return f"{time.time() - at:.1f} s: {lines[0].strip()}"
                time.sleep(0.5)
            return f"nothing within {LIMIT_S} s: {why}"
        finally:
            watched.stop()
    finally:
        server.kill()
        server.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        for fault in sys.argv[1:] or FAULTS:
            rank = FAULTS[fault]
            print(f"rank {rank} {fault}", flush=True)
            print(f"  torchrun  {under_torchrun(fault, rank)}", flush=True)
            print(f"  lockstep  {under_lockstep(fault, rank, folder)}", flush=True)


main()
