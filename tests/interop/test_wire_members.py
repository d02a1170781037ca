"""Registration, heartbeats, error polls, shutdown and watches, call by call."""

import re
import time

import pytest

from wire import (CONNECTED, COORDINATION_ERROR, DISCONNECTED, ERROR, SERVICE_MISMATCH,
                  show_period)


@pytest.fixture
def two(make_job):
    return make_job(2).wire_members()


@pytest.mark.row(1)
def test_row_001_register_and_heartbeat(two):
    for member in two:
        answer = member.heartbeat().value()
        assert answer["service_incarnation"] == member.service_incarnation != 0


@pytest.mark.row(2)
def test_row_002_heartbeat_of_an_unknown_member(make_job):
    job = make_job(2)
    one, _ = job.wire_members()
    stranger = job.wire_member(5)
    stranger.service_incarnation = one.service_incarnation
    refused = stranger.heartbeat().refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert COORDINATION_ERROR in refused.payloads
    one.heartbeat().value()


@pytest.mark.row(3)
def test_row_003_heartbeat_of_another_life(two):
    one, other = two
    polls = [one.poll(), other.poll()]
    for poll in polls:
        poll.assert_parked()
    one.incarnation += 77
    assert one.heartbeat().refusal().code == "ABORTED"
    for poll in polls:
        refused = poll.refusal()
        assert refused.code == "ABORTED"
        assert COORDINATION_ERROR in refused.payloads


@pytest.mark.row(4)
def test_row_004_register_again_in_the_same_life(two):
    one, other = two
    one.registered(one.register())
    other.poll().assert_parked()


@pytest.mark.row(7, 9, 20)
def test_row_009_all_go_silent(make_job):
    one, other = make_job(2, heartbeat_timeout=2).wire_members()
    polls = [one.poll(), other.poll()]
    show_period(polls[0], [one, other])
    for poll in polls:
        refused = poll.refusal()
        assert refused.code == "UNAVAILABLE"
        assert COORDINATION_ERROR in refused.payloads
        assert "heartbeat" in refused.text
    for member in (one, other):
        # The polls told of the first loss. The other comes as much later as the last heartbeat did.
        until = time.monotonic() + 10
        while (late := member.poll().refusal()).code == "UNAVAILABLE":
            assert time.monotonic() < until
        assert late.code == "FAILED_PRECONDITION"
        assert "already in error" in late.text
        assert member.heartbeat().refusal().code == "ABORTED"


@pytest.mark.row(10, 22, 98, 102, 104)
def test_row_010_one_goes_silent(make_job):
    one, other = make_job(2, heartbeat_timeout=2).wire_members()
    polls = [one.poll(), other.poll()]
    show_period(polls[0], [one, other])
    while True:
        one.heartbeat().value()
        try:
            polls[0].assert_parked(0.3)
        except AssertionError:
            break
    for poll in polls:
        refused = poll.refusal()
        assert refused.code == "UNAVAILABLE"
        assert re.search(r"\b1\b", refused.text)
        assert "stopped sending heartbeats" in refused.text
    assert one.poll().refusal().code == "UNAVAILABLE"
    refused = one.barrier("b").refusal()
    assert refused.code == "INTERNAL"
    assert COORDINATION_ERROR in refused.payloads


@pytest.mark.row(14)
def test_row_014_poll_of_an_unknown_member(make_job):
    job = make_job(1)
    one, = job.wire_members()
    stranger = job.wire_member(9)
    stranger.service_incarnation = one.service_incarnation
    refused = stranger.poll().refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert "not in the cluster" in refused.text


@pytest.mark.row(15)
def test_row_015_poll_before_registering(make_job):
    job = make_job(2)
    member = job.wire_member(0)
    member.learn_incarnation()
    refused = member.poll().refusal()
    assert refused.code == "FAILED_PRECONDITION"
    assert "has not been registered" in refused.text


