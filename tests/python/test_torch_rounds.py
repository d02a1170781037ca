"""The machine that decides which nodes of a torchrun job train together."""

import dataclasses
import random

import pytest

from lockstep.torch._rounds import (Bounds, Node, Round, Verdict, decide, decode, waiting,
                                    why_not_complete)

A, B, C, D = (Node(name, f"host-{name}", number) for number, name in enumerate("abcd", 1))
ALL = {"a", "b", "c", "d"}


class Cluster:
    """Nodes that take turns; what one writes all see."""

    def __init__(self, least, most):
        self.bounds, self.now, self.alive = Bounds(least, most), Round(), set()
        self.last = {}

    def ask(self, node, last_call_over=False):
        """Its turn, until it can do nothing more."""
        self.alive.add(node.id)
        for _ in range(10):
            verdict, next_ = decide(self.now, node, self.last.get(node, 0), self.alive, self.bounds,
                                    last_call_over)
            if verdict is not Verdict.CHANGE:
                break
            assert decode(next_.encode()) == next_ and next_ != self.now
            self.now = next_
        else:
            raise AssertionError("it never comes to rest")
        if verdict is Verdict.JOINED:
            self.last[node] = self.now.number
        return verdict

    def waiting(self, node):
        return waiting(self.now, self.last[node], self.alive)


def test_a_round_is_complete_when_all_are_there_and_all_have_other_ranks():
    cluster = Cluster(2, 2)
    assert cluster.ask(A) is Verdict.WAIT
    assert cluster.ask(B) is Verdict.JOINED
    assert cluster.ask(A) is Verdict.JOINED
    assert (cluster.now.number, cluster.now.rank(A), cluster.now.rank(B)) == (1, 0, 1)
    assert cluster.waiting(A) == cluster.waiting(B) == 0


def test_with_fewer_than_all_the_last_call_is_waited_for():
    cluster = Cluster(1, 3)
    assert cluster.ask(A) is Verdict.WAIT and cluster.ask(B) is Verdict.WAIT
    assert cluster.ask(B, last_call_over=True) is Verdict.JOINED
    assert cluster.ask(A) is Verdict.JOINED and cluster.now.nodes == (A, B)


def trained(least, most, *nodes):
    cluster = Cluster(least, most)
    for node in nodes:
        cluster.ask(node)
    for node in nodes:
        if cluster.last.get(node) != cluster.now.number or not cluster.now.complete:
            assert cluster.ask(node, last_call_over=True) is Verdict.JOINED
    assert cluster.now.nodes == nodes
    return cluster


def test_a_node_whose_workers_fail_brings_all_into_the_next_round_with_their_ranks():
    cluster = trained(2, 2, A, B)
    assert cluster.ask(B) is Verdict.WAIT
    assert cluster.waiting(A) == 1
    assert cluster.ask(A) is Verdict.JOINED and cluster.ask(B) is Verdict.JOINED
    assert cluster.now.number == 2 and cluster.now.nodes == (A, B)


def test_a_node_that_dies_is_done_without_as_soon_as_it_is_known():
    cluster = trained(1, 3, A, B, C)
    cluster.alive.discard("a")
    assert cluster.waiting(B) == cluster.waiting(C) == 1
    assert cluster.ask(C) is Verdict.WAIT
    assert cluster.ask(B) is Verdict.JOINED and cluster.ask(C) is Verdict.JOINED
    assert cluster.now.nodes == (B, C)


def test_a_node_that_dies_in_an_open_round_is_taken_out():
    cluster = Cluster(2, 2)
    cluster.ask(A)
    cluster.alive.discard("a")
    assert cluster.ask(B) is Verdict.WAIT and cluster.now.nodes == (B,)


def test_a_node_that_comes_later_brings_all_into_the_next_round():
    cluster = trained(1, 2, A)
    assert cluster.ask(B) is Verdict.WAIT
    assert cluster.waiting(A) == 1
    assert cluster.ask(A) is Verdict.JOINED and cluster.ask(B) is Verdict.JOINED
    assert cluster.now.nodes == (A, B)


