"""A server on one host, a job on two others, and a stranger on a fourth: what docs/security.md says."""

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command

PYTHON = ROOT / "build" / "venv" / "bin" / "python"
FRAMEWORKS = ROOT / "build" / "peers" / "frameworks" / "bin" / "python"
# What nobody may read on the wire.
KEY, VALUE, JOB = "name-of-a-key-to-hide", "value-to-hide-4711", "job-to-hide"

MEMBER = f"""
import sys, lockstep
me = lockstep.join(timeout=60)
me.kv.set("{KEY}/%d" % me.member, b"{VALUE}")
me.barrier("barrier-to-hide", timeout=60)
assert len(me.kv.list("{KEY}")) == 2
print("member", me.member, "sees both", flush=True)
me.leave(timeout=60)
"""

# Uses what it may, and tries what it may not.
TASK = """
import lockstep
me = lockstep.join(timeout=60)
other = 1 - me.member
with me.rendezvous():
    me.kv.get("lockstep/rendezvous/card/%d" % me.member)
me.kv.set("mine/%d" % me.member, b"v")
for key in ("_stacks/question", "_mine", "lockstep/rendezvous/card/%d" % other):
    try:
        me.kv.set(key, b"x")
        print("wrote", key, flush=True)
    except lockstep.PermissionDenied as error:
        assert error.reason == "not_permitted", error
try:
    me.kv.get("_stacks/question")
    print("read the question", flush=True)
except lockstep.PermissionDenied:
    pass
assert not [entry.key for entry in me.kv.list("") if entry.key.startswith("_")]
me.barrier("tried", timeout=60)
print("member", me.member, "was held to its own", flush=True)
me.leave(timeout=60)
"""

WAITING_MEMBER = """
import os, sys, time, lockstep
me = lockstep.join(timeout=60)
me.barrier("begun", timeout=60)
print("begun", flush=True)
while not os.path.exists(sys.argv[1]):
    me.kv.set("at/%d" % me.member, b"here")
    time.sleep(0.1)
me.barrier("over", timeout=60)
print("over", flush=True)
me.leave(timeout=60)
"""


def lockstep(*words):
    """Runs the command on this machine, for what needs no network; its output."""
    return subprocess.run([str(LOCKSTEP), *map(str, words)], capture_output=True, text=True,
                          check=True, timeout=DEADLINE_S).stdout


