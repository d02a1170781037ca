#!/usr/bin/env python3
"""Tells the story of scripts/demo.sh: one timed line per event, the figures, a verdict.

Everything that it claims it has checked: what the processes printed themselves, and what
`lockstep status -o json` said, polled every 20 ms where it matters. Raw logs: build/demo/.

    demo.py [--lockstep PROGRAM] [--logs FOLDER]    by default what the release build has made
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from demo_lines import finals, of_process, progress

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "jax_digits.py"
TORCH_EXAMPLE = ROOT / "examples" / "torch_digits.py"
NATIVE_EXAMPLE = ROOT / "examples" / "steps_member.py"
DATA_EXAMPLE = ROOT / "examples" / "jax_digits_workers.py"
PACKAGE = ROOT / "build" / "release" / "python"

JOB, TORCH_JOB, SIZE = "digits", "torch", 4
TORCH_EPOCHS = 60  # so many that it still trains when JAX has compiled its steps
STEPS = 400         # of the native job
VICTIM = 2
POLL_S = 0.02       # around the kill
POLL_IDLE_S = 0.1   # otherwise, so as not to slow the training down
NAMED_WITHIN_S = 0.5
ACCURACY_MIN = 0.95
OUTAGE_MAX_S = 10    # of a server that is killed and started again at once; it takes a fraction of that
TRAINING_LIMIT_S = 240  # one run, on two busy cores; alone it takes about 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build" / "bin" / "lockstep",
                        help="the program")
    parser.add_argument("--logs", type=pathlib.Path,
                        help="a folder for raw logs, new or empty; without it build/demo, made anew")
    return parser.parse_args()


ARGUMENTS = arguments()
LOCKSTEP = ARGUMENTS.lockstep.absolute()
OWN_LOGS = ROOT / "build" / "demo"  # nobody else's: made anew by each demo
LOGS = (ARGUMENTS.logs or OWN_LOGS).absolute()


class Trouble(Exception):
    """The demo cannot go on; the text says what was waited for."""


class Story:
    def __init__(self):
        self.began = time.monotonic()
        self.claims = []

    def tell(self, event, text):
        print(f"{time.monotonic() - self.began:6.1f}s  {event:<10} {text}", flush=True)

    def heading(self, text):
        print(f"\n{text}", flush=True)

    def claim(self, holds, text):
        self.claims.append((bool(holds), text))


class Command:
    """A running program: its output by line and time, kept in a log too. A thread reads it."""

    def __init__(self, name, command, variables=None):
        self.name = name
        self.lines = []  # (time, text)
        self._changed = threading.Condition()
        self._ended = False
        self._log = open(LOGS / f"{name}.log", "w", encoding="utf-8")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "JAX_PLATFORMS": "cpu",
                       **(variables or {})}
        self.process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", env=environment, cwd=ROOT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            at = time.monotonic()
            self._log.write(line)
            self._log.flush()
            with self._changed:
                self.lines.append((at, line.rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, what, wanted, limit_s):
        """Returns wanted(lines) once that is true; Trouble when it cannot become so any more."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while True:
                result = wanted(self.lines)
                if result:
                    return result
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    ending = "it ended first" if self._ended else f"not within {limit_s:.0f} s"
                    raise Trouble(f"{self.name}: waited for {what}; {ending}. "
                                  f"See {self._log.name}")
                self._changed.wait(left)

    def end(self, limit_s):
        """Its exit code, once all its output was read."""
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Trouble(f"{self.name}: did not end within {limit_s:.0f} s. "
                          f"See {self._log.name}") from None
        self._reader.join(10)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(10)
        self._log.close()


