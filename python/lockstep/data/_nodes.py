"""What a dataset is made of: ops with inputs and attributes, and where in the program they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, Union

from lockstep._errors import InvalidArgument

#: An attribute's types: a tuple of whole numbers; a list of texts or bytes, which travel alike.
Attribute = Union[bool, int, float, str, tuple[int, ...], list[str], list[bytes]]

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True, eq=False)
class Node:
    """One op. Shared by all datasets that were made of it; never changes."""

    op: str
    inputs: tuple[Node, ...] = ()
    attributes: dict[str, Attribute] = field(default_factory=dict)
    where: str = ""
    """FILE:LINE of the program that made it."""


def where() -> str:
    """FILE:LINE of the innermost call that is not in this package's folder of data."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def invalid(node_or_where: Node | str, text: str) -> InvalidArgument:
    """The error of a definition, which points to the line of the program that made it."""
    place = node_or_where.where if isinstance(node_or_where, Node) else node_or_where
    return InvalidArgument(f"{place}: {text}", "definition_invalid", {"where": place})


Result = TypeVar("Result")


def at(place: str, asked: Callable[[], Result]) -> Result:
    """The answer; a TypeError becomes the error of the definition there."""
    try:
        return asked()
    except TypeError as error:
        raise invalid(place, str(error)) from None


def in_order(root: Node) -> list[Node]:
    """All nodes, each after its inputs, the root last; a node with several users once."""
    ordered: list[Node] = []
    done: set[int] = set()
    open_nodes: list[tuple[Node, int]] = [(root, 0)]
    while open_nodes:
        node, next_input = open_nodes.pop()
        if id(node) in done:
            continue
        if next_input < len(node.inputs):
            open_nodes.append((node, next_input + 1))
            open_nodes.append((node.inputs[next_input], 0))
            continue
        done.add(id(node))
        ordered.append(node)
    return ordered


RawNode = tuple[int, str, list[int], dict[str, Attribute], str]


def to_raw(root: Node, segment: int | None) -> list[RawNode]:
    """In the extension's form: (id, op, inputs, attributes, where)."""
    nodes = in_order(root)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    raw = [(number, node.op, [numbers[id(one)] for one in node.inputs], dict(node.attributes),
            node.where) for number, node in enumerate(nodes)]
    if segment is not None:
        raw[-1][3]["segment"] = segment
    return raw
