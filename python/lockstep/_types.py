"""What calls return."""

from __future__ import annotations

import datetime
import math
import numbers
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

from lockstep._errors import Error, InvalidArgument

#: Seconds, or a timedelta; None for no limit.
Timeout = Union[float, int, datetime.timedelta, None]

#: Bytes, or text that is sent as UTF-8.
Value = Union[bytes, bytearray, memoryview, str]


class KeyEntry(NamedTuple):
    """A key with its value. A revision counts the writes to all keys of the job."""

    key: str
    value: bytes
    revision: int


class SwapResult(NamedTuple):
    """The result of compare_and_set, and the entry as it is now: None if there is none."""

    swapped: bool
    entry: KeyEntry | None


class KeyChange(NamedTuple):
    """A write to a key, or its deletion: then `value` is None."""

    key: str
    value: bytes | None
    revision: int


class KeyChanges(NamedTuple):
    """Changes in the order in which they happened; with `snapshot`, the whole content instead."""

    changes: tuple[KeyChange, ...]
    revision: int
    snapshot: bool


class PreemptionNotice(NamedTuple):
    """What is known of a preemption: the current one, or the last."""

    id: int  #: From 1 in each attempt; 0: there was none.
    open: bool  #: Whether it has not ended.
    phase: str  #: "none", "pending", "holding", "agreed", "ended".
    outcome: str  #: "none" until it ended, then "saved" or another outcome.
    text: str  #: The outcome, for people.
    step: int | None  #: The sync step, once it is known.
    withdrawn: bool  #: No member dies after all: save, and continue.
    sources: tuple[str, ...]  #: Which sources gave notice.
    subjects: tuple[int, ...]  #: The members that die; empty: all.
    concerns_me: bool  #: Whether this member dies.
    left: float | None  #: Seconds until the first of them dies, if known.
    attempt: int  #: The attempt of the job in which `id` counts.


class SourceState(NamedTuple):
    """The state of a source of preemption notices."""

    source: str
    detail: str  #: What it looks at.
    healthy: bool  #: Whether its last look succeeded.
    last_success: float | None  #: Seconds since then.
    last_error: str  #: One sentence; kept after it has recovered.
    successes: int
    failures: int
    notices: int  #: Notices that stand now.


class PeerTransport(NamedTuple):
    """How values travel between this member and another one."""

    member: int
    transport: str  #: "shm"; "cma": long values are read from its memory; "tcp".
    why_not_shared: str  #: If shared memory is not used.
    why_not_read: str  #: If its memory is not read either; known from the first long value.


class AliveMember(NamedTuple):
    """A member that is alive; `member` is its number in the whole job."""

    member: int
    incarnation: int


@dataclass(frozen=True)
class OpenBarrier:
    """A barrier at which members wait."""

    id: str
    counter: int
    """Which use of the id, from 0."""
    open_for: float
    """Seconds since the first arrival."""
    time_left: float | None
    """Seconds until it times out; None: it waits for ever."""
    waiting: tuple[int, ...]
    """The members that have arrived, by number in the whole job."""
    awaited: tuple[int, ...]
    """The members that have not."""


class OpenBarriers(NamedTuple):
    """The barriers that are open."""

    barriers: tuple[OpenBarrier, ...]  #: The oldest first; at most the server's `view_rows_max`.
    open: int  #: How many are open: all of them.


@dataclass(frozen=True)
class MemberInfo:
    """The state of a member, as the server sees it."""

    member: int
    """Its number in the whole job."""
    name: str
    """Such as "trainer/4#1"."""
    condition: str
    """"missing", "registering", "connected", "suspect", "lost", "failed" or "left"."""
    why: str
    """One sentence, of suspect, lost and failed."""
    host: str
    pid: int
    """0 when it is not known."""
    peer: str
    """Where it joined from."""


@dataclass(frozen=True)
class JobError:
    """An error of the job."""

    error: Error
    origin: str
    """The member it is about, or empty."""
    consequence: bool
    """It followed from the attempt's first error."""
    attempt: int


@dataclass(frozen=True)
class JobChange:
    """What has changed in a job; with `snapshot`, the whole state instead."""

    version: int
    snapshot: bool
    attempt: int
    state: str
    """"waiting", "running", "leaving", "ended", "failed" or "stopped"."""
    members: tuple[MemberInfo, ...]
    errors: tuple[JobError, ...]


