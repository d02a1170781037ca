#!/usr/bin/env python3
"""Large jobs: Lockstep through agents, jaxlib's service and torch's TCPStore, in one run.

    build/peers/frameworks/bin/python bench/scale/run.py [--ranks 64 1024 10000 100000] \\
        [--repetitions 3] [--document docs/performance.md]

One server, and one program with all ranks (bench/scale/main.cc). Lockstep's ranks are those of
agents, 8 to an agent, each agent with a socket and a session of its own; the others' have a
connection each. Agents have long values from each other as far as the descriptors go: not in a job
of 100,000 ranks with a limit of 20,000. A peer is left out where this machine has not enough
descriptors for it. The peers take turns; a figure is the median over the repetitions.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "coordination")]

from document import machine, put_into, table  # noqa: E402
import native  # noqa: E402

BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
RANKS = (64, 1024, 10_000, 100_000)
RANKS_PER_HOST = 8
LIMIT_S = 900
KINDS = ("jaxlib", "tcpstore", "agents")
NAMES = {"jaxlib": "jaxlib's service", "tcpstore": "torch's TCPStore", "agents": "lockstep, agents"}
# What the ranks of a peer take of the descriptors of a process.
CONNECTIONS = {"jaxlib": 1, "tcpstore": 1, "agents": 1 / RANKS_PER_HOST}


class Lockstep(native.Server):
    def __init__(self, kind, folder, ranks):
        super().__init__(kind, folder)
        ready = self.folder / "ready.json"
        self.process = subprocess.Popen(
            [BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--ready-file", ready, "--ephemeral",
             "--job", f"scale={ranks}", "--links-max", "30000", "--links-per-host-max", "30000",
             "--heartbeat-timeout", "1h"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        native.wait_for(ready.exists, "lockstep-server")
        self.addresses["all"] = json.loads(ready.read_text())["listen"]


def without_lookups(folder):
    """A library that keeps torch's server from asking for the names of its clients, for seconds."""
    library = pathlib.Path(folder) / "no_lookups.so"
    source = HERE.parent / "store" / "no_lookups.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    return str(library)


def start(kind, folder, ranks):
    if kind == "agents":
        return Lockstep(kind, folder, ranks)
    if kind == "tcpstore":
        os.environ["LD_PRELOAD"] = without_lookups(folder)
    try:
        return native.MAKE[kind](kind, folder)
    finally:
        os.environ.pop("LD_PRELOAD", None)


def processor_seconds(pid):
    """That all threads of the process have had."""
    spent = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            spent += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return spent / 1e9


class Job:
    """One run of scale_bench against a new server: its figures, in seconds, and the server's bytes:
    resident, and sent. `extra`: options of scale_bench."""

    def __init__(self, kind, ranks, death=False, extra=()):
        self.seconds = {}
        self.resident = {}
        self.server_bytes = {}
        self.server_cpu = {}
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            server = start(kind, folder, ranks)
            stack.callback(server.end)
            address = server.address(ranks)
            command = [BIN / "scale_bench", "--peer", kind, "--address", address, "--ranks", str(ranks),
                       "--ranks-per-host", str(RANKS_PER_HOST),
                       *(extra or ("--barriers", "16" if ranks <= 1024 else "4"))]
            # An agent that takes part in the fan-out has a listener, and connections for a while.
            if kind == "agents" and "--no-fan-out" not in extra and not fits(kind, 4 * ranks):
                command.append("--no-fan-out")
            if death:
                command.append("--death")
            bench = subprocess.Popen(["timeout", str(LIMIT_S), *command], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
            stack.callback(bench.wait)
            stack.callback(bench.kill)
            for line in bench.stdout:
                figure = json.loads(line)
                self.seconds[figure["row"]] = figure["seconds"]
                self.resident[figure["row"]] = native.resident(server.pid)
                self.server_bytes[figure["row"]] = figure["server_bytes"]
                self.server_cpu[figure["row"]] = processor_seconds(server.pid)
                bench.stdin.write("\n")
                with contextlib.suppress(BrokenPipeError):
                    bench.stdin.flush()
            if bench.wait() != 0:
                raise RuntimeError(f"{kind}, {ranks} ranks: scale_bench failed after {list(self.seconds)}")

    def grown(self, before, after, ranks):
        if before not in self.resident or after not in self.resident:
            return None
        return (self.resident[after] - self.resident[before]) / ranks


def time_text(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def bytes_text(count):
    return f"{count / 1024:.3g} KiB" if count >= 1024 else f"{count:.0f} B"


ROWS = {
    "register": "start to all registered",
    "barrier, all at once": "barrier, from the first arrival",
    "barrier, after the last": "barrier, from the last arrival",
    "exchange": "4 KiB of each, to the first",
    "release": "256 KiB to all, who wait",
    "error": "a rank restarts, told to all",
    "death": "an agent's death, told to all",
    "rank": "server's memory, a rank",
    "wait": "server's memory, a parked wait",
}


def measure(kind, ranks):
    job = Job(kind, ranks)
    figures = dict(job.seconds)
    for gone in ("start", "parked"):
        figures.pop(gone, None)
    figures["rank"] = job.grown("start", "register", ranks)
    figures["wait"] = job.grown("exchange", "parked", ranks)
    if kind == "agents":
        figures["death"] = Job(kind, ranks, death=True).seconds["death"]
    return figures


def fits(kind, ranks):
    return ranks * CONNECTIONS[kind] + 200 < resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="*", default=RANKS)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--document", type=pathlib.Path, help="put the table into this file")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    done = [["ranks", "row", *(NAMES[kind] for kind in options.kinds)]]
    for ranks in options.ranks:
        kinds = [kind for kind in options.kinds if fits(kind, ranks)]
        measured = {kind: [] for kind in kinds}
        for _ in range(options.repetitions):
            for kind in kinds:
                measured[kind].append(measure(kind, ranks))
        for row, name in ROWS.items():
            cells = []
            for kind in options.kinds:
                figures = [each[row] for each in measured.get(kind, []) if each.get(row) is not None]
                text = bytes_text if row in ("rank", "wait") else time_text
                cells.append(text(statistics.median(figures)) if figures else "")
            done.append([f"{ranks:,}", name, *cells])
            print("{:>8} {:<36}{}".format(*done[-1][:2], "".join(f"{cell:>20}" for cell in cells)),
                  flush=True)
    if options.document:
        put_into(options.document, "scale", f"{machine()}\n\n" + table(done))


if __name__ == "__main__":
    main()
