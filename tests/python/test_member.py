"""Members: joining, barriers, values, errors, leaving."""

import asyncio
import concurrent.futures
import copy
import datetime
import gc
import pickle
import threading

import pytest

import lockstep
from conftest import LIMIT_S, each


def test_members_know_who_they_are(crowd, job):
    first, second = crowd(2)
    assert (first.job, first.index, first.member, first.size) == (job, 0, 0, 2)
    assert (second.index, second.member, second.attempt) == (1, 1, 1)
    assert first.name.endswith("#1") and repr(first) == f"<lockstep member {first.name} of job {job!r}>"


def test_a_barrier_passes_when_all_have_come_and_may_be_used_again(crowd):
    members = crowd(3)
    for _ in range(3):
        assert each(members, lambda me: me.barrier("loaded", timeout=LIMIT_S)) == [None] * 3


def test_gather_gives_everybody_what_each_brought_by_member(crowd):
    members = crowd(3)
    values = each(members, lambda me: me.gather("port", f"4{me.index}", timeout=LIMIT_S))
    assert values == [[b"40", b"41", b"42"]] * 3


def test_a_barrier_of_some_members_does_not_wait_for_the_others(crowd):
    members = crowd(3)
    each([members[0], members[2]], lambda me: me.barrier("pair", LIMIT_S, members=[0, 2]))
    with pytest.raises(lockstep.InvalidArgument):
        members[1].barrier("others", LIMIT_S, members=[0, 2])


def test_a_barrier_that_times_out_names_who_is_missing(crowd):
    members = crowd(2)
    with pytest.raises(lockstep.DeadlineExceeded) as raised:
        members[0].barrier("loaded", timeout=datetime.timedelta(milliseconds=300))
    assert "/1" in str(raised.value) and "loaded" in str(raised.value)
    assert raised.value.reason and isinstance(raised.value, TimeoutError)
    assert raised.value.code == "DEADLINE_EXCEEDED"
    assert raised.value.details["missing"].endswith("/1")


def test_all_agree_on_an_index_that_nobody_has_passed(crowd):
    members = crowd(3)
    agreed = each(members, lambda me: me.agree("save", 7 + me.index, stride=5, timeout=LIMIT_S))
    assert agreed == [10, 10, 10]


def test_the_living_agree_who_is_alive(crowd):
    members = crowd(2)
    alive = each(members, lambda me: me.alive(timeout=LIMIT_S))
    assert [one.member for one in alive[0]] == [0, 1] and alive[0] == alive[1]


def test_barriers_says_who_waits_for_whom(crowd):
    members = crowd(3)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(members[i].barrier, "loaded", timeout=60) for i in (0, 2)]
        while not (listed := members[1].barriers()).barriers or listed.barriers[0].awaited != (1,):
            assert not any(wait.done() for wait in waits)
        [barrier] = listed.barriers
        assert (barrier.id, barrier.counter, barrier.waiting) == ("loaded", 0, (0, 2))
        assert barrier.open_for >= 0 and 0 < barrier.time_left <= 60 and listed.open == 1
        members[1].barrier("loaded", timeout=LIMIT_S)
        for wait in waits:
            wait.result()
    assert asyncio.run(members[0].aio.barriers()) == lockstep.OpenBarriers((), 0)


def test_members_says_how_each_is(crowd):
    members = crowd(2, labels={"rack": "r7"}, host="gpu-3")
    told = members[0].members()
    assert [(one.member, one.condition, one.host) for one in told] == [
        (0, "connected", "gpu-3"), (1, "connected", "gpu-3")]
    members[0].progress(3, "train")


def test_the_first_error_reaches_every_wait_and_every_callback(crowd):
    members = crowd(2)
    told = threading.Event()
    errors = []
    members[0].on_error(lambda error: (errors.append(error), told.set()))
    waits = threading.Thread(target=lambda: errors.append(_error_of(members[0], "never")))
    waits.start()
    members[1].report_error(ValueError("the loss is nan"))
    assert told.wait(LIMIT_S)
    waits.join(LIMIT_S)
    assert len(errors) == 2
    assert all(isinstance(error, lockstep.Error) and "the loss is nan" in str(error)
               for error in errors), errors