@pytest.mark.row(10)
def test_row_010_a_second_poll_ends_the_first(two):
    one, _ = two
    first = one.poll()
    first.assert_parked()
    second = one.poll()
    refused = first.refusal()
    assert refused.code == "CANCELLED"
    assert COORDINATION_ERROR in refused.payloads
    second.assert_parked()


@pytest.mark.row(6, 12, 21, 39)
def test_row_012_a_new_life_while_the_old_one_is_connected(make_job):
    job = make_job(2)
    one, other = job.wire_members()
    polls = [one.poll(), other.poll()]
    for poll in polls:
        poll.assert_parked()
    refused = job.wire_member(0).register().refusal()
    assert refused.code == "ABORTED"
    assert COORDINATION_ERROR in refused.payloads
    for poll in polls:
        assert poll.refusal().code == "ABORTED"


@pytest.mark.row(38, 44)
def test_row_038_a_new_life_before_all_have_registered(make_job):
    job = make_job(2)
    stale = job.wire_member(0)
    first = stale.register()
    first.assert_parked()
    fresh = job.wire_member(0)
    second = fresh.register()
    second.assert_parked()
    other = job.wire_member(1)
    other.registered(other.register())

    refused = first.refusal()
    assert refused.code == "ALREADY_EXISTS"
    assert COORDINATION_ERROR in refused.payloads
    fresh.registered(second)
    fresh.registered(fresh.register())


@pytest.mark.row(40)
def test_row_040_registration_times_out(make_job):
    job = make_job(3, register_timeout=1)
    calls = [job.wire_member(0).register(), job.wire_member(2).register()]
    for call in calls:
        refused = call.refusal()
        assert refused.code == "DEADLINE_EXCEEDED"
        assert refused.text.startswith("Barrier timed out")
        assert COORDINATION_ERROR in refused.payloads


@pytest.mark.mended("the client's own deadline is over before the service says who is missing")
@pytest.mark.row(43)
def test_row_043_who_gives_up_first_is_told_who_is_missing(make_job):
    job = make_job(3)
    patient, hasty = job.wire_member(0), job.wire_member(1)
    waiting = patient.register()
    refused = hasty.register(deadline_s=2).refusal()
    assert refused.code == "DEADLINE_EXCEEDED"
    assert COORDINATION_ERROR in refused.payloads
    assert "task/2" in refused.text
    waiting.assert_parked()


@pytest.mark.row(47)
def test_row_047_all_shut_down(two):
    one, other = two
    poll = one.poll()
    first = one.shut_down()
    first.assert_parked()
    other.shut_down().value()
    first.value()
    assert poll.refusal().code == "CANCELLED"


@pytest.mark.row(48)
def test_row_048_one_does_not_shut_down(make_job):
    one, other = make_job(2, shutdown_timeout=1).wire_members()
    poll = other.poll()
    refused = one.shut_down().refusal()
    assert refused.code == "INTERNAL"
    assert "Shutdown barrier has failed" in refused.text
    assert "timed out" in refused.text
    assert poll.refusal().code == "INTERNAL"


@pytest.mark.row(49)
def test_row_049_one_does_not_shut_down_and_nobody_polls(make_job):
    one, other = make_job(2, shutdown_timeout=1).wire_members()
    assert one.shut_down().refusal().code == "INTERNAL"
    assert other.heartbeat().refusal().code == "ABORTED"


@pytest.mark.row(28)
def test_row_028_heartbeat_soon_after_shutdown(make_job):
    one, other = make_job(2, shutdown_timeout=0).wire_members()
    one.shut_down().value()
    one.heartbeat().value()
    other.heartbeat().value()


@pytest.mark.row(16)
def test_row_016_poll_soon_after_shutdown(make_job):
    one, _ = make_job(2, shutdown_timeout=0).wire_members()
    one.shut_down().value()
    one.poll().assert_parked()


def test_shutdown_twice(make_job):
    one, _ = make_job(2, shutdown_timeout=0).wire_members()
    one.shut_down().value()
    assert one.shut_down().refusal().code == "FAILED_PRECONDITION"


