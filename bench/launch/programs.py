"""Programs that bench/launch starts: their lines and when these came, and what the system knows of them."""

import os
import pathlib
import re
import select
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin"))
LOCKSTEP = BIN / "lockstep"
LIMIT_S = 180


class Trouble(Exception):
    """What was waited for did not come; with the program's last lines."""


def clean_environment(**more):
    """Without what an outer launcher would bring in; the same for all that is compared."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("LOCKSTEP_", "TORCHELASTIC_", "MASTER_", "PET_", "OMPI_", "JAX_"))
            and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "",
            "JAX_PLATFORMS": "cpu", "TORCH_CPP_LOG_LEVEL": "ERROR", **more}


class Program:
    """A running program; a thread reads its lines. `cores`: those that it and its children may use."""

    def __init__(self, *command, cores=None, **variables):
        self.lines = []  # (time.time(), text)
        self._changed = threading.Condition()
        pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        self.process = subprocess.Popen(
            [str(word) for word in command], text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=pin,
            env=clean_environment(**variables))
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append((time.time(), line.rstrip()))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def find(self, pattern, count=1, limit_s=LIMIT_S):
        """(when it came, match) of the first `count` lines with that; Trouble without them."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while True:
                ended = not self._reader.is_alive()
                found = [(at, match) for at, line in self.lines if (match := re.search(pattern, line))]
                if len(found) >= count:
                    return found[:count]
                left = deadline - time.monotonic()
                if ended or left <= 0:
                    why = "it ended" if ended else f"not within {limit_s} s"
                    raise Trouble(f"no {pattern!r}: {why}; " + " / ".join(self.tail()))
                self._changed.wait(min(left, 0.2))

    def tail(self):
        return [line for _, line in self.lines[-5:]]

    def end(self, limit_s=LIMIT_S):
        """Its exit code."""
        code = self.process.wait(limit_s)
        self._reader.join(limit_s)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self.process.wait()
        self._reader.join(20)
        self.process.stdout.close()


def ends_of(pids):
    """pid -> when it ends, filled in by a thread; and the thread."""
    ends = {}
    poll = select.poll()
    by_fd = {os.pidfd_open(pid): pid for pid in pids}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)

    def watch():
        while by_fd:
            for fd, _ in poll.poll(1000 * LIMIT_S):
                ends[by_fd.pop(fd)] = time.time()
                poll.unregister(fd)
                os.close(fd)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return ends, thread


def children_of(pid):
    """(pid, name) of each."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        if int(text.rsplit(")", 1)[1].split()[1]) == pid:
            found.append((int(entry.parent.name), name))
    return found


def descendants_of(pid):
    """Its children, and theirs."""
    children = [child for child, _ in children_of(pid)]
    return children + [one for child in children for one in descendants_of(child)]


def cpu_of(pid):
    """Seconds of CPU time that it has used, to the nanosecond, its threads of now together."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except OSError:
            continue  # it has just ended
    return total / 1e9


def memory_of(pid):
    """(RSS, PSS) in MB."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return tuple(int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M)[1]) * 1024 / 1e6
                 for name in ("Rss", "Pss"))
