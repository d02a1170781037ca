"""Which nodes of a torchrun job train together, in rounds: from one restart of workers to the next.

Pure: what is known goes in, the decision comes out. No clock, no thread, nothing of torch.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Collection, Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Node:
    """One torchrun. It keeps its id through all rounds."""

    id: str  #: Unique for ever.
    host: str
    pid: int

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid})"


@dataclasses.dataclass(frozen=True)
class Round:
    """The shared state of all nodes: the current round, and which nodes were in the one before.

    Nodes come into an open round one after the other. Once it is complete they train, and their
    order gives their ranks. The first node that must restart its workers begins the next round.
    """

    number: int = 0
    complete: bool = True
    #: Whether the job has ended: no node comes in any more.
    closed: bool = False
    nodes: tuple[Node, ...] = ()
    former: tuple[Node, ...] = ()

    def encode(self) -> bytes:
        """As JSON, which `decode` reads."""
        return json.dumps(dataclasses.asdict(self)).encode()

    def has(self, node: Node) -> bool:
        """Whether the node is in this round."""
        return node in self.nodes

    def rank(self, node: Node) -> int:
        """The node's rank; ValueError if it is not in this round."""
        return self.nodes.index(node)


def decode(text: bytes) -> Round:
    """Raises ValueError for text that no node has written."""
    try:
        said = json.loads(text)
        nodes, former = (tuple(Node(str(one["id"]), str(one["host"]), int(one["pid"]))
                               for one in said[name]) for name in ("nodes", "former"))
        return Round(int(said["number"]), bool(said["complete"]), bool(said["closed"]), nodes, former)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{text[:80]!r} is not a round of nodes: {error}") from None


@dataclasses.dataclass(frozen=True)
class Bounds:
    """`--nnodes MIN:MAX`."""

    least: int
    most: int


class Verdict(enum.Enum):
    """What a node does next."""
    WAIT = "wait"
    JOINED = "joined"
    CLOSED = "closed"
    CHANGE = "change"  #: Replace the round by the one given, if it is unchanged.


def decide(now: Round, me: Node, last: int, alive: Collection[str], bounds: Bounds,
           last_call_over: bool) -> tuple[Verdict, Round]:
    """What this node does next, if it wants to train.

    Args:
      last: the round in which its workers ran last; 0: none.
      alive: ids of the nodes that give signs of life.
      last_call_over: enough nodes have been there for so long that no more are awaited.
    """
    def living(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(one for one in nodes if one == me or one.id in alive)

    if now.closed:
        # Of a job of the same name that has ended, and whose nodes have gone: this is another one.
        others = [one for one in now.nodes if one != me and one.id in alive]
        if others or now.has(me):
            return Verdict.CLOSED, now
        return Verdict.CHANGE, _with(Round(now.number + 1, complete=False), me, alive, bounds, False)
    if now.complete:
        if now.has(me) and now.number > last:
            return Verdict.JOINED, now
        if not now.has(me) and len(living(now.nodes)) >= bounds.most:
            return Verdict.WAIT, now  # a spare
        begun = Round(now.number + 1, complete=False, former=now.nodes)
        return Verdict.CHANGE, _with(begun, me, alive, bounds, False)
    next_ = _with(dataclasses.replace(now, nodes=living(now.nodes)), me, alive, bounds,
                  last_call_over)
    return (Verdict.WAIT, now) if next_ == now else (Verdict.CHANGE, next_)


def _with(open_: Round, me: Node, alive: Collection[str], bounds: Bounds,
          last_call_over: bool) -> Round:
    """The open round with this node in it; complete if no other node is awaited."""
    nodes = open_.nodes
    if me not in nodes and len(nodes) < bounds.most:
        nodes += (me,)
    if me not in nodes or len(nodes) < bounds.least:
        return dataclasses.replace(open_, nodes=nodes)
    # Who trained before comes again, or has died: nobody else is expected to come just now.
    former_are_here = bool(open_.former) and all(
        one in nodes or one.id not in alive for one in open_.former)
    if len(nodes) < bounds.most and not last_call_over and not former_are_here:
        return dataclasses.replace(open_, nodes=nodes)
    # Ranks stay as they were, as far as that can be; who is new comes behind.
    before = {one: rank for rank, one in enumerate(open_.former)}
    ordered = sorted(nodes, key=lambda one: before.get(one, len(before) + nodes.index(one)))
    return dataclasses.replace(open_, complete=True, nodes=tuple(ordered))


def waiting(now: Round, last: int, alive: Collection[str]) -> int:
    """How many nodes wait for a node that trains in round `last`: it then restarts its workers.

    They wait in a later round, or are of this one and have died.
    """
    if now.closed:
        return 0
    if now.number > last:
        return max(1, len(now.nodes))
    return sum(one.id not in alive for one in now.nodes)


def why_not_complete(now: Round, bounds: Bounds, run: str, waited: float,
                     heard: Mapping[str, float]) -> str:
    """The error text of a round that was not completed.

    Args:
      heard: by id, how many seconds ago a node gave its last sign of life.
    """
    if now.complete:
        return (f"no place in round {now.number} of {run!r} became free within {waited:.0f} s: it has "
                f"{_list(now.nodes)}, and --nnodes allows for {bounds.most}")
    text = (f"{len(now.nodes)} of {bounds.least} nodes came to round {now.number} of {run!r} within "
            f"{waited:.0f} s: {_list(now.nodes)}")
    gone = [one for one in now.former if one not in now.nodes]
    for one in gone:
        text += f"; missing: {one}, which was in round {now.number - 1}"
        if one.id in heard:
            text += f" and was heard of last {heard[one.id]:.1f} s ago"
    unknown = bounds.least - len(now.nodes) - len(gone)
    if unknown > 0:
        what = "one more, which has" if unknown == 1 else f"{unknown} more, which have"
        text += (f"; missing: {what} never come: start torchrun there with the same --rdzv-id and "
                 "--rdzv-endpoint")
    return text


def _list(nodes: Sequence[Node]) -> str:
    return ", ".join(map(str, nodes)) or "nobody"
