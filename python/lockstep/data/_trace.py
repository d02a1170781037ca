"""Turns a lambda into an expression of the engine: calls it once with columns that record use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from lockstep._arrays import type_name
from lockstep._errors import Error

class NotTraceable(Exception):
    """It does what an expression cannot say; the text says what."""


class Column:
    """Stands for the content of an element, in a function given to `map` or `filter`.

    Arithmetic, comparisons, `&`, `|`, `~`, `abs`, parts and the methods below work on it as on an
    array. What asks for a value, such as `if`, fails: there is none yet. It holds the text of an
    expression: lockstep/data/plan/expression.h.
    """

    __slots__ = ("_text",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"<lockstep.data.Column {self._text}>"

    # What is computed.

    def __add__(self, other: Any) -> Column:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Column:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Column:
        return _apply("sub", self, other)

    def __rsub__(self, other: Any) -> Column:
        return _apply("sub", other, self)

    def __mul__(self, other: Any) -> Column:
        return _apply("mul", self, other)

    def __rmul__(self, other: Any) -> Column:
        return _apply("mul", other, self)

    def __truediv__(self, other: Any) -> Column:
        return _apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Column:
        return _apply("div", other, self)

    def __floordiv__(self, other: Any) -> Column:
        return _apply("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Column:
        return _apply("floordiv", other, self)

    def __mod__(self, other: Any) -> Column:
        return _apply("mod", self, other)

    def __rmod__(self, other: Any) -> Column:
        return _apply("mod", other, self)

    def __lt__(self, other: Any) -> Column:
        return _apply("lt", self, other)

    def __le__(self, other: Any) -> Column:
        return _apply("le", self, other)

    def __gt__(self, other: Any) -> Column:
        return _apply("gt", self, other)

    def __ge__(self, other: Any) -> Column:
        return _apply("ge", self, other)

    def __eq__(self, other: Any) -> Column:  # type: ignore[override]
        return _apply("eq", self, other)

    def __ne__(self, other: Any) -> Column:  # type: ignore[override]
        return _apply("ne", self, other)

    def __and__(self, other: Any) -> Column:
        return _apply("and", self, other)

    def __rand__(self, other: Any) -> Column:
        return _apply("and", other, self)

    def __or__(self, other: Any) -> Column:
        return _apply("or", self, other)

    def __ror__(self, other: Any) -> Column:
        return _apply("or", other, self)

    def __invert__(self) -> Column:
        return _apply("not", self)

    def __neg__(self) -> Column:
        return _apply("neg", self)

    def __pos__(self) -> Column:
        return self

    def __abs__(self) -> Column:
        return _apply("abs", self)

    def cast(self, dtype: Any) -> Column:
        """Converts to elements of another type: "float32", numpy.uint8, ..."""
        return Column(f'(cast {self._text} "{type_name(dtype)}")')

    astype = cast

    def sum(self) -> Column:
        """The sum of everything in it; whole numbers make int64."""
        return _apply("sum", self)

    def mean(self) -> Column:
        """The mean of everything in it."""
        return _apply("mean", self)

    def length(self) -> Column:
        """The length of the first dimension; of a text, in bytes."""
        return _apply("length", self)

    def __getitem__(self, key: Any) -> Column:
        """`x[3]`, `x[-1]`, `x[2:10]`: a part of the first dimension."""
        if isinstance(key, slice):
            if key.step is not None and key.step != 1:
                raise NotTraceable(f"it takes every {key.step!r}th of a column")
            first = 0 if key.start is None else key.start
            if not isinstance(first, int) or not isinstance(key.stop, (int, type(None))):
                raise NotTraceable("it takes a part of a column by what is no whole number")
            last = _INT64_MAX if key.stop is None else key.stop
            return Column(f"(slice {self._text} {first} {last})")
        if isinstance(key, int) and not isinstance(key, bool):
            return Column(f"(index {self._text} {key})")
        if isinstance(key, str):
            raise NotTraceable(f"it takes the field {key!r} of what has no fields")
        raise NotTraceable(f"it takes a part of a column by {type(key).__name__}")

    # What asks for values.

    def __bool__(self) -> NoReturn:
        raise NotTraceable("it asks whether a column is true, as if, and, or, not and chained "
                           "comparisons do; write & for and, | for or, ~ for not")

    def __iter__(self) -> Iterator[Any]:
        raise NotTraceable("it goes through the elements of a column")

    def __len__(self) -> int:
        raise NotTraceable("it asks how long a column is")

    def __int__(self) -> int:
        raise NotTraceable("it makes a number of a column; write .cast(\"int64\")")

    def __float__(self) -> float:
        raise NotTraceable("it makes a number of a column; write .cast(\"float64\")")

    __index__ = __int__
    __complex__ = __float__

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotTraceable("it makes an array of a column")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Column:
        operator = _UFUNCS.get(ufunc.__name__)
        if operator is None or method != "__call__" or options:
            raise NotTraceable(f"it calls numpy.{ufunc.__name__}")
        return _apply(operator, *inputs)

    def __array_function__(self, function: Any, types: Any, inputs: tuple[Any, ...],
                           options: dict[str, Any]) -> Column:
        operator = _FUNCTIONS.get(function.__name__)
        if operator is None or options:
            raise NotTraceable(f"it calls numpy.{function.__name__}")
        return _apply(operator, *inputs)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise NotTraceable(f"it asks for .{name} of a column")


class Row(Column):
    """The argument of such a function: the element, or its fields as `row["name"]`."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Callable[[], list[str]]) -> None:
        super().__init__("_")
        self._fields = fields

    def __getitem__(self, key: Any) -> Column:
        return Column(f"(get {_quoted(key)})") if isinstance(key, str) else super().__getitem__(key)

    def keys(self) -> list[str]:
        """The names of the fields, so that `{**row, "more": ...}` keeps them."""
        return self._fields()


