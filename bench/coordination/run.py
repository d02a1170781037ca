#!/usr/bin/env python3
"""Compares jaxlib's own coordination service with `lockstep serve`, by the same stock clients.

    build/peers/jax/bin/python bench/coordination/run.py --detection --document docs/performance.md

Both servers run in a process of their own. For every row they take turns, each time with a new
server and new clients; who begins alternates too. A figure is the median over the repetitions, with
the smallest and the largest behind it. The ratio is above 1 where Lockstep is better.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "interop"), str(ROOT / "bench")]

# After the path, since they live beside the interop tests, which start the same servers.
from clients import Clients  # noqa: E402
from document import machine, put_into, table  # noqa: E402
from processes import Process  # noqa: E402
from servers import SERVERS  # noqa: E402

KINDS = ("jaxlib", "lockstep")
PROCESSES = 4             # that many members are in processes of their own, more share those
VALUE = b"x" * 64
BLOB = os.urandom(256 << 10)
CALL_LIMIT_S = 600
SETTLE_S = 0.3


class Cluster:
    """A server with a job, and its members, spread over some processes."""

    def __init__(self, kind, folder, size, processes=PROCESSES):
        self.server = SERVERS[kind](size, folder)
        groups = [list(range(start, size, processes)) for start in range(min(processes, size))]
        self.processes = [Process(f"clients-{group[0]}", Clients, folder, self.server.address, group)
                          for group in groups]

    def all(self, method, *arguments):
        """One list with what the clients of all processes answered."""
        return [answer for process in self.processes_start(method, *arguments)
                for answer in process.result(CALL_LIMIT_S)]

    def processes_start(self, method, *arguments):
        return [process.start(method, *arguments) for process in self.processes]

    def end(self):
        for process in self.processes:
            process.end()
        self.server.end()


@contextlib.contextmanager
def cluster(kind, size, processes=PROCESSES, connected=True):
    with tempfile.TemporaryDirectory() as folder:
        made = Cluster(kind, folder, size, processes)
        try:
            if connected:
                made.all("connect")
            yield made
        finally:
            made.end()


def milliseconds(nanoseconds):
    return nanoseconds / 1e6


def register(kind, size):
    """From the moment that the last member asks until the last is answered."""
    with cluster(kind, size, connected=False) as made:
        times = made.all("connect")
    return milliseconds(max(after for _, after in times) - max(before for before, _ in times))


def barrier(kind, size, rounds):
    """From the last arrival to the last release: the median round."""
    with cluster(kind, size) as made:
        members = made.all("barriers", rounds)
    return milliseconds(statistics.median(
        max(after for _, after in one) - max(before for before, _ in one)
        for one in zip(*members)))


def _key_times(kind, size, count, method):
    """Each client has a process and a connection of its own."""
    with cluster(kind, size, processes=size) as made:
        times = made.all("sets", count, VALUE)
        return times if method == "sets" else made.all("gets", count)


def key_latency(kind, method, count):
    """The median call of a single client."""
    (times,) = _key_times(kind, 1, count, method)
    return 1000 * milliseconds(statistics.median(after - before for before, after in times))


def key_rate(kind, method, size, count):
    """Thousand calls a second, over all clients, from the first call to the last answer."""
    times = [one for member in _key_times(kind, size, count, method) for one in member]
    took_ns = max(after for _, after in times) - min(before for before, _ in times)
    return len(times) / (took_ns / 1e9) / 1000


def fan_out(kind, size):
    """From the set of a value for which all others wait until the last of them has it."""
    with cluster(kind, size) as made:
        waiting = made.processes_start("wait_for_key", "bench/blob")
        # Nothing tells when all wait. One who is late by then makes the figure smaller, and does
        # so for both servers.
        time.sleep(SETTLE_S)
        asked = made.processes[0].start("set_one", "bench/blob", BLOB).result(CALL_LIMIT_S)
        got = [answer for one in waiting for answer in one.result(CALL_LIMIT_S)]
    return milliseconds(max(got) - asked)


def detection(kind):
    """Seconds from the SIGKILL of one of four processes until the others have ended themselves."""
    with cluster(kind, 4) as made:
        victim, *survivors = made.processes
        killed = time.monotonic()
        victim.kill()
        for survivor in survivors:
            survivor.wait_ended(CALL_LIMIT_S)
        return time.monotonic() - killed


class Row:
    """One line of the table."""

    def __init__(self, name, unit, measure, *, more_is_better=False, repetitions=None):
        self.name, self.unit, self.measure = name, unit, measure
        self.more_is_better = more_is_better
        self.repetitions = repetitions
        self.figures = {kind: [] for kind in KINDS}

    def run(self, repetitions):
        for repetition in range(self.repetitions or repetitions):
            for kind in KINDS if repetition % 2 == 0 else KINDS[::-1]:
                self.figures[kind].append(self.measure(kind))

    def median(self, kind):
        return statistics.median(self.figures[kind])

    def ratio(self):
        theirs, ours = (self.median(kind) for kind in KINDS)
        return ours / theirs if self.more_is_better else theirs / ours

    def cells(self):
        def shown(kind):
            figures = self.figures[kind]
            text = f"{self.median(kind):.3g} {self.unit}"
            return text + (f" ({min(figures):.3g}..{max(figures):.3g})" if len(figures) > 1 else "")
        return [self.name, *(shown(kind) for kind in KINDS), f"{self.ratio():.2f}"]


def rows(with_detection):
    found = []
    for size in (4, 16, 64):
        found.append(Row(f"register, {size} members", "ms",
                         lambda kind, size=size: register(kind, size)))
    for size, rounds in ((4, 300), (16, 150), (64, 60)):
        found.append(Row(f"barrier, {size} members", "ms",
                         lambda kind, size=size, rounds=rounds: barrier(kind, size, rounds)))
    for method in ("sets", "gets"):
        found.append(Row(f"key {method[:-1]}, latency", "us",
                         lambda kind, method=method: key_latency(kind, method, 2000)))
        for size, count in ((1, 2000), (4, 1000), (16, 400)):
            found.append(Row(
                f"key {method}, {size} client{'s' if size > 1 else ''}", "k/s",
                lambda kind, method=method, size=size, count=count:
                key_rate(kind, method, size, count), more_is_better=True))
    found.append(Row("256 KiB to 64 waiting getters", "ms", lambda kind: fan_out(kind, 64)))
    if with_detection:
        found.append(Row("killed process, until the others know", "s", detection, repetitions=1))
    return found


HEADER = ["row", "jaxlib's own service", "lockstep serve", "ratio"]


def markdown(done):
    return f"{machine()}\n\n" + table([HEADER, *(row.cells() for row in done)], numbers=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with TEXT in their name")
    parser.add_argument("--detection", action="store_true",
                        help="also kill a process; jaxlib's service takes up to 100 s to notice")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE",
                        help="a Markdown file whose table is replaced by this run's")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()

    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    print("{:<40}{:>30}{:>30}{:>8}".format(*HEADER))
    done = []
    for row in rows(options.detection):
        if options.only not in row.name:
            continue
        row.run(options.repetitions)
        print("{:<40}{:>30}{:>30}{:>8}".format(*row.cells()), flush=True)
        done.append(row)

    if options.document:
        put_into(options.document, "bench/coordination", markdown(done))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [
            {"name": row.name, "unit": row.unit, "ratio": row.ratio(), **row.figures}
            for row in done]}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
