"""HTTP where other hosts can reach it: TLS, and a token or a client certificate, as Python's own
http.client and ssl see them."""

import base64
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, Command

# At all addresses, so that the server takes no caller for one of its own host.
EVERYWHERE = "0.0.0.0:0"
JOB, OTHER = "digits", "hidden-job"
PAGES = ["/metrics", "/v1/status.json", "/v1/jobs.json", "/v1/events.json",
         f"/v1/members.json?job={JOB}", f"/v1/barriers.json?job={JOB}", f"/v1/why.json?job={JOB}"]


def openssl_or_skip():
    return shutil.which("openssl") or pytest.skip("no `openssl` to sign with")


def encode(some):
    return base64.urlsafe_b64encode(some).decode().rstrip("=")


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def lockstep(*words):
    return subprocess.run([str(LOCKSTEP), *map(str, words)], capture_output=True, text=True,
                          check=True, timeout=DEADLINE_S).stdout.strip()


def trusting(auth, **settings):
    """A TLS client that believes the server's authority."""
    context = ssl.create_default_context(cafile=str(auth / "ca.pem"))
    for name, value in settings.items():
        setattr(context, name, value)
    return context


class Secured(Command):
    """A server with --auth whose HTTP address other hosts could reach."""

    def __init__(self, folder, auth, *arguments):
        self.auth, ready = auth, folder / "ready.json"
        super().__init__(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--http", EVERYWHERE,
                         "--auth", auth, "--ephemeral", "--ready-file", ready, "--job", f"{JOB}=2",
                         "--job", f"{OTHER}=3", "--verbose", *arguments)
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline and self.process.poll() is None, self.text()
            time.sleep(0.01)
        self.port = int(json.loads(ready.read_text())["http"].rsplit(":", 1)[1])
        self.tokens = []

    def token(self, role, job=JOB, auth=None, lasts="1h"):
        self.tokens.append(lockstep("token", "create", "--auth", auth or self.auth, "--role", role,
                                    *(["--job", job] if job else []), "--for", lasts))
        return self.tokens[-1]

    def get(self, path, token=None, context=None, headers=()):
        """(status, headers, text)."""
        asking = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=DEADLINE_S,
                                             context=context or trusting(self.auth))
        sent = dict(headers)
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        with contextlib.closing(asking):
            asking.request("GET", path, headers=sent)
            answer = asking.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def reason(self, *asked, **how):
        return json.loads(self.get(*asked, **how)[2])["reason"]

    def stop(self):
        self.process.terminate()
        assert self.end() == 0, self.text()
        # Whatever was sent stands in no log.
        for token in self.tokens:
            assert token not in self.text()
            assert token.split(".")[2] not in self.text()