def _error_of(member, barrier):
    try:
        member.barrier(barrier, timeout=LIMIT_S)
    except lockstep.Error as error:
        return error
    return None


def test_an_exception_in_the_block_is_told_to_the_others(crowd):
    members = crowd(2)
    with pytest.raises(ZeroDivisionError):
        with members[1]:
            1 / 0  # noqa: B018
    assert "ZeroDivisionError" in str(_error_of(members[0], "after"))


def test_a_block_leaves_at_its_end(crowd):
    members = crowd(2)

    def work(me):
        with me:
            me.barrier("work", LIMIT_S)

    each(members, work)
    with pytest.raises(lockstep.FailedPrecondition):
        members[0].barrier("after")


def test_a_block_in_which_it_was_closed_just_ends(crowd):
    (me,) = crowd(1)
    with me:
        me.close()

    async def the_same(other):
        async with other:
            other.close()

    (other,) = crowd(1)
    asyncio.run(the_same(other.aio))


def test_after_leave_calls_say_so(crowd):
    (me,) = crowd(1)
    watch = me.kv.watch("")
    watch.next(LIMIT_S)
    me.leave(LIMIT_S)
    for call in (lambda: me.barrier("after", LIMIT_S), lambda: me.kv.get("k", timeout=LIMIT_S),
                 lambda: me.kv.set("k", b"v"), lambda: me.kv.watch("k").next(LIMIT_S),
                 lambda: watch.next(LIMIT_S), lambda: me.members(LIMIT_S)):
        with pytest.raises(lockstep.FailedPrecondition) as raised:
            call()
        assert raised.value.reason == "member_left"


def test_keys_and_their_watches_hold_their_member(server, job):
    keys = lockstep.join(server.address, job=job, size=1, timeout=LIMIT_S).kv
    keys.set("k", b"v")
    watch = keys.watch("k")
    assert keys.get("k") == b"v"
    del keys
    gc.collect()
    assert watch.next(LIMIT_S).changes[0].value == b"v"


@pytest.mark.parametrize("call, error, text", [
    (lambda me: me.progress(-1), ValueError, "count from 0"),
    (lambda me: me.progress("7"), TypeError, "a step is a whole number, not str"),
    (lambda me: me.progress(1, b"train"), TypeError, "a phase is str, not bytes"),
    (lambda me: me.barrier(b"loaded"), TypeError, "an id is str, not bytes"),
    (lambda me: me.barrier("loaded", timeout="5"), TypeError, "a time-out is seconds"),
    (lambda me: me.barrier("loaded", members=3), TypeError, "such as \\[0, 2\\], not by int"),
    (lambda me: me.agree("save", 1.5), TypeError, "index is a whole number, not float"),
    (lambda me: me.kv.get(b"k"), TypeError, "a key is str, not bytes"),
    (lambda me: me.kv.get("\udcff"), lockstep.InvalidArgument, "UTF-8"),
    (lambda me: me.kv.set("k", 1), TypeError, "a value is bytes or str, not int"),
    (lambda me: me.kv.increment("k", 2**63), ValueError, "64 bits"),
    (lambda me: me.kv.watch(b"k"), TypeError, "a key is str, not bytes"),
    (lambda me: lockstep.join(job=b"digits"), TypeError, "job is str, not bytes"),
    (lambda me: lockstep.join(index="0"), TypeError, "index is a whole number, not str"),
])
def test_a_wrong_argument_is_named(crowd, call, error, text):
    (me,) = crowd(1)
    with pytest.raises(error, match=text):
        call(me)


def test_a_long_phase_is_cut(crowd):
    (me,) = crowd(1)
    me.progress(1, "p" * 300)
    me.kv.set("after", b"")
    me.leave(LIMIT_S)


