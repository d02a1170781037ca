"""Registration and shutdown: everybody waits for everybody."""

import pytest

from members import all_of, assert_parked


@pytest.mark.row(41)
def test_row_041_connect_and_shutdown_wait_for_all(make_job):
    job = make_job(4)
    members = [job.member(index) for index in range(4)]

    early = [member.start("connect") for member in members[:3]]
    assert_parked(*early)
    all_of(early + [members[3].start("connect")])

    early = [member.start("shutdown") for member in members[1:]]
    assert_parked(*early)
    all_of(early + [members[0].start("shutdown")])


@pytest.mark.row(42)
def test_row_042_late_clients_are_waited_for(make_job):
    job = make_job(3)
    first = job.member(2).start("connect")
    assert_parked(first)
    second = job.member(0).start("connect")
    assert_parked(first, second)
    all_of([first, second, job.member(1).start("connect")])


@pytest.mark.row(40, 43)
def test_row_043_one_never_shows_up(make_job):
    job = make_job(3, register_timeout=1)
    members = [job.member(index) for index in (0, 2)]
    for member in members:
        member.start("connect")

    for member in members:
        code, text = member.last_words()
        assert code == "DEADLINE_EXCEEDED"
        assert text.startswith("Barrier timed out")
        assert "2/3" in text


@pytest.mark.row(38, 44)
def test_row_044_restart_during_connect(make_job):
    job = make_job(3)
    stale = job.member(0)
    first = [stale.start("connect"), job.member(1).start("connect")]
    assert_parked(*first, seconds=0.5)
    second = job.member(0).start("connect")
    assert_parked(first[1], second, seconds=0.5)

    last = job.member(2).start("connect")

    all_of([first[1], second, last])
    code, _ = stale.last_words()
    assert code == "ALREADY_EXISTS"


@pytest.mark.row(46)
def test_row_046_no_init_timeout_still_waits(make_job):
    job = make_job(2)
    early = job.member(0, init_timeout=0).start("connect")
    assert_parked(early)
    all_of([early, job.member(1, init_timeout=0).start("connect")])


@pytest.mark.row(51)
def test_row_051_all_leave_in_order(make_job):
    job = make_job(3)
    members = job.members()

    all_of([member.start("shutdown") for member in members])

    for member in members:
        member.call("drop")
        assert "Terminating process" not in member.output()


def test_shutdown_twice_is_refused_by_the_client(make_job):
    member = make_job(1).members()[0]
    member.call("shutdown")
    member.call("shutdown")


@pytest.mark.row(2)
def test_row_002_an_index_outside_of_the_job_is_refused(make_job):
    job = make_job(2)
    stranger = job.member(7)
    stranger.start("connect")
    code, text = stranger.last_words()
    assert code == "INVALID_ARGUMENT"

    members = job.members()
    members[0].call("wait_at_barrier", "after", 10_000, [0])


@pytest.mark.row(52)
def test_row_052_shutdown_barrier_times_out(make_job):
    job = make_job(2, shutdown_timeout=1)
    leaving, staying = job.members()

    leaving.start("shutdown")

    for member in (leaving, staying):
        code, text = member.last_words()
        assert code == "INTERNAL"
        assert "Shutdown barrier has failed" in text
        assert "Barrier timed out" in text


@pytest.mark.row(1)
def test_row_001_members_of_a_job_of_many(make_job):
    job = make_job(64)
    crowd = job.crowd(range(64))
    assert set(crowd.call("all", "connect").values()) == {""}
    assert set(crowd.call("all", "wait_at_barrier", "b", 30_000).values()) == {""}
    assert set(crowd.call("all", "shutdown").values()) == {""}
