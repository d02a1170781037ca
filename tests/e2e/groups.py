"""Members of etcd, and servers that share a state in it, for the end-to-end tests."""

import contextlib
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command

ETCD = ROOT / "build" / "peers" / "etcd" / "usr" / "bin" / "etcd"
ETCDCTL = ETCD.with_name("etcdctl")


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Etcd:
    """So many members on this host, with their data in memory."""

    def __init__(self, count=3):
        ports = free_ports(2 * count)
        self._clients, self._peers = ports[:count], ports[count:]
        self._folder = tempfile.mkdtemp(prefix="lockstep-etcd-", dir="/dev/shm")
        self._members = [None] * count

    def _url(self, port):
        return f"http://127.0.0.1:{port}"

    def start(self, member):
        cluster = ",".join(f"m{i}={self._url(port)}" for i, port in enumerate(self._peers))
        client, peer = self._url(self._clients[member]), self._url(self._peers[member])
        self._members[member] = subprocess.Popen(
            [ETCD, f"--name=m{member}", f"--data-dir={self._folder}/m{member}",
             f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
             f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
             f"--initial-cluster={cluster}", "--logger=zap", "--log-level=error"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, member):
        self._members[member].kill()
        self._members[member].wait()

    def signal(self, member, number):
        self._members[member].send_signal(number)

    def leader(self):
        """Which member leads; waits until one does."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for member, port in enumerate(self._clients):
                answer = subprocess.run(
                    [ETCDCTL, f"--endpoints=127.0.0.1:{port}", "--command-timeout=2s",
                     "endpoint", "status", "-w", "json"], capture_output=True, text=True, check=False)
                if answer.returncode != 0:
                    continue
                status = json.loads(answer.stdout)[0]["Status"]
                if status["header"]["member_id"] == status.get("leader"):
                    return member
            time.sleep(0.1)
        raise AssertionError("no member of etcd leads")

    def urls(self):
        return [self._url(port) for port in self._clients]

    def place(self, prefix):
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._clients)
        return f"etcd://{hosts}/{prefix}"

    def __len__(self):
        return len(self._members)

    def __enter__(self):
        for member in range(len(self._members)):
            self.start(member)
        self.leader()
        return self

    def __exit__(self, *_):
        for member in self._members:
            member.kill()
            member.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class Group:
    """Servers that share a state."""

    def __init__(self, place, folder, *arguments, count=2):
        self._place = place
        self._folder = folder
        self._arguments = arguments
        self._ports = free_ports(count)
        self._servers = [None] * count
        self.address = ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def address_of(self, server):
        return f"127.0.0.1:{self._ports[server]}"

    def start(self, server, *arguments):
        self._servers[server] = Command(
            LOCKSTEP, "serve", "--listen", self.address_of(server), "--state", self._place,
            "--ready-file", self._folder / f"ready-{server}.json", *self._arguments, *arguments)

    def leader(self):
        """Which server leads and is not stopped; waits until one does."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for server, command in enumerate(self._servers):
                ready = self._folder / f"ready-{server}.json"
                if command is None or command.process.poll() is not None or not ready.exists():
                    continue
                with contextlib.suppress(ValueError):
                    facts = json.loads(ready.read_text())
                    if facts["pid"] == command.pid and self._runs(command) \
                            and self._serves(facts["listen"]):
                        return server
            time.sleep(0.005)
        raise AssertionError("no server leads:\n" + self.text())

    def _runs(self, command):
        """It is not stopped: then the kernel still takes connections for it."""
        status = pathlib.Path(f"/proc/{command.pid}/stat").read_text(encoding="utf-8")
        return status.rsplit(")", 1)[1].split()[0] != "T"

    def _serves(self, address):
        host, port = address.rsplit(":", 1)
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex((host, int(port))) == 0

    def kill(self, server):
        self.signal(server, signal.SIGKILL)
        self._servers[server].end()

    def end(self, server):
        """Asks it to end, and waits for that."""
        self.signal(server, signal.SIGTERM)
        return self._servers[server].end()

    def signal(self, server, number):
        self._servers[server].signal(number)
        while number == signal.SIGSTOP and self._runs(self._servers[server]):
            time.sleep(0.001)

    def wait_for(self, server, pattern, count=1):
        return self._servers[server].wait_for(pattern, count)

    def text(self, server=None):
        servers = self._servers if server is None else [self._servers[server]]
        return "\n".join(each.text() for each in servers if each is not None)

    def __enter__(self):
        self.start(0, "--new-state")
        assert self.leader() == 0
        for server in range(1, len(self._servers)):
            self.start(server)
            self.wait_for(server, r"standing by at")
        return self

    def __exit__(self, *_):
        for server in filter(None, self._servers):
            server.__exit__()