@pytest.fixture(scope="module")
def auth(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auth") / "auth"
    lockstep("auth", "init", folder)
    return folder


@pytest.fixture
def server(tmp_path, auth):
    with Secured(tmp_path, auth) as served:
        yield served
        served.stop()


def test_without_a_token_only_health_is_open(server):
    assert server.get("/healthz")[2] == "ok\n"
    assert server.get("/readyz")[2] == "ready\n"
    answers = set()
    for page in [*PAGES, "/v1/nothing.json", "/", f"/v1/why.json?job={OTHER}"]:
        status, headers, text = server.get(page)
        assert status == 401, page
        assert headers["WWW-Authenticate"] == 'Bearer realm="lockstep"'
        answers.add(text)
    # They say what to do, and nothing about what was asked for.
    assert len(answers) == 1
    answer = json.loads(answers.pop())
    assert answer["reason"] == "token_required"
    assert "lockstep token create" in answer["message"]


def test_an_observer_of_all_jobs_sees_everything(server):
    token = server.token("observe", job="")
    for page in PAGES:
        assert server.get(page, token)[0] == 200, page
    assert OTHER in server.get("/v1/status.json", token)[2]
    assert f'job="{OTHER}"' in server.get("/metrics", token)[2]
    # Schemes are not case-sensitive.
    assert server.get("/metrics", headers={"authorization": f"bearer  {token}"})[0] == 200


def test_a_token_for_one_job_shows_that_job_alone(server):
    token = server.token("observe")
    for page in ["/metrics", "/v1/status.json", "/v1/jobs.json", "/v1/events.json",
                 f"/v1/status.json?job={OTHER}", f"/metrics?job={OTHER}",
                 f"/v1/events.json?job={OTHER}", f"/v1/members.json?job={OTHER}",
                 f"/v1/why.json?job={OTHER}", "/v1/status.json?job=no-such-job"]:
        status, headers, text = server.get(page, token)
        assert status == 403, page
        assert 'error="insufficient_scope"' in headers["WWW-Authenticate"]
        answer = json.loads(text)
        assert answer["reason"] == "not_permitted" and "?job=NAME" in answer["message"]
        assert OTHER not in text and "no-such-job" not in text
    for page in [f"{page.split('?')[0]}?job={JOB}" for page in PAGES]:
        status, _, text = server.get(page, token)
        assert status == 200, page
        assert OTHER not in text, page
    metrics = server.get(f"/metrics?job={JOB}", token)[2]
    assert f'lockstep_job_size{{job="{JOB}"}} 2' in metrics
    # What adds up all jobs would tell of the others.
    for name in ("lockstep_jobs", "lockstep_links", "lockstep_memory", "lockstep_requests_total",
                 "lockstep_data"):
        assert f"\n{name}" not in metrics


def test_who_may_look_is_who_may_by_the_link(server):
    for role in ("observe", "task", "launch", "operator"):
        assert server.get(f"/v1/status.json?job={JOB}", server.token(role))[0] == 200, role
    worker = server.token("worker", job="")
    assert server.get("/v1/status.json", worker)[0] == 200
    assert server.get("/v1/events.json", worker)[0] == 403


def test_tokens_that_are_none_are_refused(server, tmp_path):
    good = server.token("observe", job="")
    for wrong, reason in [
            ("nonsense", "token_invalid"), (good[:-4], "token_invalid"),
            (good[:-8] + "AAAAAAAA", "token_invalid"), ("x" * 4000, "token_invalid")]:
        status, headers, text = server.get("/metrics", wrong)
        assert status == 401
        assert headers["WWW-Authenticate"] == 'Bearer realm="lockstep", error="invalid_token"'
        assert json.loads(text)["reason"] == reason
        assert wrong not in text
    lockstep("auth", "init", tmp_path / "other")
    stranger = server.token("operator", job="", auth=tmp_path / "other")
    assert server.reason("/metrics", stranger) == "token_unknown_key"
    assert server.reason("/metrics", headers={"Authorization": "Basic dTpw"}) == "token_required"
    # A wrong one does no harm where none is needed.
    assert server.get("/healthz", stranger)[0] == 200


def test_an_expired_token_is_refused(server, tmp_path):
    key = decode(server.token("observe").split(".")[1]).rpartition(b"\n")[2]
    claims = b"observe\n\n%d\n%s" % (time.time() - 60, key)
    (tmp_path / "claims").write_bytes(claims)
    signature = subprocess.run(
        [openssl_or_skip(), "pkeyutl", "-sign", "-rawin", "-inkey", server.auth / "token.key",
         "-in", tmp_path / "claims"], check=True, capture_output=True, timeout=DEADLINE_S).stdout
    token = f"lst1.{encode(claims)}.{encode(signature)}"
    status, headers, text = server.get("/metrics", token)
    assert status == 401 and 'error="invalid_token"' in headers["WWW-Authenticate"]
    assert json.loads(text)["reason"] == "token_expired"
    assert "create a new one" in text


def test_keys_are_rotated_under_a_running_server(server, tmp_path):
    own = tmp_path / "own"
    lockstep("auth", "init", own)
    served = tmp_path / "served"
    served.mkdir()
    with Secured(served, own) as second:
        before = second.token("observe", job="")
        lockstep("auth", "rotate", own)
        assert second.get("/metrics", before)[0] == 200
        assert second.get("/metrics", second.token("observe", job=""))[0] == 200
        lockstep("auth", "rotate", own)
        assert second.reason("/metrics", before) == "token_unknown_key"
        second.stop()


def ask_plain(server, text):
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as plain:
        plain.sendall(text.encode())
        heard = b""
        while piece := plain.recv(4096):
            heard += piece
    return heard.decode()


def test_without_tls_nothing_is_answered(server):
    for page in ["/healthz", "/readyz", *PAGES]:
        heard = ask_plain(server, f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert heard.startswith("HTTP/1.1 400 ")
        assert "tls_required" in heard and "https://" in heard
        assert JOB not in heard
    token = server.token("observe", job="")
    heard = ask_plain(server, f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n")
    assert "token_in_clear" in heard and "lockstep auth rotate" in heard
    assert token not in heard
    # Neither is one that sends more at once than a request may have.
    assert "431 " in ask_plain(server, "GET /" + 9000 * "a")


def test_older_tls_and_other_protocols_are_refused(server, auth):
    old = trusting(auth, maximum_version=ssl.TLSVersion.TLSv1_2)
    with pytest.raises(ssl.SSLError):
        server.get("/healthz", context=old)
    for protocol in ("lockstep/1", "h2"):
        other = trusting(auth)
        other.set_alpn_protocols([protocol])
        with pytest.raises(ssl.SSLError):
            server.get("/healthz", context=other)
    both = trusting(auth)
    both.set_alpn_protocols(["h2", "http/1.1"])  # as browsers and Prometheus do
    assert server.get("/healthz", context=both)[0] == 200
    # And a client finds out a server that is another.
    with pytest.raises(ssl.SSLCertVerificationError):
        server.get("/healthz", context=ssl.create_default_context())


def test_a_handshake_has_the_deadline_of_a_request(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as slow:
        began = time.monotonic()
        # The begin of a record of 512 bytes that goes on coming, a byte at a time.
        slow.sendall(b"\x16\x03\x01\x02\x00\x01")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < began + DEADLINE_S:
                slow.sendall(b"\x00")
                slow.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    if slow.recv(1) == b"":
                        break
        assert time.monotonic() < began + 30
    assert server.get("/healthz")[0] == 200


def test_strangers_in_numbers_hold_up_nobody(server):
    token = server.token("observe", job="")
    with contextlib.ExitStack() as stack:
        for number in range(150):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
            stack.enter_context(one)
            one.sendall(b"\x16\x03\x01\x02\x00" if number % 2 else b"GET /metr")
            if number % 16 == 0:
                assert server.get("/metrics", token)[0] == 200


def test_a_large_answer_comes_whole(server):
    token = server.token("operator", job="")
    lockstep_job = ["job", "create", "large=20000"]
    asked = subprocess.run([str(LOCKSTEP), *lockstep_job, "--coordinator", address_of(server)],
                           capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert asked.returncode == 0, asked.stderr
    status, headers, text = server.get("/v1/status.json?job=large", token)
    assert status == 200 and len(text) == int(headers["Content-Length"]) > 1_000_000
    assert len(json.loads(text)["jobs"][0]["members"]) == 20000


def address_of(server):
    return server.wait_for(r"answers at (\S+)")[0].group(1)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Makes client certificates: authority("name", days) -> (certificate, key)."""
    openssl = openssl_or_skip()
    folder = tmp_path_factory.mktemp("clients")

    def make(name, by=None, days=1, uris=()):
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        words = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-days", str(days), "-subj", f"/CN={name}", "-keyout", key, "-out",
                 certificate]
        if by is None:
            words += ["-addext", "basicConstraints=critical,CA:TRUE"]
        else:
            words += ["-CA", folder / f"{by}.pem", "-CAkey", folder / f"{by}.key", "-addext",
                      "basicConstraints=critical,CA:FALSE", "-addext",
                      "extendedKeyUsage=clientAuth"]
        if uris:
            words += ["-addext", "subjectAltName=" + ",".join(f"URI:{uri}" for uri in uris)]
        subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=DEADLINE_S,
                       env={**os.environ, "OPENSSL_CONF": "/dev/null"})
        return certificate, key

    make("ca")
    make("stranger")
    return make


def test_a_client_certificate_stands_for_an_observer(tmp_path, auth, authority):
    ca = authority("ca")[0]
    with Secured(tmp_path, auth, "--client-ca", ca) as server:
        known = trusting(auth)
        known.load_cert_chain(*authority("known", by="ca"))
        for page in PAGES:
            assert server.get(page, context=known)[0] == 200, page
        # A token that comes with it counts instead.
        assert server.get("/metrics", server.token("observe"), context=known)[0] == 403
        # Without a certificate a token does, and health is as open as before.
        assert server.get("/metrics")[0] == 401
        assert server.get("/metrics", server.token("observe", job=""))[0] == 200
        assert server.get("/healthz")[0] == 200
        # One of another authority, or by nobody, ends the connection, whatever the page.
        for name, by in (("foreign", "stranger"), ("alone", None)):
            foreign = trusting(auth)
            foreign.load_cert_chain(*authority(name, by=by))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                server.get("/healthz", context=foreign)
        server.stop()


def test_a_certificate_that_names_a_member_stands_for_a_task_of_its_job(tmp_path, auth, authority):
    ca = authority("ca")[0]
    with Secured(tmp_path, auth, "--client-ca", ca, "--member-uri",
                 "spiffe://cluster/job/{job}/member/{member}") as server:
        def with_uris(name, *uris):
            context = trusting(auth)
            context.load_cert_chain(*authority(name, by="ca", uris=uris))
            return context

        member = with_uris("member", f"spiffe://cluster/job/{JOB}/member/1")
        token = server.token("task")
        pages = [f"{page.split('?')[0]}?job={name}" for page in PAGES for name in (JOB, OTHER)]
        shown = {page: server.get(page, token)[0] for page in PAGES + pages}
        assert {page: server.get(page, context=member)[0] for page in PAGES + pages} == shown
        assert shown["/metrics"] == 403 and 200 in shown.values()
        # One of another kind is an observer, as without the option; one that is not clear is none.
        scraper = with_uris("scraper", "spiffe://cluster/scraper")
        assert server.get("/metrics", context=scraper)[0] == 200
        for name, uris in (("two", [f"spiffe://cluster/job/{JOB}/member/{n}" for n in (0, 1)]),
                           ("odd", [f"spiffe://cluster/job/{JOB}/member/%31"])):
            status, _, text = server.get("/metrics", context=with_uris(name, *uris))
            assert status == 403 and json.loads(text)["reason"] == "not_permitted"
        server.stop()


def test_a_server_that_cannot_tell_who_calls_does_not_start(tmp_path):
    ended = subprocess.run(
        [str(LOCKSTEP), "serve", "--listen", "127.0.0.1:0", "--http", EVERYWHERE, "--ephemeral"],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert ended.returncode != 0
    for word in ("--http", "--auth", "--insecure-http-network"):
        assert word in ended.stderr