def seconds(timeout: Timeout) -> float | None:
    """A time-out in seconds, in the extension's form; None: no limit, as is an infinite one.

    Raises ValueError for a negative one or NaN, TypeError for what is no time.
    """
    if timeout is None:
        return None
    if isinstance(timeout, datetime.timedelta):
        value = timeout.total_seconds()
    elif isinstance(timeout, numbers.Real):
        value = float(timeout)
    else:
        raise TypeError("a time-out is seconds as a number, a timedelta or None for no limit, not "
                        f"{type(timeout).__name__}")
    if math.isnan(value) or value < 0:
        raise ValueError(f"a time-out is not negative, but this is: {timeout!r}; None means no limit")
    return None if math.isinf(value) else value


def to_bytes(value: Value) -> bytes:
    """A value in the extension's form."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a value is bytes or str, not {type(value).__name__}")


def text(value: str, what: str = "a key") -> str:
    """A text in the extension's form: its own errors for other types are hard to read.

    Raises TypeError for another type, InvalidArgument, "key_invalid", for what UTF-8 cannot hold.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} is str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} is text that UTF-8 can hold, and {value!r} is not: "
                              f"{error.reason}", "key_invalid") from None
    return value


def texts(values: Iterable[str], what: str = "a key") -> list[str]:
    """A list of texts, as `text`; TypeError for a text alone: no caller means its letters."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{what} alone where a list of them is taken: [{values!r}]")
    return [text(value, what) for value in values]


def whole(value: int, what: str) -> int:
    """A whole number; TypeError for another type, ValueError if 64 bits do not hold it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {type(value).__name__}") from None
    if not -2**63 <= number < 2**63:
        raise ValueError(f"{what} has 64 bits, and {number} has more")
    return number


def number_of(member: int) -> int:
    """A member's number in the job; ValueError if 32 bits do not hold it."""
    number = whole(member, "a member")
    if not -2**31 <= number < 2**31:
        raise ValueError(f"there is no member {number}")
    return number


def numbers_of(members: Iterable[int]) -> list[int]:
    """Numbers of members, as `number_of`; TypeError for what is no list of them."""
    if isinstance(members, (str, bytes)) or not isinstance(members, Iterable):
        raise TypeError("members are listed by their numbers, such as [0, 2], not by "
                        f"{type(members).__name__}")
    return [number_of(member) for member in members]


def to_entry(raw: tuple[str, bytes, int]) -> KeyEntry:
    """A key's entry in the extension's form: (key, value, revision)."""
    return KeyEntry(*raw)


def to_entry_or_none(raw: tuple[str, bytes, int] | None) -> KeyEntry | None:
    """As `to_entry`; None where the key has no value."""
    return None if raw is None else KeyEntry(*raw)


def to_entries(raw: list[tuple[str, bytes, int]]) -> list[KeyEntry]:
    """As `to_entry`, in the same order."""
    return [KeyEntry(*one) for one in raw]


def to_swap(raw: tuple[bool, tuple[str, bytes, int] | None]) -> SwapResult:
    """(swapped, entry as it is now), where the entry may be missing."""
    return SwapResult(raw[0], to_entry_or_none(raw[1]))


def to_key_changes(raw: tuple[list[tuple[str, bytes | None, int]], int, bool]) -> KeyChanges:
    """(changes, revision, snapshot); the value of a change is None where the key was deleted."""
    return KeyChanges(tuple(KeyChange(*one) for one in raw[0]), raw[1], raw[2])


def to_alive(raw: list[tuple[int, int]]) -> list[AliveMember]:
    """(member, incarnation) of each that is alive."""
    return [AliveMember(*one) for one in raw]


def to_barriers(raw: tuple[list[tuple[str, int, float, float | None, list[int], list[int]]],
                           int]) -> OpenBarriers:
    """(rows, how many are open); times in a row are in seconds."""
    return OpenBarriers(tuple(
        OpenBarrier(id, counter, open_for, time_left, tuple(waiting), tuple(awaited))
        for id, counter, open_for, time_left, waiting, awaited in raw[0]), raw[1])


def to_job_change(raw: tuple[int, bool, int, str, list[tuple[int, str, str, str, str, int, str]],
                             list[tuple[Error, str, bool, int]]]) -> JobChange:
    """(version, snapshot, attempt, state, members, errors), each row as its class lists it."""
    version, snapshot, attempt, state, members, errors = raw
    return JobChange(version, snapshot, attempt, state,
                     tuple(MemberInfo(*one) for one in members),
                     tuple(JobError(*one) for one in errors))


def to_preemption_notice(value: Any) -> PreemptionNotice:
    """The fields in the order of the class; lists become tuples."""
    notice = PreemptionNotice(*value)
    return notice._replace(sources=tuple(notice.sources), subjects=tuple(notice.subjects))
