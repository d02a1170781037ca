"""The process in which a Python function of a dataset runs: `python -m lockstep.data._function_host`.

Started by data workers (lockstep/data/engine/function_host.h, which says what is spoken); ends with them. It
reads and writes frames by itself, so that nothing it does depends on what the function imports.
"""

from __future__ import annotations

import importlib
import os
import select
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_SOCKET = 3
_DEFINE, _READY, _REFUSED, _CALL, _BUSY, _RESULTS = 1, 2, 3, 4, 5, 6
_MESSAGE = struct.Struct("<IIQ")
_BUSY_EVERY = 0.1
_ERROR_BYTES_MAX = 8192

_HEADER = struct.Struct("<IHHQqqIIQQII")
_LEAF = struct.Struct("<BBHHHQQQ")
_MAGIC = 0x4645534C
_OFFSETS, _TEXT = 1, 2
_DLPACK = {"bool": (6, 8), "bfloat16": (4, 16)}
_DLPACK.update({f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)})
_DLPACK.update({f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)})
_DLPACK.update({f"float{bits}": (2, bits) for bits in (16, 32, 64)})


class _Leaf(NamedTuple):
    name: str
    dtype: str
    dims: tuple[int | None, ...]

    @property
    def variable(self) -> bool:
        return self.dtype in ("text", "bytes")

    def __str__(self) -> str:
        dims = ",".join("?" if one is None else str(one) for one in self.dims)
        return f"{self.dtype}[{dims}]"


class Spec:
    """As plan::ToText writes it."""

    def __init__(self, text: str) -> None:
        self.leaves: list[_Leaf] = []
        self.single = False
        for part in text.split(";"):
            name, colon, rest = part.rpartition(":")
            self.single = not colon
            dtype, _, dims = rest[:-1].partition("[")
            extents = tuple(None if one == "?" else int(one) for one in dims.split(",") if one)
            self.leaves.append(_Leaf(name, dtype, extents))


def _numpy() -> Any:
    return importlib.import_module("numpy")


def _numpy_type(name: str) -> Any:
    if name == "bfloat16":
        return _numpy().dtype(importlib.import_module("ml_dtypes").bfloat16)
    return _numpy().dtype(name)


def _count(dims: tuple[int, ...]) -> int:
    items = 1
    for extent in dims:
        items *= extent
    return items


def _lists(items: Iterator[Any], dims: tuple[int, ...]) -> Any:
    if not dims:
        return next(items)
    return [_lists(items, dims[1:]) for _ in range(dims[0])]


def _texts(frame: memoryview, offset: int, dims: tuple[int, ...], text: bool) -> Any:
    count = _count(dims)
    offsets = _numpy().frombuffer(frame, "<i8", count + 1, offset).tolist()
    values = bytes(frame[offset + 8 * (count + 1):offset + 8 * (count + 1) + offsets[-1]])
    items = (values[offsets[i]:offsets[i + 1]] for i in range(count))
    return _lists((str(one, "utf-8") for one in items) if text else items, dims)


def read_frame(frame: memoryview, spec: Spec) -> Any:
    """The element: arrays that are only to be read, text as str and bytes.

    Arrays are views of the frame's memory. The caller knows that the frame fits the spec.
    """
    numpy = _numpy()
    values: list[Any] = []
    at = _HEADER.size
    for leaf in spec.leaves:
        _, _, _, rank, flags, offset, _, _ = _LEAF.unpack_from(frame, at)
        at += _LEAF.size
        dims = struct.unpack_from(f"<{rank}q", frame, at)
        at += 8 * rank
        if flags & _OFFSETS:
            values.append(_texts(frame, offset, dims, bool(flags & _TEXT)))
        else:
            array = numpy.frombuffer(frame, _numpy_type(leaf.dtype), _count(dims), offset)
            values.append(array.reshape(dims))
    if spec.single:
        return values[0]
    return {leaf.name: value for leaf, value in zip(spec.leaves, values)}


def _not_as_said(leaf: _Leaf, what: str) -> ValueError:
    name = f"'{leaf.name}'" if leaf.name else "the element"
    return ValueError(f"{name} is to be {leaf}, {what}")


