"""Several lives of a job on one server."""

import pytest

from members import all_of
from wire import register_all


@pytest.mark.row(47)
def test_row_047_a_second_run_after_a_clean_shutdown(make_job):
    job = make_job(3)
    for _ in range(3):
        members = job.members()
        all_of([member.start("wait_at_barrier", "b", 30_000) for member in members])
        all_of([member.start("shutdown") for member in members])


@pytest.mark.row(47, 130)
def test_row_130_a_new_life_has_a_new_incarnation(make_job):
    job = make_job(2)
    seen = set()
    for _ in range(2):
        members = job.members()
        answer = all_of([member.start("get_live_nodes", [0, 1]) for member in members])[0]
        seen |= set(answer.values())
        all_of([member.start("shutdown") for member in members])
    assert len(seen) == 4


@pytest.mark.mended("keys of a run that ended are there in the next")
def test_a_new_attempt_begins_with_no_keys(make_job):
    job = make_job(2)
    one, other = job.members()
    one.call("key_value_set", "cpu:global_topology/cpu", "stale")
    all_of([one.start("shutdown"), other.start("shutdown")])

    one, other = job.members()

    assert one.refusal("key_value_try_get", "cpu:global_topology/cpu").code == "NOT_FOUND"
    one.call("key_value_set", "cpu:global_topology/cpu", "fresh")
    assert other.call("key_value_try_get", "cpu:global_topology/cpu") == "fresh"


@pytest.mark.mended("after a failure the service refuses everybody until it is started anew")
def test_a_second_run_after_a_kill(make_job):
    job = make_job(3)
    for _ in range(2):
        members = job.members()
        all_of([member.start("wait_at_barrier", "b", 30_000) for member in members])
        members[1].kill()
        for survivor in (members[0], members[2]):
            assert survivor.last_words()[0] == "UNAVAILABLE"

    members = job.members()
    all_of([member.start("wait_at_barrier", "b", 30_000) for member in members])
    all_of([member.start("shutdown") for member in members])


@pytest.mark.mended("a failed registration is final")
@pytest.mark.row(43)
def test_row_043_a_failed_registration_can_be_repeated(make_job):
    job = make_job(2, register_timeout=1)
    alone = job.member(0)
    alone.start("connect")
    assert alone.last_words()[0] == "DEADLINE_EXCEEDED"

    members = job.members()
    all_of([member.start("shutdown") for member in members])


@pytest.mark.mended("a failed shutdown is final")
@pytest.mark.row(48)
def test_row_048_a_failed_shutdown_can_be_followed_by_a_run(make_job):
    job = make_job(2, shutdown_timeout=1)
    leaving, staying = job.members()
    leaving.start("shutdown")
    assert leaving.last_words()[0] == staying.last_words()[0] == "INTERNAL"

    members = job.members()
    all_of([member.start("shutdown") for member in members])


@pytest.mark.mended("the service has one incarnation, so that an old call reaches a new run")
@pytest.mark.row(133)
def test_row_133_calls_of_an_old_attempt_are_refused(make_job):
    job = make_job(2)
    old = job.wire_members()
    polls = [member.poll() for member in old]
    for poll in polls:
        poll.assert_parked()
    fresh = [job.wire_member(0)]
    assert fresh[0].register().refusal().code == "ABORTED"  # the job has failed by it
    for poll in polls:
        assert poll.refusal().code == "ABORTED"

    new = register_all([job.wire_member(0), job.wire_member(1)])

    assert new[0].service_incarnation != old[0].service_incarnation
    refused = old[1].refusal("InsertKeyValue", kv={"key": "k", "value": b"stale"})
    assert "wrong service incarnation" in refused.text.lower()
    assert new[0].refusal("TryGetKeyValue", key="k").code == "NOT_FOUND"
    assert old[1].heartbeat().refusal().code == "INTERNAL"
    for member in new:
        member.heartbeat().value()
