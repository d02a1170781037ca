"""The two servers that every interop test runs against: jaxlib's own, and Lockstep."""

import json
import os
import pathlib
import signal
import subprocess
import time

from jaxlib import _jax

from listening import listening_port
from processes import LIMIT_S, Process

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))

OLDER_PYTHON = ROOT / "build" / "peers" / "jax-0.9.2" / "bin" / "python"

JOB = "t"


class _Service:
    """Runs in the reference server's process."""

    def __init__(self, size, options):
        self._service = _jax.get_distributed_runtime_service("127.0.0.1:0", size, **options)

    def port(self):
        return listening_port()

    def shutdown(self):
        self._service.shutdown()


class JaxlibServer:
    """jaxlib's own service, as process 0 of a JAX job runs it, in a process by itself."""

    name = "jaxlib"

    def __init__(self, size, folder, *, heartbeat_timeout=100, register_timeout=3600,
                 shutdown_timeout=300, recoverable=False):
        self._process = Process("server-jaxlib", _Service, folder, size, {
            "heartbeat_timeout": heartbeat_timeout,
            "cluster_register_timeout": register_timeout,
            "shutdown_timeout": shutdown_timeout,
            "recoverable": recoverable,
        })
        self.pid = self._process.pid
        self.address = f"127.0.0.1:{self._process.call('port')}"

    def leave(self):
        """Ends in order, as process 0 does at exit."""
        self._process.call("shutdown")

    def end(self):
        self._process.end()

    def alive(self):
        return not self._process._ended


class LockstepServer:
    """`lockstep-server` with one job."""

    name = "lockstep"

    def __init__(self, size, folder, *, heartbeat_timeout=100, register_timeout=3600,
                 shutdown_timeout=300, recoverable=False, roles=None, more=()):
        job_options = ["--recoverable", JOB] if recoverable else []
        folder = pathlib.Path(folder)
        ready = folder / "ready.json"
        with open(folder / "server-lockstep.log", "ab") as log:
            self._process = subprocess.Popen(
                [BIN / "lockstep-server", "--listen", "127.0.0.1:0", "--job", f"{JOB}={roles or size}",
                 "--ephemeral", "--ready-file", ready,
                 "--heartbeat-timeout", f"{heartbeat_timeout}s",
                 "--register-timeout", f"{register_timeout}s",
                 "--shutdown-timeout", f"{shutdown_timeout}s", *job_options, *more],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self._process.pid
        told = self._wait_ready(ready)
        self.address = told["jobs"][JOB]["grpc"]
        self.store = told["jobs"][JOB]["store"]
        self.listen = told["listen"]

    def _wait_ready(self, ready):
        # A file has no wake-up that the standard library can wait for; this is the only poll.
        deadline = time.monotonic() + LIMIT_S
        while not ready.exists():
            assert self._process.poll() is None, "lockstep-server ended; see server-lockstep.log"
            assert time.monotonic() < deadline, f"no {ready} within {LIMIT_S} s"
            time.sleep(0.005)
        return json.loads(ready.read_text())

    def ask(self, *arguments):
        """What `lockstep` prints."""
        return subprocess.run([BIN / "lockstep", *arguments, "--coordinator", self.listen],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout

    def status(self):
        """The job as `lockstep status -o json` shows it."""
        answer = subprocess.run(
            [BIN / "lockstep", "status", "--coordinator", self.listen, "-o", "json"],
            capture_output=True, text=True, timeout=LIMIT_S, check=True)
        return next(job for job in json.loads(answer.stdout)["jobs"] if job["job"] == JOB)

    def leave(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(LIMIT_S)

    def end(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(LIMIT_S)

    def alive(self):
        return self._process.poll() is None


class OlderJaxlibServer:
    """The service of jaxlib 0.9.2, of which the older family is, in that version's interpreter."""

    name = "jaxlib-0.9.2"

    def __init__(self, size, folder, *, heartbeat_timeout=100, register_timeout=3600,
                 shutdown_timeout=300, recoverable=False):
        folder = pathlib.Path(folder)
        options = {"heartbeat_timeout": heartbeat_timeout, "shutdown_timeout": shutdown_timeout,
                   "cluster_register_timeout": register_timeout, "recoverable": recoverable}
        with open(folder / "server-jaxlib-0.9.2.log", "ab") as log:
            self._process = subprocess.Popen(
                [OLDER_PYTHON, HERE / "older_server.py", str(size), json.dumps(options)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.pid = self._process.pid
        self.address = f"127.0.0.1:{int(self._process.stdout.readline())}"

    def end(self):
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._process.stdin.close()
        self._process.stdout.close()


OLDER_SERVERS = {OlderJaxlibServer.name: OlderJaxlibServer}
SERVERS = {server.name: server for server in (JaxlibServer, LockstepServer)}
