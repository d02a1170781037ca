"""tensorflow.CoordinationService, call by call."""

import re

import pytest

from older_wire import ERROR_PAYLOAD, task
from wire import (BARRIER_ERROR, CONNECTED, COORDINATION_ERROR, DISCONNECTED, ERROR,
                  SERVICE_MISMATCH, decode, register_all, show_period)

pytestmark = pytest.mark.older


@pytest.fixture
def two(make_job):
    return make_job(2).older_members()


@pytest.fixture
def three(make_job):
    return make_job(3).older_members()


@pytest.mark.row(1)
def test_row_001_older_register_and_heartbeat(two):
    for member in two:
        assert member.heartbeat().value()["leader_incarnation"] == member.service_incarnation != 0


def test_bytes_of_a_registration_without_a_role(make_job):
    """As jaxlib 0.9.1 and 0.9.2 send it."""
    wire = make_job(1).older_wire()
    request = bytes.fromhex("1908070605040302012a00")
    assert wire.start_raw("RegisterTask", request).value()["leader_incarnation"] != 0


@pytest.mark.row(2)
def test_row_002_older_heartbeat_of_an_unknown_member(make_job):
    job = make_job(2)
    job.older_members()
    refused = job.older_member(5).heartbeat().refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert COORDINATION_ERROR in refused.payloads


@pytest.mark.row(3)
def test_row_003_older_heartbeat_of_another_life(two):
    one, other = two
    poll = other.poll()
    poll.assert_parked()
    one.incarnation += 77
    assert one.heartbeat().refusal().code == "ABORTED"
    assert poll.refusal().code == "ABORTED"


@pytest.mark.row(10, 22)
def test_row_010_older_one_goes_silent(make_job):
    one, other = make_job(2, heartbeat_timeout=2).older_members()
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
        assert COORDINATION_ERROR in refused.payloads


@pytest.mark.row(12, 21)
def test_row_012_older_a_new_life_while_the_old_one_is_connected(make_job):
    job = make_job(2)
    one, other = job.older_members()
    poll = other.poll()
    poll.assert_parked()
    assert job.older_member(0).register().refusal().code == "ABORTED"
    assert poll.refusal().code == "ABORTED"


@pytest.mark.row(14)
def test_row_014_older_poll_of_an_unknown_member(make_job):
    job = make_job(1)
    job.older_members()
    refused = job.older_member(9).poll().refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert "not in the cluster" in refused.text


@pytest.mark.row(15)
def test_row_015_older_poll_before_registering(make_job):
    refused = make_job(2).older_member(0).poll().refusal()
    assert refused.code == "FAILED_PRECONDITION"
    assert "has not been registered" in refused.text


@pytest.mark.row(26, 27)
def test_row_026_older_reset_and_register_again(make_job):
    job = make_job(2)
    one, other = job.older_members()
    one.reset().value()
    one.heartbeat().value()  # for a while
    again = job.older_member(0)
    again.registered(again.register())
    again.heartbeat().value()
    other.heartbeat().value()


@pytest.mark.row(47)
def test_row_047_older_all_shut_down(two):
    one, other = two
    poll = one.poll()
    first = one.shut_down()
    first.assert_parked()
    other.shut_down().value()
    first.value()
    assert poll.refusal().code == "CANCELLED"


@pytest.mark.row(48)
def test_row_048_older_one_does_not_shut_down(make_job):
    one, other = make_job(2, shutdown_timeout=1).older_members()
    poll = other.poll()
    refused = one.shut_down().refusal()
    assert refused.code == "INTERNAL"
    assert "Shutdown barrier has failed" in refused.text
    assert poll.refusal().code == "INTERNAL"