# What a program of any language does with the page of a server: AUTHORITY URL [TOKEN-FILE].
GET_PAGE = """
import ssl, sys, urllib.error, urllib.request
authority, url, *token = sys.argv[1:]
asked = urllib.request.Request(url)
if token:
    asked.add_header("Authorization", "Bearer " + open(token[0]).read().strip())
try:
    context = ssl.create_default_context(cafile=authority)
    print(200, urllib.request.urlopen(asked, timeout=60, context=context).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


class Cluster:
    """A server at the head, and tokens for it."""

    def __init__(self, hosts, folder, *options):
        self.hosts, self.folder, self.options = hosts, folder, options
        self.auth = folder / "auth"
        made = hosts["head"].run(LOCKSTEP, "auth", "init", self.auth)
        assert made.end() == 0, made.lines
        self.address = f"{hosts['head'].address}:7070"
        self.server = None
        self.start()

    def start(self, program=LOCKSTEP):
        ready = self.folder / "ready.json"
        self.server = self.hosts["head"].run(
            program, "serve", "--listen", self.address, "--auth", self.auth, "--state",
            self.folder / "state", "--ready-file", ready, "--job", f"{JOB}=2", "--job", "other=1",
            "--http", f"{self.hosts['head'].address}:9070", *self.options)
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists() or json.loads(ready.read_text())["pid"] != self.server.pid:
            assert time.monotonic() < deadline and self.server.process.poll() is None, \
                self.server.text()
            time.sleep(0.01)
        self.ready = json.loads(ready.read_text())
        self.join = self.ready["join"]

    def token(self, role, job=JOB, lasts="1h", auth=None):
        path = self.folder / f"{role}-{job}-{lasts}-{(auth or self.auth).name}.token"
        lockstep("token", "create", "--auth", auth or self.auth, "--role", role,
                 *(["--job", job] if job else []), "--for", lasts, "--to", path)
        return path

    def run_job(self, program, *arguments, python=PYTHON, options=(), **environment):
        """Starts both launchers."""
        token = self.token("launch")
        return [self.hosts[name].run(
            LOCKSTEP, "run", "--coordinator", self.join, "--job", JOB, "--nnodes", 2,
            "--nproc-per-node", 1, *options, "--", python, "-c", program, *arguments,
            LOCKSTEP_TOKEN_FILE=str(token), **environment) for name in ("one", "two")]

    def ask(self, host, *words, token=None, address=None):
        """(exit code, output) of a command there."""
        asked = self.hosts[host].run(LOCKSTEP, *words, "--coordinator", address or self.join,
                                     **({"LOCKSTEP_TOKEN_FILE": str(token)} if token else {}))
        return asked.end(), "\n".join(asked.lines)


@pytest.fixture(scope="module")
def cluster(hosts, tmp_path_factory):
    made = Cluster(hosts, tmp_path_factory.mktemp("cluster"))
    yield made
    made.server.process.terminate()
    made.server.end()


class Capture:
    """All packets between a host and others while its block runs."""

    def __init__(self, host):
        self._socket = host.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.bind(("eth0", 3))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self.bytes = bytearray()

    def _read(self):
        while not self._over.is_set():
            if select.select([self._socket], [], [], 0.1)[0]:
                self.bytes += self._socket.recv(1 << 16)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._socket.close()


def test_a_job_of_two_hosts_runs_and_nobody_can_read_along(cluster):
    token = cluster.token("launch").read_text().strip()
    with Capture(cluster.hosts["head"]) as captured:
        for launcher in cluster.run_job(MEMBER):
            assert launcher.end() == 0, launcher.lines
            assert any("sees both" in line for line in launcher.lines)
    assert len(captured.bytes) > 10_000
    for secret in (KEY, VALUE, JOB, "barrier-to-hide", token, token[:60], "LSTP", "task/0"):
        assert secret.encode() not in captured.bytes, secret


# Unchanged programs: they know nothing of lockstep, and their clients of neither TLS nor tokens.
STOCK_JAX = f"""
import sys
import jax
jax.distributed.initialize()
from jax._src import distributed
from jax.experimental import multihost_utils
import numpy
client = distributed.global_state.client
client.key_value_set("{KEY}/%d" % jax.process_index(), "{VALUE}")
assert client.blocking_key_value_get("{KEY}/%d" % (1 - jax.process_index()), 60_000) == "{VALUE}"
for key in ("_stacks/question", "lockstep/rendezvous/card/%d" % (1 - jax.process_index())):
    try:
        client.key_value_set(key, "x", allow_overwrite=True)
        print("wrote", key, flush=True)
        sys.exit(1)
    except jax.errors.JaxRuntimeError as error:
        assert "PERMISSION_DENIED" in str(error), error
client.wait_at_barrier("barrier-to-hide", 60_000)
print("sum", int(multihost_utils.process_allgather(numpy.array([jax.process_index() + 1])).sum()),
      flush=True)
