#!/usr/bin/env python3
"""Compares torch's own TCPStore server (libuv) with the store of `lockstep-server`, by torch's own client.

    build/peers/frameworks/bin/python bench/store/run.py --document docs/performance.md

Both servers run in a process of their own, pinned to one core; the clients are pinned to another.
For every row they take turns, each time with a new server and new clients; who begins alternates too.
A figure is the median over the repetitions, with the smallest and the largest behind it. The ratio is
above 1 where Lockstep is better. Nobody looks up names (no_lookups.c).
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from document import machine, put_into, table  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))

KINDS = ("torch", "lockstep")
SERVER_CORE, CLIENT_CORE = 0, (os.cpu_count() or 2) - 1
LIMIT_S = 300
QUIET = dict(os.environ) | {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"}

TORCH_SERVER = """
from torch.distributed import TCPStore
import sys
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
print(store.port, flush=True)
sys.stdin.read()
"""


def pinned(core):
    return lambda: os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def torch_server():
    with subprocess.Popen([sys.executable, "-c", TORCH_SERVER], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=QUIET,
                          preexec_fn=pinned(SERVER_CORE)) as server:
        try:
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


@contextlib.contextmanager
def lockstep_server():
    with tempfile.TemporaryDirectory() as folder:
        ready = pathlib.Path(folder) / "ready.json"
        with subprocess.Popen([BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--job", "t=64",
                               "--ephemeral", "--ready-file", ready], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=pinned(SERVER_CORE)) as server:
            try:
                give_up = time.monotonic() + LIMIT_S
                while not ready.exists():
                    assert server.poll() is None and time.monotonic() < give_up, "no server"
                    time.sleep(0.005)
                yield json.loads(ready.read_text())["jobs"]["t"]["store"]
            finally:
                server.kill()


SERVERS = {"torch": torch_server, "lockstep": lockstep_server}


def without_lookups():
    """Before the first `measure`."""
    library = pathlib.Path(tempfile.mkdtemp()) / "no_lookups.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "no_lookups.c"], check=True)
    QUIET["LD_PRELOAD"] = str(library)


def measure(kind, *arguments):
    with SERVERS[kind]() as address:
        ran = subprocess.run([sys.executable, HERE / "clients.py", address, *map(str, arguments)],
                             capture_output=True, text=True, timeout=LIMIT_S, env=QUIET, check=False,
                             preexec_fn=pinned(CLIENT_CORE))
    if ran.returncode != 0:
        raise RuntimeError(f"{arguments} on {kind}: {ran.stderr[-2000:]}")
    return float(ran.stdout.split()[-1])


class Row:
    """One line of the table."""

    def __init__(self, name, unit, *arguments, more_is_better=False, repetitions=None):
        self.name, self.unit, self.arguments = name, unit, arguments
        self.more_is_better = more_is_better
        self.repetitions = repetitions
        self.figures = {kind: [] for kind in KINDS}

    def run(self, repetitions):
        for repetition in range(min(self.repetitions or repetitions, repetitions)):
            for kind in KINDS if repetition % 2 == 0 else KINDS[::-1]:
                self.figures[kind].append(measure(kind, *self.arguments))

    def median(self, kind):
        return statistics.median(self.figures[kind])

    def ratio(self):
        theirs, ours = (self.median(kind) for kind in KINDS)
        return ours / theirs if self.more_is_better else theirs / ours

    def cells(self):
        def shown(kind):
            figures = self.figures[kind]
            text = f"{self.median(kind):.3g} {self.unit}"
            return text + (f" ({min(figures):.3g}..{max(figures):.3g})" if len(figures) > 1 else "")
        return [self.name, *(shown(kind) for kind in KINDS), f"{self.ratio():.2f}"]


def rows():
    found = []
    for operation, count in (("set", 40_000), ("get", 20_000), ("add", 20_000), ("multi_get", 4_000)):
        for clients in (1, 8, 64, 256):
            name = f"{operation}, {clients} client{'s' if clients > 1 else ''}"
            found.append(Row(name, "k/s", "rate", operation, clients, count, more_is_better=True))
    for clients, rounds in ((1, 100), (8, 50), (64, 20), (256, 10)):
        found.append(Row(f"wait and release, {clients} client{'s' if clients > 1 else ''}", "ms",
                         "release", clients, rounds))
    found.append(Row("1,000 connects", "ms", "connects", 1000))
    for size in (8, 32):
        found.append(Row(f"init_process_group, {size} processes", "ms", "process_group", size,
                         repetitions=3))
    found.append(Row("10,000 raw connections, released by one set", "ms", "raw", 10_000,
                     repetitions=3))
    return found


HEADER = ["row", "torch's TCPStore server", "lockstep-server", "ratio"]


def markdown(done):
    return f"{machine()}\n\n" + table([HEADER, *(row.cells() for row in done)], numbers=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT",
                        help="rows with one of these in their name")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE",
                        help="a Markdown file whose table is replaced by this run's")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()

    without_lookups()

    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    print("{:<46}{:>30}{:>30}{:>8}".format(*HEADER))
    done = []
    for row in rows():
        if not any(one in row.name for one in options.only):
            continue
        row.run(options.repetitions)
        print("{:<46}{:>30}{:>30}{:>8}".format(*row.cells()), flush=True)
        done.append(row)

    if options.document:
        put_into(options.document, "bench/store", markdown(done))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [
            {"name": row.name, "unit": row.unit, "ratio": row.ratio(), **row.figures}
            for row in done]}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
