"""Python programs that tests start, signal and read. Nothing here sleeps: lines and ends are events."""

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading

LIMIT_S = 60


class Program:
    """A running program. It says `print(..., flush=True)`; the test waits for that."""

    def __init__(self, text, *arguments, python=sys.executable, **environment):
        self.lines = []
        self._queue = queue.Queue()
        self.process = subprocess.Popen(
            [python, "-c", textwrap.dedent(text), *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def line(self, contains=""):
        """The next line that contains this; fails when there will be none."""
        while True:
            line = self._queue.get(timeout=LIMIT_S)
            assert line is not None, f"no line with {contains!r} came, only {self.lines}"
            self.lines.append(line)
            if contains in line:
                return line

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def kill(self):
        self.process.kill()

    def end(self):
        """Waits for the end; (exit code, all it said)."""
        code = self.process.wait(LIMIT_S)
        while (line := self._queue.get(timeout=LIMIT_S)) is not None:
            self.lines.append(line)
        self._queue.put(None)
        return code, "\n".join(self.lines)

    def end_well(self):
        """Waits for the end, which must be a success; all it said."""
        code, said = self.end()
        assert code == 0, f"exit code {code}: {said}"
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
