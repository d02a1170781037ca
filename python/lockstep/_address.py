"""Addresses of servers: HOST:PORT or a join string, which names a job and a certificate too; or
several of them, with commas between them or in a file.
"""

from __future__ import annotations

import os

_SCHEME = "lockstep://"
_FILE = "file://"
#: As the library: `server_list_bytes_max`.
_FILE_BYTES_MAX = 64 << 10


def meant(address: str | None) -> str:
    """As the library finds it: the argument, LOCKSTEP_COORDINATOR, 127.0.0.1:7070."""
    return address or os.environ.get("LOCKSTEP_COORDINATOR") or "127.0.0.1:7070"


def servers(address: str) -> list[str]:
    """Each server's own address, as it is written. None of a file that cannot be read."""
    if not address.startswith(_FILE):
        return [each.strip() for each in address.split(",")]
    try:
        with open(address.removeprefix(_FILE), encoding="utf-8") as file:
            lines = [line.strip() for line in file.read(_FILE_BYTES_MAX).splitlines()]
    except (OSError, UnicodeDecodeError):
        return []
    return [line for line in lines if line and not line.startswith("#")]


def host_and_port(server: str) -> tuple[str, str]:
    """What is called: ("host1", "7070"). Empty texts where the one server's address names none."""
    place = server.removeprefix(_SCHEME).partition("#")[0].partition("/")[0]
    host, _, port = place.rpartition(":")
    return host.strip("[]"), port


def load_tls(address: str) -> None:
    """If the address names a certificate, or a file that may come to name one, loads the OpenSSL of
    this interpreter, which the library makes its connections by: it has none of its own, so that
    two never meet in one process.
    """
    if "#" not in address and not address.startswith(_FILE):
        return
    try:
        import ssl as _
    except ImportError:
        pass  # then the library says that there is none
