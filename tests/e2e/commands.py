"""Runs programs for the end-to-end tests: their lines as they come, and their end. Waits on events
with one generous deadline."""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOCKSTEP = ROOT / "build" / "bin" / "lockstep"
DEADLINE_S = 120  # reached only when something hangs

# Who runs the tests in the background, or with nohup, has these ignored, and so had all we start.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def clean_environment(**more):
    """This process's environment without what an outer run or cluster would bring in."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("LOCKSTEP_", "JAX_", "OMPI_", "SLURM_", "PMI", "PET_", "OMP_",
                                    "TORCH", "TF_CONFIG"))}
    return {**kept, **more}


class Command:
    """A running program. Two threads read its output."""

    def __init__(self, *arguments, env=None, cwd=None):
        self.lines = []  # of both streams, in the order in which they were read
        self.out = []
        self.err = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [str(argument) for argument in arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env=env or clean_environment(), cwd=cwd)
        self.pid = self.process.pid
        self._readers = [threading.Thread(target=self._read, args=stream, daemon=True)
                         for stream in ((self.process.stdout, self.out),
                                        (self.process.stderr, self.err))]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self.lines.append(lines[-1])
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, pattern, count=1):
        """The matches of `count` lines; fails when they cannot come any more."""
        deadline = time.monotonic() + DEADLINE_S
        with self._changed:
            while True:
                ended = not any(reader.is_alive() for reader in self._readers)
                found = [m for m in (re.search(pattern, line) for line in self.lines) if m]
                if len(found) >= count:
                    return found
                left = deadline - time.monotonic()
                assert left > 0 and not ended, f"no {pattern!r} in:\n{self.text()}"
                self._changed.wait(min(left, 1))

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """Its exit code, once all its output was read."""
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"did not end:\n{self.text()}") from None
        for reader in self._readers:
            reader.join(DEADLINE_S)
        return code

    def text(self):
        return "\n".join(self.lines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(DEADLINE_S)
        self.process.stdout.close()
        self.process.stderr.close()


class Watched:
    """A process by its pid, so that its end can be waited for although it is nobody's child here."""

    def __init__(self, pid):
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._fd = None

    def wait_gone(self):
        if self._fd is None:
            return True
        gone = bool(select.select([self._fd], [], [], DEADLINE_S)[0])
        os.close(self._fd)
        return gone


@contextlib.contextmanager
def serving(folder, *arguments):
    """A server of its own, with the address at which it listens; ended, which has to go well."""
    ready = folder / "ready.json"
    with Command(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--ephemeral", "--ready-file", ready,
                 *arguments) as server:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline and server.process.poll() is None, server.text()
            time.sleep(0.01)
        server.address = json.loads(ready.read_text())["listen"]
        yield server
        server.signal(signal.SIGTERM)
        assert server.end() == 0, server.text()


def run(*arguments, env=None):
    """`lockstep run ARGUMENTS` to its end."""
    with Command(LOCKSTEP, "run", *arguments, env=env) as command:
        command.code = command.end()
        return command


class StatefulServer:
    """A server with state, which comes back where it was."""

    def __init__(self, folder, *arguments):
        self._folder = folder
        self._arguments = arguments
        self.address = "127.0.0.1:0"
        self._command = None

    def start(self):
        ready = self._folder / "ready.json"
        ready.unlink(missing_ok=True)
        self._command = Command(LOCKSTEP, "serve", "--listen", self.address, "--state",
                                self._folder / "state", "--ready-file", ready, *self._arguments)
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline and self._command.process.poll() is None, self.text()
            time.sleep(0.01)
        self.address = json.loads(ready.read_text())["listen"]

    def kill(self):
        self._command.signal(signal.SIGKILL)
        self._command.end()

    def end(self):
        """As an operator ends it, who restarts or upgrades it."""
        self._command.signal(signal.SIGTERM)
        assert self._command.end() == 0, self.text()

    def signal(self, number):
        self._command.signal(number)

    def text(self):
        return self._command.text()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._command.__exit__()
