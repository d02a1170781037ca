"""A process that is stopped for a while is not lost: the job goes on when it does."""

import signal

import pytest

from members import all_of, assert_parked

STOPPED_S = 3


def stop_one_for_a_while(members, waiting):
    members[1].kill(signal.SIGSTOP)
    try:
        assert_parked(*waiting, seconds=STOPPED_S)
    finally:
        members[1].kill(signal.SIGCONT)


def test_stopped_while_others_wait(make_job):
    job = make_job(3)
    members = job.members()
    waiting = [member.start("wait_at_barrier", "b", 60_000) for member in (members[0], members[2])]

    stop_one_for_a_while(members, waiting)

    all_of(waiting + [members[1].start("wait_at_barrier", "b", 60_000)])
    members[1].call("key_value_set", "k", "v")
    assert members[0].call("key_value_try_get", "k") == "v"
    all_of([member.start("shutdown") for member in members])


def test_stopped_in_the_middle_of_a_get(make_job):
    members = make_job(2).members()
    waiting = members[1].start("blocking_key_value_get", "k", 60_000)
    assert_parked(waiting)

    stop_one_for_a_while(members, [waiting])

    members[0].call("key_value_set", "k", "v")
    assert all_of([waiting]) == ["v"]


@pytest.mark.mended("the service cannot tell who is silent before the heartbeat time-out")
def test_nobody_is_lost_by_being_stopped(make_job):
    job = make_job(2)
    members = job.members()
    stop_one_for_a_while(members, [members[0].start("blocking_key_value_get", "k", 60_000)])
    members[1].call("key_value_set", "k", "v")
    assert {member["condition"] for member in job.server.status()["members"]} == {"connected"}
