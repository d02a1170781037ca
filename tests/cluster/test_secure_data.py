"""Tensors and elements between hosts, and a stranger who connects to members and workers."""

import base64
import os
import re
import socket

import pytest

from commands import DEADLINE_S, LOCKSTEP
from test_secure_hosts import JOB, PYTHON, Capture, Cluster

# What is worth stealing; long values go over connections of their own.
SHORT, LONG = "tensor-to-hide-0815", "long-tensor-to-hide-4711-"

# Sends a short value and a long one both ways, waits for the file, and sends once more.
MEMBER = f"""
import os, sys, time, lockstep
me = lockstep.join(timeout=60)
other = 1 - me.member
# These hosts are one machine, where members would read each other's memory.
rendezvous = me.rendezvous(process_memory=False)
def exchange(number):
    with rendezvous.step(number) as step:
        step.send("short", b"{SHORT}", to=other)
        step.send("long", b"{LONG}" * 40000, to=other)
        assert bytes(step.recv("short", source=other, timeout=60)) == b"{SHORT}"
        assert bytes(step.recv("long", source=other, timeout=60)) == b"{LONG}" * 40000
        me.barrier("over", timeout=60)
exchange(1)
with open("/proc/net/tcp") as table:  # of this network namespace: of this host
    listens = [line.split()[1].split(":") for line in table if " 0A " in line]
# The launcher listens at loopback addresses, too, for stock clients.
ports = [int(port, 16) for place, port in listens if not place.endswith("7F")]
print("listens", *ports, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
exchange(2)
me.leave(timeout=60)
"""


@pytest.fixture(scope="module")
def cluster(hosts, tmp_path_factory):
    made = Cluster(hosts, tmp_path_factory.mktemp("data"))
    yield made
    made.server.process.terminate()
    made.server.end()


def say_to(host, address, port, sent):
    """All that a connection of that host hears."""
    with host.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(DEADLINE_S)
        probe.connect((address, port))
        probe.sendall(sent)
        heard = b""
        try:
            while piece := probe.recv(4096):
                heard += piece
        except ConnectionResetError:
            pass
        return heard


def ports_of(launcher):
    return [int(port) for port in launcher.wait_for(r"listens(( \d+)+)")[0].group(1).split()]


def test_a_stranger_gets_no_tensor_and_disturbs_none(cluster, tmp_path):
    over = tmp_path / "over"
    launchers = cluster.run_job(MEMBER, over)
    for name, launcher in zip(("one", "two"), launchers):
        for port in ports_of(launcher):
            for sent in (b"LSTP" + bytes(200), bytes(2000), os.urandom(200)):
                heard = say_to(cluster.hosts["stranger"], cluster.hosts[name].address, port, sent)
                assert JOB.encode() not in heard and SHORT.encode() not in heard
                # A challenge, or nothing, where the launcher or another program listens.
                assert len(heard) <= 40 or b"TLS" in heard, heard
    over.touch()
    for launcher in launchers:
        assert launcher.end() == 0, launcher.lines
        assert "did not prove that it comes from a member" in launcher.text()


@pytest.mark.parametrize("encrypt", [False, True])
def test_tensors_are_read_along_only_where_they_are_not_encrypted(cluster, tmp_path, encrypt):
    over = tmp_path / "over"
    over.touch()
    options = ["--encrypt-data"] if encrypt else []
    with Capture(cluster.hosts["one"]) as captured:
        for launcher in cluster.run_job(MEMBER, over, options=options):
            assert launcher.end() == 0, launcher.lines
    assert (SHORT.encode() in captured.bytes) != encrypt
    assert (LONG.encode() in captured.bytes) != encrypt
    if encrypt:
        assert JOB.encode() not in captured.bytes and b"trainer" not in captured.bytes
        assert b"LSPROOF1" not in captured.bytes


def read_range(cluster, host, name, **environment):
    """What a consumer there reads of a range of 1000."""
    program = (f"import sys; from lockstep import data\n"
               f"reader = data.range(1000).batch(100).read({cluster.join!r}, name={name!r}, timeout=60)\n"
               f"print('sum', sum(int(sum(batch)) for batch in reader), flush=True)\n")
    asked = cluster.hosts[host].run(PYTHON, "-c", program,
                                    LOCKSTEP_TOKEN_FILE=str(cluster.token("task")), **environment)
    return asked.end(), asked.text()


