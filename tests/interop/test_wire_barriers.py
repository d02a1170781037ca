"""Barriers, counters and cancels, call by call."""

import pytest

from wire import BARRIER_ERROR, COORDINATION_ERROR, register_all


@pytest.fixture
def three(make_job):
    return make_job(3).wire_members()


def assert_barrier_error(refused, code, name, counter):
    assert refused.code == code
    assert COORDINATION_ERROR in refused.payloads
    payload = b"\x0a" + bytes([len(name)]) + name.encode()
    if counter:
        payload += b"\x10" + bytes([counter])
    assert refused.payloads[BARRIER_ERROR] == payload


@pytest.mark.row(83)
def test_row_083_the_reply_has_the_counter(three):
    for counter in range(3):
        calls = [member.barrier("b", counter) for member in three]
        assert [call.value()["counter"] for call in calls] == [counter] * 3


@pytest.mark.row(89)
def test_row_089_time_out(three):
    calls = [member.barrier("b", timeout_ms=200) for member in three[:2]]
    for call in calls:
        refused = call.refusal()
        assert_barrier_error(refused, "DEADLINE_EXCEEDED", "b", 0)
        assert refused.text.startswith("Barrier timed out")


@pytest.mark.row(90)
def test_row_090_the_stored_error_is_told_again(three):
    first = three[0].barrier("b", timeout_ms=100).refusal()
    again = three[0].barrier("b").refusal()
    late = three[2].barrier("b").refusal()
    assert first.text == again.text == late.text
    assert_barrier_error(late, "DEADLINE_EXCEEDED", "b", 0)


@pytest.mark.row(92)
def test_row_092_a_counter_ahead_of_the_open_instance(three):
    waiting = three[0].barrier("b", 0)
    waiting.assert_parked()
    ahead = three[1].barrier("b", 1).refusal()
    assert_barrier_error(ahead, "INTERNAL", "b", 0)
    assert_barrier_error(waiting.refusal(), "INTERNAL", "b", 0)
    assert_barrier_error(three[2].barrier("b", 0).refusal(), "INTERNAL", "b", 0)


@pytest.mark.row(93, 97)
def test_row_093_counters_after_it_passed(three):
    for call in [member.barrier("b", 0) for member in three]:
        call.value()
    assert three[0].barrier("b", 0).value()["counter"] == 0
    refused = three[1].barrier("b", 2).refusal()
    assert_barrier_error(refused, "INTERNAL", "b", 0)


@pytest.mark.row(93)
def test_row_093_a_counter_below_zero(three):
    for call in [member.barrier("b", 0) for member in three]:
        call.value()
    assert three[1].barrier("b", -1).refusal().code == "INTERNAL"


@pytest.mark.mended("a wrong counter overwrites the stored result of a passed barrier")
@pytest.mark.row(93)
def test_row_093_a_wrong_counter_leaves_the_result_alone(three):
    for call in [member.barrier("b", 0) for member in three]:
        call.value()
    assert three[1].barrier("b", 2).refusal().code == "INTERNAL"
    assert three[0].barrier("b", 0).value()["counter"] == 0
    for call in [member.barrier("b", 1) for member in three]:
        assert call.value()["counter"] == 1


@pytest.mark.row(94)
def test_row_094_cancel(three):
    waiting = [member.barrier("b") for member in three[:2]]
    for call in waiting:
        call.assert_parked(0.1)
    three[2].cancel_barrier("b").value()
    for call in waiting:
        assert_barrier_error(call.refusal(), "CANCELLED", "b", 0)


@pytest.mark.row(95)
def test_row_095_cancel_after_it_passed(three):
    for call in [member.barrier("b") for member in three]:
        call.value()
    refused = three[0].cancel_barrier("b").refusal()
    assert_barrier_error(refused, "FAILED_PRECONDITION", "b", 0)
    assert "already been passed" in refused.text


@pytest.mark.row(96)
def test_row_096_cancel_with_a_counter(three):
    for call in [member.barrier("b", 0) for member in three]:
        call.value()
    waiting = three[0].barrier("b", 1)
    waiting.assert_parked()
    refused = three[1].cancel_barrier("b", 2).refusal()
    assert refused.code == "FAILED_PRECONDITION"
    assert "likely due to a restart" in refused.text
    three[1].cancel_barrier("b", 1).value()
    assert_barrier_error(waiting.refusal(), "CANCELLED", "b", 1)


