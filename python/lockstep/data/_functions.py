"""Functions by reference: "module:function", for code that runs them in another process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Union

#: A function, or where it is found: "package.module:function".
Function = Union[str, Callable[..., Any]]

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class NoReference(Exception):
    """There is none; the text says why."""


def is_reference(text: str) -> bool:
    """Whether the text has the form "package.module:function"; nothing is imported."""
    return _REFERENCE.fullmatch(text) is not None


def is_plain(function: Callable[..., Any]) -> bool:
    """Whether it has a name in its module: neither a lambda nor defined inside another function."""
    name = getattr(function, "__qualname__", "<")
    return "<" not in name


def reference_of(function: Callable[..., Any]) -> str:
    """Where another process finds this function, or raises NoReference."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise NoReference(f"{function!r} does not say in which module it is")
    if "<lambda>" in name:
        raise NoReference("a lambda has no name in its module")
    if "<locals>" in name:
        raise NoReference(f"{name.rpartition('.')[2]} is made anew inside another function, and may "
                          "hold what is only here")
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type):
        raise NoReference(f"{name} belongs to an object, which is only here")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if getattr(found, "__func__", found) is not getattr(function, "__func__", function):
        raise NoReference(f"{module} has another {name}, or none")
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        if spec is not None and spec.name != "__main__":
            module = spec.name  # python -m package.module
    return f"{module}:{name}"


def is_only_here(reference: str) -> bool:
    """Whether other processes cannot find it: it is in the program itself, or typed in."""
    return reference.startswith("__main__:")


def runner(reference: str, spec_in: str, spec_out: str) -> Callable[[memoryview], bytes]:
    """Runs the function in this process: an element's frame in, another out.

    The extension calls it. It works as the processes beside workers do, so that both take and give
    the same.
    """
    from lockstep.data import _function_host as host

    function = host.find(reference)
    taken, returned = host.Spec(spec_in), host.Spec(spec_out)
    return lambda frame: b"".join(host.write_frame(function(host.read_frame(frame, taken)), returned))
