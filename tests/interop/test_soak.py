"""Long tests and great numbers: scripts/soak.sh."""

import pytest

from members import all_of, assert_parked, stopped

pytestmark = [pytest.mark.soak, pytest.mark.only_lockstep, pytest.mark.timeout(600)]

CONNECTIONS = 10
PARKED = 1_000  # on each; streams_max is 1,024
IDLE_S = 160  # longer than the longest period of a heartbeat, and than the server's time-out


def threads_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


def test_ten_thousand_parked_calls_cost_no_thread(make_job):
    job = make_job(CONNECTIONS + 1)
    *waiting, other = job.wire_members()
    before = threads_of(job.server.pid)
    parked = [one.start("GetKeyValue", key=f"k/{number % 10}")
              for one in waiting for number in range(PARKED)]
    for one in waiting:
        one.heartbeat().value()  # on the same connection, after all of its calls
    assert threads_of(job.server.pid) <= before + 4

    for number in range(10):
        other.call("InsertKeyValue", kv={"key": f"k/{number}", "value": b"v"})

    assert all(call.value()["kv"]["value"] == b"v" for call in parked)


def test_timeouts_of_300_live_beside_one_of_100_at_a_default_server(make_job):
    job = make_job(3)
    members = [job.member(index, heartbeat_timeout=own)
               for index, own in enumerate((300, 300, 100))]
    all_of([member.start("connect") for member in members])
    waiting = [member.start("wait_at_barrier", "b", 600_000) for member in members[:2]]
    assert_parked(*waiting, seconds=IDLE_S)
    assert job.server.status()["errors"] == []
    all_of(waiting + [members[2].start("wait_at_barrier", "b", 600_000)])
    all_of([member.start("shutdown") for member in members])


def test_stopped_for_half_a_minute(make_job):
    members = make_job(3).members()
    waiting = [member.start("wait_at_barrier", "b", 300_000)
               for member in (members[0], members[2])]
    with stopped(members[1]):
        assert_parked(*waiting, seconds=30)
    all_of(waiting + [members[1].start("wait_at_barrier", "b", 300_000)])
    all_of([member.start("shutdown") for member in members])


def test_cut_off_for_half_a_minute(make_job, make_proxied):
    job = make_job(3)
    cut_off, proxy = make_proxied(job, 1)
    members = [job.member(0), cut_off, job.member(2)]
    all_of([member.start("connect") for member in members])
    waiting = [member.start("wait_at_barrier", "b", 300_000) for member in members[::2]]
    proxy.hold()
    assert_parked(*waiting, seconds=30)
    proxy.release()
    all_of(waiting + [cut_off.start("wait_at_barrier", "b", 300_000)])
    all_of([member.start("shutdown") for member in members])