def _flatten(value: Any, leaf: _Leaf, dims: list[int | None], depth: int, out: list[bytes]) -> None:
    if depth == len(dims):
        if leaf.dtype == "text" and isinstance(value, str):
            out.append(value.encode())
        elif leaf.dtype == "bytes" and isinstance(value, bytes):
            out.append(value)
        else:
            raise _not_as_said(leaf, f"and has {type(value).__name__}")
        return
    if not isinstance(value, (list, tuple)):
        raise _not_as_said(leaf, f"and has {type(value).__name__} for a list")
    if dims[depth] is None:
        dims[depth] = len(value)
    if dims[depth] != len(value):
        raise _not_as_said(leaf, f"and has {len(value)} items where there are {dims[depth]}")
    for one in value:
        _flatten(one, leaf, dims, depth + 1, out)


def _as_array(value: Any, leaf: _Leaf) -> Any:
    """Numbers and lists become an array of that type; an array of another one is not converted."""
    numpy = _numpy()
    wanted = _numpy_type(leaf.dtype)
    if hasattr(value, "dtype") or hasattr(value, "__dlpack__"):
        array = numpy.asarray(value)
    else:
        array = numpy.asarray(value)
        if not numpy.can_cast(array.dtype, wanted, "same_kind"):
            raise _not_as_said(leaf, f"and is {array.dtype}")
        array = array.astype(wanted)
    fits = array.dtype == wanted and array.ndim == len(leaf.dims) and all(
        extent is None or extent == found for extent, found in zip(leaf.dims, array.shape))
    if not fits:
        raise _not_as_said(leaf, f"and is {array.dtype}[{','.join(map(str, array.shape))}]")
    return numpy.asarray(array, order="C")  # ascontiguousarray would give a number a dimension


def _round_up(size: int) -> int:
    return (size + 63) & ~63


def write_frame(value: Any, spec: Spec) -> list[Any]:
    """The element's frame in pieces. Its checksum is left to the other side of the pipe: 0.

    Raises TypeError or ValueError for a value that is not what the spec says.
    """
    if not spec.single:
        if not isinstance(value, dict):
            raise TypeError(f"the element is to be a dict, and is {type(value).__name__}")
        names = [leaf.name for leaf in spec.leaves]
        if set(value) != set(names):
            raise ValueError(f"the element is to have the fields {names}, and has {list(value)}")
    metas: list[bytes] = []
    leaves: list[Any] = []
    offset = _round_up(_HEADER.size + sum(_LEAF.size + 8 * len(leaf.dims) for leaf in spec.leaves))
    meta_bytes = _HEADER.size
    for leaf in spec.leaves:
        one = value if spec.single else value[leaf.name]
        if leaf.variable:
            dims: list[int | None] = list(leaf.dims)
            items: list[bytes] = []
            _flatten(one, leaf, dims, 0, items)
            extents = tuple(extent or 0 for extent in dims)
            ends = [0]
            for item in items:
                ends.append(ends[-1] + len(item))
            payload: Any = struct.pack(f"<{len(ends)}q", *ends) + b"".join(items)
            size = len(payload)
            code, bits, flags = 1, 8, _OFFSETS | (_TEXT if leaf.dtype == "text" else 0)
        else:
            array = _as_array(one, leaf)
            extents = array.shape
            size = array.nbytes
            payload = array.reshape(-1).view("uint8").data if size else b""
            (code, bits), flags = _DLPACK[leaf.dtype], 0
        meta = _LEAF.pack(code, bits, 1, len(extents), flags, offset, size, 0)
        meta += struct.pack(f"<{len(extents)}q", *extents)
        metas.append(meta)
        meta_bytes += len(meta)
        leaves += [payload, bytes(_round_up(size) - size)]
        offset += _round_up(size)
    head = _HEADER.pack(_MAGIC, 1, 0, 0, 0, 0, len(spec.leaves), meta_bytes, offset, 0, 0, 0)
    head += b"".join(metas)
    return [head, bytes(_round_up(len(head)) - len(head)), *leaves]


def find(reference: str, grant: str = "") -> Callable[[Any], Any]:
    """As it was allowed: of a "module" only functions that it defines itself, not what it has imported;
    by its "name" also one that another module of its package defines, and never one of Python's own that
    the module happens to hold. Without a grant, in the user's own program, whatever it is.
    """
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{reference} is no function")
    origin = getattr(found, "__module__", None)
    if grant == "module" and (origin, getattr(found, "__qualname__", None)) != (module, name):
        raise PermissionError(
            f"{module} does not define {name} itself, and this worker may run only what it defines: "
            f"its operator allows it with --allow-function {reference}")
    if grant == "name" and str(origin).partition(".")[0] != module.partition(".")[0]:
        raise PermissionError(
            f"{reference} is defined in {origin or 'no module'}, not in {module} or its package, and this "
            "worker may not run it: its operator allows functions by where they are defined "
            "(--allow-function), and those that run whatever they are given not at all")
    result: Callable[[Any], Any] = found
    return result