@pytest.mark.row(58, 59, 60, 62, 63)
def test_row_058_older_keys(two):
    one, other = two
    one.call("InsertKeyValue", kv={"key": "a/b", "value": b"1"})
    assert other.call("TryGetKeyValue", key="//a//b/")["kv"]["value"] == b"1"
    assert other.refusal("InsertKeyValue",
                         kv={"key": "a/b", "value": b"2"}).code == "ALREADY_EXISTS"
    other.call("InsertKeyValue", kv={"key": "a/b", "value": b"2"}, allow_overwrite=True)
    assert one.call("GetKeyValue", key="a/b")["kv"] == {"key": "a/b", "value": b"2"}
    one.call("DeleteKeyValue", key="a", is_directory=True)
    assert one.refusal("TryGetKeyValue", key="a/b").code == "NOT_FOUND"


def test_a_getter_waits(two):
    one, other = two
    waiting = one.start("GetKeyValue", key="k")
    waiting.assert_parked()
    other.call("InsertKeyValue", kv={"key": "k", "value": b"v"})
    assert waiting.value()["kv"]["value"] == b"v"


@pytest.mark.row(64, 65)
def test_row_064_older_increment(two):
    one, other = two
    assert one.call("IncrementKeyValue", key="n", increment=10)["kv"]["value"] == b"10"
    assert other.call("IncrementKeyValue", key="n", increment=-3)["kv"]["value"] == b"7"
    one.call("InsertKeyValue", kv={"key": "word", "value": b"word"})
    assert one.refusal("IncrementKeyValue", key="word", increment=1).code == "FAILED_PRECONDITION"


@pytest.mark.row(67)
def test_row_067_older_directories(two):
    one, other = two
    for key in ("d/b", "d/a", "dx"):
        one.call("InsertKeyValue", kv={"key": key, "value": key.encode()})
    answer = other.call("GetKeyValueDir", directory_key="d/")
    assert [entry["key"] for entry in answer["kv"]] == ["d/a", "d/b"]


# TensorFlow's own service says it, and jaxlib 0.9.2's does not.
@pytest.mark.only_lockstep
def test_a_directory_is_named_as_asked(two):
    assert two[0].call("GetKeyValueDir", directory_key="d/")["directory_key"] == "d/"


def test_keys_before_registering(make_job):
    wire = make_job(2).older_wire()
    wire.call("InsertKeyValue", kv={"key": "early", "value": b"v"})
    assert wire.call("GetKeyValue", key="early")["kv"]["value"] == b"v"


@pytest.mark.row(83, 91)
def test_row_083_older_the_reply_has_the_counter(three):
    for counter in range(2):
        calls = [member.barrier("b", counter) for member in three]
        assert [call.value()["counter"] for call in calls] == [counter] * 3


@pytest.mark.row(84, 85)
def test_row_085_older_conflicting_lists(three):
    first = three[0].barrier("b", indices=[0, 1])
    first.assert_parked()
    assert three[1].barrier("b", indices=[1, 2]).refusal().code == "INVALID_ARGUMENT"
    refused = first.refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert "Conflicting tasks specified" in refused.text


@pytest.mark.row(88)
def test_row_088_older_a_list_with_a_stranger(three):
    refused = three[0].barrier("b", indices=[0, 7]).refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert refused.payloads[BARRIER_ERROR] == b"\x0a\x01b"


@pytest.mark.row(89)
def test_row_089_older_time_out(three):
    calls = [member.barrier("b", timeout_ms=200) for member in three[:2]]
    for call in calls:
        refused = call.refusal()
        assert refused.code == "DEADLINE_EXCEEDED"
        assert refused.text.startswith("Barrier timed out")
        assert "2/3" in refused.text


@pytest.mark.row(94, 95)
def test_row_094_older_cancel(three):
    waiting = three[0].barrier("b")
    waiting.assert_parked()
    three[1].cancel_barrier("b").value()
    assert waiting.refusal().code == "CANCELLED"


@pytest.mark.row(121, 125)
def test_row_121_older_alive(two):
    one, other = two
    early = one.alive([0, 1])
    early.assert_parked()
    answer = other.alive([0, 1]).value()
    assert sorted(alive["task_id"] for alive in answer["alive_tasks"]) == [0, 1]
    assert set(answer["incarnations"]) == {one.incarnation, other.incarnation}
    assert len(early.value()["alive_tasks"]) == 2
    assert one.alive([1]).refusal().code == "INVALID_ARGUMENT"


