"""One exception class for each status code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Error(Exception):
    """A call failed. The base of all errors from Lockstep.

    `str(error)` says what, who, since when and what to do next; programs test `reason`.
    """

    #: The status code: "NOT_FOUND".
    code = "UNKNOWN"
    _number = 2

    def __init__(self, message: str = "", reason: str = "",
                 details: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        #: The result of str().
        self.message = message
        #: Why, in one stable word; docs/errors.md lists them.
        self.reason = reason or self.code.lower()
        #: Facts for programs, such as "job", "member", "waited_ms". May be empty.
        self.details: dict[str, str] = dict(details or {})

    @property
    def member(self) -> int | None:
        """The number in the job of the member that the error is about; None if it is about none."""
        number = self.details.get("member", "")
        return int(number) if number.isdecimal() else None

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"lockstep.{type(self).__name__}({self.message!r}, reason={self.reason!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.reason, self.details)


class Cancelled(Error):
    """The wait was given up: by this process, or because the interpreter ends."""

    code, _number = "CANCELLED", 1


class Unknown(Error):
    """An error about which nothing more is known."""

    code, _number = "UNKNOWN", 2


class InvalidArgument(Error):
    """The request is invalid, whatever the state of the job."""

    code, _number = "INVALID_ARGUMENT", 3


class DeadlineExceeded(Error, TimeoutError):
    """The time is over. The text names who is missing, if the server knows."""

    code, _number = "DEADLINE_EXCEEDED", 4


class NotFound(Error):
    """There is no such key, job or member."""

    code, _number = "NOT_FOUND", 5


class AlreadyExists(Error):
    """The key already exists, or another process is this member."""

    code, _number = "ALREADY_EXISTS", 6


class PermissionDenied(Error):
    """The caller may not do this."""

    code, _number = "PERMISSION_DENIED", 7


class ResourceExhausted(Error):
    """A limit was reached; the text names it."""

    code, _number = "RESOURCE_EXHAUSTED", 8


class FailedPrecondition(Error):
    """Not possible in this state: the member has left, or the process was forked from the one that
    joined.
    """

    code, _number = "FAILED_PRECONDITION", 9


class Aborted(Error):
    """Something else came first: the attempt ended, or another life of this member began."""

    code, _number = "ABORTED", 10


class OutOfRange(Error):
    """A number is out of its range."""

    code, _number = "OUT_OF_RANGE", 11


class Unimplemented(Error):
    """The server does not know this request; it may be older than this package."""

    code, _number = "UNIMPLEMENTED", 12


class Internal(Error):
    """A defect, or an error that a member reported about itself."""

    code, _number = "INTERNAL", 13


class Unavailable(Error):
    """The server, or a member, cannot be reached."""

    code, _number = "UNAVAILABLE", 14


class DataLoss(Error):
    """Bytes arrived damaged."""

    code, _number = "DATA_LOSS", 15


class Unauthenticated(Error):
    """The server does not accept the caller's identity."""

    code, _number = "UNAUTHENTICATED", 16


_CLASSES: dict[int, type[Error]] = {
    cls._number: cls
    for cls in (Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists,
                PermissionDenied, ResourceExhausted, FailedPrecondition, Aborted, OutOfRange,
                Unimplemented, Internal, Unavailable, DataLoss, Unauthenticated)
}
# Tracebacks name them as programs do.
for _cls in (Error, *_CLASSES.values()):
    _cls.__module__ = "lockstep"


def goes_well(error: BaseException | None) -> bool:
    """Whether a block that ended with this exception did what it wanted."""
    return error is None or isinstance(error, SystemExit) and error.code in (None, 0)


def error_to_report(error: BaseException | str) -> tuple[int, str]:
    """Code and text, in the extension's form."""
    if isinstance(error, str):
        return Internal._number, error
    if isinstance(error, Error):
        return error._number, error.message
    text = str(error)
    return Internal._number, f"{type(error).__name__}: {text}" if text else type(error).__name__


def forked(what: str) -> FailedPrecondition:
    """The error that calls on a member or its keys raise in a forked child."""
    return FailedPrecondition(
        f"this process was forked off {what}, which stays its parent's; join from here if this "
        "process shall be one", "forked")


def _from_status(code: int, message: str, reason: str, details: Mapping[str, str]) -> Error:
    """Called by the extension."""
    return _CLASSES.get(code, Unknown)(message, reason, details)
