#!/usr/bin/env python3
"""What TLS costs on the link: plain and TLS connections, in turns, in one run.

    cmake --build --preset release --target coordination_bench
    build/venv/bin/python bench/tls.py [--repetitions 5] [--clients 1000] [--only ROW...]

Prints medians of the repetitions. Server and clients run on this host and share its cores, as both
ends of a handshake do. The clients are one C++ program with one loop (coordination_bench), or this one
where a row says so.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import tempfile
import time

import lockstep

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
LIMIT_S = 120
CALLS = 3000
OPENED = 200
HANDSHAKES = 300
VALUE = b"x" * 64


class Server:
    """A server of its own. With `keeps` it can be killed and started anew as it was; otherwise no
    answer waits for a disk."""

    def __init__(self, keeps=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-tls-"))
        self.state = ["--state", self.folder / "state"] if keeps else ["--ephemeral"]
        self.process = None
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self):
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [BIN / "lockstep-server", "--listen", self.listen, *self.state, "--ready-file", ready,
             "--job", "job=1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT_S
        while not ready.exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the server did not start")
            time.sleep(0.001)
        addresses = json.loads(ready.read_text())
        self.listen = addresses["listen"]
        self.addresses = {"plain": addresses["listen"], "TLS": addresses["join"]}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder)


def clients_program(address, row, clients, count):
    return [BIN / "coordination_bench", "--peer", "lockstep", "--address", address, "--row", row,
            "--clients", str(clients), "--count", str(count)]


def figures(address, row, clients, count=1000):
    """What coordination_bench measures."""
    ended = subprocess.run(clients_program(address, row, clients, count), check=True,
                           capture_output=True, text=True, timeout=LIMIT_S)
    return json.loads(ended.stdout)


def reconnect_ms(server, kind, clients):
    """From the moment a killed server is back until the last client has an answer of it."""
    with subprocess.Popen(clients_program(server.addresses[kind], "reconnect", clients, 1),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert json.loads(program.stdout.readline())["connected"]
        server.kill()
        program.stdin.write("\n")
        program.stdin.flush()
        server.start()
        began = time.monotonic_ns()
        return (json.loads(program.stdout.readline())["answered_at_ns"] - began) / 1e6


def python_call_us(address, operation):
    """The median of many calls on one session of this program."""
    with lockstep.session(address, job="job") as session:
        session.kv.set("key", VALUE)
        times = []
        for _ in range(CALLS):
            began = time.perf_counter()
            operation(session.kv)
            times.append(time.perf_counter() - began)
        return statistics.median(times) * 1e6


def python_open_us(address):
    """Of opening one session after the other, each."""
    began = time.perf_counter()
    sessions = [lockstep.session(address, job="job") for _ in range(OPENED)]
    took = time.perf_counter() - began
    for session in sessions:
        session.close()
    return took / OPENED * 1e6


def handshake_us(server, kind):
    """Of a connection that says nothing; with TLS, by Python's own."""
    host, port = server.listen.rsplit(":", 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["lockstep/1"])
    times = []
    for _ in range(HANDSHAKES):
        began = time.perf_counter()
        with contextlib.closing(socket.create_connection((host, int(port)))) as plain:
            if kind == "TLS":
                plain = context.wrap_socket(plain)
            times.append(time.perf_counter() - began)
            plain.close()
    return statistics.median(times) * 1e6


def rows(clients):
    """name: (server, kind of address) -> figure."""
    return {
        "set of 64 bytes, us": lambda s, k: figures(s.addresses[k], "set", 1, CALLS)["p50_us"],
        "get of 64 bytes, us": lambda s, k: figures(s.addresses[k], "get", 1, CALLS)["p50_us"],
        "sets of 64 clients at once, 1/s":
            lambda s, k: figures(s.addresses[k], "set", 64, 300)["per_second"],
        "barrier of 64, us": lambda s, k: figures(s.addresses[k], "barrier", 64, 30)["p50_us"],
        "handshake alone (Python), us": handshake_us,
        "set from Python, us": lambda s, k: python_call_us(
            s.addresses[k], lambda kv: kv.set("key", VALUE)),
        "get from Python, us": lambda s, k: python_call_us(
            s.addresses[k], lambda kv: kv.get("key")),
        "session opened from Python, us": lambda s, k: python_open_us(s.addresses[k]),
        f"{clients} members connected, ms":
            lambda s, k: figures(s.addresses[k], "connect", clients)["p50_us"] / 1e3,
        f"{clients} reconnected after a restart, ms":
            lambda s, k: reconnect_ms(s, k, clients),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--clients", type=int, default=1000, help="connected at once")
    parser.add_argument("--only", nargs="*", default=[], help="rows with one of these words")
    options = parser.parse_args()
    if not (BIN / "coordination_bench").exists():
        parser.error("build the clients first: cmake --build --preset release --target "
                     "coordination_bench")
    print(f"load before: {os.getloadavg()[0]:.2f}")
    print(f"{'':42}{'plain':>10}{'TLS':>10}{'ratio':>8}")
    for name, measure in rows(options.clients).items():
        if options.only and not any(word in name for word in options.only):
            continue
        found = {"plain": [], "TLS": []}
        for _ in range(options.repetitions):
            for kind, values in found.items():
                with Server(keeps="restart" in name) as server:
                    values.append(measure(server, kind))
        before, after = (statistics.median(values) for values in found.values())
        print(f"{name:42}{before:10.1f}{after:10.1f}{after / before:8.2f}", flush=True)


if __name__ == "__main__":
    main()
