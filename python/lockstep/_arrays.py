"""Arrays by the names of their types: NumPy's own, and those of ml_dtypes."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable
from typing import Any

from lockstep._types import whole


def as_bytes(value: Any) -> tuple[Any, str, tuple[int, ...]] | None:
    """(bytes, name of the type, shape) of a NumPy array whose type only ml_dtypes knows, else None.

    The extension calls it for what neither the buffer protocol nor DLPack can describe.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    if value.dtype.type.__module__.partition(".")[0] != "ml_dtypes":
        return None
    packed = numpy.ascontiguousarray(value)
    return packed.reshape(-1).view(numpy.uint8), value.dtype.name, value.shape


def to_numpy(tensor: Any) -> Any:
    """The memory of a tensor as a numpy.ndarray, without a copy. The extension calls it.

    Raises TypeError for a type of elements that neither NumPy nor ml_dtypes knows.
    """
    array, dtype = _numpy_of(tensor.dtype)
    return array(tensor.shape, dtype, buffer=tensor)


@functools.lru_cache(maxsize=64)
def _numpy_of(name: str) -> tuple[Any, Any]:
    """NumPy's class of arrays, and its type of this name.

    Looking both up takes longer than the rest.
    """
    numpy: Any = importlib.import_module("numpy")
    return numpy.ndarray, _numpy_type(numpy, name)


def _numpy_type(numpy: Any, name: str) -> Any:
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    try:
        return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        raise TypeError(f"NumPy knows {name} only together with the package ml_dtypes, which is not "
                        "installed here; or take the value by another library's from_dlpack"
                        ) from None
    except AttributeError:
        raise TypeError(f"neither NumPy nor ml_dtypes knows {name}; take bytes(tensor)") from None


def type_name(dtype: Any) -> str:
    """The name of a type given as a name, or as NumPy, ml_dtypes, JAX or torch have it.

    Raises TypeError for elements in another byte order than this machine's.
    """
    if isinstance(dtype, str):
        return dtype
    if getattr(dtype, "isnative", True) is False:
        raise TypeError(f"elements are in the byte order of this machine, and {dtype!r} is not")
    name = getattr(dtype, "name", None)
    if isinstance(name, str):
        return name  # numpy.dtype("float32")
    if isinstance(dtype, type):
        return dtype.__name__.rstrip("_")  # numpy.float32, numpy.bool_, bool
    nested = getattr(dtype, "dtype", None)
    if nested is not None:
        return type_name(nested)  # jax.numpy.float32
    return str(dtype).rpartition(".")[2]  # torch.float32


def extents(shape: int | Iterable[int]) -> list[int]:
    """A shape in the extension's form; one number is a shape of one dimension.

    Raises ValueError for a negative extent, TypeError for what is no whole number.
    """
    if isinstance(shape, (str, bytes)):
        raise TypeError(f"a shape is whole numbers, such as (3, 4), not {type(shape).__name__}")
    listed = [whole(one, "an extent") for one in shape] if isinstance(shape, Iterable) else [
        whole(shape, "an extent")]
    for extent in listed:
        if extent < 0:
            raise ValueError(f"an extent is not negative, and this is {extent}")
    return listed
