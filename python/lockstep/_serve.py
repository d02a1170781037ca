"""A server of one's own, for a test or a notebook."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lockstep import _dispatch, _programs
from lockstep._errors import DeadlineExceeded, NotFound, Unavailable
from lockstep._types import Timeout, seconds

if TYPE_CHECKING:
    from types import TracebackType

#: Seconds between two looks for the ready file.
_LOOK_EVERY = 0.005
#: Seconds from SIGTERM until SIGKILL: `stop_timeout`.
_STOP_TIMEOUT = 5.0
#: Bytes of the server's log that an error shows at most.
_LAST_WORDS_BYTES_MAX = 2000


class Server:
    """A lockstep-server that belongs to this process and ends with it, even if it is killed.

    Made by `serve`. As a context manager it stops the server at the end of the block. Thread-safe.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: pathlib.Path,
                 ready: dict[str, object]) -> None:
        self._process = process
        self._folder = folder
        self._ready = ready
        self._owner = os.getpid()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """HOST:PORT for `lockstep.join` and the command."""
        return str(self._ready["listen"])

    @property
    def join_string(self) -> str:
        """The same as a join string, lockstep://HOST:PORT#sha256=...: who uses it connects by TLS, and
        only to this server.
        """
        return str(self._ready["join"])

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def grpc(self, job: str) -> str:
        """HOST:PORT for stock clients of this job, such as jax.distributed.initialize.

        Raises NotFound if the server was not started with such a job.
        """
        jobs = self._ready["jobs"]
        assert isinstance(jobs, dict)
        if job not in jobs:
            raise NotFound(f"this server was started with no job {job!r}, but with "
                           + (", ".join(sorted(map(repr, jobs))) or "none"), "unknown_job")
        return str(jobs[job]["grpc"])

    def log(self) -> str:
        """The server's log so far; empty once the server was stopped."""
        return _read_log(self._folder)

    def stop(self) -> None:
        """Ends the server as SIGTERM does, and waits for that; after 5 seconds kills it.

        Does nothing if it has been stopped, and nothing in a forked child.
        """
        if os.getpid() != self._owner:
            return
        with self._lock:
            _end(self._process)
            shutil.rmtree(self._folder, ignore_errors=True)

    close = stop

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<lockstep server at {self.address}, pid {self.pid}>"


def serve(jobs: Mapping[str, int] | None = None, *, listen: str = "127.0.0.1:0",
          state: str | os.PathLike[str] | None = None, options: Sequence[str] = (),
          timeout: Timeout = 30) -> Server:
    """Starts the packaged lockstep-server as a child, and returns when it answers.

        with lockstep.serve(jobs={"digits": 4}) as server:
            print(server.address, server.grpc("digits"))

    Args:
      jobs: names and sizes. Native members may create more.
      listen: HOST:PORT; port 0 is any free port.
      state: a folder that keeps the state, also for the next server there; None: in memory only.
      options: more options of the server, as `lockstep serve --help` has them. Nothing else
        applies: neither `LOCKSTEP_CONFIG` nor `LOCKSTEP_SERVER_...`.
      timeout: seconds until it answers.

    Raises:
      Unavailable: it could not be started; the text has the last lines of its log.
      DeadlineExceeded: it does not answer.
    """
    limit = seconds(timeout)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-serve-"))
    ready_file = folder / "ready.json"
    command = [_programs.path_of("lockstep-server"), "--listen", listen, "--ready-file",
               str(ready_file), "--parent", str(os.getpid())]
    for name, size in (jobs or {}).items():
        command += ["--job", f"{name}={size}"]
    command += ["--ephemeral"] if state is None else ["--state", os.fspath(state)]
    try:
        with open(folder / "log", "wb") as log:
            # A session of its own: Ctrl-C at our terminal is not meant for the server.
            process = subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True, env=_environment())
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Unavailable(f"the server {command[0]} cannot be started: {error.strerror}; install "
                          "the package lockstep-runtime again, or set LOCKSTEP_SERVER") from error
    try:
        server = Server(process, folder, _await_ready(process, folder, ready_file, limit))
    except BaseException:
        _end(process)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _dispatch.close_at_exit(server)
    return server


def _environment() -> dict[str, str]:
    """Our environment without the settings of other servers: those addresses and states are theirs.
    """
    return {name: value for name, value in os.environ.items()
            if name != "LOCKSTEP_CONFIG" and not name.startswith("LOCKSTEP_SERVER_")}


def _await_ready(process: subprocess.Popen[bytes], folder: pathlib.Path, ready_file: pathlib.Path,
                 limit: float | None) -> dict[str, object]:
    started = time.monotonic()
    while True:
        try:
            ready: dict[str, object] = json.loads(ready_file.read_text())
            return ready
        except FileNotFoundError:
            pass
        try:
            code = process.wait(_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            waited = time.monotonic() - started
            if limit is not None and waited > limit:
                raise DeadlineExceeded(
                    f"the server (pid {process.pid}) has not answered for {waited:.1f} s; its last "
                    f"words: {_last_words(folder)}") from None
            continue
        raise Unavailable(f"the server ended with exit code {code} before it answered; its last "
                          f"words: {_last_words(folder)}")


def _read_log(folder: pathlib.Path) -> str:
    try:
        return (folder / "log").read_text(errors="backslashreplace")
    except FileNotFoundError:
        return ""


def _last_words(folder: pathlib.Path) -> str:
    return _read_log(folder)[-_LAST_WORDS_BYTES_MAX:].strip() or "none"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