def test_a_worker_serves_its_dispatchers_consumers_by_tls_and_nobody_else(cluster):
    worker = cluster.hosts["one"].run(
        LOCKSTEP, "worker", "--dispatcher", cluster.join, "--listen",
        f"{cluster.hosts['one'].address}:0", LOCKSTEP_TOKEN_FILE=str(cluster.token("worker", job="")))
    address = worker.wait_for(r"answers at (\S+)")[0].group(1)
    port = int(address.rsplit(":", 1)[1])
    with Capture(cluster.hosts["one"]) as captured:
        code, said = read_range(cluster, "two", "of-a-consumer-to-hide")
    assert code == 0 and "sum 499500" in said, said
    assert b"of-a-consumer-to-hide" not in captured.bytes and b"LSTP" not in captured.bytes

    # In clear; by TLS without the secret; with a token of the server's.
    code, said = cluster.ask("stranger", "status", address=address)
    assert code != 0 and "TLS only" in said
    fingerprint = fingerprint_at(cluster.hosts["stranger"], address)
    for token in (None, cluster.token("operator", job="")):
        code, said = cluster.ask("stranger", "status", token=token,
                                 address=f"lockstep://{address}#sha256={fingerprint}")
        assert code != 0 and "this worker serves consumers to which its dispatcher" in said, said
    heard = say_to(cluster.hosts["stranger"], cluster.hosts["one"].address, port, bytes(500))
    assert b"range" not in heard
    code, said = read_range(cluster, "two", "again")
    assert code == 0 and "sum 499500" in said, said
    worker.process.terminate()
    assert worker.end() == 0, worker.lines


def fingerprint_at(host, address):
    """Of the certificate that a stranger is shown there."""
    program = ("import hashlib, socket, ssl, sys\n"
               "context = ssl.create_default_context()\n"
               "context.check_hostname, context.verify_mode = False, ssl.CERT_NONE\n"
               "context.set_alpn_protocols(['lockstep/1'])\n"
               f"name, port = {address!r}.rsplit(':', 1)\n"
               "with socket.create_connection((name, int(port)), timeout=60) as plain:\n"
               "    with context.wrap_socket(plain) as secure:\n"
               "        print('of', hashlib.sha256(secure.getpeercert(True)).hexdigest(), flush=True)\n")
    asked = host.run(PYTHON, "-c", program)
    assert asked.end() == 0, asked.lines
    return re.search("of ([0-9a-f]{64})", asked.text()).group(1)


def test_a_worker_that_calls_its_dispatcher_in_clear_is_refused(cluster):
    refused = cluster.hosts["one"].run(LOCKSTEP, "worker", "--dispatcher", cluster.address,
                                       "--listen", f"{cluster.hosts['one'].address}:0")
    assert refused.end() == 2
    assert "join string" in refused.text() and "--insecure-network" in refused.text()


def test_no_secret_is_shown(cluster, tmp_path):
    """Of members and of the server: what `status`, `why`, events and bundles say."""
    over = tmp_path / "over"
    launchers = cluster.run_job(MEMBER, over)
    for launcher in launchers:
        launcher.wait_for("listens")
    operator = cluster.token("operator", job="")
    code, cards = cluster.ask("one", "kv", "list", JOB, "lockstep/rendezvous/card", "-o", "json",
                              token=operator)
    assert code == 0, cards
    secrets = secrets_in(cards)
    assert len(secrets) == 2
    shown = ""
    for words in (("status", JOB, "-o", "json"), ("why", JOB), ("events", JOB), ("rendezvous", JOB)):
        shown += cluster.ask("one", *words, token=operator)[1]
    over.touch()
    for launcher in launchers:
        assert launcher.end() == 0, launcher.lines
        shown += launcher.text()
    shown += cluster.server.text()
    for secret in secrets:
        assert secret.hex() not in shown and base64.b64encode(secret)[:-2].decode() not in shown


def secrets_in(listed):
    """The secrets in the cards that `lockstep kv list -o json` shows: field 18, of 32 bytes."""
    found = []
    for card in re.findall(r'"base64": *"([^"]+)"', listed):
        found += re.findall(rb"\x92\x01\x20(.{32})", base64.b64decode(card), re.DOTALL)
    return found
