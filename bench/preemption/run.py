#!/usr/bin/env python3
"""What preemption sync costs: a poll, and from a notice to the agreement; beside jaxlib's own, in one run.

    ninja -C build/release preemption_bench
    PYTHONPATH=build/release/python build/peers/jax/bin/python bench/preemption/run.py

A poll is timed while nobody dies. An agreement: from the notice until the last member can save, by
the same Python program for both (members on threads, each polling its steps), and for ours in C++ too.
"""

import argparse
import statistics
import threading
import time

from jaxlib import _jax

import lockstep
from native import LIMIT_S, SIZES, native

POLLS = 200_000
STEP_S = 0.0005  # of few members; of many more, since they share the interpreter


class Empty:
    def method(self, step):
        return False


def poll_ns(call):
    """Of one call in a loop, the best of a few rounds, since noise only adds."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter_ns()
        for step in range(POLLS):
            call(step)
        best = min(best, (time.perf_counter_ns() - begin) / POLLS)
    return best


def jax_clients(members):
    """A jaxlib service in this process, and so many clients of it with their preemption managers."""
    port = free_port()
    service = _jax.get_distributed_runtime_service(f"127.0.0.1:{port}", members)
    clients = [_jax.get_distributed_runtime_client(f"127.0.0.1:{port}", index, init_timeout=120,
                                                   use_compression=True)
               for index in range(members)]
    on_each(lambda index: clients[index].connect(), members)
    managers = []
    for client in clients:
        manager = _jax.create_preemption_sync_manager()
        manager.initialize(client)
        managers.append(manager)
    return service, clients, managers


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_each(function, members):
    threads = [threading.Thread(target=function, args=(index,)) for index in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)


def until_all_reach(polls, notify):
    """Milliseconds from `notify()` until the last member is told to save.

    All make their steps by one clock, as members do that exchange gradients: otherwise the slowest
    would have to catch up with the fastest first, and that would be what is measured.
    """
    step_s = STEP_S * max(1, len(polls) / 16)
    reached = [None] * len(polls)
    begun = threading.Barrier(len(polls) + 1)
    start = time.perf_counter()

    def train(index):
        begun.wait()
        for step in range(10**9):
            if polls[index](step):
                reached[index] = time.perf_counter()
                return
            early = start + step * step_s - time.perf_counter()
            if early > 0:
                time.sleep(early)

    threads = [threading.Thread(target=train, args=(index,)) for index in range(len(polls))]
    for thread in threads:
        thread.start()
    begun.wait()
    time.sleep(0.2)
    asked = time.perf_counter()
    notify()
    for thread in threads:
        thread.join(LIMIT_S)
    return (max(reached) - asked) * 1e3


def jaxlib_once(members):
    service, clients, managers = jax_clients(members)
    try:
        return until_all_reach(
            [manager.reached_sync_point for manager in managers],
            lambda: clients[0].key_value_set("RECEIVED_PREEMPTION_NOTICE",
                                             "1970-01-01T00:00:00+00:00"))
    finally:
        for manager in managers:
            manager.shutdown()
        on_each(lambda index: clients[index].shutdown(), members)
        service.shutdown()


def lockstep_once(members):
    with lockstep.serve(jobs={"bench": members}) as server:
        joined = [None] * members

        def join(index):
            joined[index] = lockstep.join(server.address, job="bench", index=index, timeout=LIMIT_S)

        on_each(join, members)
        preemptions = [me.preemption(stride=1) for me in joined]
        took = until_all_reach([each.reached for each in preemptions],
                               lambda: preemptions[0].notify("bench", "1", left=60))
        for each in preemptions:
            each.close()
        for me in joined:
            me.close()
        return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()

    empty = Empty()
    base = poll_ns(empty.method)
    with lockstep.serve(jobs={"bench": 1}) as server:
        with lockstep.join(server.address, job="bench", index=0) as me:
            with me.preemption(stride=1) as preemption:
                ours = poll_ns(preemption.reached)
    service, clients, managers = jax_clients(1)
    theirs = poll_ns(managers[0].reached_sync_point)
    managers[0].shutdown()
    clients[0].shutdown()
    service.shutdown()
    print(f"a poll from Python: empty method {base:.0f} ns, lockstep {ours:.0f} ns, "
          f"jaxlib {theirs:.0f} ns")
    for members in (4, 64):
        pairs = [(jaxlib_once(members), lockstep_once(members))
                 for _ in range(arguments.repetitions)]
        jaxlib_ms, lockstep_ms = (statistics.median(column) for column in zip(*pairs))
        print(f"notice until all save, {members} members in Python: jaxlib {jaxlib_ms:.1f} ms, "
              f"lockstep {lockstep_ms:.1f} ms, ratio {jaxlib_ms / lockstep_ms:.2f}")
    for members, rounds in SIZES:
        for state in (False, True):
            result = native(members, rounds, state)
            agreement = result["agreement_ms"]
            print(f"notice until all know the step, {members} members in C++, "
                  f"{'durable' if state else 'in memory'}: {agreement['median']:.2f} ms "
                  f"({agreement['least']:.2f}..{agreement['most']:.2f}); "
                  f"a poll {result['poll_ns']:.1f} ns")


if __name__ == "__main__":
    main()
