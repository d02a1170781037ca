"""Which process of its job this is, according to its launcher: `lockstep run` or torchrun."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from lockstep._errors import InvalidArgument


@dataclass(frozen=True)
class Place:
    """Arguments for `lockstep.join`. None: it reads LOCKSTEP_* itself, or takes the default."""

    address: str | None
    job: str | None
    index: int | None
    size: int | None
    attempt: int | None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name)
    if not value:
        return None
    if not value.isdecimal():
        raise InvalidArgument(f"{name} is {value!r}, and a launcher would have set a number",
                              "invalid_argument")
    return int(value)


def place_of_this_process(environment: Mapping[str, str] = os.environ) -> Place | None:
    """The arguments to join with; None if no launcher has named a server.

    Raises InvalidArgument, "invalid_argument", if RANK, WORLD_SIZE or LOCKSTEP_ATTEMPT is no
    number.
    """
    address = environment.get("LOCKSTEP_COORDINATOR")
    if not address:
        return None
    if environment.get("LOCKSTEP_INDEX"):  # all of it is in LOCKSTEP_*
        return Place(address, None, None, None, None)
    return Place(address, environment.get("LOCKSTEP_JOB") or environment.get("TORCHELASTIC_RUN_ID"),
                 _number(environment, "RANK"), _number(environment, "WORLD_SIZE"),
                 _number(environment, "LOCKSTEP_ATTEMPT"))
