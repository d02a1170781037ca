#!/usr/bin/env python3
"""How long nothing is acknowledged when the server that leads goes: kill -9, SIGTERM, SIGSTOP, and
the loss of etcd's leader. Beside it, in the same run, how long etcd itself acknowledges nothing.

A client sets a key every few milliseconds, and another process puts a key into etcd as often; each
fault's figure is the longest time between two successes around it. Further sessions only stay, and
are counted when they are back.

    build/venv/bin/python bench/failover/run.py [--faults 20] [--sessions 10]
"""

import argparse
import base64
import json
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "e2e")]

import lockstep  # noqa: E402
from groups import Etcd, Group  # noqa: E402

EVERY_S = 0.005
AROUND_S = 0.5  # before a fault


class Probe:
    """Does something again and again, and remembers when it succeeded."""

    def __init__(self, do):
        self._do = do
        self._done = [time.monotonic()]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._ended.wait(EVERY_S):
            number += 1
            try:
                self._do(number)
            except (OSError, lockstep.Error):
                continue
            self._done.append(time.monotonic())

    def longest(self, since):
        """Between two successes, of which the later came after `since`."""
        done = self._done[:]
        return max(later - earlier for earlier, later in zip(done, done[1:]) if later >= since)

    def await_success(self, since):
        while self._done[-1] <= since:
            time.sleep(0.001)

    def end(self):
        self._ended.set()
        self._thread.join()


def put_into_etcd(urls):
    """By etcd's gateway for JSON, one member after the other."""
    state = {"at": 0}

    def put(number):
        body = json.dumps({"key": base64.b64encode(b"probe").decode(),
                           "value": base64.b64encode(str(number).encode()).decode()}).encode()
        url = urls[state["at"]] + "/v3/kv/put"
        try:
            with urllib.request.urlopen(url, body, timeout=0.25) as answer:
                answer.read()
        except OSError:
            state["at"] = (state["at"] + 1) % len(urls)
            raise
    return put


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def row(name, values, limit_ms):
    milliseconds = [1000 * value for value in values]
    print(f"{name:44} {statistics.median(milliseconds):8.0f} {percentile(milliseconds, .99):8.0f} "
          f"{max(milliseconds):8.0f}   {limit_ms:6}   n={len(values)}", flush=True)


class Faults:
    """What is done to the servers, each until it is over."""

    def __init__(self, etcd, group):
        self._etcd = etcd
        self._group = group

    def kill(self):
        leads = self._group.leader()
        began = time.monotonic()
        self._group.kill(leads)
        return began, lambda: self._back(leads)

    def hand_over(self):
        leads = self._group.leader()
        began = time.monotonic()
        self._group.end(leads)
        return began, lambda: self._back(leads)

    def stop(self):
        leads = self._group.leader()
        began = time.monotonic()
        self._group.signal(leads, signal.SIGSTOP)

        def over():
            self._group.signal(leads, signal.SIGCONT)
            self._group.wait_for(leads, "starting again, to stand by")
            time.sleep(0.5)
        return began, over

    def kill_etcds_leader(self):
        leads = self._etcd.leader()
        began = time.monotonic()
        self._etcd.kill(leads)

        def over():
            self._etcd.start(leads)
            time.sleep(2)
        return began, over

    def _back(self, server):
        self._group.start(server)
        self._group.wait_for(server, "standing by at")
        time.sleep(0.3)


def measure(fault, probe, beside, count):
    gaps, of_etcd = [], []
    for _ in range(count):
        time.sleep(AROUND_S)
        began, over = fault()
        probe.await_success(time.monotonic())
        beside.await_success(time.monotonic())
        time.sleep(AROUND_S)
        gaps.append(probe.longest(began))
        of_etcd.append(beside.longest(began))
        over()
    return gaps, of_etcd


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20, help="of each kind that is quick")
    parser.add_argument("--sessions", type=int, default=10, help="that stay, beside the probe")
    given = parser.parse_args()
    with Etcd() as etcd, tempfile.TemporaryDirectory() as folder, \
            Group(etcd.place("bench/failover"), pathlib.Path(folder), "--job", "j=1") as group:
        sessions = [lockstep.session(group.address, job="j") for _ in range(given.sessions + 1)]
        keys = sessions[0].kv
        probe = Probe(lambda number: keys.set("probe", str(number).encode(), timeout=30))
        beside = Probe(put_into_etcd(etcd.urls()))
        faults = Faults(etcd, group)
        print(f"{'longest time without an acknowledgement, ms':44} {'median':>8} {'p99':>8} "
              f"{'max':>8}   {'aim':>6}")
        few = max(2, given.faults // 4)
        for name, fault, count, aim in [
                ("server: kill -9", faults.kill, given.faults, "250"),
                ("server: SIGTERM", faults.hand_over, given.faults, "100"),
                ("server: SIGSTOP", faults.stop, few, "4000"),
                ("etcd's leader: kill -9", faults.kill_etcds_leader, few, "7000")]:
            gaps, of_etcd = measure(fault, probe, beside, count)
            row(name, gaps, aim)
            row("    etcd itself, meanwhile", of_etcd, "")
        for session in sessions[1:]:
            session.kv.set("back", b"1", timeout=30)
        print(f"{len(sessions) - 1} other sessions are back")
        probe.end()
        beside.end()
        for session in sessions:
            session.close()


if __name__ == "__main__":
    main()
