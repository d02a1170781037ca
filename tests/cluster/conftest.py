"""Three hosts and a stranger: network namespaces on a bridge of their own."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import socket
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from commands import Command, clean_environment  # noqa: E402 (tests/e2e is no package)

_numbers = itertools.count()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def why_not():
    """Why there can be no hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    name = f"lstry{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "try", "type", "bridge")
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces here: {getattr(error, 'stderr', error)}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return ""


@dataclasses.dataclass
class Host:
    """A host of the cluster, as far as its network goes; its files are those of this machine."""

    namespace: str
    address: str
    switch: str  # the namespace of the bridge
    port: str    # the host's end there

    def run(self, *command, **environment):
        """Starts a program there."""
        return Command("ip", "netns", "exec", self.namespace, *command,
                       env=clean_environment(**environment))

    def run_as(self, name, *command, **environment):
        """The same, where that is what the host is called."""
        return self.run("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, *command,
                        **environment)

    def pull_cable(self):
        ip("-n", self.switch, "link", "set", self.port, "down")

    def plug_cable_in(self):
        ip("-n", self.switch, "link", "set", self.port, "up")

    def socket(self, *arguments):
        """A socket of that network. On a thread of its own, since a thread is in one network."""
        made = []

        def make():
            with open(f"/run/netns/{self.namespace}", encoding="ascii") as file:
                _setns(file.fileno())
            made.append(socket.socket(*arguments))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]


def _setns(descriptor):
    """os.setns of Python 3.12."""
    import ctypes
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def named(host):
    """There this machine's name means the host's own address, as on a real one: gloo listens at it.

    `ip netns exec` puts the files of /etc/netns/NAMESPACE over those of /etc."""
    folder = pathlib.Path("/etc/netns") / host.namespace
    folder.mkdir(parents=True)
    file = folder / "hosts"
    file.write_text(f"127.0.0.1 localhost\n{host.address} {socket.gethostname()}\n")
    try:
        yield
    finally:
        file.unlink()
        folder.rmdir()


@pytest.fixture(scope="module")
def hosts():
    """head, one, two, stranger: all reach each other, and nobody else."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    prefix = f"ls{os.getpid()}x{next(_numbers)}"
    switch = f"{prefix}sw"
    names = ["head", "one", "two", "stranger"]
    with contextlib.ExitStack() as made:
        def namespace(name):
            ip("netns", "add", name)
            made.callback(subprocess.run, ["ip", "netns", "del", name], check=False)

        namespace(switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        found = {}
        for number, name in enumerate(names, start=1):
            host = Host(f"{prefix}{name}", f"10.91.7.{number}", switch, f"port{number}")
            namespace(host.namespace)
            ip("-n", switch, "link", "add", host.port, "type", "veth", "peer", "name", "eth0",
               "netns", host.namespace)
            ip("-n", switch, "link", "set", host.port, "master", "bridge", "up")
            ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", host.namespace, "link", "set", "eth0", "up")
            ip("-n", host.namespace, "link", "set", "lo", "up")
            made.enter_context(named(host))
            found[name] = host
        yield found