def _explain(error: BaseException) -> bytes:
    """What was raised, then where, the innermost first, then what caused it. Frames of ours are left out."""
    parts: list[str] = []
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        parts.append("".join(traceback.format_exception_only(type(one), one)).strip())
        for frame in reversed(traceback.extract_tb(one.__traceback__)):
            if frame.filename != __file__ and not frame.filename.startswith("<frozen importlib"):
                parts.append(f"  at {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if one is not None:
            parts.append("which followed from:")
    text = "\n".join(parts).strip()
    return text.encode(errors="replace")[:_ERROR_BYTES_MAX]


class _Host:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def serve(self) -> None:
        body = self._receive()
        if body is None:
            return
        reference, taken, returned, granted = str(body[1], "utf-8").split("\n")
        try:
            function = find(reference, "name" if granted == "name" else "module")
            spec_in, spec_out = Spec(taken), Spec(returned)
            _numpy()
        except BaseException as error:  # also SystemExit, of a module that is a program
            self._send(_REFUSED, 0, [_explain(error)])
            return
        self._send(_READY, 0, [])
        while (message := self._receive()) is not None:
            self._call(function, message[0], message[1], spec_in, spec_out)

    def _call(self, function: Callable[[Any], Any], count: int, body: memoryview, spec_in: Spec,
              spec_out: Spec) -> None:
        frames: list[Any] = []
        errors = bytearray()
        at = 0
        told = time.monotonic()
        for index in range(count):
            size = _HEADER.unpack_from(body, at)[8]
            try:
                frames += self._one(function, body[at:at + size].toreadonly(), spec_in, spec_out)
            except Exception as error:
                why = _explain(error)
                errors += struct.pack("<II", index, len(why)) + why
            at += size
            if time.monotonic() - told > _BUSY_EVERY:
                self._send(_BUSY, 0, [])
                told = time.monotonic()
        head = struct.pack("<Q", len(errors)) + bytes(errors)
        head += bytes(_round_up(len(head)) - len(head))
        self._send(_RESULTS, count, [head, *frames])

    @staticmethod
    def _one(function: Callable[[Any], Any], frame: memoryview, spec_in: Spec,
             spec_out: Spec) -> list[Any]:
        return write_frame(function(read_frame(frame, spec_in)), spec_out)

    def _receive(self) -> tuple[int, memoryview] | None:
        head = self._read(_MESSAGE.size)
        if head is None:
            return None
        _, count, size = _MESSAGE.unpack(head)
        body = self._read(size)
        return None if body is None else (count, body)

    def _read(self, size: int) -> memoryview | None:
        buffer = memoryview(bytearray(size))
        done = 0
        while done < size:
            got = self._connection.recv_into(buffer[done:])
            if got == 0:
                return None
            done += got
        return buffer

    def _send(self, kind: int, count: int, pieces: list[Any]) -> None:
        size = sum(len(piece) for piece in pieces)
        small: list[Any] = [_MESSAGE.pack(kind, count, size)]
        for piece in pieces:  # small pieces together, long ones where they are
            if len(piece) < 65536:
                small.append(piece)
                continue
            self._connection.sendall(b"".join(small))
            small = []
            self._connection.sendall(piece)
        self._connection.sendall(b"".join(small))


def _end_with(parent: int) -> None:
    """Ends this process when that one ends, whatever the function is doing."""
    try:
        watch = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    if os.getppid() != parent:
        os._exit(1)

    def wait() -> None:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        poll.poll()
        os._exit(1)

    threading.Thread(target=wait, name="lockstep-parent", daemon=True).start()


def main() -> None:
    """Serves the socket that the worker passed, until the worker closes it or ends.

    The argument is the worker's PID.
    """
    _end_with(int(sys.argv[1]))
    os.set_inheritable(_SOCKET, False)
    with socket.socket(fileno=_SOCKET) as connection:
        try:
            _Host(connection).serve()
        except (BrokenPipeError, ConnectionResetError):
            pass  # nobody is there any more


if __name__ == "__main__":
    main()
