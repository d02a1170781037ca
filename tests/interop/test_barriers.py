"""Barriers of all and of some, through stock clients."""

import re

import pytest

from members import all_of, assert_parked, refusal_of


@pytest.fixture
def three(make_job):
    return make_job(3).members()


def arrive(members, name, timeout_ms=30_000, indices=None):
    return [member.start("wait_at_barrier", name, timeout_ms, indices) for member in members]


@pytest.mark.row(83)
def test_row_083_nobody_passes_before_the_last_arrives(three):
    early = arrive(three[1:], "b")
    assert_parked(*early)
    all_of(early + arrive(three[:1], "b"))


@pytest.mark.row(84, 118)
def test_row_118_only_the_listed_call(three):
    all_of(arrive(three[:2], "b", indices=[0, 1]))
    all_of(arrive(three[2:], "alone", indices=[2]))
    early = arrive(three[1:2], "c", indices=[2, 1])
    assert_parked(*early)
    all_of(early + arrive(three[2:], "c", indices=[1, 2]))


@pytest.mark.row(85)
def test_row_085_different_lists(three):
    first = arrive(three[:1], "b", indices=[0, 1])
    assert_parked(*first)
    second = arrive(three[1:2], "b", indices=[1, 2])
    for future in first + second:
        refused = refusal_of(future)
        assert refused.code == "INVALID_ARGUMENT"
        assert "Conflicting tasks specified" in refused.text


@pytest.mark.row(85)
def test_row_085_a_list_and_none(three):
    first = arrive(three[:1], "b", indices=[0, 1])
    assert_parked(*first)
    second = arrive(three[1:2], "b")
    for future in first + second:
        refused = refusal_of(future)
        assert refused.code == "INVALID_ARGUMENT"
        assert "b::0" in refused.text


@pytest.mark.row(86)
def test_row_086_a_stranger_ends_an_open_barrier(three):
    first = arrive(three[:1], "b", indices=[0, 1])
    assert_parked(*first)
    second = arrive(three[2:], "b", indices=[0, 1])
    for future in first + second:
        assert refusal_of(future).text.startswith("INVALID_ARGUMENT: A non-participating task")


@pytest.mark.row(87)
def test_row_087_a_stranger_comes_after_it_passed(three):
    all_of(arrive(three[:2], "b", indices=[0, 1]))
    refused = refusal_of(arrive(three[2:], "b", indices=[0, 1])[0])
    assert refused.code == "INVALID_ARGUMENT"
    all_of(arrive(three[:2], "b", indices=[0, 1]))


@pytest.mark.row(88)
def test_row_088_a_list_with_an_index_outside_of_the_job(three):
    refused = refusal_of(arrive(three[:1], "b", indices=[0, 9])[0])
    assert refused.code == "INVALID_ARGUMENT"
    all_of(arrive(three, "after"))


@pytest.mark.row(89, 120)
def test_row_120_one_never_calls(three):
    for future in arrive(three[:2], "b", 300):
        text = refusal_of(future).text
        assert text.startswith("DEADLINE_EXCEEDED: Barrier timed out")
        assert "2/3" in text


@pytest.mark.row(89)
def test_row_089_the_time_out_names_the_first_and_the_missing(three):
    first = arrive(three[1:2], "b", 600)
    assert_parked(*first)
    for future in first + arrive(three[:1], "b", 600):
        text = refusal_of(future).text
        assert re.search(r"[Tt]he first (task at the barrier: |was task/)1\b", text)
        assert re.search(r"(timed out task names:\n|missing task/)2\b", text)


@pytest.mark.row(91)
def test_row_091_the_same_name_again_and_again(three):
    for _ in range(3):
        all_of(arrive(three, "b"))


@pytest.mark.row(105, 108)
def test_row_108_two_names_in_turn(three):
    for _ in range(10):
        all_of(arrive(three, "odd"))
        all_of(arrive(three, "even"))


@pytest.mark.row(90, 106)
def test_row_106_who_comes_after_the_time_out_hears_the_same(three):
    early = [refusal_of(future).text for future in arrive(three[:2], "b", 200)]
    late = refusal_of(arrive(three[2:], "b")[0]).text
    assert early == [late, late]


@pytest.mark.row(107)
def test_row_107_all_wait_at_different_barriers(three):
    waiting = [member.start("wait_at_barrier", f"b{member.index}", 200) for member in three]
    for future in waiting:
        assert refusal_of(future).text.startswith("DEADLINE_EXCEEDED: Barrier timed out")


@pytest.mark.row(110)
def test_row_110_after_a_time_out_all_call_again(three):
    early = [refusal_of(future).text for future in arrive(three[:2], "b", 200)]
    straggler = refusal_of(arrive(three[2:], "b")[0]).text
    assert early == [straggler, straggler]
    all_of(arrive(three, "b"))


@pytest.mark.row(92, 111)
def test_row_111_too_quick_and_too_slow(three):
    refusal_of(arrive(three[:1], "b", 200)[0])
    quick = arrive(three[:1], "b")
    assert_parked(*quick)
    slow = arrive(three[1:2], "b")
    for future in quick + slow:
        refused = refusal_of(future)
        assert refused.code == "INTERNAL"
        assert "restart" in refused.text or "too quick / slow" in refused.text


@pytest.mark.row(119)
def test_row_119_strangers_call_first(three):
    waiting = arrive(three[2:], "b", indices=[0, 1])
    refused = [refusal_of(future) for future in waiting]
    refused += [refusal_of(future) for future in arrive(three[:2], "b", indices=[0, 1])]
    for error in refused:
        assert error.text.startswith("INVALID_ARGUMENT: A non-participating task")


@pytest.mark.row(147)
def test_row_147_one_call_at_a_time(three):
    first = arrive(three[:1], "b")
    assert_parked(*first)
    assert refusal_of(arrive(three[:1], "b")[0]).code == "FAILED_PRECONDITION"
    all_of(first + arrive(three[1:], "b"))


@pytest.mark.row(114)
def test_row_114_a_client_that_leaves_cancels_its_own_barrier(make_job):
    one, other = make_job(2, shutdown_timeout=0).members()
    waiting = arrive([one], "b")
    assert_parked(*waiting)
    one.call("shutdown")
    assert refusal_of(waiting[0]).code in ("CANCELLED", "INTERNAL")
    other.call("shutdown")


@pytest.mark.row(101)
def test_row_101_a_participant_leaves_while_it_is_open(make_job):
    one, other = make_job(2, shutdown_timeout=0).members()
    waiting = arrive([one], "b")
    assert_parked(*waiting)
    other.call("shutdown")
    assert refusal_of(waiting[0]).code == "INTERNAL"


@pytest.mark.row(113)
def test_row_113_a_hundred_are_late(make_job):
    job = make_job(100)
    crowd = job.crowd(range(100))
    assert set(crowd.call("all", "connect").values()) == {""}
    refused = refusal_of(crowd.start("one", 7, "wait_at_barrier", "b", 200))
    assert refused.text.startswith("DEADLINE_EXCEEDED: Barrier timed out")
    assert "1/100" in refused.text
