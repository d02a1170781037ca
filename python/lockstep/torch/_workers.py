"""Reports to the server which processes a torchrun has started, for `status`, `why` and `stacks`.

Torch's rendezvous does not know its agent's workers. They are children of the agent's process, and
their environment says which rank of which job they are.
"""

from __future__ import annotations

import logging
import os
import pathlib
import select
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping

from lockstep._programs import path_of

_log = logging.getLogger("lockstep")

#: Seconds between two looks for new children.
_LOOK_INTERVAL = 0.25
#: Seconds until the program has said where its folder is.
_FOLDER_TIMEOUT = 5.0


def children_of_this_process() -> set[int]:
    """According to the kernel; none where it does not say (CONFIG_PROC_CHILDREN)."""
    children: set[int] = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            children.update(map(int, (task / "children").read_text().split()))
        except OSError:  # the thread has ended, or there is no such file
            continue
    return children


def environment_of(pid: int) -> dict[str, str]:
    """The environment with which the process was started; empty if it has gone."""
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def rank_and_size(environment: Mapping[str, str], run: str) -> tuple[int, int] | None:
    """RANK and WORLD_SIZE of a worker of this run; None: the process is none."""
    rank, size = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
    if environment.get("TORCHELASTIC_RUN_ID") != run or "LOCAL_RANK" not in environment:
        return None
    return (int(rank), int(size)) if rank.isdecimal() and size.isdecimal() else None


def end_of(pid: int) -> tuple[int, int]:
    """Waits for its end, and leaves collecting it to the agent: exit code and signal."""
    try:
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        # The agent was quicker, as it is with those that it ends itself.
        return 0, int(signal.SIGTERM)
    if end is None or end.si_code == os.CLD_EXITED:
        return (end.si_status if end else 0), 0
    return 0, end.si_status


class Workers:
    """Follows the workers of a run until `close`.

    Threads: one that looks for new workers, and one for each that waits for its end. A process of
    Lockstep speaks to the server, so that nothing that happens there holds up the agent.
    """

    def __init__(self, address: str, job: str, run: str, hook: bool = True) -> None:
        self._address, self._job, self._run, self._hook = address, job, run, hook
        self._lock = threading.Lock()  # guards the pipe to the program
        self._program = self._start()
        self._folder: str | None = None  # not known yet
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lockstep-workers", daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes] | None:
        words = [path_of("lockstep"), "report-processes", self._job, "--coordinator", self._address]
        if self._hook:
            words += ["--hook-for", str(os.getpid())]
        try:
            return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            _log.debug("the server is not told of workers: %s", error)
            return None

    def set_environment(self) -> None:
        """Makes the Python processes that this one starts report their place and exceptions.

        Waits for the program, once. Without its folder the workers run all the same.
        """
        if self._folder is None:
            self._folder = self._read_folder()
        entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if self._folder and self._folder not in entries:
            entries.insert(0, self._folder)
            os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if entry)

    def _read_folder(self) -> str:
        if not self._hook or self._program is None or self._program.stdout is None:
            return ""
        if not select.select([self._program.stdout], [], [], _FOLDER_TIMEOUT)[0]:
            _log.debug("workers are not asked where they are: no word within %.0f s", _FOLDER_TIMEOUT)
            return ""
        return os.fsdecode(self._program.stdout.readline().rstrip(b"\n"))

    def close(self) -> None:
        """The program ends by itself once it has reported everything, and removes its folder."""
        self._ended.set()
        self._thread.join(4 * _LOOK_INTERVAL)
        if self._folder:
            entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            os.environ["PYTHONPATH"] = os.pathsep.join(
                entry for entry in entries if entry != self._folder)
        with self._lock:
            for pipe in (self._program.stdin, self._program.stdout) if self._program else ():
                try:
                    if pipe is not None:
                        pipe.close()
                except OSError:
                    pass

    def _follow(self) -> None:
        known: set[int] = set()
        while not self._ended.wait(_LOOK_INTERVAL):
            try:
                children = children_of_this_process()
            except OSError:
                continue
            known &= children
            for pid in children - known:
                place = rank_and_size(environment_of(pid), self._run)
                if place is None:
                    continue  # no worker, or it has not begun its program
                known.add(pid)
                rank, size = place
                self._tell([f"size {size}", f"started {rank} {pid}"])
                threading.Thread(target=self._wait_for, args=(rank, pid), daemon=True,
                                 name=f"lockstep-worker-{rank}").start()

    def _wait_for(self, rank: int, pid: int) -> None:
        code, signal_ = end_of(pid)
        self._tell([f"ended {rank} {pid} {code} {signal_}"])

    def _tell(self, lines: Iterable[str]) -> None:
        with self._lock:
            if self._program is None or self._program.stdin is None:
                return
            try:
                self._program.stdin.write("".join(f"{line}\n" for line in lines).encode())
                self._program.stdin.flush()
            except (OSError, ValueError) as error:
                _log.debug("the server is not told of a worker: %s", error)
