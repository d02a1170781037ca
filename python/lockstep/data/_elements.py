"""Elements as programs get them: NumPy's arrays, and torch's and JAX's over the same memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from lockstep._arrays import to_numpy
from lockstep._native import Tensor

#: Makes an element of the leaves that the extension gives.
Build = Callable[[list[Any]], Any]


def builder(single: bool, names: list[str]) -> Build:
    """For elements that are one array, or have such fields."""
    if single:
        return lambda values: _to_array(values[0])
    return lambda values: {name: _to_array(value) for name, value in zip(names, values)}


def _to_array(value: Any) -> Any:
    return to_numpy(value) if isinstance(value, Tensor) else value


def as_torch(element: Any) -> Any:
    """The arrays of an element as torch's, over the same memory; text stays as it is.

    Shapes and types are the same. torch has no read-only arrays: a write to one is a segmentation
    fault, so `clone()` what you want to change. Raises ImportError without torch.
    """
    torch: Any = importlib.import_module("torch")
    return _each(element, lambda array: torch.from_dlpack(_owner(array)))


def as_jax(element: Any) -> Any:
    """The arrays of an element as JAX's: on the CPU over the same memory; text stays as it is.

    Shapes are the same; types too, as far as JAX is set to have them. ImportError without JAX.
    """
    jax: Any = importlib.import_module("jax")
    return _each(element, lambda array: jax.device_put(array, may_alias=True))


def _each(element: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(element, dict):
        return {name: _each(one, make) for name, one in element.items()}
    return make(element) if hasattr(element, "__array_interface__") else element


def _owner(array: Any) -> Any:
    """The tensor that an array of ours shows, which declares itself read-only."""
    base = array.base
    return base if isinstance(base, Tensor) and base.shape == array.shape else array