class Watch:
    """Polls `lockstep status -o json` on a thread of its own and keeps the latest answer."""

    def __init__(self, coordinator):
        self._command = [str(LOCKSTEP), "status", "--coordinator", coordinator, "-o", "json"]
        self._changed = threading.Condition()
        self._latest = None  # (time answered, job)
        self._stopping = threading.Event()
        self.pause_s = POLL_IDLE_S
        self.polls = 0
        self.trouble = "it never answered"
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self):
        while not self._stopping.wait(self.pause_s):
            try:
                # It exits with 1 when a job is in trouble, which is what we wait for.
                answer = subprocess.run(self._command, stdin=subprocess.DEVNULL, text=True,
                                        capture_output=True, timeout=10, check=False)
                if answer.returncode > 1:
                    self.trouble = answer.stderr.strip()
                    continue
                job = next(j for j in json.loads(answer.stdout)["jobs"] if j["job"] == JOB)
            except (subprocess.SubprocessError, ValueError, KeyError, StopIteration) as error:
                self.trouble = f"{type(error).__name__}: {error}"
                continue
            with self._changed:
                self._latest = (time.monotonic(), job)
                self.polls += 1
                self._changed.notify_all()

    def wait_for(self, what, wanted, limit_s):
        """Returns (time, job) of the first status seen for which wanted(job) holds."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while True:
                if self._latest and wanted(self._latest[1]):
                    return self._latest
                left = deadline - time.monotonic()
                if left <= 0:
                    last = f"its last answer: {json.dumps(self._latest[1])[:600]}" if self._latest \
                        else self.trouble
                    raise Trouble(f"`lockstep status` did not show within {limit_s:.0f} s: {what}; "
                                  f"{last}")
                self._changed.wait(left)

    def stop(self):
        self._stopping.set()
        self._thread.join(15)


@dataclasses.dataclass
class Outcome:
    """What a run came to."""

    title: str
    attempt: int = 0
    took_s: float = 0.0
    step: int = 0
    code: int = 0
    finals: dict = dataclasses.field(default_factory=dict)  # process -> (loss, accuracy)
    trained: tuple = (0.0, 0.0)  # from when until when


def names(job, conditions):
    return [m["name"] for m in job["members"] if m["condition"] in conditions]


def root_cause(job):
    """The error of the current attempt that the others followed from."""
    return next((e for e in job["errors"]
                 if e["attempt"] == job["attempt"] and not e["consequence"]), None)


def start_run(story, server_address, name, options=(), arguments=()):
    command = Command(name, [LOCKSTEP, "run", "-n", SIZE, "--job", JOB, "--coordinator",
                             server_address, *options, "--", sys.executable, EXAMPLE, *arguments])
    shown_arguments = " ".join(shown(part) if isinstance(part, pathlib.Path) else part
                               for part in arguments)
    words = [f"lockstep run -n {SIZE}", *options, f"-- python examples/{EXAMPLE.name}",
             shown_arguments]
    story.tell("started", " ".join(word for word in words if word))
    return command


def wait_until_training(story, watch, command, attempts_before):
    """Waits until all are in and compute; returns the number of the attempt."""
    _, job = watch.wait_for(
        f"{SIZE} members connected in a new attempt",
        lambda j: j["attempt"] > attempts_before and len(names(j, ["connected"])) == SIZE, 90)
    story.tell("joined", f"{' '.join(names(job, ['connected']))} (attempt {job['attempt']})")
    step, _, loss = command.wait_for("the first training step", progress, TRAINING_LIMIT_S)
    story.tell("training", f"step {step}, loss {loss}")
    return job["attempt"]


def wait_for_finals(command):
    """What each process came to, once all have said so."""
    return command.wait_for(f"the final line of {SIZE} processes",
                            lambda lines: len(finals(lines)) == SIZE and finals(lines), TRAINING_LIMIT_S)


def run_to_the_end(story, watch, address, title, name, attempts_before):
    """A run that nothing disturbs."""
    outcome, began = Outcome(title), time.monotonic()
    command = start_run(story, address, name)
    try:
        outcome.attempt = wait_until_training(story, watch, command, attempts_before)
        training_since = time.monotonic()
        outcome.finals = wait_for_finals(command)
        outcome.trained = (training_since, time.monotonic())
        outcome.step = progress(command.lines)[0]
        for process, (loss, accuracy) in sorted(outcome.finals.items()):
            story.tell("finished", f"task/{process}: loss {loss}, held-out accuracy {accuracy:.4f}")
        outcome.code = command.end(60)
        _, job = watch.wait_for("the attempt's end", lambda j: j["state"] == "ended", 30)
        story.tell("ended", f"all left through the shutdown barrier; lockstep run exits with "
                            f"{outcome.code}; the job is {job['state']}")
    finally:
        command.stop()
    outcome.took_s = time.monotonic() - began

    losses = {loss for loss, _ in outcome.finals.values()}
    worst = min(accuracy for _, accuracy in outcome.finals.values())
    story.claim(outcome.code == 0 and len(losses) == 1,
                f"{title}: {SIZE} processes print the same final loss ({', '.join(losses)})")
    story.claim(worst > ACCURACY_MIN,
                f"{title}: held-out accuracy {worst:.4f}, above {ACCURACY_MIN}")
    return outcome


def torch_python():
    """The one that runs this, when it has torch; else one that scripts/setup.sh has made; else None."""
    pythons = [pathlib.Path(sys.executable),
               *(ROOT / "build" / "peers" / peer / "bin" / "python" for peer in ("torch", "frameworks"))]
    for python in pythons:
        looks = [python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"]
        if python.exists() and subprocess.run(looks, capture_output=True, check=False).returncode == 0:
            return python
    return None


def store_of(address, job):
    """What `lockstep status` shows of torch's store of that job."""
    answer = subprocess.run([str(LOCKSTEP), "status", job, "--coordinator", address, "-o", "json"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                            check=False)
    return json.loads(answer.stdout)["jobs"][0]["torch_store"]


class TorchRun:
    """Four processes of stock PyTorch, told of on a thread of its own while something else runs."""

    def __init__(self, story, address, run, options=()):
        python = torch_python()
        if python is None:
            raise Trouble("no Python here has torch; scripts/setup.sh torch makes one that has")
        self.outcome = Outcome(f"run {run}, PyTorch beside it")
        self.trouble, self.store, self.trained = None, {}, (0.0, 0.0)
        self._story, self._address, self._began = story, address, time.monotonic()
        self._command = Command(f"run-{run}-torch", [
            LOCKSTEP, "run", "-n", SIZE, "--job", TORCH_JOB, "--coordinator", address, *options, "--",
            python, TORCH_EXAMPLE, "--epochs", TORCH_EPOCHS])
        story.tell("started", " ".join([f"lockstep run -n {SIZE} --job {TORCH_JOB}", *options,
                                        f"-- python examples/{TORCH_EXAMPLE.name}, on the same server"]))
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        try:
            self._tell()
        except (Trouble, subprocess.SubprocessError, ValueError, LookupError) as trouble:
            self.trouble = trouble

    def _tell(self):
        outcome, story, command = self.outcome, self._story, self._command
        step, _, loss = command.wait_for("torch's first training step", progress, TRAINING_LIMIT_S)
        began = time.monotonic()
        self.store = store_of(self._address, TORCH_JOB)
        story.tell("training", f"torch: step {step}, loss {loss}; lockstep status: its store has "
                               f"{self.store['connections']} connections, {self.store['keys']} keys")
        outcome.finals = wait_for_finals(command)
        self.trained = (began, time.monotonic())
        outcome.step, outcome.attempt = progress(command.lines)[0], self.store["attempt"]
        outcome.code = command.end(60)
        loss, accuracy = next(iter(outcome.finals.values()))
        story.tell("ended", f"torch: final loss {loss}, accuracy {accuracy:.4f} in {SIZE} processes; "
                            f"lockstep run exits with {outcome.code}")
        outcome.took_s = time.monotonic() - self._began

    def share(self):
        """Of its steps; none: it has not begun, or the server is still asked about its store."""
        if self.trouble:
            raise Trouble(str(self.trouble))
        at = progress(self._command.lines) if self.store else None
        return at and at[0] / at[1]

    def end(self):
        self._thread.join(2 * TRAINING_LIMIT_S)
        self.stop()
        if self.trouble:
            raise Trouble(str(self.trouble))
        return self.outcome

    def stop(self):
        self._command.stop()


def run_beside_torch(story, watch, address, attempts_before):
    """The JAX job once more, and a PyTorch job at the same time, on one server."""
    torch = TorchRun(story, address, 3)
    try:
        jax = run_to_the_end(story, watch, address, "run 3, on the same server", "run-3", attempts_before)
        outcome = torch.end()
    finally:
        torch.stop()
    (began, ended), losses = torch.trained, {loss for loss, _ in outcome.finals.values()}
    worst = min(accuracy for _, accuracy in outcome.finals.values())
    both = min(ended, jax.trained[1]) - max(began, jax.trained[0])
    story.claim(outcome.code == 0 and len(losses) == 1 and worst > ACCURACY_MIN,
                f"run 3: beside it {SIZE} stock PyTorch processes print the same final loss "
                f"({', '.join(losses)}), accuracy {worst:.4f}")
    story.claim(torch.store["connections"] >= SIZE,
                f"run 3: they met at the server's store of their job "
                f"({torch.store['connections']} connections)")
    story.claim(both > 0, f"run 3: both jobs trained at the same time, for {max(both, 0):.1f} s")
    return [jax, outcome]


def steps_told(lines, text):
    """process -> step of the lines that say this of a step."""
    said = re.compile(re.escape(text) + r" (\d+)")
    return {process: int(match.group(1)) for process, line in (of_process(l) for _, l in lines)
            if process is not None and (match := said.search(line))}


def run_with_a_preemption(story, watch, address, attempts_before, undisturbed):
    """A run in the middle of which the job is told that a process will be taken away."""
    outcome, began = Outcome("run 4, preempted, resumed"), time.monotonic()
    command = start_run(story, address, "run-4", ["--on-preempt", "restart"],
                        ["--checkpoint", LOGS / "checkpoints"])
    try:
        wait_until_training(story, watch, command, attempts_before)
        step, _, _ = command.wait_for(
            "the middle of the training",
            lambda lines: (p := progress(lines)) and p[0] >= (p[1] or 2) / 2 and p,
            TRAINING_LIMIT_S)
        told = time.monotonic()
        answer = subprocess.run(
            [str(LOCKSTEP), "preempt", "--coordinator", address, "--job", JOB, "--member",
             f"task/{VICTIM}", "--in", "30s", "--wait", "60s"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False)
        story.tell("NOTICE", f"lockstep preempt --member task/{VICTIM} --in 30s, at step {step}")
        for line in answer.stdout.splitlines():
            if "agreed" in line:
                story.tell("agreed", line.split("agreed: ", 1)[-1])
        saved = command.wait_for(
            f"{SIZE} processes that saved",
            lambda lines: len(s := steps_told(lines, "saved after step")) == SIZE and s, 60)
        took = time.monotonic() - told
        story.tell("saved", f"task/0-{SIZE - 1} after step {', '.join(map(str, set(saved.values())))}"
                            f", {took * 1000:.0f} ms after the notice; they end, and are started again")
        resumed = command.wait_for(
            f"{SIZE} processes that go on",
            lambda lines: len(s := steps_told(lines, "goes on after step")) == SIZE and s,
            TRAINING_LIMIT_S)
        story.tell("resumed", f"task/0-{SIZE - 1} after step "
                              f"{', '.join(map(str, set(resumed.values())))}")
        outcome.finals = wait_for_finals(command)
        outcome.step = progress(command.lines)[0]
        outcome.code = command.end(60)
        _, job = watch.wait_for("the attempt's end", lambda j: j["state"] == "ended", 30)
        outcome.attempt = job["attempt"]
        loss, accuracy = next(iter(outcome.finals.values()))
        story.tell("ended", f"final loss {loss}, accuracy {accuracy:.4f}; lockstep run exits with "
                            f"{outcome.code}")
    finally:
        command.stop()
    outcome.took_s = time.monotonic() - began
    story.claim(answer.returncode == 0 and len(set(saved.values())) == 1,
                f"run 4: {SIZE} stock processes saved at one step ({min(saved.values())})")
    story.claim(resumed == saved and outcome.code == 0,
                "run 4: they were started again, and continued from there")
    story.claim(set(outcome.finals.values()) == set(undisturbed.values()),
                f"run 4: the same final loss and accuracy as in run 1 ({loss}, {accuracy:.4f})")
    return outcome


def heard_of_death(lines, since, victim):
    """process -> (when, line): the first line after `since` in which it names the dead one."""
    heard = {}
    for at, line in lines:
        process, text = of_process(line)
        if at < since or process in (None, victim) or process in heard:
            continue
        if re.search(rf"\btask/{victim}\b", text):
            heard[process] = (at, text)
    return heard


def run_with_a_death(story, watch, address, attempts_before):
    """A run in the middle of which a process is killed; returns (outcome, figures)."""
    outcome, began = Outcome("run 2, one killed"), time.monotonic()
    command = start_run(story, address, "run-2")
    try:
        outcome.attempt = wait_until_training(story, watch, command, attempts_before)
        outcome.step, _, _ = command.wait_for(
            "the middle of the training",
            lambda lines: (p := progress(lines)) and p[0] >= (p[1] or 2) / 2 and p,
            TRAINING_LIMIT_S)
        watch.pause_s = POLL_S
        _, job = watch.wait_for("who runs", lambda j: True, 5)
        victim = next(m for m in job["members"] if m["index"] == VICTIM)

        killed = time.monotonic()
        os.kill(victim["pid"], signal.SIGKILL)
        story.tell("KILLED", f"{victim['name']}, pid {victim['pid']}, by SIGKILL at step "
                             f"{outcome.step}")
        figures = who_learned(story, watch, command, killed, victim)
        watch.pause_s = POLL_IDLE_S
        outcome.code = command.end(60)
        story.tell("ended", f"lockstep run exits with {outcome.code}: " + first_failure(command))
    finally:
        command.stop()
    outcome.took_s = time.monotonic() - began

    story.claim(outcome.code != 0, "run 2: lockstep run reports the failure in its exit code")
    return outcome, figures


def first_failure(command):
    """What `lockstep run` itself said of the process that failed first."""
    own = [text for process, text in (of_process(line) for _, line in command.lines)
           if process is None and text.strip()]
    said = [text for text in own if "first to fail" in text] or own or ["(it said nothing)"]
    return said[-1].removeprefix("lockstep run:").partition("; the last that it wrote")[0].strip()


def who_learned(story, watch, command, killed, victim):
    """Waits until status and the survivors have named the dead one; who -> seconds."""
    figures = collections.OrderedDict()
    at, job = watch.wait_for(f"{victim['name']} is lost, and the cause of the failure",
                             lambda j: names(j, ["lost"]) and root_cause(j), 30)
    dead = next(m for m in job["members"] if m["index"] == VICTIM)
    story.claim(dead["condition"] == "lost" and root_cause(job)["origin"] == victim["name"],
                f"run 2: lockstep status shows {victim['name']} as lost, and as the root cause")
    figures["lockstep status"] = at - killed

    survivors = SIZE - 1
    heard = command.wait_for(
        f"{survivors} survivors that name task/{VICTIM}",
        lambda lines: len(h := heard_of_death(lines, killed, VICTIM)) == survivors and h, 120)
    for process, (when, _) in sorted(heard.items()):
        figures[f"task/{process}"] = when - killed
    for who, seconds in sorted(figures.items(), key=lambda item: item[1]):
        said = dead["why"] if who == "lockstep status" else heard[int(who[5:])][1]
        story.tell("named", f"{seconds * 1000:4.0f} ms  {who}: {shorten(said)}")
    for who, seconds in figures.items():
        story.claim(seconds <= NAMED_WITHIN_S,
                    f"run 2: {who} names {victim['name']} within {NAMED_WITHIN_S} s "
                    f"({seconds * 1000:.0f} ms)")
    return figures


def has_the_wheel():
    return subprocess.run([sys.executable, "-c", "from lockstep import join"], capture_output=True,
                          check=False).returncode == 0


def python_with_lockstep():
    """Ours, when it is what the wheel is installed in; else the one of the build."""
    return sys.executable if has_the_wheel() else ROOT / "build" / "venv" / "bin" / "python"


def native_finals(lines):
    """process -> (total, longest step in ms, number)"""
    said = re.compile(r"final total (\d+), the longest step took (\d+) ms, finished as number (\d+)")
    return {process: tuple(int(group) for group in match.groups())
            for process, text in (of_process(line) for _, line in lines)
            if process is not None and (match := said.search(text))}


def kill_and_restart(story, server, name, state, job, address, step, keep=()):
    """The server that follows, on the same directory."""
    server.process.kill()
    server.stop()
    story.tell("KILLED", f"the server itself, by SIGKILL at step {step}; it restarts on the same "
                         "directory")
    return start_server(story, name, ["--state", state, *keep], job, address)[0]


def run_while_the_server_dies(story):
    """Four members of ours, whose server is killed in the middle and started again."""
    state = LOGS / "state"
    server, address = start_server(story, "server-of-run-5", ["--state", state], "steps")
    command = None
    try:
        command = Command("run-5", [LOCKSTEP, "run", "-n", SIZE, "--job", "steps", "--coordinator",
                                    address, "--", python_with_lockstep(), NATIVE_EXAMPLE, STEPS])
        story.tell("started", f"lockstep run -n {SIZE} -- python examples/{NATIVE_EXAMPLE.name} {STEPS}")
        step = command.wait_for(
            "the middle of the steps",
            lambda lines: next((int(found[1]) for _, line in reversed(lines)
                                if (found := re.search(r"step (\d+)/", line))
                                and int(found[1]) >= STEPS // 4), None), 60)
        server = kill_and_restart(story, server, "server-of-run-5-again", state, "steps", address, step)
        code = command.end(120)
        finals_seen = native_finals(command.lines)
        longest = max((ms for _, ms, _ in finals_seen.values()), default=0)
        story.tell("finished", f"{len(finals_seen)} members made {STEPS} steps; the longest took "
                               f"{longest} ms; lockstep run exits with {code}")
    finally:
        if command:
            command.stop()
        server.stop()
    wanted = sum(step * (member + 1) for step in range(STEPS) for member in range(SIZE))
    story.claim(code == 0 and {total for total, _, _ in finals_seen.values()} == {wanted},
                f"run 5: all {STEPS} steps of {SIZE} members are correct (sum {wanted}), although "
                f"their server was killed")
    story.claim(sorted(number for _, _, number in finals_seen.values()) == list(range(1, SIZE + 1)),
                f"run 5: a counter that each member raised once stands at {SIZE}")
    story.claim(longest < 1000 * OUTAGE_MAX_S, f"run 5: no member waited longer than {longest} ms")
    return longest


def jax_with_lockstep():
    """Variables for a Python that has JAX, so that it has our package, too."""
    if has_the_wheel():
        return {}
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(PACKAGE), *([before] if before else [])])}


def epochs_told(lines):
    """process -> (examples, epochs in which each was seen once, epochs)"""
    said = re.compile(r"each of (\d+) examples was seen exactly once in (\d+) of (\d+) epochs")
    return {process: tuple(int(group) for group in match.groups())
            for process, text in (of_process(line) for _, line in lines)
            if process is not None and (match := said.search(text))}


def start_workers(story, address):
    workers = []
    for number in (1, 2):
        worker = Command(f"worker-{number}", [LOCKSTEP, "worker", "--dispatcher", address])
        workers.append(worker)
        at = worker.wait_for("its address", lambda lines: next(
            (match[1] for _, line in lines if (match := re.search(r"answers at (\S+)", line))), None), 20)
        story.tell("worker", f"lockstep worker, pid {worker.process.pid}, at {at}")
    return workers


def run_with_data_workers(story):
    """The digits come from two data workers, of which one is killed in the middle."""
    outcome, began = Outcome("run 6, data workers"), time.monotonic()
    server, address = start_server(story, "server-of-run-6")
    workers, command = [], None
    try:
        workers = start_workers(story, address)
        command = Command("run-6", [LOCKSTEP, "run", "-n", SIZE, "--job", JOB, "--coordinator", address,
                                    "--", sys.executable, DATA_EXAMPLE], jax_with_lockstep())
        story.tell("started", f"lockstep run -n {SIZE} -- python examples/{DATA_EXAMPLE.name}")
        step, _, _ = command.wait_for(
            "the middle of the training",
            lambda lines: (p := progress(lines)) and p[0] >= (p[1] or 2) / 2 and p,
            TRAINING_LIMIT_S)
        workers[0].process.kill()
        story.tell("KILLED", f"the first data worker, by SIGKILL at step {step}")
        outcome.finals = wait_for_finals(command)
        outcome.step = progress(command.lines)[0]
        outcome.code = command.end(60)
        outcome.attempt = 1
        told = set(epochs_told(command.lines).values())
        examples, good, epochs = next(iter(told), (0, 0, -1))
        loss, accuracy = next(iter(outcome.finals.values()))
        story.tell("ended", f"final loss {loss}, accuracy {accuracy:.4f}; lockstep run exits with "
                            f"{outcome.code}")
    finally:
        for one in (command, *workers, server):
            if one:
                one.stop()
    outcome.took_s = time.monotonic() - began
    story.claim(outcome.code == 0 and len(told) == 1 and good == epochs,
                f"run 6: each example seen exactly once per epoch ({examples} examples, {epochs} "
                f"epochs), although a data worker was killed")
    story.claim(len(set(outcome.finals.values())) == 1 and accuracy > ACCURACY_MIN,
                f"run 6: {SIZE} processes print the same final loss ({loss}) and accuracy "
                f"({accuracy:.4f})")
    return outcome


def wait_for_both(jax, torch, share):
    """Until JAX has done this share of its steps, while torch trains; returns the steps of JAX."""
    deadline = time.monotonic() + TRAINING_LIMIT_S
    while time.monotonic() < deadline:
        at, of_torch = progress(jax.lines), torch.share()
        if at and of_torch and (at[0] >= share * at[1] or of_torch >= share + 0.2):
            return at[0]
        time.sleep(POLL_S)
    raise Trouble(f"run 7: JAX and PyTorch did not both train at {share:.0%} of the steps")


def run_with_agents(story, undisturbed, torch_undisturbed):
    """Four stock processes of JAX and of PyTorch behind agents; their server is killed twice."""
    outcome, began = Outcome("run 7, server killed twice"), time.monotonic()
    state, keep = LOGS / "state-of-run-7", ("--torch-store-durable", "--job", f"{TORCH_JOB}={SIZE}")
    server, address = start_server(story, "server-of-run-7", ["--state", state, *keep])
    watch, command, torch, open_at_kills = Watch(address), None, None, []
    try:
        torch = TorchRun(story, address, 7, ["--agent"])
        command = start_run(story, address, "run-7", ["--agent"])
        outcome.attempt = wait_until_training(story, watch, command, 0)
        for kill, share in enumerate((0.1, 0.5), start=1):
            step = wait_for_both(command, torch, share)
            open_at_kills.append(torch.share() < 1 and not finals(command.lines))
            server = kill_and_restart(story, server, f"server-of-run-7-again-{kill}", state, JOB,
                                      address, step, keep)
        outcome.finals = wait_for_finals(command)
        outcome.step = progress(command.lines)[0]
        outcome.code = command.end(60)
        _, job = watch.wait_for("the attempt's end", lambda j: j["state"] == "ended", 30)
        story.tell("ended", f"attempt {job['attempt']}; lockstep run exits with {outcome.code}")
        beside = torch.end()
    finally:
        watch.stop()
        for one in filter(None, (command, torch, server)):
            one.stop()
    outcome.took_s = time.monotonic() - began
    story.claim(outcome.code == 0 and job["attempt"] == outcome.attempt and outcome.finals == undisturbed,
                f"run 7: {SIZE} stock processes end as in run 1, without a restart")
    story.claim(beside.code == 0 and beside.finals == torch_undisturbed and all(open_at_kills),
                f"run 7: {SIZE} stock PyTorch processes, training at both kills, end as in run 3")
    return [outcome, beside]


def shorten(text, most=110):
    start = max(0, text.find(f"task/{VICTIM}"))
    text = text[start:].strip()
    return text if len(text) <= most else text[:most - 3] + "..."


def start_server(story, name="server", keep=("--ephemeral",), job=JOB, listen="127.0.0.1:0"):
    ready = LOGS / f"{name}.json"
    server = Command(name, [LOCKSTEP, "serve", *keep, "--listen", listen, "--job", f"{job}={SIZE}",
                            "--ready-file", ready])
    deadline = time.monotonic() + 20
    while True:
        try:
            told = json.loads(ready.read_text())
            break
        except (OSError, ValueError):
            if server.process.poll() is not None or time.monotonic() > deadline:
                server.stop()
                raise Trouble(f"the server did not write {ready} within 20 s: "
                              + " / ".join(text for _, text in server.lines[-3:])) from None
            time.sleep(POLL_S)
    story.tell("server", f"lockstep serve, pid {told['pid']}, at {told['listen']}; stock clients of "
                         f"{job} at {told['jobs'][job]['grpc']}")
    return server, told["listen"]


def print_figures(outcomes, figures, watch, outage_ms):
    print("\nFigures")
    print(f"  {'run':<26}{'attempt':>7}  {'steps':>6}  {'final loss':>12}  {'accuracy':>8}  {'took':>8}")
    for outcome in outcomes:
        loss, accuracy = next(iter(outcome.finals.values()), ("-", None))
        print(f"  {outcome.title:<26}{outcome.attempt:>7}  {outcome.step:>6}  {loss:>12}  "
              f"{'-' if accuracy is None else f'{accuracy:.4f}':>8}  {outcome.took_s:>6.1f} s")
    print(f"\n  time until each learned which process had died (status was queried {watch.polls} times)")
    for who, seconds in figures.items():
        print(f"  {who:<26}{seconds * 1000:>7.0f} ms after the kill")
    print(f"\n  server killed and started again: the longest step of a member took {outage_ms} ms")


def print_verdict(story):
    print("\nVerdict")
    for holds, text in story.claims:
        print(f"  {'ok    ' if holds else 'FAILED'}  {text}")
    good = bool(story.claims) and all(holds for holds, _ in story.claims)
    print(f"\n{'PASS' if good else 'FAIL'} after {time.monotonic() - story.began:.0f} s. "
          f"Raw logs: {shown(LOGS)}/")
    return good


def shown(path):
    """As a person in the checkout would write it."""
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)


def print_next():
    lockstep, python = shown(LOCKSTEP), shown(pathlib.Path(sys.executable))
    torch = shown(torch_python() or pathlib.Path("python"))
    print(f"""
What to try next
  {lockstep} run -n 4 -- {python} examples/{EXAMPLE.name}
  {lockstep} run -n 4 --max-restarts 1 -- {torch} examples/{TORCH_EXAMPLE.name} --epochs 1000
                                                      and kill -9 one of the processes
  {lockstep} run -n 4 -- {shown(pathlib.Path(python_with_lockstep()))} examples/hello_member.py
  {lockstep} serve --ephemeral --job digits=4          then, elsewhere:
  LOCKSTEP_COORDINATOR=127.0.0.1:7070 {lockstep} status
  {lockstep} preempt --job digits --in 30s --wait       while one runs with --checkpoint FOLDER
  kill -STOP one of the processes for half a minute, look at status, kill -CONT it""")


def make_logs_folder():
    """Nothing is removed that the demo did not make."""
    if ARGUMENTS.logs is None:
        shutil.rmtree(LOGS, ignore_errors=True)
    elif LOGS.exists() and (not LOGS.is_dir() or any(LOGS.iterdir())):
        sys.exit(f"demo: --logs {ARGUMENTS.logs} exists and is not empty; name a new folder, or "
                 "remove it yourself")
    LOGS.mkdir(parents=True, exist_ok=True)


def main():
    make_logs_folder()
    story, outcomes, figures, server, watch = Story(), [], {}, None, None
    print(f"Four stock JAX processes on {socket.gethostname()}; they know nothing of Lockstep.\n")
    try:
        server, address = start_server(story, keep=("--ephemeral", "--job", f"{TORCH_JOB}={SIZE}"))
        watch = Watch(address)
        story.heading("Run 1: nothing goes wrong")
        outcomes.append(run_to_the_end(story, watch, address, "run 1, undisturbed", "run-1", 0))
        story.heading("Run 2: one process is killed in the middle")
        outcome, figures = run_with_a_death(story, watch, address, outcomes[-1].attempt)
        outcomes.append(outcome)
        story.heading("Run 3: the same job again, and a PyTorch job beside it, on the same server")
        outcomes += run_beside_torch(story, watch, address, outcomes[-1].attempt)
        story.heading("Run 4: the host of one process will be taken away, and all save before")
        outcomes.append(run_with_a_preemption(story, watch, address, outcomes[-2].attempt,
                                              outcomes[0].finals))
        story.heading("Run 5: members that know Lockstep; the server itself is killed")
        outage_ms = run_while_the_server_dies(story)
        story.heading("Run 6: the digits come from two data workers; one of them is killed")
        outcomes.append(run_with_data_workers(story))
        story.heading("Run 7: stock JAX and PyTorch behind agents; the server is killed twice")
        outcomes += run_with_agents(story, outcomes[0].finals, outcomes[3].finals)
        print_figures(outcomes, figures, watch, outage_ms)
    except Trouble as trouble:
        story.tell("TROUBLE", str(trouble))
        story.claim(False, str(trouble))
    finally:
        if watch:
            watch.stop()
        if server:
            server.stop()
    good = print_verdict(story)
    print_next()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
