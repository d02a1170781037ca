"""What bench/rendezvous/run.py compares: how each program is started, and what it can do.

A measurement is (shape, bytes, rounds). Shapes: `ask`, one request after the other; `pause`, the
same with a producer that sleeps for a millisecond before it answers; `stream`, a few requests under
way at a time. Each program prints one line of JSON, ucx_perftest its own table.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
PEERS = pathlib.Path(__file__).resolve().parent / "peers"
# The first that has torch: `scripts/setup.sh frameworks` makes it.
PYTHON = pathlib.Path(os.environ.get("LOCKSTEP_TORCH_PYTHON",
                                     ROOT / "build" / "peers" / "frameworks" / "bin" / "python"))
LIMIT_S = 40
PAUSE_US = 1000
AHEAD = 4


class Absent(Exception):
    """This program is not here, or does not work here."""


def run(command, **more):
    # In a group of its own: some fork, and both must end when one hangs.
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True, **more)
    except FileNotFoundError as error:
        raise Absent(f"{error.filename} is not there") from error
    name = pathlib.Path(command[0]).name
    try:
        out, said = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise Absent(f"{name} took more than {LIMIT_S} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        raise Absent(f"{name}: {said.strip()[-300:]}")
    return out


class Program:
    """One line of the tables. `floor`, `ours` or `peer`."""

    shapes = ("ask", "stream")
    zero_copy = False  # its time says nothing of bytes per second

    def __init__(self, name, group):
        self.name, self.group = name, group

    def measure(self, shape, size, rounds):
        raise NotImplementedError


class Limits(Program):
    def __init__(self, name, *options, shapes=("ask", "pause", "stream")):
        super().__init__(name, "floor")
        self.options, self.shapes = options, shapes

    def measure(self, shape, size, rounds):
        more = {"ask": [], "pause": ["--pause-us", str(PAUSE_US)],
                "stream": ["--ahead", str(AHEAD)]}[shape]
        return json.loads(run([BIN / "limits_bench", *self.options, *more,
                               "--bytes", str(size), "--rounds", str(rounds)]))


class Server:
    """One for the whole run: it only tells the two about each other."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        ready = pathlib.Path(self.folder.name) / "ready.json"
        self.process = subprocess.Popen(
            [BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--ready-file", ready,
             "--ephemeral"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not ready.exists():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("lockstep-server did not start")
            time.sleep(0.02)
        self.address = json.loads(ready.read_text(encoding="utf-8"))["listen"]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


class Lockstep(Program):
    """Not pinned: who may run on one processor only does not spin."""

    shapes = ("ask", "pause", "stream")
    jobs = itertools.count()

    def __init__(self, name, server, *options, zero_copy=False):
        super().__init__(name, "ours")
        self.server, self.options, self.zero_copy = server, options, zero_copy

    def measure(self, shape, size, rounds):
        more = {"ask": [], "pause": ["--pause-us", str(PAUSE_US)], "stream": ["--stream"]}[shape]
        command = [BIN / "rendezvous_bench", "--address", self.server.address,
                   "--job", f"pair-{next(self.jobs)}", "--bytes", str(size),
                   "--rounds", str(rounds), *self.options, *more]
        with subprocess.Popen([*command, "--index", "0"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as producer:
            try:
                return json.loads(run([*command, "--index", "1"]))
            finally:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    producer.wait(5)
                producer.kill()


class Alone(Program):
    """A value to oneself."""

    shapes = ("ask",)

    def __init__(self, name, server):
        super().__init__(name, "ours")
        self.server = server
        self.zero_copy = True

    def measure(self, shape, size, rounds):
        return json.loads(run([BIN / "rendezvous_bench", "--address", self.server.address, "--job",
                               f"alone-{next(Lockstep.jobs)}", "--alone", "--bytes", str(size),
                               "--rounds", str(rounds)]))


class Grpc(Program):
    shapes = ("ask",)

    def __init__(self, name, *options):
        super().__init__(name, "peer")
        self.options = options

    def measure(self, shape, size, rounds):
        return json.loads(run([BIN / "grpc_peer", *self.options, "--bytes", str(size),
                               "--rounds", str(rounds)]))


class Gloo(Program):
    def __init__(self, name):
        super().__init__(name, "peer")

    def measure(self, shape, size, rounds):
        more = ["--ahead", str(AHEAD)] if shape == "stream" else []
        return json.loads(run([PYTHON, PEERS / "gloo_peer.py", *more, "--bytes", str(size),
                               "--rounds", str(rounds)]).splitlines()[-1])


class Mpi(Program):
    def __init__(self, name, btl):
        super().__init__(name, "peer")
        self.btl = btl

    def measure(self, shape, size, rounds):
        ahead = AHEAD if shape == "stream" else 1
        return json.loads(run(
            ["mpirun", "--allow-run-as-root", "-np", "2", "--bind-to", "core",
             "--mca", "plm", "isolated", "--mca", "pml", "ob1", "--mca", "btl", f"{self.btl},self",
             BIN / "mpi_peer", str(size), str(rounds), str(ahead)]))


class Ucx(Program):
    """In the shapes of ucx_perftest: one buffer that is used again, and one direction at a time.
    `ask` is the sum of two of its latencies, of 8 bytes one way and N the other."""

    ports = itertools.count(13400)

    def __init__(self, name, transports, latency, rate):
        super().__init__(name, "peer")
        self.transports, self.latency, self.rate = transports, latency, rate

    def measure(self, shape, size, rounds):
        if shape == "stream":
            return {"gb_per_s": self.perftest(self.rate, size, rounds)["gb_per_s"]}
        there = self.perftest(self.latency, 8, 4000)["p50_us"]
        back = there if size == 8 else self.perftest(self.latency, size, rounds)["p50_us"]
        return {"p50_us": there + back}

    def perftest(self, test, size, rounds):
        if not shutil.which("ucx_perftest"):
            raise Absent("ucx_perftest is not there (Debian's ucx-utils)")
        port = str(next(self.ports))
        environment = {**os.environ, "UCX_TLS": self.transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
        with subprocess.Popen(["ucx_perftest", "-c", "0", "-p", port], env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                wait_until_listening(int(port))
                out = run(["ucx_perftest", "-c", "1", "-p", port, "127.0.0.1", "-t", test, "-s",
                           str(size), "-n", str(rounds), "-w", str(max(1, rounds // 10)), "-f"],
                          env=environment)
            finally:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(5)
                server.kill()
        try:
            _, p50, _, _, rate, *_ = map(float, out.splitlines()[-1].split())
        except ValueError as error:
            raise Absent(f"ucx_perftest: {out[-200:]}") from error
        return {"p50_us": p50, "gb_per_s": rate * 2**20 * 1e-9}  # it says MB and means MiB


def wait_until_listening(port):
    """By the kernel's table: connecting would take the place of the client."""
    wanted = f":{port:04X}"
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for name in ("tcp", "tcp6"):
            lines = pathlib.Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
            if any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in lines):
                return
        time.sleep(0.01)
    raise Absent("ucx_perftest did not begin to listen")


def programs(server):
    copies = ("ask",)
    return [
        Limits("memcpy, 4 KiB pages", "--mode", "memcpy", shapes=copies),
        Limits("memcpy, huge pages", "--mode", "memcpy", "--huge", shapes=copies),
        Limits("past the caches, 4 KiB pages", "--mode", "streamed", shapes=copies),
        Limits("past the caches, huge pages", "--mode", "streamed", "--huge", shapes=copies),
        Limits("unix socket", "--mode", "unix"),
        Limits("unix socket, polled", "--mode", "unix", "--poll"),
        Limits("TCP", "--mode", "tcp"),
        Limits("TCP, polled", "--mode", "tcp", "--poll"),
        Alone("lockstep, one process", server),
        Lockstep("lockstep, made in the arena", server, zero_copy=True),
        Lockstep("lockstep, private", server, "--private"),
        Lockstep("lockstep, private, huge pages", server, "--private", "--huge"),
        Lockstep("lockstep, arena, into place", server, "--into"),
        Lockstep("lockstep, private, into place", server, "--private", "--into"),
        Lockstep("lockstep, CMA", server, "--private", "--cma"),
        Lockstep("lockstep, TCP", server, "--private", "--tcp"),
        Lockstep("lockstep, TCP, into place", server, "--private", "--tcp", "--into"),
        Gloo("gloo (torch), TCP"),
        Grpc("gRPC, bytes field"),
        Grpc("gRPC, slices", "--slices"),
        Ucx("UCX tag, posix+cma", "posix,cma,self", "tag_lat", "tag_bw"),
        Ucx("UCX AM, posix+cma", "posix,cma,self", "ucp_am_lat", "ucp_am_bw"),
        Ucx("UCX tag, TCP", "tcp,self", "tag_lat", "tag_bw"),
        Ucx("UCX AM, TCP", "tcp,self", "ucp_am_lat", "ucp_am_bw"),
        Mpi("Open MPI, vader", "vader"),
        Mpi("Open MPI, TCP", "tcp"),
    ]
