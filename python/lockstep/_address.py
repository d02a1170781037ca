"""Addresses of servers: HOST:PORT, or a join string, which names a job and a certificate too."""

from __future__ import annotations

import os

_SCHEME = "lockstep://"


def meant(address: str | None) -> str:
    """As the library finds it: the argument, LOCKSTEP_COORDINATOR, 127.0.0.1:7070."""
    return address or os.environ.get("LOCKSTEP_COORDINATOR") or "127.0.0.1:7070"


def host_and_port(address: str) -> tuple[str, str]:
    """What is called: ("host1", "7070"). Empty texts where the address names none."""
    place = address.removeprefix(_SCHEME).partition("#")[0].partition("/")[0]
    host, _, port = place.rpartition(":")
    return host.strip("[]"), port


def load_tls(address: str) -> None:
    """If the address names a certificate, loads the OpenSSL of this interpreter, which the library
    makes its connections by: it has none of its own, so that two never meet in one process.
    """
    if "#" not in address:
        return
    try:
        import ssl as _
    except ImportError:
        pass  # then the library says that there is none