@pytest.mark.row(128, 131)
def test_row_128_older_watch(make_job):
    one, other = make_job(2, shutdown_timeout=0).older_members()
    answer = one.call("WatchJobState", job_name="jax_worker", version_number=-1)
    assert {state["state"] for state in answer["task_state"]} == {CONNECTED}
    assert {state["incarnation"] for state in answer["task_state"]} == {
        one.incarnation, other.incarnation}
    watch = one.start("WatchJobState", job_name="jax_worker",
                      version_number=answer["version_number"])
    watch.assert_parked()
    other.shut_down().value()
    states = {state["task"]["task_id"]: state["state"] for state in watch.value()["task_state"]}
    assert states == {0: CONNECTED, 1: DISCONNECTED}


# What the service of jaxlib 0.9.2 registers but leaves unanswered.


@pytest.mark.only_lockstep
@pytest.mark.row(30)
@pytest.mark.parametrize("asked, answered", [("device_info", "device_info"),
                                             ("local_device_info", "cluster_device_info")])
def test_row_030_devices_of_all_in_order(three, asked, answered):
    lists = [b"\x0a\x03\x12\x01" + bytes([97 + number]) for number in range(3)]
    calls = [member.wait_for_all(lists[member.index], asked) for member in reversed(three[1:])]
    for call in calls:
        call.assert_parked()
    for call in [*calls, three[0].wait_for_all(lists[0], asked)]:
        answer = call.value()
        assert answer[answered] == b"".join(lists)
        assert answer["leader_incarnation"] == three[0].service_incarnation
    # Whoever asks again is told again.
    assert three[1].wait_for_all(lists[1], asked).value()[answered] == b"".join(lists)


@pytest.mark.only_lockstep
@pytest.mark.row(31)
def test_row_031_a_list_handed_in_twice_counts_once(two):
    one, other = two
    first = one.wait_for_all(b"\x0a\x01a")
    first.assert_parked()
    second = one.wait_for_all(b"\x0a\x01a")
    assert first.refusal().code == "CANCELLED"
    assert other.wait_for_all(b"\x0a\x01b").value()["device_info"] == b"\x0a\x01a\x0a\x01b"
    assert second.value()["device_info"] == b"\x0a\x01a\x0a\x01b"


@pytest.mark.only_lockstep
@pytest.mark.row(29)
def test_row_029_roles(make_job):
    """A chief and two workers; an evaluator is not of the job."""
    job = make_job(3, roles="chief:1,worker:2")
    refused = job.older_member(0, "evaluator").register().refusal()
    assert refused.code == "INVALID_ARGUMENT"
    assert "chief:1, worker:2" in refused.text
    chief, *workers = register_all([job.older_member(0, "chief"), job.older_member(0, "worker"),
                                    job.older_member(1, "worker")])
    waiting = [member.wait_for_all(b"\x0a\x01" + name) for member, name in
               zip((workers[1], chief), (b"2", b"c"))]
    for call in waiting:
        call.assert_parked()
    for call in [*waiting, workers[0].wait_for_all(b"\x0a\x011")]:
        assert call.value()["device_info"] == b"\x0a\x01c\x0a\x011\x0a\x012"
    answer = chief.call("WatchJobState", job_name="worker", version_number=-1)
    assert [state["task"]["task_id"] for state in answer["task_state"]] == [0, 1]


@pytest.mark.only_lockstep
def test_states_of_tasks(make_job):
    job = make_job(2, shutdown_timeout=0)
    one, other = job.older_members()
    other.shut_down().value()
    answer = one.call("GetTaskState", source_task=[other.task, one.task])["task_state"]
    assert [(state["task"]["job_name"], state["task"]["task_id"], state["state"])
            for state in answer] == [("jax_worker", 1, DISCONNECTED), ("jax_worker", 0, CONNECTED)]
    refused = one.refusal("GetTaskState", source_task=[task("jax_worker", 9)])
    assert refused.code == "INVALID_ARGUMENT"


