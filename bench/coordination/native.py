#!/usr/bin/env python3
"""Compares native Lockstep clients with etcd, torch's TCPStore and jaxlib's service, in one run.

    build/peers/torch/bin/python bench/coordination/native.py --document docs/performance.md

Each server runs in a process of its own; the clients of all are one C++ program
(bench/coordination/native). For every row the servers take turns, each time with new clients. A
figure is the median over the repetitions. The echoes are floors, bare echoes of the same bytes: what
no server of that kind can be quicker than. The toy is the least that keeps keys and barriers on the
ground that we stand on (bench/coordination/native/toy_server.cc).
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
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
LIMIT_S = 300

OURS = ("lockstep", "lockstep-durable")
TOYS = ("toy", "toy-durable")  # ours are compared with the one that keeps as much
OTHERS = ("etcd", "jaxlib", "tcpstore")
KINDS = ("tcp-echo", "grpc-echo", *TOYS, *OTHERS, *OURS)


def wait_for(condition, what):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if (found := condition()):
            return found
        time.sleep(0.02)
    raise RuntimeError(f"{what} did not start")


class Server:
    """A server of one kind; `address(clients)` is where so many clients call."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.folder = pathlib.Path(folder)
        self.process = None
        self.addresses = {}

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def address(self, clients):
        del clients
        return self.addresses["all"]


