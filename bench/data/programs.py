"""What bench/data/run.py compares: the rows, the programs of each, and how one is run.

A program is run in a session of its own, with a time-out. Whatever is left of that session in the
end is killed: some libraries' workers outlive who has started them.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHON = pathlib.Path(os.environ.get("LOCKSTEP_LOADERS_PYTHON",
                                     ROOT / "build" / "peers" / "loaders" / "bin" / "python"))
OUR_PACKAGE = pathlib.Path(os.environ.get("LOCKSTEP_PACKAGE", ROOT / "build" / "release" / "python"))
LIMIT_S = 240  # beside three times what is measured


class Absent(Exception):
    """This program is not here, or does not work here."""


@dataclasses.dataclass(frozen=True)
class Program:
    """One line of a table. `group`: `limit`, `ours`, or the peer's name on the command line."""

    name: str
    group: str
    script: str
    variant: str


def torch(variant, name):
    return Program(f"torch DataLoader, {name}", "torch", "peers/torch_loader.py", variant)


def grain(variant, name):
    return Program(f"Grain, {name}", "grain", "peers/grain_loader.py", variant)


def tensorflow(variant, name):
    return Program(f"tf.data, {name}", "tf", "peers/tf_data.py", variant)


def service(variant, name):
    return Program(f"tf.data service, {name}", "tf-service", "peers/tf_service.py", variant)


def ours(variant, name):
    return Program(f"lockstep, {name}", "ours", "ours.py", variant)


LIMIT = Program("bare copy, one thread", "limit", "limits.py", "one-thread")
TWO_OF_THEIRS = service("w2", "2 workers")
TWO_OF_OURS = ours("w2", "2 workers")

SMALL = (LIMIT,
         torch("w0", "in process"), torch("w0-gathered", "in process, gathered"),
         torch("w2", "2 workers"), torch("w2-gathered", "2 workers, gathered"),
         tensorflow("one-by-one", "in process"),
         tensorflow("batched", "in process, batch before map"),
         TWO_OF_THEIRS, service("w2-batched", "2 workers, batch before map"),
         grain("w0", "in process"), grain("w0-bare", "in process, no threads"),
         grain("w2", "2 workers"),
         ours("local", "local()"), TWO_OF_OURS)
ARRAYS = (LIMIT, torch("w1", "1 worker"), service("w1", "1 worker"), grain("w1", "1 worker"),
          ours("w1", "1 worker"))

# Row: (title, programs).
ROWS = {
    "range": ("range, first come", (TWO_OF_THEIRS, TWO_OF_OURS)),
    "rounds": ("range, in rounds", (TWO_OF_THEIRS, TWO_OF_OURS)),
    "windows": ("2,048-token windows, shuffled, batch 32 (W2)", SMALL),
    "records": ("100-byte records, shuffled, batch 256 (W4)", SMALL),
    "arrays": ("8 MiB arrays (W3)", ARRAYS),
    "arrays-read": ("8 MiB arrays, one value of every page read (W3)", ARRAYS),
}
GROUPS = ("limit", "torch", "tf", "tf-service", "grain", "ours")


def kill_session(session):
    """All processes in it. They are looked up anew until there are none, or for some seconds."""
    for _ in range(100):
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if session_of(pid) == session]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def session_of(pid):
    """None of who has ended already."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, _, _, session = text[text.rindex(")") + 2:].split()[:4]
    return int(session) if state != "Z" else None


def run(program, row, options, no_outage=False):
    """The figures of one run, as the program tells them. `no_outage`: no worker is killed in it."""
    if not PYTHON.exists():
        raise Absent("there is no build/peers/loaders (scripts/setup.sh loaders)")
    command = [PYTHON, HERE / program.script, "--row", row, "--variant", program.variant,
               "--seconds", str(options.seconds), "--elements", str(options.elements),
               "--data", options.data, *(["--no-outage"] if no_outage else [])]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if program.group == "ours":
        environment["PYTHONPATH"] = str(OUR_PACKAGE)
    # Not pipes: who is left of the session would keep them open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=said,
                                   env=environment, start_new_session=True)
        try:
            code = process.wait(LIMIT_S + 3 * options.seconds)
        except subprocess.TimeoutExpired as error:
            raise Absent(f"took more than {error.timeout:.0f} s") from error
        finally:
            kill_session(process.pid)
            process.wait()
        out.seek(0)
        said.seek(0)
        lines = [line for line in out.read().splitlines() if line.startswith("{")]
        if code != 0 or not lines:
            last = [line for line in said.read().splitlines() if line.strip()][-1:]
            raise Absent(f"exit code {code}: {''.join(last)[-200:]}")
    return json.loads(lines[-1])
