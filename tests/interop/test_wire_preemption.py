"""Upstream's keys and barrier of preemptions, call by call: what stock clients never send."""

import pytest

NOTICE = "RECEIVED_PREEMPTION_NOTICE"
COUNTERS = "PREEMPTION_CURRENT_COUNTER/"
BARRIER = "PREEMPTION_SYNC_BARRIER"


def preemption_of(job):
    return job.server.status()["preemption"]


def notify(members, value):
    """The first says so; the others, who wait for it as stock clients do, read what it said."""
    waiting = [member.start("GetKeyValue", key=NOTICE) for member in members[1:]]
    for call in waiting:
        call.assert_parked()
    members[0].call("InsertKeyValue", kv={"key": NOTICE, "value": value})
    for call in waiting:
        assert call.value()["kv"]["value"] == value


def count(member, counter):
    member.call("InsertKeyValue", kv={"key": f"{COUNTERS}{member.index}", "value": counter},
                allow_overwrite=True)


def assert_they_agree(job, members):
    for member, counter in zip(members, (b"41", b"43")):
        count(member, counter)
    for call in [member.barrier(BARRIER) for member in members]:
        call.value()
    state = preemption_of(job)["state"]
    assert (state["outcome"], state["sync_step"]) == ("synced", 44), state


@pytest.mark.only_lockstep
@pytest.mark.parametrize("time", [b"1999-12-31T23:00:00.5-11:00", b"2199-01-01T00:00:00+14:00"])
def test_preemption_gap_09_a_clock_that_is_wrong_by_years_changes_nothing(make_job, time):
    job = make_job(2)
    members = job.wire_members()
    notify(members, time)
    state = preemption_of(job)["state"]
    assert (state["phase"], len(state["notices"])) == ("holding", 1), state
    assert_they_agree(job, members)


@pytest.mark.only_lockstep
@pytest.mark.parametrize("value", [b"", b"soon", b"2026-13-45T99:99:99Z", b"\xff\xfe\x00", b"9" * 10_000],
                         ids=["empty", "a word", "no such day", "no text", "long"])
def test_preemption_gap_15_a_malformed_notice_is_a_notice(make_job, value):
    job = make_job(2)
    members = job.wire_members()
    notify(members, value)
    state = preemption_of(job)["state"]
    assert (state["phase"], state["notices"][0]["source"]) == ("holding", "jax"), state
    assert_they_agree(job, members)


@pytest.mark.only_lockstep
def test_preemption_gap_15_malformed_counters_are_nobodys(make_job):
    job = make_job(2)
    members = job.wire_members()
    notify(members, b"2026-01-01T00:00:00+00:00")
    before = preemption_of(job)["members"]
    for counter in (b"", b"seven", b"-3", b"1.5", str(2**63 - 1).encode(), str(2**70).encode()):
        for member in members:
            count(member, counter)
    for key in ("7", "-1", "x", "", "/job:jax_worker/task:", "/job:nobody/task:7",
                "/job:jax_worker/task:2147483647"):
        members[0].call("InsertKeyValue", kv={"key": COUNTERS + key, "value": b"99"})
    assert preemption_of(job)["members"] == before
    assert_they_agree(job, members)
