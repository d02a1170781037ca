#!/usr/bin/env python3
"""What the hop through an agent costs: stock clients of one server, directly and through an agent.

    build/peers/frameworks/bin/python bench/agents.py [--repetitions 5] [--only ROW...] \\
        [--document docs/performance.md]

Server, agent and clients share this host. For every row the two ways take turns, each time with a new
server and new clients; which begins alternates. A figure is the median over the repetitions, with the
smallest and the largest behind it. The ratio is above 1 where the agent is better.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "interop")]

from document import machine, put_into, table  # noqa: E402
from trees import forget_modules, module  # noqa: E402

BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
LIMIT_S = 120
KINDS = ("direct", "agent")
HEADER = ["row", "direct", "through an agent", "ratio"]


def wait_for(ready, process):
    deadline = time.monotonic() + LIMIT_S
    while not ready.exists():
        if time.monotonic() > deadline or process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} did not start")
        time.sleep(0.002)
    return json.loads(ready.read_text())


class Agent:
    """An agent in front of a server of its own."""

    def __init__(self, size):
        self._stack = contextlib.ExitStack()
        folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        server = self._start(folder / "server.json", "lockstep-server", "--listen", "127.0.0.1:0", "--job",
                             f"t={size}", "--ephemeral", "--heartbeat-timeout", "100s")
        agent = self._start(folder / "agent.json", "lockstep-agent", "--coordinator", server["listen"],
                            "--job", "t")
        self.address = agent["jobs"]["t"]["grpc"]
        self.store = agent["jobs"]["t"]["store"]

    def _start(self, ready, program, *arguments):
        process = subprocess.Popen([BIN / program, *arguments, "--ready-file", ready],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return wait_for(ready, process)

    def end(self):
        self._stack.close()


def coordination():
    """Rows of JAX's clients."""
    bench = module(HERE / "coordination" / "run.py")
    servers = sys.modules["servers"]
    bench.KINDS = KINDS
    bench.SERVERS.update(direct=servers.LockstepServer, agent=lambda size, folder: Agent(size))
    return bench.rows(with_detection=False)


def store():
    """Rows of torch's."""
    forget_modules()
    sys.modules.pop("clients", None)
    bench = module(HERE / "store" / "run.py")
    bench.without_lookups()

    @contextlib.contextmanager
    def through_agent():
        agent = Agent(64)
        try:
            yield agent.store
        finally:
            agent.end()

    bench.KINDS = KINDS
    bench.SERVERS.update(direct=bench.lockstep_server, agent=through_agent)
    for row in bench.rows():
        if "raw" in row.name or "256" in row.name:  # more connections than one host has
            continue
        row.name = f"store: {row.name}"
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="rows with one of these words")
    parser.add_argument("--document", type=pathlib.Path, help="put the table into this file")
    options = parser.parse_args()
    done = [HEADER]
    for group in (coordination, store):
        for row in group():
            if options.only and not any(word in row.name for word in options.only):
                continue
            row.run(options.repetitions)
            done.append(row.cells())
            print("{:<46}{:>32}{:>32}{:>8}".format(*done[-1]), flush=True)
    if options.document:
        put_into(options.document, "agents", f"{machine()}\n\n" + table(done, numbers=True))


if __name__ == "__main__":
    main()