jax.distributed.shutdown()
"""

STOCK_TORCH = f"""
import torch, torch.distributed as dist
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
store.set("{KEY}/%d" % dist.get_rank(), "{VALUE}")
assert store.get("{KEY}/%d" % (1 - dist.get_rank())) == b"{VALUE}"
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print("sum", int(total[0]), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("program", [STOCK_JAX, STOCK_TORCH], ids=["jax", "torch"])
def test_a_stock_job_of_two_hosts_runs_and_nobody_can_read_along(cluster, program):
    if not FRAMEWORKS.exists():
        pytest.skip("scripts/setup.sh frameworks makes the environment")
    with Capture(cluster.hosts["head"]) as captured:
        launchers = cluster.run_job(program, python=FRAMEWORKS, JAX_PLATFORMS="cpu",
                                    JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
        for launcher in launchers:
            assert launcher.end() == 0, launcher.text()
            assert any(line.endswith("sum 3") for line in launcher.lines), launcher.text()
    assert len(captured.bytes) > 10_000
    for secret in (KEY, VALUE, JOB, "barrier-to-hide", "default_pg", "CoordinationService", "PRI * "):
        assert secret.encode() not in captured.bytes, secret


def test_a_stock_job_starts_again_when_a_host_loses_a_process(cluster, tmp_path):
    if not FRAMEWORKS.exists():
        pytest.skip("scripts/setup.sh frameworks makes the environment")
    once = tmp_path / "once"
    dies = STOCK_TORCH.replace("total =", f"""
import os, signal
if dist.get_rank() == 1 and not os.path.exists("{once}"):
    open("{once}", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
total =""", 1)
    launchers = cluster.run_job(dies, python=FRAMEWORKS, options=("--max-restarts", 1))
    for launcher in launchers:
        assert launcher.end() == 0, launcher.text()
        assert any(line.endswith("sum 3") for line in launcher.lines), launcher.text()


SHOW_ADDRESSES = """
import os, sys, time
at = os.environ
print("at", at["MASTER_ADDR"], at["MASTER_PORT"], at["JAX_COORDINATOR_ADDRESS"], flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
"""

# What a connection to a port of this host is told before it ends.
LISTEN = f"""
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout={DEADLINE_S}) as caller:
    try: print(caller.recv(100))
    except ConnectionResetError: print("reset")
"""


def test_launchers_carry_nothing_for_other_users_of_their_host(cluster, tmp_path):
    over = tmp_path / "over"
    launchers = cluster.run_job(SHOW_ADDRESSES, over)
    for name, launcher in zip(("one", "two"), launchers):
        [shown] = launcher.wait_for(r"at 127\.0\.0\.1 (\d+) 127\.0\.0\.1:(\d+)$")
        for port in shown.groups():
            stranger = cluster.hosts[name].run(
                "setpriv", "--reuid", 65534, "--regid", 65534, "--clear-groups", "/usr/bin/python3",
                "-c", LISTEN, port)
            assert stranger.end() == 0, stranger.text()
            assert stranger.out in (["b''"], ["reset"])
        launcher.wait_for("connections of stock clients: .*user 65534")
    over.touch()
    for launcher in launchers:
        assert launcher.end() == 0, launcher.text()


def test_a_stranger_learns_that_there_is_a_tls_server_and_nothing_else(cluster):
    before = cluster.ask("one", "status", JOB, "-o", "json", token=cluster.token("observe"))[1]

    # In clear: told to use TLS.
    code, said = cluster.ask("stranger", "status", address=cluster.address)
    assert code != 0 and "TLS only" in said
    # By TLS, without a token, or with one that is none.
    code, said = cluster.ask("stranger", "status")
    assert code != 0 and "token" in said and JOB not in said
    others = cluster.folder / "others"
    lockstep("auth", "init", others)
    code, said = cluster.ask("stranger", "job", "delete", JOB, "--force",
                             token=cluster.token("operator", auth=others))
    assert code != 0 and "key that this server does not" in said
    cut = cluster.folder / "cut.token"
    cut.write_text(cluster.token("operator").read_text()[:-5])
    cut.chmod(0o600)
    code, said = cluster.ask("stranger", "status", token=cut)
    assert code != 0 and ("signature" in said or "cut off" in said)
    # With bytes of other protocols.
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"LSTP" + bytes(100),
                 os.urandom(1000)):
        with cluster.hosts["stranger"].socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(DEADLINE_S)
            probe.connect((cluster.hosts["head"].address, 7070))
            probe.sendall(sent)
            heard = b""
            try:
                while piece := probe.recv(4096):
                    heard += piece
            except ConnectionResetError:
                pass
            assert JOB.encode() not in heard
    # At no other port of the server is anybody.
    listening = [address for job in cluster.ready["jobs"].values() for address in job.values()]
    assert listening
    for address in listening:
        host, port = address.rsplit(":", 1)
        assert host == "127.0.0.1"
        with cluster.hosts["stranger"].socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(DEADLINE_S)
            with pytest.raises(ConnectionRefusedError):
                probe.connect((cluster.hosts["head"].address, int(port)))

    after = cluster.ask("one", "status", JOB, "-o", "json", token=cluster.token("observe"))[1]
    keep = ("name", "state")
    shape = [[{k: m[k] for k in keep if k in m} for m in json.loads(text)["jobs"][0]["members"]]
             for text in (before, after)]
    assert shape[0] == shape[1]


def test_roles_hold_across_hosts(cluster):
    observe, launch = cluster.token("observe"), cluster.token("launch")
    code, said = cluster.ask("one", "kv", "set", JOB, "a", "1", token=observe)
    assert code != 0 and "the role observe may not" in said
    assert cluster.ask("one", "kv", "set", JOB, "a", "1", token=launch)[0] == 0
    code, said = cluster.ask("one", "kv", "set", "other", "a", "1", token=launch)
    assert code != 0 and "alone, not for 'other'" in said
    code, said = cluster.ask("one", "job", "delete", JOB, "--force", token=launch)
    assert code != 0 and "may not make the request" in said
    code, said = cluster.ask("one", "status", token=observe)
    assert code != 0 and "name it" in said
    assert cluster.ask("one", "status", token=cluster.token("operator", job=""))[0] == 0


def test_http_shows_other_hosts_what_their_tokens_allow(cluster):
    def get(host, path, token=None, scheme="https"):
        asked = cluster.hosts[host].run(
            PYTHON, "-c", GET_PAGE, cluster.auth / "ca.pem",
            f"{scheme}://{cluster.hosts['head'].address}:9070{path}", *([token] if token else []))
        assert asked.end() == 0, asked.lines
        status, _, text = "\n".join(asked.out).partition(" ")
        return int(status), text

    with Capture(cluster.hosts["head"]) as captured:
        assert get("stranger", "/healthz") == (200, "ok\n")
        for path in ("/metrics", "/v1/status.json", f"/v1/why.json?job={JOB}"):
            code, text = get("stranger", path)
            assert code == 401 and JOB not in text
        code, text = get("stranger", "/metrics", scheme="http")
        assert code == 400 and "tls_required" in text
        token = cluster.token("observe")
        code, text = get("one", f"/metrics?job={JOB}", token)
        assert code == 200 and f'job="{JOB}"' in text and "other" not in text
        assert get("one", "/metrics", token)[0] == 403
        assert get("one", "/v1/status.json?job=other", token)[0] == 403
        assert get("one", "/metrics", cluster.token("observe", job=""))[0] == 200
    assert b"https" in captured.bytes  # of the refusal in clear: there was something to read
    assert token.read_text().strip().encode() not in captured.bytes
    assert JOB.encode() not in bytes(captured.bytes)


def test_a_token_file_that_others_can_read_is_refused(cluster):
    token = cluster.folder / "open.token"
    token.write_text(cluster.token("observe").read_text())
    token.chmod(0o644)
    code, said = cluster.ask("one", "status", JOB, token=token)
    assert code != 0 and "chmod 600" in said


def test_keys_and_certificates_are_replaced_under_a_running_job(cluster, tmp_path):
    over = tmp_path / "over"
    launchers = cluster.run_job(WAITING_MEMBER, over)
    for launcher in launchers:
        launcher.wait_for("begun")
    lockstep("auth", "rotate", cluster.auth)
    lockstep("auth", "renew", cluster.auth, "--name", cluster.hosts["head"].address)
    join = cluster.join
    # A server that is started anew has both, and every member and launcher connects again.
    cluster.server.process.kill()
    cluster.server.end()
    cluster.start()
    assert cluster.join == join
    over.touch()
    for launcher in launchers:
        assert launcher.end() == 0, launcher.lines
        assert any("over" in line for line in launcher.lines)


def test_a_launcher_with_a_token_hands_signals_on(cluster):
    launchers = cluster.run_job("import time; print('up', flush=True); time.sleep(600)")
    for launcher in launchers:
        launcher.wait_for("up")
    launchers[0].signal(signal.SIGTERM)
    codes = [launcher.end() for launcher in launchers]
    # Not killed by it: it has ended its process first, and says so.
    assert codes[0] >= 0, codes
    assert "SIGTERM" in launchers[0].text()


def test_processes_get_a_token_of_their_own(cluster):
    show = f"import os, subprocess; subprocess.run(['{LOCKSTEP}', 'token', 'inspect', " \
           "os.environ['LOCKSTEP_TOKEN_FILE']])"
    launchers = cluster.run_job(show)
    for launcher in launchers:
        launcher.end()
        assert any(line.split()[-2:] == ["role", "task"] for line in launcher.lines), launcher.lines
    assert isinstance(launchers[0], Command)


def test_a_process_is_held_to_its_own_keys(cluster):
    for launcher in cluster.run_job(TASK):
        assert launcher.end() == 0, launcher.lines
        assert any("was held to its own" in line for line in launcher.lines), launcher.lines
        assert not any("wrote" in line or "read the question" in line for line in launcher.lines)


def test_who_may_see_stacks_and_stop_members(cluster, tmp_path):
    over = tmp_path / "over"
    launchers = cluster.run_job(WAITING_MEMBER, over)
    for launcher in launchers:
        launcher.wait_for("begun")
    tokens = {role: cluster.token(role) for role in ("observe", "task", "launch", "operator")}
    for role in ("observe", "task"):
        code, said = cluster.ask("one", "stacks", JOB, token=tokens[role])
        assert code == 1 and "a token of role launch or operator" in said, said
        said = cluster.ask("one", "why", JOB, token=tokens[role])[1]
        assert "stacks are left out" in said, said
    for role in ("launch", "operator"):
        code, said = cluster.ask("one", "stacks", JOB, token=tokens[role])
        assert code == 0 and "task/0" in said and "task/1" in said, said
    code, said = cluster.ask("one", "preempt", "--job", JOB, "--member", "task/1",
                             token=tokens["task"])
    assert code == 1 and "join first" in said, said
    over.touch()
    for launcher in launchers:
        assert launcher.end() == 0, launcher.lines


def test_a_job_that_is_not_there_gives_away_no_other(cluster):
    code, said = cluster.ask("one", "status", "gone", token=cluster.token("observe", job="gone"))
    assert code == 3 and "no job 'gone'" in said and JOB not in said, said
    code, said = cluster.ask("one", "status", "gone", token=cluster.token("observe", job=""))
    assert code == 3 and JOB in said, said