class Echo(Server):
    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        self.process = subprocess.Popen([BIN / "echo_servers"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.addresses["all"] = json.loads(self.process.stdout.readline())[kind]


class Toy(Server):
    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        keep = ["--state", self.folder / "state"] if kind == "toy-durable" else []
        self.process = subprocess.Popen([BIN / "toy_server", *keep], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.addresses["all"] = json.loads(self.process.stdout.readline())["address"]


class Etcd(Server):
    """As Debian installs it: durable, that is, synced before each answer."""

    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
             "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addresses["all"] = client.removeprefix("http://")

        def healthy():
            with contextlib.suppress(OSError):
                return b"true" in urllib.request.urlopen(f"{client}/health", timeout=1).read()
        wait_for(healthy, "etcd")


class Store(Server):
    """torch's own, with its default back end, in a process that does nothing else."""

    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        self.process = subprocess.Popen(
            [sys.executable, "-c",
             "import sys, torch.distributed as d\n"
             "s = d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)\n"
             "print(s.port, flush=True)\nsys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addresses["all"] = f"127.0.0.1:{int(self.process.stdout.readline())}"


class Jaxlib(Server):
    """One service for each number of clients, since it wants to know."""

    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        self.services = []

    def address(self, clients):
        self.end()
        port, = free_ports(1)
        python = ROOT / "build" / "peers" / "jax" / "bin" / "python"
        self.process = subprocess.Popen(
            [python, "-c",
             "import sys\nfrom jaxlib import _jax\n"
             f"s = _jax.get_distributed_runtime_service('127.0.0.1:{port}', {clients})\n"
             "print('up', flush=True)\nsys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.process.stdout.readline()
        return f"127.0.0.1:{port}"


class Lockstep(Server):
    def __init__(self, kind, folder):
        super().__init__(kind, folder)
        ready = self.folder / "ready.json"
        keep = (["--state", self.folder / "state"] if kind == "lockstep-durable"
                else ["--ephemeral"])
        self.process = subprocess.Popen(
            [BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--ready-file", ready, *keep],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(ready.exists, "lockstep-server")
        self.addresses["all"] = json.loads(ready.read_text())["listen"]


def free_ports(count):
    import socket
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


MAKE = {"tcp-echo": Echo, "grpc-echo": Echo, "etcd": Etcd, "jaxlib": Jaxlib, "tcpstore": Store,
        "toy": Toy, "toy-durable": Toy, "lockstep": Lockstep, "lockstep-durable": Lockstep}


def client_command(server, row, clients, count, size=64):
    peer = server.kind.removesuffix("-durable")
    return [BIN / "coordination_bench", "--peer", peer, "--address", server.address(clients),
            "--row", row, "--clients", str(clients), "--count", str(count), "--bytes", str(size)]


def measure(kind, row, clients, count, size=64):
    with tempfile.TemporaryDirectory() as folder:
        server = MAKE[kind](kind, folder)
        try:
            done = subprocess.run(client_command(server, row, clients, count, size), check=False,
                                  capture_output=True, text=True, timeout=LIMIT_S)
        finally:
            server.end()
    if done.returncode != 0:
        raise RuntimeError(f"{kind}, {row}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def resident(pid):
    fields = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line.split()[1] for line in fields if line.startswith("VmRSS")))


def parked_bytes(kind, clients, waits):
    """What the server grows by, for each wait for a key that nobody sets."""
    with tempfile.TemporaryDirectory() as folder:
        server = MAKE[kind](kind, folder)
        try:
            client = subprocess.Popen(client_command(server, "park", clients, waits),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            client.stdout.readline()
            before = resident(server.pid)
            client.stdin.write("\n")
            client.stdin.flush()
            client.stdout.readline()
            after = resident(server.pid)
            client.kill()
            client.wait()
        finally:
            server.end()
    return (after - before) / waits


class Row:
    def __init__(self, name, unit, kinds, figure, *, more_is_better=False):
        self.name, self.unit, self.kinds, self.figure = name, unit, kinds, figure
        self.more_is_better = more_is_better
        self.figures = {kind: [] for kind in kinds}

    def run(self, repetitions):
        for repetition in range(repetitions):
            for kind in self.kinds[::1 if repetition % 2 == 0 else -1]:
                self.figures[kind].append(self.figure(kind))

    def median(self, kind):
        return statistics.median(self.figures[kind]) if self.figures.get(kind) else None


def rows():
    def p50(row, clients, count, size=64):
        return lambda kind: measure(kind, row, clients, count, size)["p50_us"]

    def rate(row, clients, count):
        return lambda kind: measure(kind, row, clients, count)["per_second"] / 1000

    barriers = (*TOYS, "jaxlib", "tcpstore", *OURS)
    big = ("jaxlib", "tcpstore", *OURS)
    return [
        Row("set, 1 client", "us", KINDS, p50("set", 1, 3000)),
        Row("get, 1 client", "us", KINDS, p50("get", 1, 3000)),
        Row("sets, 64 clients", "k/s", KINDS, rate("set", 64, 500), more_is_better=True),
        Row("gets, 64 clients", "k/s", KINDS, rate("get", 64, 500), more_is_better=True),
        Row("compare-and-set, 1 client", "us", ("etcd", "tcpstore", *OURS), p50("swap", 1, 2000)),
        Row("set until a waiter has it", "us", (*TOYS, *OTHERS, *OURS), p50("wait", 2, 300)),
        Row("barrier, 4 clients", "us", barriers, p50("barrier", 4, 300)),
        Row("barrier, 64 clients", "us", barriers, p50("barrier", 64, 100)),
        Row("barrier, 256 clients", "us", barriers, p50("barrier", 256, 50)),
        Row("watch, 1 change to 256", "us", ("etcd", *OURS), p50("fan-out", 257, 50)),
        Row("connect and register, 64 clients", "us", ("jaxlib", *OURS), p50("connect", 64, 1)),
        Row("256 KiB to 64 waiters", "us", big, p50("wait", 65, 5, 256 << 10)),
        Row("4 MiB to 64 waiters", "us", big, p50("wait", 65, 3, 4 << 20)),
        # TCPStore parks one wait a connection, and did not take 10,000 of them.
        Row("memory of a parked wait", "B", ("jaxlib", *OURS),
            lambda kind: parked_bytes(kind, 16, 10000)),
    ]


def ratio(row, theirs, ours):
    """Above 1 where ours is better; None where one of the two has no such row."""
    if row.median(theirs) is None or row.median(ours) is None:
        return None
    times = row.median(theirs) / row.median(ours)
    return 1 / times if row.more_is_better else times


def line(cells, form):
    return "| " + " | ".join(cell if isinstance(cell, str) else
                             "" if cell is None else form(cell) for cell in cells) + " |"


def three_digits(number):
    return f"{float(f'{number:.3g}'):g}"


def table(done):
    lines = [line(("row", "unit", *KINDS), str),
             "| --- | --- |" + " ---: |" * len(KINDS)]
    lines += [line((row.name, row.unit, *map(row.median, KINDS)), three_digits) for row in done]
    lines += ["", line(("row", "Lockstep against", *OTHERS, "toy of its kind"), str),
              "| --- | --- |" + " ---: |" * (len(OTHERS) + 1)]
    for row in done:
        for ours, toy in zip(OURS, TOYS):
            against = [ratio(row, theirs, ours) for theirs in (*OTHERS, toy)]
            lines.append(line((row.name, ours, *against), "{:.2f}".format))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--row", action="append", help="only rows whose name contains this")
    parser.add_argument("--without", action="append", default=[], choices=KINDS)
    parser.add_argument("--document", help="write the table between its marks in this file")
    options = parser.parse_args()
    done = []
    for row in rows():
        if options.row and not any(part in row.name for part in options.row):
            continue
        row.kinds = tuple(kind for kind in row.kinds if kind not in options.without)
        row.run(options.repetitions)
        print(f"{row.name}: " + ", ".join(f"{kind} {row.median(kind):.4g} {row.unit}"
                                          for kind in row.kinds), flush=True)
        done.append(row)
    text = table(done)
    print(text)
    if options.document:
        path = pathlib.Path(options.document)
        begin, end = "<!-- bench/coordination/native: begin -->", "<!-- bench/coordination/native: end -->"
        before, rest = path.read_text(encoding="utf-8").split(begin)
        path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
