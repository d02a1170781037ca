"""A member is killed: everybody who is left is answered.

jaxlib's own service learns of it by a heartbeat time-out, which the tests shorten; Lockstep by the
broken connection, with the time-outs of a real job.
"""

import re

import pytest

from members import all_of, assert_parked


def quick_loss(kind):
    """Server and client options under which a loss is seen within seconds."""
    if kind == "jaxlib":
        return {"heartbeat_timeout": 2}, {"heartbeat_timeout": 2}
    return {}, {}


@pytest.mark.row(10, 54, 56)
def test_row_054_killed_in_the_middle(kind, make_job):
    server_options, client_options = quick_loss(kind)
    job = make_job(3, **server_options)
    members = job.members(**client_options)

    members[1].kill()

    for survivor in (members[0], members[2]):
        code, text = survivor.last_words()
        assert code == "UNAVAILABLE"
        assert re.search(r"task/1\b" if kind == "lockstep" else r"^1$", text, re.MULTILINE)


@pytest.mark.row(99)
def test_row_099_killed_while_others_wait_at_a_barrier(kind, make_job):
    server_options, client_options = quick_loss(kind)
    job = make_job(3, **server_options)
    members = job.members(**client_options)
    waiting = [member.start("wait_at_barrier", "b", 60_000) for member in members[:2]]
    assert_parked(*waiting)

    members[2].kill()

    for survivor in members[:2]:
        code, _ = survivor.last_words()
        assert code == "UNAVAILABLE"


@pytest.mark.row(99)
def test_row_099_killed_after_it_arrived_at_a_barrier(kind, make_job):
    server_options, client_options = quick_loss(kind)
    job = make_job(3, **server_options)
    members = job.members(**client_options)
    waiting = [member.start("wait_at_barrier", "b", 60_000) for member in members[:2]]
    assert_parked(*waiting)

    members[0].kill()

    for survivor in members[1:]:
        code, _ = survivor.last_words()
        assert code == "UNAVAILABLE"


@pytest.mark.row(123)
def test_row_123_killed_while_others_ask_who_is_alive(kind, make_job):
    server_options, client_options = quick_loss(kind)
    job = make_job(3, **server_options)
    members = job.members(**client_options)
    waiting = [member.start("get_live_nodes", [0, 1, 2]) for member in members[:2]]
    assert_parked(*waiting)

    members[2].kill()

    for survivor in members[:2]:
        code, _ = survivor.last_words()
        assert code == "UNAVAILABLE"


@pytest.mark.row(50)
def test_row_050_killed_while_others_shut_down(kind, make_job):
    server_options, client_options = quick_loss(kind)
    job = make_job(3, **server_options)
    members = job.members(**client_options)
    waiting = [member.start("shutdown") for member in members[:2]]
    assert_parked(*waiting)

    members[2].kill()

    for survivor in members[:2]:
        code, text = survivor.last_words()
        assert code in ("INTERNAL", "UNAVAILABLE")


@pytest.mark.row(43)
def test_row_043_killed_while_others_register(make_job):
    """A process that died before all were there may come back, and is waited for."""
    job = make_job(3)
    killed = job.member(2)
    killed.start("connect")
    early = [job.member(0).start("connect")]
    assert_parked(*early, seconds=0.5)

    killed.kill()
    assert killed.wait_ended() == -9

    early.append(job.member(2).start("connect"))
    assert_parked(*early, seconds=0.5)
    all_of(early + [job.member(1).start("connect")])


@pytest.mark.mended("a process that died while it registered counts as registered")
@pytest.mark.row(43)
def test_row_043_the_dead_do_not_complete_the_registration(make_job):
    job = make_job(3)
    killed = job.member(2)
    killed.start("connect")
    early = [job.member(0).start("connect")]
    assert_parked(*early, seconds=0.5)

    killed.kill()
    assert killed.wait_ended() == -9

    early.append(job.member(1).start("connect"))
    assert_parked(*early, seconds=0.5)
    all_of(early + [job.member(2).start("connect")])


@pytest.mark.row(53)
def test_row_053_the_server_goes_away(make_job):
    job = make_job(2)
    members = job.members()
    job.server.end()
    for member in members:
        code, _ = member.last_words()
        assert code == "UNAVAILABLE"


@pytest.mark.row(12, 21, 39, 45)
def test_row_045_a_second_process_takes_an_index_in_use(make_job):
    job = make_job(2)
    members = job.members()
    intruder = job.member(1, init_timeout=1)

    intruder.start("connect")

    for member in members:
        code, text = member.last_words()
        assert code == "ABORTED"
