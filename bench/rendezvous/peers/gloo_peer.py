#!/usr/bin/env python3
"""torch.distributed over gloo in the shape of bench/rendezvous: send and recv, two processes.

Prints one line of JSON. `--ahead N`: so many questions under way.
"""

import argparse
import json
import os
import socket
import time

import torch
import torch.distributed as dist


def pool_count(size):
    pool = (4 << 20) if size <= (64 << 10) else (256 << 20)
    return min(max(pool // max(size, 1), 1), 512)


def warm_rounds(rounds):
    return max(8, rounds // 10)


def spent():
    return time.process_time()


def produce(options):
    pool = [torch.full((options.bytes,), i % 256, dtype=torch.uint8)
            for i in range(pool_count(options.bytes))]
    ask = torch.zeros(16, dtype=torch.uint8)
    cpu = 0.0
    for i in range(options.rounds):
        dist.recv(ask, src=1)
        if i == warm_rounds(options.rounds):
            cpu = spent()
        dist.send(pool[i % len(pool)], dst=1)
    dist.send(torch.tensor([spent() - cpu], dtype=torch.float64), dst=1)


def consume(options):
    into = torch.ones(options.bytes, dtype=torch.uint8)
    ask = torch.zeros(16, dtype=torch.uint8)
    # A send of gloo's ends when the other has begun to receive: who waited for it could not be ahead.
    asked = [dist.isend(ask, dst=0) for _ in range(options.ahead - 1)]
    us = []
    warm = warm_rounds(options.rounds)
    cpu = begin_all = 0.0
    for i in range(options.rounds):
        if i == warm:
            cpu, begin_all = spent(), time.perf_counter()
        begin = time.perf_counter()
        if i + options.ahead <= options.rounds:
            asked.append(dist.isend(ask, dst=0))
        dist.recv(into, src=0)
        asked.pop(0).wait()
        if i >= warm:
            us.append((time.perf_counter() - begin) * 1e6)
    seconds = time.perf_counter() - begin_all
    cpu = spent() - cpu
    theirs = torch.zeros(1, dtype=torch.float64)
    dist.recv(theirs, src=0)
    us.sort()
    gigabytes = options.bytes * len(us) * 1e-9
    print(json.dumps({"bytes": options.bytes, "p50_us": us[len(us) // 2],
                      "p99_us": us[len(us) * 99 // 100], "gb_per_s": gigabytes / seconds,
                      "cpu_s_per_gb": (cpu + float(theirs[0])) / gigabytes}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--ahead", type=int, default=1)
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    child = os.fork()
    rank = 0 if child == 0 else 1
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        (produce if rank == 0 else consume)(options)
    finally:
        if rank == 0:
            os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