@pytest.mark.row(24, 57)
def test_row_057_who_may_come_back_alarms_nobody(make_job):
    job = make_job(2, recoverable=True, heartbeat_timeout=1)
    one, other = job.wire_members()
    poll = one.poll()
    for _ in range(10):
        one.heartbeat().value()
        poll.assert_parked(0.3)
    assert other.heartbeat().refusal().code == "ABORTED"

    fresh = job.wire_member(1)
    fresh.registered(fresh.register())
    fresh.heartbeat().value()


@pytest.mark.row(128)
def test_row_128_watch(two):
    one, other = two
    answer = one.call("WatchTasks", version_number=-1)
    assert sorted(task["task_id"] for task in answer["task_state"]) == [0, 1]
    assert {task["state"] for task in answer["task_state"]} == {CONNECTED}
    assert {task["incarnation"] for task in answer["task_state"]} == {
        one.incarnation, other.incarnation}


@pytest.mark.row(129, 131, 132)
def test_row_131_a_watch_waits_for_a_change(make_job):
    one, other = make_job(2, shutdown_timeout=0).wire_members()
    version = one.call("WatchTasks", version_number=-1)["version_number"]
    watch = one.start("WatchTasks", version_number=version)
    watch.assert_parked()
    other.shut_down().value()
    answer = watch.value()
    states = {task["task_id"]: task["state"] for task in answer["task_state"]}
    assert states == {0: CONNECTED, 1: DISCONNECTED}
    assert answer["version_number"] != version
    again = one.call("WatchTasks", version_number=version)
    assert {task["task_id"]: task["state"] for task in again["task_state"]} == states


@pytest.mark.row(122, 128)
def test_row_128_a_watch_shows_an_error(make_job):
    one, _ = make_job(2, recoverable=True, heartbeat_timeout=1).wire_members()
    version = one.call("WatchTasks", version_number=-1)["version_number"]
    watch = one.start("WatchTasks", version_number=version)
    for _ in range(20):
        one.heartbeat().value()
        try:
            watch.assert_parked(0.3)
        except AssertionError:
            break
    lost = next(task for task in watch.value()["task_state"] if task["task_id"] == 1)
    assert lost["state"] == ERROR
    assert lost["error_code"] == 14
    assert "heartbeat" in lost["error_message"]
    assert one.alive([0, 1]).value()["alive_task_ids"] == [0]


NINE_KINDS = {
    "Heartbeat": {"incarnation": 1, "source_task_id": 0},
    "PollForError": {"source_task_id": 0},
    "ShutdownTask": {"source_task_id": 0},
    "WatchTasks": {"version_number": -1},
    "InsertKeyValue": {"kv": {"key": "k", "value": b"v"}},
    "GetKeyValue": {"key": "k"},
    "TryGetKeyValue": {"key": "k"},
    "IncrementKeyValue": {"key": "k", "increment": 1},
    "GetKeyValueDir": {"directory_key": "k"},
    "DeleteKeyValue": {"key": "k"},
    "Barrier": {"barrier_id": "b", "barrier_timeout_in_ms": 1000, "source_task_id": 0},
    "CancelBarrier": {"barrier_id": "b", "source_task_id": 0},
    "GetAliveTasks": {"requesting_task_id": 0, "task_ids": [0]},
}


@pytest.mark.row(133)
@pytest.mark.parametrize("incarnation", [0, 4711])
def test_row_133_another_service_was_meant(make_job, incarnation):
    job = make_job(2)
    one, _ = job.wire_members()
    right, one.service_incarnation = one.service_incarnation, incarnation
    for method, fields in NINE_KINDS.items():
        refused = one.refusal(method, **fields)
        assert refused.code == "INTERNAL", method
        assert "wrong service incarnation" in refused.text.lower(), method
        told = refused.payloads[SERVICE_MISMATCH]
        assert told == b"\x09" + right.to_bytes(8, "little"), method
    one.service_incarnation = right
    one.heartbeat().value()
    assert one.refusal("TryGetKeyValue", key="k").code == "NOT_FOUND"
