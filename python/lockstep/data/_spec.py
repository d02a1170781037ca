"""What elements look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Union


class Leaf(NamedTuple):
    """An array in each element, or the whole of it."""

    dtype: str
    """"float32", ...; "text" and "bytes": of any length."""
    shape: tuple[int | None, ...]
    """The extents; None where each element has its own."""

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join('?' if one is None else str(one) for one in self.shape)}]"


#: For elements that are one array, or that have several by name.
Spec = Union[Leaf, dict[str, Leaf]]
#: What a Python function returns: "float32[3,?]", "x:int64[];y:text[]", a Leaf, or those by name.
Returns = Union[str, Leaf, Mapping[str, Union[str, Leaf]]]

#: (single, [(name, type, extents)]), None while it is not known.
RawSpec = tuple[bool, list[tuple[str, str, list[int]]]]


def to_spec(raw: RawSpec | None) -> Spec | None:
    """The spec as programs get it: a negative extent becomes None. None while it is not known."""
    if raw is None:
        return None
    single, leaves = raw
    named = {name: Leaf(dtype, tuple(None if one < 0 else one for one in dims))
             for name, dtype, dims in leaves}
    return next(iter(named.values())) if single else named


def fields_of(raw: RawSpec | None) -> list[str]:
    """The names of the fields; TypeError if there are none, or they are not known."""
    if raw is None:
        raise TypeError("what its fields are is not known before the files are read")
    if raw[0]:
        raise TypeError("the element is one array and has no fields")
    return [name for name, _, _ in raw[1]]


def returns_text(returns: Returns) -> str:
    """In the extension's form: "name:type[extents]", joined by ";"."""
    if isinstance(returns, Mapping):
        return ";".join(f"{name}:{_with_extents(str(one))}" for name, one in returns.items())
    return ";".join(_with_extents(one) for one in str(returns).split(";"))


def _with_extents(text: str) -> str:
    text = text.strip()
    return text if text.endswith("]") else f"{text}[]"
