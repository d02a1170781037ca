#!/usr/bin/env python3
"""What torchrun says when one of four ranks goes wrong, and what Lockstep says; and when.

    build/peers/frameworks/bin/python bench/faults/run.py --random 20 --document docs/pytorch.md

For each fault first torchrun, whose first line about an error is told; then `lockstep run` on a server,
where `lockstep why -o json` is asked every half second. It counts as right only when the first suspects
that it names are the faulty rank and nobody else, with the pid and the host of that process and since when.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from document import put_into  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = HERE / "program.py"
LOCKSTEP = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "bin")) / "lockstep"
SIZE = 4
STEP = 18
TIMEOUT_S = 15  # of torch's process group; its own default is 30 minutes
LIMIT_S = 90  # of one fault with one launcher
ASK_EVERY_S = 0.5
# How far what is said of the time may be from the truth: the fault is told a moment before it happens,
# and since when others wait is looked at once a second.
SINCE_SLACK_S = 3.0

# What the table has: the rank, and whether its process has a stack to show.
FAULTS = {"killed at the start": (0, False), "never comes": (3, True), "killed": (0, False),
          "stopped": (1, False), "loops": (2, True), "skips": (1, True)}
RANDOM_FAULTS = {**{fault: stack for fault, (_, stack) in FAULTS.items()}, "waits for data": True}
SAID = {"killed at the start": "killed in start-up", "never comes": "never comes to `init_process_group`",
        "killed": "killed in training", "stopped": "stopped (SIGSTOP)", "loops": "loops in its data loader",
        "skips": "skips a collective"}

FAULT_AT = re.compile(r"fault at (\S+) in pid (\d+)")
STARTED = re.compile(r"rank \d+ is pid (\d+)")
ERROR = re.compile(r"(Error|error:|Timed out|timed out|Connection closed|Connection reset|exitcode)")
ENDED = re.compile(r"^lockstep run: task/\d.*exit code")
NOISE = re.compile(r"^(\S*\s)*\[?[WI]\d{4} |Traceback|^\s*$")


class Watched:
    """A launcher, its lines, and when they came."""

    def __init__(self, *command, timeout_s):
        self.lines, self.changed = [], threading.Condition()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
                       "FAULTS_TIMEOUT_S": str(timeout_s)}
        self.process = subprocess.Popen([str(word) for word in command], text=True, env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, errors="replace",
                                        stderr=subprocess.STDOUT, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append((time.time(), line.rstrip()))
                self.changed.notify_all()

    def find(self, pattern, after=0.0):
        """(when, match) of the first line with that; None when there is none in time."""
        def found():
            for at, line in self.lines:
                match = pattern.search(line)
                if match and at >= after and not NOISE.search(line):
                    return at, match
            return None

        with self.changed:
            return self.changed.wait_for(found, LIMIT_S)

    def started(self):
        """Pids of the ranks that have come so far that they print."""
        return [int(match[1]) for _, line in self.lines if (match := STARTED.search(line))]

    def fault(self):
        """(when, pid), once all ranks print: until then they wait for whom it takes longest to import
        torch."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.started()) == SIZE, LIMIT_S)
        found = self.find(FAULT_AT)
        assert found, "the fault never came:\n" + "\n".join(line for _, line in self.lines[-30:])
        return float(found[1][1]), int(found[1][2])

    def stop(self):
        """Ends the launcher and whatever it leaves behind."""
        for kill, pid in [(os.killpg, self.process.pid), *((os.kill, pid) for pid in self.started())]:
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def under_torchrun(fault, rank):
    """(seconds, what was said)"""
    watched = Watched(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", SIZE,
                      PROGRAM, fault, rank, STEP, timeout_s=TIMEOUT_S)
    try:
        at, _ = watched.fault()
        told = watched.find(ERROR, after=at)
        return (LIMIT_S, "nothing") if told is None else (told[0] - at, told[1].string.strip())
    finally:
        watched.stop()


