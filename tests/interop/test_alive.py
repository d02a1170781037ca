"""Who is alive, asked through stock clients."""

import pytest

from members import all_of, assert_parked


@pytest.fixture
def three(make_job):
    return make_job(3).members()


@pytest.mark.row(121)
def test_row_121_all_ask(three):
    early = [member.start("get_live_nodes", [0, 1, 2]) for member in three[:2]]
    assert_parked(*early)
    answers = all_of(early + [three[2].start("get_live_nodes", [2, 1, 0])])
    assert answers[0] == answers[1] == answers[2]
    assert set(answers[0]) == {0, 1, 2}
    assert len(set(answers[0].values())) == 3  # an incarnation is one life of one member


@pytest.mark.row(124)
def test_row_124_overlapping_sets(three):
    first = [three[0].start("get_live_nodes", [0, 1])]
    second = [three[1].start("get_live_nodes", [1, 2])]
    assert_parked(*first, *second)
    first.append(three[1].start("get_live_nodes", [0, 1]))
    assert [set(answer) for answer in all_of(first)] == [{0, 1}, {0, 1}]
    assert_parked(*second)
    second.append(three[2].start("get_live_nodes", [1, 2]))
    assert [set(answer) for answer in all_of(second)] == [{1, 2}, {1, 2}]


@pytest.mark.row(125)
def test_row_125_who_asks_is_in_the_list(three):
    refused = three[0].refusal("get_live_nodes", [1, 2])
    assert refused.code == "INVALID_ARGUMENT"


@pytest.mark.row(126)
def test_row_126_several_calls_by_one(three):
    early = [three[0].start("get_live_nodes", [0, 1]) for _ in range(3)]
    assert_parked(*early)
    answers = all_of(early + [three[1].start("get_live_nodes", [0, 1])])
    assert all(set(answer) == {0, 1} for answer in answers)