def test_a_spare_waits_until_somebody_dies():
    cluster = trained(2, 2, A, B)
    assert cluster.ask(C) is Verdict.WAIT and cluster.waiting(A) == 0
    cluster.alive.discard("a")
    assert cluster.ask(C) is Verdict.WAIT
    assert cluster.waiting(B) == 1
    assert cluster.ask(B) is Verdict.JOINED and cluster.ask(C) is Verdict.JOINED
    assert cluster.now.nodes == (B, C)


def test_nobody_comes_into_a_job_that_has_ended_and_its_name_can_be_used_again():
    cluster = trained(1, 2, A, B)
    cluster.now = dataclasses.replace(cluster.now, closed=True)
    assert cluster.waiting(A) == 0
    assert cluster.ask(A) is Verdict.CLOSED and cluster.ask(C) is Verdict.CLOSED
    cluster.alive = set()
    assert cluster.ask(C) is Verdict.WAIT and cluster.now.number == 2
    assert cluster.ask(C, last_call_over=True) is Verdict.JOINED


def test_the_text_names_who_is_missing():
    cluster = trained(3, 3, A, B, C)
    cluster.alive.discard("b")
    cluster.ask(A)
    text = why_not_complete(cluster.now, cluster.bounds, "digits", 60.4, {"b": 12.14})
    assert text == ("1 of 3 nodes came to round 2 of 'digits' within 60 s: host-a (pid 1); missing: "
                    "host-b (pid 2), which was in round 1 and was heard of last 12.1 s ago; missing: "
                    "host-c (pid 3), which was in round 1")
    fresh = Cluster(3, 3)
    fresh.ask(A)
    assert "missing: 2 more, which have never come" in why_not_complete(
        fresh.now, fresh.bounds, "digits", 60, {})
    full = trained(2, 2, A, B)
    assert "--nnodes allows for 2" in why_not_complete(full.now, full.bounds, "digits", 60, {})


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"number": 1}', b"\xff",
                                  b'{"number":1,"complete":1,"closed":0,"nodes":[7],"former":[]}'])
def test_what_is_no_round_is_refused(text):
    with pytest.raises(ValueError):
        decode(text)


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_those_who_train_in_one_round_agree_on_their_ranks(seed):
    """Random turns, failures and deaths, with stale views: a write counts only if nothing changed."""
    chance = random.Random(seed)
    most = chance.randint(2, 4)
    bounds = Bounds(chance.randint(1, most), most)
    now, alive, last, rounds = Round(), set(), {}, {}
    for _ in range(200):
        node = chance.choice((A, B, C, D))
        if node.id not in alive or chance.random() < 0.02:
            alive ^= {node.id}  # dies, or comes (again)
            continue
        training = last.get(node, 0) == now.number and now.complete and now.has(node)
        if training and not waiting(now, last[node], alive) and chance.random() < 0.8:
            continue
        verdict, next_ = decide(now, node, last.get(node, 0), alive, bounds, chance.random() < 0.3)
        if verdict is Verdict.CHANGE:
            assert next_.number in (now.number, now.number + 1)
            now = next_
        elif verdict is Verdict.JOINED:
            last[node] = now.number
            assert rounds.setdefault(now.number, now.nodes) == now.nodes
            assert bounds.least <= len(now.nodes) <= bounds.most
            assert len(set(now.nodes)) == len(now.nodes)
    # Left alone, those who live come to train, if they are enough.
    alive = set("abcd"[:bounds.least])
    few = (A, B, C, D)[:bounds.least]
    for _ in range(20):
        for node in few:
            if last.get(node) == now.number and not waiting(now, last[node], alive):
                continue
            verdict, next_ = decide(now, node, last.get(node, 0), alive, bounds, True)
            if verdict is Verdict.CHANGE:
                now = next_
            elif verdict is Verdict.JOINED:
                last[node] = now.number
    assert now.complete and set(now.nodes) == set(few)
    assert all(last[node] == now.number for node in few)
