"""A process that is stopped or cut off for a while is not lost: the job goes on when it does.

Half a minute of the same: test_soak.py.
"""

import pytest

from members import all_of, assert_parked, stopped

PAUSE_S = 3
IDLE_S = 15


def test_stopped_while_others_wait(make_job):
    members = make_job(3).members()
    waiting = [member.start("wait_at_barrier", "b", 120_000)
               for member in (members[0], members[2])]

    with stopped(members[1]):
        assert_parked(*waiting, seconds=PAUSE_S)

    all_of(waiting + [members[1].start("wait_at_barrier", "b", 120_000)])
    members[1].call("key_value_set", "k", "v")
    assert members[0].call("key_value_try_get", "k") == "v"
    all_of([member.start("shutdown") for member in members])


def test_stopped_in_the_middle_of_a_get(make_job):
    members = make_job(2).members()
    waiting = members[1].start("blocking_key_value_get", "k", 120_000)
    assert_parked(waiting)

    with stopped(members[1]):
        members[0].call("key_value_set", "k", "v")
        assert_parked(waiting, seconds=PAUSE_S)

    assert all_of([waiting]) == ["v"]


def test_cut_off_while_others_wait(make_job, make_proxied):
    job = make_job(3)
    cut_off, proxy = make_proxied(job, 1)
    members = [job.member(0), cut_off, job.member(2)]
    all_of([member.start("connect") for member in members])
    waiting = [member.start("wait_at_barrier", "b", 120_000) for member in members[:2]]
    assert_parked(*waiting)

    proxy.hold()
    waiting.append(members[2].start("wait_at_barrier", "b", 120_000))
    all_of([waiting[0], waiting[2]])  # it had arrived before it was cut off
    assert_parked(waiting[1], seconds=PAUSE_S)
    proxy.release()

    all_of(waiting)
    all_of([member.start("shutdown") for member in members])


@pytest.mark.mended("a client whose time-out is longer than the service's is lost while it is well")
def test_clients_with_longer_timeouts_of_their_own_are_not_lost(make_job):
    """They send a heartbeat every 10 s, 20 s and 1 s."""
    job = make_job(3, heartbeat_timeout=2)
    members = [job.member(index, heartbeat_timeout=own) for index, own in enumerate((20, 40, 2))]
    all_of([member.start("connect") for member in members])
    waiting = [member.start("wait_at_barrier", "b", 120_000) for member in members[:2]]

    assert_parked(*waiting, seconds=IDLE_S)

    assert job.server.status()["errors"] == []
    all_of(waiting + [members[2].start("wait_at_barrier", "b", 120_000)])
    all_of([member.start("shutdown") for member in members])


@pytest.mark.mended("the service has nothing to ask")
def test_status_shows_who_was_stopped_as_connected_again(make_job):
    job = make_job(2)
    members = job.members()
    with stopped(members[1]):
        waiting = members[0].start("blocking_key_value_get", "k", 120_000)
        assert_parked(waiting, seconds=PAUSE_S)
    members[1].call("key_value_set", "k", "v")
    assert {member["condition"] for member in job.server.status()["members"]} == {"connected"}
