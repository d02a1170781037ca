"""Members, sessions and readers that connect by TLS, with the OpenSSL of their interpreter."""

import os
import socket
import subprocess
import sys

import pytest

import lockstep
from conftest import LIMIT_S
from data_workers import Cluster
from lockstep import data

# Of another server; nobody's.
OTHER = "0" * 64


def other_certificate(join_string):
    return join_string.partition("#")[0] + "#sha256=" + OTHER


def run(text, **environment):
    """The output of a Python program that has loaded nothing yet."""
    return subprocess.run([sys.executable, "-c", text], env={**os.environ, **environment},
                          stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S).stdout


def test_join_string_names_the_address_and_a_certificate(server):
    assert server.join_string.startswith(f"lockstep://{server.address}#sha256=")


def test_members_do_by_tls_what_they_do_without(server, job):
    with lockstep.join(server.join_string, job=job, index=0, size=1, timeout=LIMIT_S) as me:
        me.barrier("here", timeout=LIMIT_S)
        large = os.urandom(3_000_000)
        me.kv.set("large", large)
        assert me.kv.get("large") == large
        assert me.address == server.join_string
    with lockstep.session(server.join_string, job=job) as tool:
        assert tool.kv.get("large")


def test_the_join_string_may_name_the_job(server, job):
    place, _, certificate = server.join_string.partition("#")
    address = f"{place}/{job}#{certificate}"
    with lockstep.join(address, index=0, size=1, timeout=LIMIT_S) as me:
        assert me.job == job
        with lockstep.session(address) as tool:
            tool.kv.set("a", b"1")
        assert me.kv.get("a")


def test_another_servers_certificate_is_refused_at_once(server, job):
    with pytest.raises(lockstep.Unauthenticated, match="certificate"):
        lockstep.join(other_certificate(server.join_string), job=job, index=0, size=1,
                      timeout=LIMIT_S)


def test_readers_reach_the_dispatcher_by_tls(server, name="tls"):
    with data.range(3).read(server.join_string, name=name, timeout=LIMIT_S) as reader:
        assert reader is not None
    with pytest.raises(lockstep.Unauthenticated):
        with data.range(3).read(other_certificate(server.join_string), name=name + "-other",
                                timeout=LIMIT_S) as reader:
            next(reader)


def test_a_worker_that_names_a_certificate_gets_no_token(tmp_path):
    """Workers choose their addresses: a token would go by TLS to whoever listens there."""
    token = tmp_path / "token"
    token.write_text("a-token-to-hide")
    token.chmod(0o600)
    program = """
from lockstep import data
try:
    list(data.range(3).read(ADDRESS, timeout=3))
except Exception as error:
    print(type(error).__name__)
"""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(LIMIT_S)
        address = f"lockstep://127.0.0.1:{trap.getsockname()[1]}#sha256={OTHER}"
        with Cluster(1, options=("--advertise", address)) as cluster:
            with subprocess.Popen([sys.executable, "-c",
                                   program.replace("ADDRESS", repr(cluster.address))],
                                  env={**os.environ, "LOCKSTEP_TOKEN_FILE": str(token)}) as reader:
                caller, _ = trap.accept()
                with caller:
                    caller.settimeout(LIMIT_S)
                    said = caller.recv(4096)
                assert said[0] != 0x16, "it begins TLS, by which it would send its token"
                assert b"a-token-to-hide" not in said
                reader.kill()


def test_the_only_openssl_is_the_interpreters(server, job):
    program = """
import ssl
def libraries():
    return {line.split()[-1] for line in open("/proc/self/maps")
            if "libssl" in line or "libcrypto" in line}
before = libraries()
import lockstep
with lockstep.join(SECURE, job=JOB, index=0, size=1, timeout=60) as me:
    me.kv.set("a", b"1")
assert libraries() == before, (libraries(), before)
print("one OpenSSL")
"""
    program = program.replace("JOB", repr(job)).replace("SECURE", repr(server.join_string))
    assert run(program) == "one OpenSSL\n"


@pytest.fixture(name="no_libssl")
def _no_libssl(tmp_path):
    """An environment where the system has no libssl: what is found instead is no library."""
    for name in ("libssl.so.3", "libssl.so.1.1"):
        (tmp_path / name).touch()
    return {"LD_LIBRARY_PATH": str(tmp_path)}


def test_where_ssl_is_no_shared_library_the_systems_is_loaded(server, job):
    program = """
import sys
sys.modules["_ssl"] = None  # as good as linked statically
import lockstep
with lockstep.join(SECURE, job=JOB, index=0, size=1, timeout=60) as me:
    me.kv.set("a", b"1")
    print(me.kv.get("a"), any("libssl" in line for line in open("/proc/self/maps")))
"""
    program = program.replace("JOB", repr(job)).replace("SECURE", repr(server.join_string))
    assert run(program) == "b'1' True\n"


def test_without_an_openssl_the_error_says_so(server, job, no_libssl):
    program = """
import sys
sys.modules["_ssl"] = None
import lockstep
try:
    lockstep.join(SECURE, job=JOB, index=0, size=1, timeout=5)
except lockstep.Error as error:
    print(error)
"""
    program = program.replace("JOB", repr(job)).replace("SECURE", repr(server.join_string))
    assert "install OpenSSL" in run(program, **no_libssl)


def test_without_an_openssl_nothing_is_encrypted_and_the_error_says_so(server, job, no_libssl):
    program = """
import sys
sys.modules["_ssl"] = None
import lockstep
with lockstep.join(PLAIN, job=JOB, index=0, size=1, timeout=60) as me:
    try:
        me.rendezvous()
    except lockstep.FailedPrecondition as error:
        print(error.reason, error)
"""
    program = program.replace("JOB", repr(job)).replace("PLAIN", repr(server.address))
    said = run(program, LOCKSTEP_ENCRYPT_DATA="1", **no_libssl)
    assert said.startswith("encryption_unavailable ") and "OpenSSL" in said
    assert run(program, LOCKSTEP_ENCRYPT_DATA="0", **no_libssl) == ""


def test_a_forked_child_leaves_the_connection_to_its_parent(server, job):
    with lockstep.join(server.join_string, job=job, index=0, size=1, timeout=LIMIT_S) as me:
        child = os.fork()
        if child == 0:
            try:
                me.kv.set("a", b"of the child")
            except lockstep.Error:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        me.kv.set("a", b"of the parent")
        me.barrier("after", timeout=LIMIT_S)


def test_the_command_knows_join_strings(server, job):
    with lockstep.join(server.join_string, job=job, index=0, size=1, timeout=LIMIT_S):
        shown = subprocess.run([sys.prefix + "/bin/lockstep", "status", "--coordinator",
                                server.join_string], stdout=subprocess.PIPE, text=True, check=False)
        assert job in shown.stdout  # the exit code tells of the jobs of other tests, too
        refused = subprocess.run([sys.prefix + "/bin/lockstep", "status", "--coordinator",
                                  other_certificate(server.join_string)],
                                 stderr=subprocess.PIPE, text=True, check=False)
        assert refused.returncode == 1
        assert "certificate" in refused.stderr
