"""The programs that the package carries: where they are, and how they are run."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

_FOLDER = pathlib.Path(__file__).parent / "bin"


def path_of(program: str) -> str:
    """The packaged program of that name; LOCKSTEP_SERVER comes first for `lockstep-server`.

    The file is not looked for: it may be missing.
    """
    told = os.environ.get("LOCKSTEP_SERVER", "") if program == "lockstep-server" else ""
    return told or str(_FOLDER / program)


def _become(program: str) -> NoReturn:
    path = path_of(program)
    try:
        os.execv(path, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{program}: {path} cannot be run: {error.strerror}; "
                 "install the package lockstep-runtime again")


def lockstep() -> NoReturn:
    """The console script `lockstep`."""
    _become("lockstep")


def lockstep_agent() -> NoReturn:
    """The console script `lockstep-agent`."""
    _become("lockstep-agent")


def lockstep_server() -> NoReturn:
    """The console script `lockstep-server`."""
    _become("lockstep-server")
