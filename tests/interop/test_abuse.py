"""What no good client sends: a clear error, and the server serves on."""

import socket

import pytest

from wire import COORDINATION_ERROR


@pytest.fixture
def job(make_job):
    return make_job(2)


@pytest.fixture
def one(job):
    return job.wire_members()[0]


def serves_on(one):
    one.heartbeat().value()
    one.call("InsertKeyValue", kv={"key": "still", "value": b"here"}, allow_overwrite=True)
    assert one.call("TryGetKeyValue", key="still")["kv"]["value"] == b"here"


@pytest.mark.parametrize("garbage", [
    b"\x00" * 4096,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    bytes(range(256)) * 64,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1024,
], ids=["zeros", "http1", "bytes", "http2-then-garbage"])
def test_garbage_on_the_port(job, one, garbage):
    host, port = job.server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as stream:
        try:
            stream.sendall(garbage)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(65536):
                pass
        except OSError:
            pass  # A reset is an answer too.
    serves_on(one)


@pytest.mark.mended("messages have no limit")
def test_a_message_of_100_megabytes(one):
    refused = one.refusal("InsertKeyValue", kv={"key": "big", "value": bytes(100 << 20)})
    assert refused.code == "RESOURCE_EXHAUSTED"
    serves_on(one)


@pytest.mark.parametrize("request_bytes", [b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", b"\x13" * 9])
def test_a_message_that_is_none(one, request_bytes):
    refused = one.start_raw("Barrier", request_bytes).refusal()
    assert refused.code in ("INTERNAL", "INVALID_ARGUMENT")
    serves_on(one)


def test_a_method_that_is_none(one):
    assert one.start_raw("MakeCoffee", b"").refusal().code == "UNIMPLEMENTED"
    serves_on(one)


@pytest.mark.parametrize("method, fields", [
    ("Heartbeat", {"incarnation": 1, "source_task_id": 99}),
    ("PollForError", {"source_task_id": 99}),
    ("Heartbeat", {"incarnation": 1, "source_task_id": -1}),
    ("PollForError", {"source_task_id": -1}),
    ("Barrier", {"barrier_id": "b", "barrier_timeout_in_ms": 1000, "task_ids": [0, 99],
                 "source_task_id": 0}),
    ("GetAliveTasks", {"requesting_task_id": 0, "task_ids": [1]}),
])
def test_unknown_members(one, method, fields):
    refused = one.refusal(method, **fields)
    assert refused.code == "INVALID_ARGUMENT"
    serves_on(one)


@pytest.mark.mended("a stranger joins the shutdown barrier, and breaks it")
def test_a_stranger_does_not_shut_down_the_job(job, one):
    poll = one.poll()
    assert one.refusal("ShutdownTask", source_task_id=99).code == "INVALID_ARGUMENT"
    poll.assert_parked()
    serves_on(one)


@pytest.mark.row(2)
def test_row_002_registering_as_an_unknown_member(job, one):
    stranger = job.wire_member(99)
    refused = stranger.register().refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert COORDINATION_ERROR in refused.payloads
    serves_on(one)


@pytest.mark.mended("a watch of a version to come ends the server process")
@pytest.mark.row(131)
def test_row_131_a_watch_of_a_version_to_come(one):
    watch = one.start("WatchTasks", version_number=1 << 40)
    assert len(watch.value()["task_state"]) == 2
    serves_on(one)


@pytest.mark.mended("an embedded NUL cuts a key")
@pytest.mark.row(77)
def test_row_077_a_key_with_a_nul(one):
    refused = one.refusal("InsertKeyValue", kv={"key": "a\0b", "value": b"v"})
    assert refused.code == "INVALID_ARGUMENT"
    assert one.refusal("TryGetKeyValue", key="a").code == "NOT_FOUND"
    serves_on(one)


def test_a_connection_that_says_nothing(job, one):
    host, port = job.server.address.rsplit(":", 1)
    silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(50)]
    serves_on(one)
    for stream in silent:
        stream.close()
    serves_on(one)
