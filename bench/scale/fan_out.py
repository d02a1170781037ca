#!/usr/bin/env python3
"""A value of 256 KiB to many hosts: the server sends it to each agent, or agents pass it on.

    build/peers/frameworks/bin/python bench/scale/fan_out.py [--hosts 64 1250] \\
        [--repetitions 5] [--document docs/performance.md]

The release row of bench/scale/main.cc, with and without the fan-out, in turn. Bytes are what the
kernel says that the agents' connections to the server received, and the server's processor time is
that of its threads, both between the moment when all wait and that when all have the value. All
agents are one program on the server's own machine. A figure is the median over the repetitions.
"""

import argparse
import pathlib
import resource
import statistics

import run
from document import machine, put_into, table

WAYS = {"to each agent": ("--no-fan-out",), "from agent to agent": ()}


def measure(hosts, extra):
    job = run.Job("agents", hosts * run.RANKS_PER_HOST, extra=("--barriers", "1", *extra))
    return {"bytes": job.server_bytes["release"] - job.server_bytes["parked"],
            "cpu": job.server_cpu["release"] - job.server_cpu["parked"],
            "seconds": job.seconds["release"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="*", default=(64, 1250))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--document", type=pathlib.Path, help="put the table into this file")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    done = [["hosts", "the value goes", "server sent", "server's processor time",
             "until the last has it"]]
    for hosts in options.hosts:
        measured = {way: [] for way in WAYS}
        for _ in range(options.repetitions):
            for way, extra in WAYS.items():
                measured[way].append(measure(hosts, extra))
        for way, figures in measured.items():
            middle = {name: statistics.median(each[name] for each in figures)
                      for name in figures[0]}
            done.append([f"{hosts:,}", way, f"{middle['bytes'] / 2**20:.1f} MiB",
                         run.time_text(middle["cpu"]), run.time_text(middle["seconds"])])
            print(*done[-1], sep="   ", flush=True)
    if options.document:
        put_into(options.document, "fan-out", f"{machine()}\n\n" + table(done))


if __name__ == "__main__":
    main()