_INT64_MAX = 2**63 - 1
#: The NumPy functions that the engine also has.
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "floor_divide": "floordiv", "remainder": "mod", "negative": "neg", "absolute": "abs",
    "minimum": "min", "maximum": "max", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "logical_and": "and",
    "logical_or": "or", "logical_not": "not",
}
_FUNCTIONS = {"where": "where", "sum": "sum", "mean": "mean"}


def minimum(a: Any, b: Any) -> Column:
    """The smaller of two columns, or of a column and a number."""
    return _apply("min", a, b)


def maximum(a: Any, b: Any) -> Column:
    """The larger of two columns, or of a column and a number."""
    return _apply("max", a, b)


def where(condition: Column, a: Any, b: Any) -> Column:
    """`a` where the condition is true, elsewhere `b`."""
    return _apply("where", condition, a, b)


def _apply(operator: str, *operands: Any) -> Column:
    return Column(f"({operator} {' '.join(_text_of(one) for one in operands)})")


def _text_of(value: Any) -> str:
    if isinstance(value, Column):
        return value._text
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return f'(cast {_text_of(value.item())} "{value.dtype.name}")'
    if isinstance(value, int):
        if not -2**63 <= value < 2**63:
            raise NotTraceable(f"it computes with {value}, which 64 bits do not hold")
        return str(int(value))
    if isinstance(value, float):
        if math.isinf(value) or math.isnan(value):
            return f"{value}"
        return repr(float(value))
    raise NotTraceable(f"it computes with {type(value).__name__}")


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def trace(function: Callable[..., Any], fields: Callable[[], list[str]]) -> str:
    """What the function computes, as the text of an expression. Raises NotTraceable."""
    first = _called(function, fields)
    # What asks the clock or throws dice would be asked and thrown once, here, for all elements.
    if _called(function, fields) != first:
        raise NotTraceable("it gives something else each time it is called")
    return first


def _called(function: Callable[..., Any], fields: Callable[[], list[str]]) -> str:
    try:
        result = function(Row(fields))
    except (NotTraceable, Error):
        raise
    except Exception as error:
        raise NotTraceable(f"called with a column it raises {type(error).__name__}: {error}"
                           ) from error
    if isinstance(result, (tuple, list)):
        raise NotTraceable(f"it gives a {type(result).__name__}; give a dict of named fields")
    if not isinstance(result, Mapping):
        return _text_of(result)
    for name in result:
        if not isinstance(name, str):
            raise NotTraceable(f"it names a field {name!r}, and names are texts")
    if not result:
        raise NotTraceable("it gives a dict without fields")
    return f"(record {' '.join(f'{_quoted(name)} {_text_of(one)}' for name, one in result.items())})"