@pytest.mark.mended("stock agents cannot cancel a later instance, since they send no counter")
@pytest.mark.row(96)
def test_row_096_a_cancel_without_a_counter_means_the_open_instance(three):
    for call in [member.barrier("b", 0) for member in three]:
        call.value()
    waiting = three[0].barrier("b", 1)
    waiting.assert_parked()
    three[1].cancel_barrier("b").value()
    assert_barrier_error(waiting.refusal(), "CANCELLED", "b", 1)


@pytest.mark.mended("cancelling a barrier that nobody used spoils its first instance")
@pytest.mark.row(94)
def test_row_094_cancel_of_an_unused_barrier_spoils_nothing(three):
    three[0].cancel_barrier("b").value()
    for call in [member.barrier("b", 0) for member in three]:
        assert call.value()["counter"] == 0


@pytest.mark.row(100)
def test_row_100_a_second_call_of_the_same_member(three):
    first = three[0].barrier("b")
    first.assert_parked()
    second = three[0].barrier("b")
    refused = first.refusal()
    assert refused.code == "CANCELLED"
    assert BARRIER_ERROR not in refused.payloads
    second.assert_parked()
    for call in [three[1].barrier("b"), three[2].barrier("b"), second]:
        call.value()


@pytest.mark.row(101)
def test_row_101_a_participant_leaves(make_job):
    one, other = make_job(2, shutdown_timeout=0).wire_members()
    waiting = one.barrier("b")
    waiting.assert_parked()
    other.shut_down().value()
    assert_barrier_error(waiting.refusal(), "INTERNAL", "b", 0)


@pytest.mark.row(88)
def test_row_088_strangers(three):
    refused = three[0].barrier("b", indices=[0, 17]).refusal()
    assert_barrier_error(refused, "INVALID_ARGUMENT", "b", 0)


@pytest.mark.mended("a stranger without a list counts as an arrival")
@pytest.mark.row(88)
def test_row_088_a_stranger_does_not_arrive(make_job):
    job = make_job(2)
    one, other = job.wire_members()
    waiting = one.barrier("b")
    waiting.assert_parked()
    stranger = job.wire_member(9)
    stranger.service_incarnation = one.service_incarnation
    assert stranger.barrier("b").refusal().code == "INVALID_ARGUMENT"
    waiting.assert_parked()


@pytest.mark.mended("a list that names a member twice conflicts with itself")
@pytest.mark.row(84)
def test_row_084_a_member_named_twice(three):
    for call in [member.barrier("b", indices=[0, 1, 1]) for member in three[:2]]:
        call.value()


@pytest.mark.mended("the service remembers an abandoned call for ever")
@pytest.mark.row(83)
def test_row_083_who_gives_up_has_not_arrived(three):
    given_up = three[0].barrier("b")
    given_up.assert_parked()
    given_up.cancel()
    waiting = [member.barrier("b") for member in three[1:]]
    for call in waiting:
        call.assert_parked()
    for call in waiting + [three[0].barrier("b")]:
        call.value()


@pytest.mark.row(116)
def test_row_116_a_member_that_may_come_back_does(make_job):
    job = make_job(3, recoverable=True)
    members = job.wire_members()
    waiting = [member.barrier("b") for member in members[:2]]
    for call in waiting:
        call.assert_parked(0.1)
    fresh, = register_all([job.wire_member(2)])
    waiting.append(fresh.barrier("b"))
    for call in waiting:
        call.value()


@pytest.mark.row(117)
def test_row_117_a_member_arrives_restarts_and_arrives(make_job):
    job = make_job(3, recoverable=True)
    members = job.wire_members()
    stale = members[2].barrier("b")
    stale.assert_parked()
    fresh, = register_all([job.wire_member(2)])
    assert stale.refusal().code == "CANCELLED"
    for call in [members[0].barrier("b"), members[1].barrier("b"), fresh.barrier("b")]:
        call.value()


@pytest.mark.row(115)
def test_row_115_a_restarted_member_counts_from_zero(make_job):
    job = make_job(2, recoverable=True)
    one, other = job.wire_members()
    for counter in (0, 1):
        for call in [one.barrier("b", counter), other.barrier("b", counter)]:
            call.value()
    fresh, = register_all([job.wire_member(1)])
    calls = [fresh.barrier("b", 0), one.barrier("b", 2)]
    assert [call.value()["counter"] for call in calls] == [2, 2]