def test_close_ends_a_wait_of_another_thread(crowd):
    members = crowd(2)
    result = []
    begun = threading.Event()

    def wait():
        begun.set()
        result.append(_error_of(members[0], "never"))

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait(LIMIT_S)
    members[0].close()
    thread.join(LIMIT_S)
    assert isinstance(result[0], (lockstep.Cancelled, lockstep.FailedPrecondition))


def test_on_change_tells_all_there_is_first(crowd):
    members = crowd(2)
    changes = []
    told = threading.Event()
    watch = members[0].on_change(lambda change: (changes.append(change), told.set()))
    assert told.wait(LIMIT_S)
    watch.close()
    assert changes[0].snapshot and len(changes[0].members) == 2
    assert changes[0].state == "running"


def test_a_callback_that_raises_is_logged_and_others_go_on(crowd, caplog):
    (me,) = crowd(1)
    called = threading.Event()

    def fails(_):
        raise ValueError("in a callback")

    bad = me.kv.on_change("a", fails)
    good = me.kv.on_change("a", lambda _: called.set())
    assert called.wait(LIMIT_S)
    assert "a callback failed" in caplog.text
    bad.close()
    good.close()


def test_a_member_cannot_be_pickled_or_copied(crowd):
    (me,) = crowd(1)
    with pytest.raises(TypeError, match="join there"):
        pickle.dumps(me)
    with pytest.raises(TypeError, match="join there"):
        copy.copy(me)


def test_joining_as_a_member_that_lives_names_it(crowd, server, job):
    crowd(1, host="gpu-3")
    with pytest.raises(lockstep.AlreadyExists) as raised:
        lockstep.join(server.address, job=job, index=0, timeout=LIMIT_S)
    assert "gpu-3" in str(raised.value) and "pid" in str(raised.value)


def test_a_start_that_does_not_complete_names_who_is_missing(server, job):
    with pytest.raises(lockstep.DeadlineExceeded) as raised:
        lockstep.join(server.address, job=job, index=0, size=2, timeout=0.5)
    assert "/1" in str(raised.value)


def test_no_server_is_unavailable(job):
    with pytest.raises((lockstep.Unavailable, lockstep.DeadlineExceeded)) as raised:
        lockstep.join("127.0.0.1:1", job=job, index=0, size=1, timeout=0.5)
    assert "127.0.0.1:1" in str(raised.value)


def test_no_such_job_is_not_found(server, job):
    with pytest.raises(lockstep.NotFound) as raised:
        lockstep.join(server.address, job=job, index=0, timeout=LIMIT_S)
    assert job in str(raised.value)


@pytest.mark.parametrize("arguments", [{"timeout": -1}, {"timeout": float("nan")}, {"size": 0}])
def test_arguments_that_make_no_sense_are_refused(server, job, arguments):
    with pytest.raises(ValueError):
        lockstep.join(server.address, **{"job": job, "index": 0, "size": 1, **arguments})


def test_errors_can_be_pickled():
    error = lockstep.DeadlineExceeded("who is missing", "barrier_timed_out", {"job": "digits"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is lockstep.DeadlineExceeded
    assert (str(again), again.reason, again.details) == (
        "who is missing", "barrier_timed_out", {"job": "digits"})


def test_a_wrong_list_of_members_spoils_one_use_of_a_barrier(crowd):
    members = crowd(2)
    with pytest.raises(lockstep.InvalidArgument) as raised:
        members[1].barrier("b", LIMIT_S, members=[0, 1, 2])
    assert raised.value.reason == "barrier_unknown_member"
    with pytest.raises(lockstep.InvalidArgument):  # the other's first use is the same
        members[0].barrier("b", LIMIT_S)
    each(members, lambda me: me.barrier("b", LIMIT_S))


def test_a_stride_is_above_zero(crowd):
    (me,) = crowd(1)
    with pytest.raises(lockstep.InvalidArgument, match="stride"):
        me.agree("save", 5, stride=0)
