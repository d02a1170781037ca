#!/usr/bin/env python3
"""What LOCKSTEP_ENCRYPT_DATA costs: two members, plain and encrypted in turns, in one run.

    build/venv/bin/python bench/encrypt_data.py [--repetitions 3]

Both members run on this host and use the network as if they were on two: a processor does the work
of both ends, so that throughput over a network that is slower than the processors suffers less.
Prints medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import lockstep

SHORT, ROUNDS = 64, 2000
LONG, VALUES = 32 << 20, 12
LIMIT_S = 60


def ping(step, other, name):
    step.send(name, bytes(SHORT), to=other)
    step.recv(name, source=other, timeout=LIMIT_S)


def pong(step, other, name):
    step.recv(name, source=other, timeout=LIMIT_S)
    step.send(name, bytes(SHORT), to=other)


def member(address, job, index):
    """Member 0 prints the time of a round trip in us, of a first one, and GB/s of long values."""
    with lockstep.join(address, job=job, index=index, size=2, timeout=LIMIT_S) as me:
        other = 1 - index
        turn = ping if index == 0 else pong
        with me.rendezvous(shared_memory=False, process_memory=False) as rendezvous:
            with rendezvous.step(1) as step:
                me.barrier("begin", timeout=LIMIT_S)
                began = time.perf_counter()
                turn(step, other, "first")
                first = time.perf_counter() - began
                times = []
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    turn(step, other, "short")
                    times.append(time.perf_counter() - began)
                value = bytes(LONG)
                me.barrier("long", timeout=LIMIT_S)
                began = time.perf_counter()
                for _ in range(VALUES):
                    if index == 0:
                        step.recv("long", source=other, timeout=LIMIT_S)
                    else:
                        step.send("long", value, to=other)
                took = time.perf_counter() - began
                me.barrier("end", timeout=LIMIT_S)
            assert all(each.transport == "tcp" for each in rendezvous.transports())
    if index == 0:
        print(statistics.median(times) * 1e6, first * 1e3, VALUES * LONG / took / 1e9)


def run(address, job, encrypt):
    children = [subprocess.Popen([sys.executable, __file__, "--member", str(index), "--address",
                                  address, "--job", job], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "LOCKSTEP_ENCRYPT_DATA": "01"[encrypt]})
                for index in range(2)]
    said = [child.communicate(timeout=5 * LIMIT_S)[0] for child in children]
    assert all(child.returncode == 0 for child in children), said
    return [float(word) for word in said[0].split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--member", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member is not None:
        return member(options.address, options.job, options.member)
    measured = {False: [], True: []}
    with lockstep.serve() as server:
        for repetition in range(options.repetitions):
            for encrypt in measured:
                job = f"job-{repetition}-{encrypt}"
                measured[encrypt].append(run(server.address, job, encrypt))
    print(f"{'':32}{'plain':>10}{'encrypted':>12}{'ratio':>8}")
    for number, name in enumerate((f"round trip of {SHORT} bytes, us", "the first round trip, ms",
                                   f"values of {LONG >> 20} MiB, GB/s")):
        plain, secure = (statistics.median(run[number] for run in measured[encrypt])
                         for encrypt in (False, True))
        print(f"{name:32}{plain:10.2f}{secure:12.2f}{secure / plain:8.2f}")


if __name__ == "__main__":
    main()
