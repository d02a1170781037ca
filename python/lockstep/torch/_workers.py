"""Tells the server which processes a torchrun has started, so that `status`, `why` and `stacks` know them.

Torch's rendezvous is not told its agent's workers. They are children of the agent's process, and their
environment says which rank of which job they are.
"""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping

from lockstep._programs import path_of

_log = logging.getLogger("lockstep")

#: Seconds between two looks for new children.
_LOOK_INTERVAL = 0.25


def children_of_this_process() -> set[int]:
    """As the kernel says; none where it does not (CONFIG_PROC_CHILDREN)."""
    children: set[int] = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            children.update(map(int, (task / "children").read_text().split()))
        except OSError:  # the thread has ended, or there is no such file
            continue
    return children


def environment_of(pid: int) -> dict[str, str]:
    """What the process was started with; empty when it has gone."""
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def rank_and_size(environment: Mapping[str, str], run: str) -> tuple[int, int] | None:
    """None: it is no worker of this run."""
    rank, size = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
    if environment.get("TORCHELASTIC_RUN_ID") != run or "LOCAL_RANK" not in environment:
        return None
    return (int(rank), int(size)) if rank.isdecimal() and size.isdecimal() else None


def end_of(pid: int) -> tuple[int, int]:
    """Waits for it, and leaves it to the agent: exit code and signal."""
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

    def __init__(self, address: str, job: str, run: str) -> None:
        self._address, self._job, self._run = address, job, run
        self._lock = threading.Lock()  # guards the pipe to the program
        self._program: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lockstep-workers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The program ends by itself when it has told all."""
        self._ended.set()
        self._thread.join(4 * _LOOK_INTERVAL)
        with self._lock:
            if self._program is not None and self._program.stdin is not None:
                try:
                    self._program.stdin.close()
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
            try:
                if self._program is None:
                    self._program = subprocess.Popen(
                        [path_of("lockstep"), "tell-processes", self._job, "--coordinator",
                         self._address],
                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                        start_new_session=True)
                assert self._program.stdin is not None
                self._program.stdin.write("".join(f"{line}\n" for line in lines).encode())
                self._program.stdin.flush()
            except (OSError, ValueError) as error:
                _log.debug("the server is not told of a worker: %s", error)
