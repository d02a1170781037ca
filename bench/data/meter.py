"""What every program of bench/data measures by: time, the CPU time of a session, what was read.

A program runs in a session of its own (bench/data/run.py starts it so), and all that it starts
stays in that session: so the session's CPU time is that of workers and services too.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

TICK_S = 1 / os.sysconf("SC_CLK_TCK")

# The rows' sizes. Every program takes them from here.
RANGE_BATCH = 100
SHORT_EPOCHS = 3
SHORT_ELEMENTS = 2_000
WINDOW_TOKENS = 2048
WINDOW_BATCH = 32
ARRAY_BYTES = 8 << 20
RECORD_BYTES = 100
RECORD_BATCH = 256
CONSUMERS = 2
PAGE = 4096
SEED = 7
GIVE_UP_S = 30  # without a batch
ROUNDS_GIVE_UP_S = 40  # the same, of a row in rounds


def session_processes():
    """(pid, fields of its stat from the state on) of all that live in this session."""
    session = os.getsid(0)
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        fields = text[text.rindex(")") + 2:].split()
        if int(fields[3]) == session:
            yield int(folder.name), fields


def session_cpu_s():
    """Of all processes of the session, and of those that have ended and were waited for."""
    return TICK_S * sum(sum(map(int, fields[11:15])) for _, fields in session_processes())


def own_cpu_s():
    return time.process_time()


@dataclasses.dataclass
class Span:
    """What was read from one moment to another, and what it cost."""

    elements: int = 0
    wall_s: float = 0
    cpu_s: float = 0
    consumer_cpu_s: float = 0

    def figures(self):
        return {"elements": self.elements, "wall_s": self.wall_s,
                "per_s": self.elements / self.wall_s,
                "cpu_us": 1e6 * self.cpu_s / self.elements,
                "consumer_cpu_us": 1e6 * self.consumer_cpu_s / self.elements}


class Stopwatch:
    """Runs from its making until `stop`."""

    def __init__(self):
        self.cpu_s, self.own_s, self.at = session_cpu_s(), own_cpu_s(), time.perf_counter()

    def stop(self, elements):
        # Before looking at the session's processes, which takes this one's time.
        now, own_s = time.perf_counter(), own_cpu_s()
        return Span(elements, now - self.at, session_cpu_s() - self.cpu_s, own_s - self.own_s)


def measure(make, of_batch, options, touch=None):
    """The figures of an endless iterator: `make()` begins it, a batch has `of_batch` elements.

    It runs first for a third of the time without being counted. `touch` is done with every batch.
    """
    begin = time.perf_counter()
    batches = iter(make())
    first = next(batches)
    first_s = time.perf_counter() - begin
    if touch:
        touch(first)
    read(batches, options.seconds / 3, touch)
    watch = Stopwatch()
    count = read(batches, options.seconds, touch)
    span = watch.stop(count * of_batch)
    return {"first_s": first_s, **span.figures()}


def read(batches, seconds, touch=None):
    """Reads for so long; tells how many batches those were. Bounded by the driver's time-out."""
    count, end = 0, time.perf_counter() + seconds
    for batch in batches:
        count += 1
        if touch:
            touch(batch)
        if time.perf_counter() >= end:
            return count
    raise RuntimeError(f"the batches ended after {count}")


