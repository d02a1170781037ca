#!/usr/bin/env python3
"""What TLS costs on the link: plain and TLS connections to one server, in turns, in one run.

    build/venv/bin/python bench/tls.py [--repetitions 5] [--sessions 500]

Prints medians. The client is Python's, so that a figure holds its own cost too: what TLS adds is the
difference, and the ratio is what a program sees.
"""

import argparse
import concurrent.futures
import statistics
import time

import lockstep

CALLS = 3000
OPENED = 200
VALUE = b"x" * 64


def call_us(address, operation):
    """The median of many calls on one session, in microseconds."""
    with lockstep.session(address, job="job") as session:
        session.kv.set("key", VALUE)
        times = []
        for _ in range(CALLS):
            began = time.perf_counter()
            operation(session.kv)
            times.append(time.perf_counter() - began)
        return statistics.median(times) * 1e6


def open_us(address):
    """Of opening one session after the other, each, in microseconds."""
    began = time.perf_counter()
    sessions = [lockstep.session(address, job="job") for _ in range(OPENED)]
    took = time.perf_counter() - began
    for session in sessions:
        session.close()
    return took / OPENED * 1e6


def open_at_once_ms(address, count):
    """Until so many sessions are open, each from a thread of its own, in milliseconds."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        began = time.perf_counter()
        sessions = list(pool.map(lambda _: lockstep.session(address, job="job"), range(count)))
        took = time.perf_counter() - began
        for session in sessions:
            session.close()
    return took * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=500, help="opened at once")
    options = parser.parse_args()
    rows = {
        "set of 64 bytes, us": lambda at: call_us(at, lambda kv: kv.set("key", VALUE)),
        "get of 64 bytes, us": lambda at: call_us(at, lambda kv: kv.get("key")),
        "a session opened, us": open_us,
        f"{options.sessions} sessions at once, ms":
            lambda at: open_at_once_ms(at, options.sessions),
    }
    print(f"{'':32}{'plain':>10}{'TLS':>10}{'ratio':>8}")
    with lockstep.serve(jobs={"job": 1}) as server:
        for name, measure in rows.items():
            plain, secure = [], []
            for _ in range(options.repetitions):
                plain.append(measure(server.address))
                secure.append(measure(server.join_string))
            before, after = statistics.median(plain), statistics.median(secure)
            print(f"{name:32}{before:10.1f}{after:10.1f}{after / before:8.2f}")


if __name__ == "__main__":
    main()
