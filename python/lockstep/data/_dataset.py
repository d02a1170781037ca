"""Datasets: what to read and what to make of it, before anything is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lockstep import _native
from lockstep._types import Timeout, seconds, whole
from lockstep.data import _functions, _nodes, _trace
from lockstep.data._functions import Function
from lockstep.data._nodes import Attribute, Node, invalid, where
from lockstep.data._spec import Returns, Spec, fields_of, returns_text, to_spec

if TYPE_CHECKING:
    from lockstep.data._local import LocalIterator
    from lockstep.data._read import At, Reader

#: Ops to which a policy for errors may apply.
_CAN_FAIL = {"range", "array", "npy", "windows", "records", "lines", "tfrecord", "fill", "map",
             "filter", "map_python"}


class Dataset:
    """What to read and what to make of it: `data.npy("*.npy").shuffle(seed=7).batch(64)`.

    Immutable: each call returns a new dataset, which refers to the ones it was made of. Nothing is
    read before `local` or `read`. Errors in a definition point to the line of the program that made
    it: InvalidArgument, reason "definition_invalid".
    """

    __slots__ = ("_root", "_segment", "_definition")

    def __init__(self, root: Node, segment: int | None = None) -> None:
        self._root = root
        self._segment = segment
        self._definition: _native.DataDefinition | None = None

    # What is made of it.

    def shuffle(self, seed: int = 0, *, reshuffle: bool = True) -> Dataset:
        """Reorders the whole dataset, as the seed decides, at no cost of memory.

        Comes before `filter` and `batch`; after them: InvalidArgument, "definition_invalid".

        Args:
          reshuffle: another order in each pass of a later `repeat`.
        """
        return self._then("shuffle", seed=whole(seed, "a seed"), reshuffle=bool(reshuffle))

    def repeat(self, count: int | None = None) -> Dataset:
        """The whole dataset that many times, one after the other; without a count for ever.

        Raises ValueError for a negative count.
        """
        if count is not None and whole(count, "a count") < 0:
            raise ValueError(f"a count is not negative, and this is {count}; None is for ever")
        return self._then("repeat", count=-1 if count is None else whole(count, "a count"))

    def take(self, count: int) -> Dataset:
        """The first `count` elements, or all if there are fewer. ValueError for a negative count.
        """
        return self._then("take", count=_natural(count, "a count"))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements. ValueError for a negative count."""
        return self._then("skip", count=_natural(count, "a count"))

    def map(self, function: Function, *, returns: Returns | None = None,
            timeout: Timeout = 60) -> Dataset:
        """Applies a function to each element: a lambda, a function of a module, or its reference.

        A lambda, or a function defined inside another, is called here with columns instead of
        values; what it computes runs in the engine:

            lambda row: {"x": row["image"] / 255.0, "y": row["label"]}

        It may use arithmetic, comparisons, `&`, `|`, `~`, `abs`, parts, and the methods of
        `data.Column`.

        A function that has a name in its module, or "package.module:function", runs as Python, in
        processes beside the workers, which import the module. In `local` it runs in this process,
        where breakpoints in it work.

        Args:
          returns: what a Python function returns: "float32[3,4]", or "x:float32[3,?];y:text" for a
            dict, or a dict of such; without it, the same as it is given.
          timeout: seconds that a Python function may take for one element.

        Raises:
          InvalidArgument: "definition_invalid": an expression cannot say it, or workers would not
            find the function.
          ValueError: `returns` of an expression, or no `timeout`.
          TypeError: it is no function.
        """
        place = where()
        expression = self._expression(function, place, "map")
        if expression is not None:
            if returns is not None:
                raise ValueError("what an expression returns is known; `returns` is for a Python "
                                 "function")
            return self._then("map", place, expression=expression)
        reference = self._reference(function, place)
        spec = _nodes.at(place, self._spec_text) if returns is None else returns_text(returns)
        return self._then("map_python", place, function=reference, spec=spec,
                          timeout_ms=_milliseconds(timeout))

    def filter(self, function: Callable[[Any], Any]) -> Dataset:
        """The elements for which the function is true: a lambda, as for `map`, of one bool.

        Raises InvalidArgument, "definition_invalid", for a function that is no expression.
        """
        place = where()
        expression = self._expression(function, place, "filter")
        if expression is None:
            raise invalid(place, "filter takes a lambda that is an expression; let map() of a Python "
                                 "function give a field for it to look at")
        return self._then("filter", place, expression=expression)

    def batch(self, count: int, *, drop_remainder: bool = False) -> Dataset:
        """`count` consecutive elements as one: shape (3, 4) becomes (count, 3, 4).

        Their shapes must be the same. After a `filter`, or where elements may be skipped, a batch
        ends with its segment.

        Args:
          drop_remainder: leaves out the last ones if they are fewer.

        Raises ValueError for a count below 1; while reading, InvalidArgument, "function_failed", if
        shapes differ.
        """
        if whole(count, "a batch") < 1:
            raise ValueError(f"a batch has at least one element, and this is {count}")
        return self._then("batch", count=whole(count, "a batch"),
                          drop_remainder=bool(drop_remainder))

    def on_error(self, policy: str, budget: int | None = None) -> Dataset:
        """What to do with records that cannot be read and elements for which a function fails.

        It applies to the operators before it, back to the previous `on_error`.

        Args:
          policy: "fail": reading ends with an error that names the position; this is the default.
            "skip": the element is left out.
          budget: with "skip", how many may be left out of a segment by each function and source;
            beyond that reading fails all the same.
        """
        if policy not in ("fail", "skip"):
            raise ValueError(f"a policy is \"fail\" or \"skip\", and this is {policy!r}")
        if budget is not None and policy != "skip":
            raise ValueError("only \"skip\" has a budget")
        said: dict[str, Attribute] = {
            "on_error": policy, "error_budget": -1 if budget is None else _natural(budget, "a budget")}
        made: dict[int, Node] = {}
        for node in _nodes.in_order(self._root):
            inputs = tuple(made[id(one)] for one in node.inputs)
            attributes = node.attributes
            if node.op in _CAN_FAIL and "on_error" not in attributes:
                attributes = {**attributes, **said}
            unchanged = attributes is node.attributes and all(
                one is other for one, other in zip(inputs, node.inputs))
            made[id(node)] = node if unchanged else Node(node.op, inputs, attributes, node.where)
        return Dataset(made[id(self._root)], self._segment)

    def segment(self, positions: int) -> Dataset:
        """How many positions make a segment: what a worker is given at a time, and makes alone.

        Rounded up to whole batches. Without it, the engine chooses. ValueError below 1.
        """
        if whole(positions, "a segment") < 1:
            raise ValueError(f"a segment has at least one position, and this is {positions}")
        return Dataset(self._root, whole(positions, "a segment"))

    # What it is.

    @property
    def spec(self) -> Spec | None:
        """What its elements are: a Leaf, or a dict of them; None while only the files can tell.

        Raises InvalidArgument, "definition_invalid", at the line that is wrong.
        """
        return to_spec(self._defined().spec())

    @property
    def identity(self) -> str:
        """32 hexadecimal digits, the same for definitions that mean the same."""
        return self._defined().identity()

    def __len__(self) -> int:
        """How many elements it has; TypeError if that is not known before it is read."""
        elements = self._defined().elements()
        if elements is None:
            raise TypeError("how many elements it has is not known before it is read")
        if elements < 0:
            raise TypeError("it has no end: repeat() without a count")
        return elements

    def explain(self) -> str:
        """Describes it op by op: the line of the program that made the op, and what comes out."""
        lines = []
        nodes = _nodes.in_order(self._root)
        numbers = {id(node): number for number, node in enumerate(nodes)}
        for number, node in enumerate(nodes):
            spec = Dataset(node)._spec_text_or("not known before its files are read")
            inputs = ", ".join(f"#{numbers[id(one)]}" for one in node.inputs)
            lines.append(f"#{number} {_described(node)}{f' of {inputs}' if inputs else ''}\n"
                         f"     gives {spec}\n"
                         f"     from {node.where}")
        lines.append(f"identity {self.identity}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<lockstep.data.Dataset {_chain(self._root)}>"

    # How it is read.

    def local(self) -> LocalIterator:
        """Its elements in this process, in their exact order; Python functions also run here.

        Raises InvalidArgument, "definition_invalid"; NotFound, "source_missing", if a file does not
        exist; PermissionDenied, "path_refused", if it may not be read.
        """
        from lockstep.data._local import LocalIterator

        return LocalIterator(self._defined())

    def read(self, at: At = None, *, name: str = "", repetition: int = 0, order: str = "exact",
             consumer: int | str | None = None, consumers: int | None = None,
             cursor: bytes | None = None, rejoin: bytes | None = None, ack: str = "auto",
             unacknowledged_max: int = 10_000, unacknowledged_bytes_max: int = 1 << 30,
             visitation: str = "exactly_once", on_lost: str = "auto", sharding: str = "dynamic",
             shares: int | None = None, timeout: Timeout = None) -> Reader:
        """Its elements as workers make them, for one of the consumers that share them.

        Readers that give the same name and repetition read the same iteration: one pass over the
        dataset, on whatever hosts. `lockstep worker --dispatcher ADDRESS` starts workers.

        Args:
          at: a member, whose server is used; HOST:PORT; None: LOCKSTEP_COORDINATOR, 127.0.0.1:7070.
          name: of the iteration; without one the iteration belongs to this reader alone.
          repetition: another pass under the same name.
          order: "exact": the order of `local`: consumer i of n gets elements i, i+n, i+2n, ...
            "first_come": each element goes to the consumer that asks first. "rounds": in each round
            all consumers get elements of one worker, so that slow ones hold up all equally.
          consumer: which of them this is, from 0 up; "first_come" also takes a name: a consumer
            that comes back under it continues where it was.
          consumers: how many there are: "exact" and "rounds".
          cursor: where to begin: the `cursor()` of a reader of this dataset, with as many consumers
            or another number of them, in an iteration that has not begun yet: of another name or
            repetition. All that open it give the same.
          rejoin: the `cursor()` from this same iteration, which the others still read: this
            consumer died meanwhile and continues there.
          ack: "auto": asking for the next element acknowledges the one before. "manual": `ack()`
            does.
          unacknowledged_max, unacknowledged_bytes_max: with ack="manual", so many elements (of so
            many bytes) may come without `ack()`; the next one raises FailedPrecondition
            "ack_needed".
          visitation: "first_come": what happens to elements that a consumer got and did not
            acknowledge when it is lost. "exactly_once": others get them; "at_least_once": with all
            of their segment; "at_most_once": no consumer does.
          on_lost: "rounds": when a consumer is lost, "wait": the others wait for its successor, for
            which all its elements are kept; "go_on": they read on, and what it alone would have
            read is missing. "auto": "wait" if consumers keep cursors or are members of a job.
          sharding: "dynamic": any worker makes any segment. "off", "first_come" only: each worker
            makes a whole pass. "static_data", "static_file": each worker one of `shares` parts, of
            the segments or of the files.
          timeout: seconds that opening it takes at most, and each element after that; None: no
            limit.

        Raises InvalidArgument "definition_invalid", also for Python functions that only this
        program has; the iterator raises what the iteration fails with, such as "source_changed" or
        "record_poisoned".
        """
        from lockstep.data._read import open_reader

        definition = self._defined()
        definition.spec()  # what is wrong with it is told here
        for node in _nodes.in_order(self._root):
            function = node.attributes.get("function")
            if isinstance(function, str) and _functions.is_only_here(function):
                raise invalid(node, f"workers cannot import {function}, which is in the program itself: "
                                    "put it into a module of its own")
        return open_reader(definition, at, name=name, repetition=repetition, order=order,
                           consumer=consumer, consumers=consumers, cursor=cursor, rejoin=rejoin,
                           ack=ack, unacknowledged_max=unacknowledged_max,
                           unacknowledged_bytes_max=unacknowledged_bytes_max, visitation=visitation,
                           on_lost=on_lost, sharding=sharding, shares=shares, timeout=timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self._root, self._segment)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a dataset says what to read: iterate over ds.local(), or over "
                        "ds.read(...) to have workers make the elements")

    def _defined(self) -> _native.DataDefinition:
        if self._definition is None:
            self._definition = _native.data_definition(_nodes.to_raw(self._root, self._segment))
        return self._definition

    def _then(self, op: str, place: str | None = None, **attributes: Attribute) -> Dataset:
        return Dataset(Node(op, (self._root,), attributes, place or where()), self._segment)

    def _expression(self, function: Function, place: str, what: str) -> str | None:
        """The traced expression; None for a function that must run by reference."""
        if isinstance(function, str):
            return None
        if not callable(function):
            raise TypeError(f"{what} takes a function or \"module:function\", not "
                            f"{type(function).__name__}")
        if _functions.is_plain(function):
            return None
        try:
            return _trace.trace(function, lambda: _nodes.at(
                place, lambda: fields_of(self._defined().spec())))
        except _trace.NotTraceable as error:
            raise invalid(place, f"this function is no expression: {error}. Write it with what "
                                 "expressions have, or define it by `def` in a module that workers can "
                                 "import, and give that, or \"module:function\"") from None

    def _reference(self, function: Function, place: str) -> str:
        if isinstance(function, str):
            if not _functions.is_reference(function):
                raise invalid(place, f"{function!r} is no reference to a function, such as "
                                     "\"package.module:function\"")
            return function
        try:
            return _functions.reference_of(function)
        except _functions.NoReference as error:
            raise invalid(place, f"workers would not find this function: {error}; define it by `def` "
                                 "in a module that they can import") from None

    def _spec_text(self) -> str:
        spec = self._defined().spec_text()
        if spec is None:
            raise TypeError("what comes in is not known before the files are read: say what the "
                            "function returns, such as returns=\"float32[3,4]\"")
        return spec

    def _spec_text_or(self, otherwise: str) -> str:
        return self._defined().spec_text() or otherwise


def _natural(value: int, what: str) -> int:
    if whole(value, what) < 0:
        raise ValueError(f"{what} is not negative, and this is {value}")
    return whole(value, what)


def _milliseconds(timeout: Timeout) -> int:
    limit = seconds(timeout)
    if limit is None:
        raise ValueError("a function has a time-out, so that one that hangs is found")
    return max(1, round(limit * 1000))


def _described(node: Node) -> str:
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in node.attributes.items())
    return f"{node.op}({shown})"


def _shown(value: Attribute | bytes) -> str:
    if isinstance(value, (list, tuple)):
        listed = ", ".join(_shown(one) for one in value[:4])
        return f"[{listed}{', ...' if len(value) > 4 else ''}]"
    if isinstance(value, bytes) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(value)


def _chain(node: Node) -> str:
    names = []
    while True:
        names.append(node.op if len(node.inputs) < 2 else
                     f"{node.op}({', '.join(_chain(one) for one in node.inputs)})")
        if len(node.inputs) != 1:
            return ".".join(reversed(names))
        node = node.inputs[0]