@pytest.mark.only_lockstep
@pytest.mark.row(11, 19)
def test_row_011_older_a_reported_error(two):
    one, other = two
    polls = [one.poll(), other.poll()]
    for poll in polls:
        poll.assert_parked()
    one.report(13, "it cannot go on").value()
    for poll in polls:
        refused = poll.refusal()
        assert refused.code == "INTERNAL"
        assert "it cannot go on" in refused.text
        payload = decode(ERROR_PAYLOAD, refused.payloads[COORDINATION_ERROR])
        assert payload["is_reported_error"] == 1
        assert payload["source_task"] == {"job_name": "jax_worker", "task_id": 0, "recoverable": 0}
    assert "already in error" in one.poll().refusal().text
    state, = other.call("GetTaskState", source_task=[one.task])["task_state"]
    assert state["state"] == ERROR
    assert state["error_code"] == 13


@pytest.mark.only_lockstep
@pytest.mark.row(33, 36)
def test_row_033_one_role_may_die_and_come_back(make_job):
    """Workers say that they may be restarted, the chief does not."""
    job = make_job(3, roles="chief:1,worker:2")
    chief, one, other = register_all([job.older_member(0, "chief"),
                                      job.older_member(0, "worker", recoverable=True),
                                      job.older_member(1, "worker", recoverable=True)])
    polls = [chief.poll(), other.poll()]
    one.report(13, "the worker's").value()
    for poll in polls:
        poll.assert_parked()
    one.reset().value()
    fresh, = register_all([job.older_member(0, "worker", recoverable=True)])
    fresh.heartbeat().value()
    chief.report(13, "the chief's").value()
    for poll in polls:
        assert "the chief's" in poll.refusal().text


@pytest.mark.only_lockstep
@pytest.mark.row(34)
def test_row_034_a_lost_task_that_may_come_back_does_in_a_new_life(make_job):
    """Upstream asks for a setting of the whole job; here the task says so when it registers."""
    job = make_job(2, heartbeat_timeout=1)
    one, other = register_all([job.older_member(0), job.older_member(1, recoverable=True)])
    poll = one.poll()
    for _ in range(8):
        one.heartbeat().value()
        poll.assert_parked(0.3)
    assert other.heartbeat().refusal().code == "ABORTED"
    fresh, = register_all([job.older_member(1, recoverable=True)])
    fresh.heartbeat().value()
    poll.assert_parked()


@pytest.mark.only_lockstep
def test_errors_are_pushed_to_nobody(two):
    refused = two[0].refusal("ReportErrorToTask", error_code=13, error_message="no")
    assert refused.code == "UNIMPLEMENTED"
    assert "ReportErrorToService" in refused.text


@pytest.mark.mended("a late call of an old run changes the new one")
def test_older_calls_of_an_old_attempt_are_refused(make_job):
    """They do not say which run they mean; their connection does."""
    job = make_job(2, shutdown_timeout=0)
    stale, other = job.older_members()
    stale.shut_down().value()
    other.shut_down().value()
    fresh, _ = job.older_members()
    for refused in (stale.refusal("InsertKeyValue", kv={"key": "k", "value": b"stale"}),
                    stale.heartbeat().refusal()):
        assert refused.code == "INTERNAL"
        assert "wrong service incarnation" in refused.text
        assert SERVICE_MISMATCH in refused.payloads
    assert fresh.refusal("TryGetKeyValue", key="k").code == "NOT_FOUND"
    fresh.heartbeat().value()


@pytest.mark.only_lockstep
def test_both_families_in_one_job(make_job):
    job = make_job(2)
    newer = job.wire_member(0)
    older = job.older_member(1)
    calls = [newer.register(), older.register()]
    newer.registered(calls[0])
    older.registered(calls[1])
    assert newer.service_incarnation == older.service_incarnation
    newer.call("InsertKeyValue", kv={"key": "k", "value": b"v"})
    assert older.call("GetKeyValue", key="k")["kv"]["value"] == b"v"
    for call in [newer.barrier("b"), older.barrier("b")]:
        call.value()
    poll = newer.poll()
    poll.assert_parked()
    older.report(13, "of the older").value()
    assert re.search("of the older", poll.refusal().text)
