"""`init_method="lockstep://..."`: the processes of a group meet at a Lockstep server."""

from __future__ import annotations

import atexit
import datetime
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import torch.distributed as dist  # type: ignore[import-not-found]
from torch.distributed.constants import (  # type: ignore[import-not-found]
    default_pg_timeout)

from lockstep._errors import Error, InvalidArgument
from lockstep._member import Member, join
from lockstep.torch._launcher import place_of_this_process
from lockstep.torch._store import Store

_log = logging.getLogger("lockstep")

SCHEME = "lockstep"
#: Seconds that a process which ends waits for the others, so that none takes it for lost.
_LEAVE_MAX = 30.0


class Meeting(NamedTuple):
    """What a URL and the environment say about the group."""

    address: str
    job: str | None
    rank: int | None
    size: int | None
    attempt: int | None


class _Joined:
    """The member that this process is in a job, and how many groups it has created there."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.pid = os.getpid()
        self.groups = 0


_joined: dict[Meeting, _Joined] = {}
_failure: BaseException | None = None
_registered = False


def meeting_of(url: str) -> Meeting:
    """lockstep://HOST:PORT/JOB#sha256=...; the launcher's environment fills in what is omitted.

    Raises InvalidArgument, "invalid_argument", without a server, and for options that do not exist.
    """
    parts = urlsplit(url)
    said = dict(parse_qsl(parts.query))
    place = place_of_this_process()
    address = parts.netloc or (place.address if place else None)
    if parts.netloc and parts.fragment:
        address = f"lockstep://{parts.netloc}#{parts.fragment}"
    if not address:
        raise InvalidArgument(f"{url}: no server; say lockstep://HOST:PORT/JOB, or set "
                              "LOCKSTEP_COORDINATOR", "invalid_argument")
    numbers: dict[str, int | None] = {}
    for name, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE")):
        value = said.pop(name, None) or os.environ.get(variable) or None
        if value is not None and not value.isdecimal():
            raise InvalidArgument(f"{url}: {name} is {value!r}, which is no number",
                                  "invalid_argument")
        numbers[name] = None if value is None else int(value)
    if said:
        raise InvalidArgument(f"{url}: there is no option {next(iter(said))!r}; rank and world_size "
                              "are all", "invalid_argument")
    job = parts.path.strip("/") or (place.job if place else None)
    return Meeting(address, job, numbers["rank"], numbers["world_size"],
                   place.attempt if place else None)


def rendezvous(url: str, timeout: datetime.timedelta = default_pg_timeout,
               **_: Any) -> Iterator[tuple[Store, int, int]]:
    """What torch calls for init_method: joins the job, and returns when all have joined.

    Yields the store, this process's rank and the number of processes, once. Raises as `join`;
    RuntimeError if torch asks for another size.
    """
    meeting = meeting_of(url)
    joined = _joined.get(meeting)
    if joined is None or joined.pid != os.getpid():
        member = join(meeting.address, job=meeting.job, index=meeting.rank, size=meeting.size,
                      attempt=meeting.attempt, timeout=timeout)
        joined = _joined[meeting] = _Joined(member)
    joined.groups += 1  # in all processes alike, so keys of a group before are not this one's
    member = joined.member
    yield Store(member.kv, f"torch/{joined.groups}", timeout), member.member, member.size
    raise RuntimeError(f"{url}: a process group cannot meet again in another size; make a new one")


def _note_failure(hook: Any) -> Any:
    def noted(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        global _failure
        _failure = error
        hook(kind, error, trace)

    return noted


def _leave() -> None:
    """The end of the process: reports to the others how it ended."""
    for joined in _joined.values():
        if joined.pid != os.getpid():
            continue
        try:
            if _failure is None:
                joined.member.leave(_LEAVE_MAX)
            else:
                joined.member.report_error(_failure, _LEAVE_MAX)
        except Error as error:
            _log.debug("%s: the end was not told: %s", joined.member.name, error)
        joined.member.close()


def register_init_method() -> None:
    """Makes `init_method="lockstep://HOST:PORT/JOB"` known to torch.distributed.

    Further calls do nothing.
    """
    global _registered
    if _registered:
        return
    _registered = True
    dist.register_rendezvous_handler(SCHEME, rendezvous)
    sys.excepthook = _note_failure(sys.excepthook)
    atexit.register(_leave)
