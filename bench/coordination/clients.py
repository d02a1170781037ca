"""The client program of the comparison: stock jaxlib clients, each on a thread of its own.

The same code runs against both servers. Times are CLOCK_MONOTONIC, which is one clock for all
processes of a host, so that times of different processes can be compared.
"""

import concurrent.futures
import time

from jaxlib import _jax

LIMIT_MS = 120_000


class Clients:
    """Runs in a process of its own, and holds some members of the job."""

    def __init__(self, address, indices):
        self._indices = indices
        self._clients = [
            _jax.get_distributed_runtime_client(
                address, index, init_timeout=120, shutdown_timeout=120, heartbeat_timeout=100,
                use_compression=True)
            for index in indices]
        self._threads = concurrent.futures.ThreadPoolExecutor(len(indices))

    def _on_each(self, function):
        """function(client, index) on every client at once."""
        return list(self._threads.map(function, self._clients, self._indices))

    def connect(self):
        """[(asked, answered)] in nanoseconds."""
        def one(client, _):
            asked = time.monotonic_ns()
            client.connect()
            return asked, time.monotonic_ns()
        return self._on_each(one)

    def barriers(self, rounds):
        """[[(arrived, released) of each round] of each client]."""
        def one(client, _):
            times = []
            for _ in range(rounds):
                arrived = time.monotonic_ns()
                client.wait_at_barrier("bench/barrier", LIMIT_MS)
                times.append((arrived, time.monotonic_ns()))
            return times
        return self._on_each(one)

    def sets(self, count, value):
        """[(asked, answered)] of every key set, each key a new one; all begin together."""
        def one(client, index):
            times = []
            client.wait_at_barrier("bench/begin/sets", LIMIT_MS)
            for key in range(count):
                asked = time.monotonic_ns()
                client.key_value_set_bytes(f"bench/{index}/{key}", value)
                times.append((asked, time.monotonic_ns()))
            return times
        return self._on_each(one)

    def gets(self, count):
        """[(asked, answered)] of every get of keys that are there (see sets); all begin together."""
        def one(client, index):
            times = []
            client.wait_at_barrier("bench/begin/gets", LIMIT_MS)
            for key in range(count):
                asked = time.monotonic_ns()
                client.blocking_key_value_get_bytes(f"bench/{index}/{key}", LIMIT_MS)
                times.append((asked, time.monotonic_ns()))
            return times
        return self._on_each(one)

    def wait_for_key(self, key):
        """When each client had the value of a key that is not there yet."""
        def one(client, _):
            client.blocking_key_value_get_bytes(key, LIMIT_MS)
            return time.monotonic_ns()
        return self._on_each(one)

    def set_one(self, key, value):
        """When it was asked for."""
        asked = time.monotonic_ns()
        self._clients[0].key_value_set_bytes(key, value)
        return asked