def each_page(array):
    """One value of every page is read: what was mapped only is then there."""
    flat = array.reshape(-1)
    return int(flat[::PAGE // flat.itemsize].sum())


def touch_of(row):
    """What a consumer does with a batch of this row: nothing, for most."""
    return each_page if row == "arrays-read" else None


class Watch:
    """Tells the longest time without a batch since a worker was killed.

    Gives up when there is none for `give_up_s`: then the program ends with what it has, since a
    call that never returns cannot be ended otherwise.
    """

    def __init__(self, figures, give_up_s=GIVE_UP_S):
        self.give_up_s = give_up_s
        self.figures = figures  # what is told when the program ends here
        self.longest_s = 0.0
        self.last_at = time.perf_counter()
        self.over = threading.Event()
        threading.Thread(target=self.guard, daemon=True).start()

    def batch(self):
        now = time.perf_counter()
        self.longest_s, self.last_at = max(self.longest_s, now - self.last_at), now

    def done(self):
        self.over.set()
        return {**self.figures, "outage_s": self.longest_s, "hung": False}

    def guard(self):
        while not self.over.wait(0.1):
            if (silence := time.perf_counter() - self.last_at) >= self.give_up_s:
                leave({**self.figures, "outage_s": silence, "hung": True})


def numbers(make, service, options, begin, with_outage):
    """The figures of first come, first served. `make(count)` begins an epoch of range(count).

    `service` has the workers; `begin` is when it was told to start. A few short epochs come first,
    for the times until a first batch and from the last one to the end; then long ones until the
    time is over; then one of `with_outage` elements, in which a worker is killed.
    """
    firsts, ends = [], []
    for _ in range(1 + SHORT_EPOCHS):
        opened = last = time.perf_counter()
        first = None
        for _ in make(SHORT_ELEMENTS):
            last = time.perf_counter()
            first = last if first is None else first
        firsts.append(first - opened)
        ends.append(time.perf_counter() - last)
        if len(firsts) == 1:
            cold_s = first - begin
            service.wait_for_workers()
    figures = {"cold_s": cold_s, "warm_s": statistics.median(firsts[1:]),
               "end_s": statistics.median(ends), **long_epochs(make, options)}
    if options.no_outage:
        return figures
    return epoch_with_outage(make, service.kill_worker, with_outage, figures)


def long_epochs(make, options):
    """Reads for so long; an epoch that is not read whole by then is left."""
    count, watch = 0, Stopwatch()
    while time.perf_counter() - watch.at < options.seconds:
        for batch in make(options.elements):
            count += len(batch)
            if time.perf_counter() - watch.at >= options.seconds:
                break
    return watch.stop(count).figures()


def epoch_with_outage(make, kill, elements, figures):
    """One more epoch, of range(elements), in which a worker is killed after three tenths."""
    counts, taken, watch = np.zeros(elements, np.uint32), 0, None
    batches = iter(make(elements))
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except Exception as error:  # of which type, the peers do not agree
            return {**figures, "failed": str(error)[:200]}
        if watch:
            watch.batch()
        np.add.at(counts, batch, 1)
        taken += len(batch)
        if not watch and taken >= elements * 3 // 10:
            kill()
            watch = Watch(figures)
    if not watch:
        raise RuntimeError(f"the epoch ended after {taken} elements")
    watch.batch()
    missing, doubled = int((counts == 0).sum()), int((counts > 1).sum())
    return {**watch.done(), "missing": missing, "doubled": doubled, "wrong": missing + doubled}


def endless_with_outage(batches, kill, figures, seconds=1):
    """Reads on from an endless iterator for so long, from the moment on at which a worker is killed."""
    kill()
    watch = Watch(figures, ROUNDS_GIVE_UP_S)
    try:
        end = watch.last_at + seconds
        while watch.last_at < end:
            next(batches)
            watch.batch()
    except Exception as error:
        return {**figures, "failed": str(error)[:200]}
    return watch.done()


class Other:
    """The second consumer: this program again, which reads for ever once it is told to."""

    def __init__(self, service):
        command = [sys.executable, *sys.argv, "--consumer", "1", "--service", service]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the second consumer did not start")

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()


def rounds(make, service, options, begin):
    """Figures of consumer 0 of two that read in step, with a worker killed at the end.

    `service` has an address and the workers; `begin` is when it was told to start.
    """
    service.wait_for_workers()
    started_s = time.perf_counter() - begin
    other = Other(service.address)
    other.go()
    begin = time.perf_counter()
    batches = iter(make())
    next(batches)
    first_s = time.perf_counter() - begin
    read(batches, options.seconds / 3)
    watch = Stopwatch()
    count = read(batches, options.seconds)
    span = watch.stop(CONSUMERS * count * RANGE_BATCH)
    figures = {"cold_s": started_s + first_s, "first_s": first_s, **span.figures()}
    if options.no_outage:
        return figures
    return endless_with_outage(batches, service.kill_worker, figures)


def read_as_other(make):
    """What the second consumer does."""
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in make():
        pass


def arguments(description, rows, variants=("",)):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--row", required=True, choices=rows)
    parser.add_argument("--variant", default=variants[0], choices=variants)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--elements", type=int, default=1_000_000, help="of a finite row")
    parser.add_argument("--data", type=pathlib.Path, help="folder of bench/data/files.py")
    parser.add_argument("--consumer", type=int, default=0, help="of the row `rounds`")
    parser.add_argument("--service", help="an address: do not start one")
    parser.add_argument("--no-outage", action="store_true", help="kill no worker")
    return parser.parse_args()


def tell(figures):
    print(json.dumps(figures), flush=True)


def leave(figures):
    """Tells and ends at once: threads of some libraries do not let the interpreter end."""
    tell(figures)
    os._exit(0)  # the driver ends what is left of the session