class Server:
    """A server of our own, for one fault."""

    def __init__(self, folder):
        self.ready = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "ready"
        self.process = subprocess.Popen(
            [LOCKSTEP, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--job", f"faults={SIZE}",
             "--ready-file", self.ready], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def __enter__(self):
        give_up = time.monotonic() + LIMIT_S
        while not self.ready.exists():
            assert self.process.poll() is None and time.monotonic() < give_up, "no server"
            time.sleep(0.02)
        return json.loads(self.ready.read_text())["listen"]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def what_is_wrong_with(suspects, fault, rank, pid, elapsed_s, has_stack):
    """Empty: they are the faulty rank, as it should be told."""
    if [suspect["member"] for suspect in suspects] != [rank]:
        return "it names " + ", ".join(suspect["name"] for suspect in suspects)
    suspect = suspects[0]
    if suspect["pid"] != pid or suspect["host"] != socket.gethostname():
        return f"it names pid {suspect['pid']} on {suspect['host']}"
    since = suspect["since_ago_us"]
    if since is None:
        return "it does not say since when"
    # Of one that never comes it counts since others wait, who may have been slow to come.
    too_long, too_short = since / 1e6 - elapsed_s, elapsed_s - since / 1e6
    if too_long > SINCE_SLACK_S or (too_short > SINCE_SLACK_S and fault != "never comes"):
        return f"for {since / 1e6:.1f} s, not {elapsed_s:.1f} s"
    if has_stack and not suspect["stack_place"]:
        return "it shows no stack"
    return ""


def said_of(suspect):
    text = (f"{suspect['name'].split('#')[0]} (pid {suspect['pid']} on {suspect['host']}), for "
            f"{suspect['since_ago_us'] / 1e6:.1f} s: {suspect['evidence']}")
    if suspect["stack_place"] and suspect["stack_place"] not in text:
        text += f"; it {suspect['stack_place']}"
    return text


def ask_why(address):
    asked = subprocess.run([LOCKSTEP, "why", "faults", "--coordinator", address, "-o", "json"],
                           text=True, capture_output=True, check=False)
    return json.loads(asked.stdout)


def under_lockstep(fault, rank, step, has_stack, folder, timeout_s=TIMEOUT_S, afterwards=False):
    """(seconds, what was said, what is wrong with it). `afterwards`: it must be told as well when torch's
    time-out has ended the others."""
    with Server(folder) as address:
        watched = Watched(LOCKSTEP, "run", "-n", SIZE, "--coordinator", address, "--grace", "60s", "--",
                          sys.executable, PROGRAM, fault, rank, step, timeout_s=timeout_s)
        try:
            at, pid = watched.fault()
            while time.time() - at < LIMIT_S:
                why = ask_why(address)
                elapsed = time.time() - at
                if why["suspects"]:
                    said = "; ".join(said_of(one) for one in why["suspects"])
                    wrong = what_is_wrong_with(why["suspects"], fault, rank, pid, elapsed, has_stack)
                    if afterwards and not wrong:
                        assert watched.find(ENDED), "the others did not end"
                        why = ask_why(address)
                        print(f"  afterwards, {time.time() - at:.1f} s: "
                              f"{'; '.join(said_of(one) for one in why['suspects'])}", flush=True)
                        wrong = what_is_wrong_with(why["suspects"], fault, rank, pid, time.time() - at,
                                                   has_stack)
                        wrong = wrong and f"afterwards {wrong}"
                    return elapsed, said, wrong
                time.sleep(ASK_EVERY_S)
            return LIMIT_S, "nothing", f"it names nobody: {why['summary']}; {why['places']}"
        finally:
            watched.stop()


def cell(text):
    """What can stand in a table, without where this checkout is."""
    return text.replace(f"{ROOT}/", "").replace("|", "\\|").replace("<", "&lt;")[:300]


def table(faults, folder):
    """Rows of Markdown, and how many of them are wrong."""
    rows, failures = [], 0
    for fault in faults:
        rank, has_stack = FAULTS[fault]
        print(f"rank {rank}: {fault}", flush=True)
        theirs_s, theirs = under_torchrun(fault, rank)
        print(f"  torchrun  {theirs_s:.1f} s: {theirs}", flush=True)
        ours_s, ours, wrong = under_lockstep(fault, rank, STEP, has_stack, folder,
                                             afterwards=fault in ("loops", "skips"))
        print(f"  lockstep  {ours_s:.1f} s: {ours}", flush=True)
        if wrong:
            failures += 1
            print(f"  WRONG     {wrong}", flush=True)
        rows.append(f"| rank {rank} {SAID[fault]} | {theirs_s:.1f} s: `{cell(theirs)}` | "
                    f"{ours_s:.1f} s: {cell(ours)} |\n")
    return rows, failures


def draw(count, seed, folder):
    """How many of so many faults were told right."""
    drawn, right = random.Random(seed), 0
    for number in range(count):
        fault = drawn.choice(sorted(RANDOM_FAULTS))
        rank, step = drawn.randrange(SIZE), drawn.randrange(2, 40)
        # Long enough to be asked while it hangs: here it is not the time-out that is looked at.
        seconds, said, wrong = under_lockstep(fault, rank, step, RANDOM_FAULTS[fault], folder,
                                              timeout_s=LIMIT_S)
        right += not wrong
        print(f"{number + 1}: rank {rank} {fault}, step {step}: {'WRONG: ' + wrong if wrong else 'right'}; "
              f"{seconds:.1f} s: {said}", flush=True)
    print(f"{right} of {count} right", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT",
                        help=f"of {', '.join(FAULTS)}; else all of them")
    parser.add_argument("--random", type=int, default=0, metavar="N",
                        help="and so many drawn at random")
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--no-table", action="store_true", help="only those that are drawn")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE",
                        help="a Markdown file whose table is replaced by this run's")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        rows, failures = [], 0
        if not options.no_table:
            rows, failures = table(options.faults or FAULTS, folder)
        right = draw(options.random, options.seed, folder) if options.random else 0
    if options.document:
        text = (f"Four ranks on one host, torch's time-out set to {TIMEOUT_S} s (its default: 30 minutes); "
                "the first line about an error, and what `lockstep why` says; both with the time since the "
                "fault.\n\n"
                "| what happens | torch and torchrun | Lockstep |\n|---|---|---|\n" + "".join(rows))
        if options.random:
            text += (f"\nOf {options.random} faults drawn at random (`--random {options.random} --seed "
                     f"{options.seed}`), `lockstep why` named the right rank, and no other, in {right}.\n")
        put_into(options.document, "bench/faults", text)
    return 1 if failures or right < 0.95 * options.random else 0


if __name__ == "__main__":
    sys.exit(main())
