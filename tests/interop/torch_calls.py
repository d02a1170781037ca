"""Every call of torch's own TCPStore client, one scenario after the other, against one server.

Run by an interpreter that has torch: `python torch_calls.py [ADDRESS]`. Without an address it starts torch's
own server. Prints {scenario: what came of it} as JSON; the same calls have to come to the same on any server.
"""

import concurrent.futures
import datetime
import json
import os
import sys
import time

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

from torch.distributed import PrefixStore, TCPStore

LIMIT = datetime.timedelta(seconds=30)
SHORT = datetime.timedelta(milliseconds=300)

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


class Clients:
    """Clients of one scenario, with keys of its own: what it does is seen by no other."""

    def __init__(self, host, port, name):
        self._host, self._port, self._name = host, port, name
        self._pool = concurrent.futures.ThreadPoolExecutor(8)

    def raw(self, **options):
        return TCPStore(self._host, self._port, is_master=False, timeout=LIMIT,
                        **({"wait_for_workers": False} | options))

    def new(self):
        return PrefixStore(self._name, self.raw())

    def start(self, call, *arguments):
        """The call on a thread of its own, and that it has begun to wait."""
        future = self._pool.submit(call, *arguments)
        try:
            future.result(0.2)
        except concurrent.futures.TimeoutError:
            pass
        return future


def outcome(call, *arguments):
    """What a call returns, or the type of its error."""
    try:
        return shown(call(*arguments))
    except Exception as error:  # which one it is, is the outcome
        return type(error).__name__


def shown(value):
    if isinstance(value, bytes):
        return value.decode("latin-1") if len(value) < 100 else f"{len(value)} bytes"
    if isinstance(value, (list, tuple)):
        return [shown(one) for one in value]
    return value


@scenario
def values(clients):
    a, b = clients.new(), clients.new()
    told = []
    for value in (b"text", b"", bytes(range(50)), "größer", b"x" * (1 << 20)):
        a.set("k", value)
        a.add("after", 1)  # answered, so the set has been taken
        told.append(shown(b.get("k")))
    return told


@scenario
def keys_are_bytes(clients):
    a = clients.new()
    names = ["", "/", "a//b", "a/b", "ä", "x" * 1000]
    for i, name in enumerate(names):
        a.set(name, str(i))
    return [shown(a.get(name)) for name in names]


@scenario
def get_waits(clients):
    a, b = clients.new(), clients.new()
    waiting = clients.start(a.get, "late")
    before = waiting.done()
    b.set("late", "v")
    return before, shown(waiting.result(20))


@scenario
def get_times_out_and_goes_on(clients):
    a = clients.new()
    a.set_timeout(SHORT)
    first = outcome(a.get, "never")
    a.set("there", "v")
    return first, shown(a.get("there")), outcome(a.wait, ["never", "there"]), shown(a.get("there"))


@scenario
def numbers(clients):
    a = clients.new()
    told = [a.add("n", 5), a.add("n", -7), shown(a.get("n"))]
    for text in ("12abc", " 12", "+5", "-5", "0x10", "010", "9223372036854775807"):
        a.set("t", text)
        told.append([a.add("t", 1), shown(a.get("t"))])
    return told


@scenario
def adding_to_a_text(clients):
    told = []
    for text in ("", "abc", "99999999999999999999"):
        a, b = clients.new(), clients.new()
        b.set("t", text)
        b.add("after", 1)
        told.append([outcome(a.add, "t", 1), shown(b.get("t"))])
    return told


@scenario
def compare_set(clients):
    a = clients.new()
    return [shown(a.compare_set("c", "expected", "new")), a.check(["c"]),
            shown(a.compare_set("c", "", "new")), shown(a.get("c")),
            shown(a.compare_set("c", "new", "newer")), shown(a.compare_set("c", "new", "no")),
            shown(a.compare_set("c", "", "no")), shown(a.get("c"))]


@scenario
def check(clients):
    a = clients.new()
    a.set("x", "")
    return a.check(["x"]), a.check(["x", "y"]), a.check(["y"])


@scenario
def wait_for_many(clients):
    a, b = clients.new(), clients.new()
    b.set("2", "v")
    waiting = clients.start(a.wait, ["1", "2", "3"])
    told = [waiting.done()]
    b.set("3", "v")
    b.add("after", 1)
    told.append(waiting.done())
    b.set("1", "v")
    told.append(waiting.result(20))
    return told


@scenario
def each_way_to_write_releases_a_wait(clients):
    writes = {
        "set": lambda store, key: store.set(key, "v"),
        "add": lambda store, key: store.add(key, 1),
        "append": lambda store, key: store.append(key, "v"),
        "multi_set": lambda store, key: store.multi_set([key], ["v"]),
        "compare_set": lambda store, key: store.compare_set(key, "", "v"),
        "queue_push": lambda store, key: store.queue_push(key, "v"),
    }
    told = []
    for name, write in writes.items():
        a, b = clients.new(), clients.new()
        waiting = clients.start(a.wait, [name])
        write(b, name)
        told.append([name, waiting.result(20)])
    return told


@scenario
def wait_times_out(clients):
    a = clients.new()
    a.set("there", "v")
    started = time.monotonic()
    told = outcome(a.wait, ["there", "never"], SHORT)
    return told, time.monotonic() - started < 20, shown(a.get("there"))


@scenario
def delete(clients):
    a = clients.new()
    a.set("d", "v")
    return a.delete_key("d"), a.delete_key("d"), a.check(["d"])


@scenario
def counts(clients):
    a = clients.new()
    before = a.num_keys()
    a.set("1", "v")
    a.add("2", 1)
    a.queue_push("q", "v")
    between = a.num_keys() - before
    a.delete_key("1")
    return between, a.num_keys() - before


@scenario
def list_keys(clients):
    a = clients.raw()
    a.set("list_keys_b", "v")
    a.set("list_keys_a", "v")
    a.queue_push("list_keys_q", "v")
    return sorted(key for key in a.list_keys() if "list_keys_" in key)


@scenario
def append(clients):
    a = clients.new()
    a.append("l", "1")
    a.append("l", "2")
    return shown(a.get("l"))


@scenario
def many_at_once(clients):
    a, b = clients.new(), clients.new()
    keys = [f"k{i}" for i in range(1000)]
    waiting = clients.start(b.multi_get, keys)
    before = waiting.done()
    a.multi_set(keys, [str(i) for i in range(1000)])
    got = waiting.result(20)
    return before, got == [str(i).encode() for i in range(1000)], shown(a.multi_get(["k7", "k3"]))


@scenario
def queues(clients):
    a, b = clients.new(), clients.new()
    a.queue_push("q", "1")
    a.queue_push("q", "2")
    told = [a.queue_len("q"), shown(b.queue_pop("q")), shown(b.queue_pop("q", block=False)),
            a.queue_len("q"), outcome(b.queue_pop, "q", False), a.queue_len("never")]
    waiting = clients.start(b.queue_pop, "q")
    told.append(waiting.done())
    a.queue_push("q", "3")
    told.append(shown(waiting.result(20)))
    b.set_timeout(SHORT)
    told.append(outcome(b.queue_pop, "q"))
    return told


@scenario
def a_push_for_each_of_several(clients):
    a = clients.new()
    waiting = [clients.start(clients.new().queue_pop, "q") for _ in range(4)]
    for i in range(4):
        a.queue_push("q", str(i))
    return sorted(shown(one.result(20)) for one in waiting)


@scenario
def a_queue_beside_a_value(clients):
    a = clients.new()
    a.queue_push("q", "queued")
    told = [a.check(["q"]), a.delete_key("q")]
    a.set("q", "value")
    return told + [shown(a.get("q")), shown(a.queue_pop("q")), shown(a.get("q"))]


@scenario
def barrier(clients):
    # Behind a prefix the client makes one of keys: this is the server's own.
    stores = [clients.raw() for _ in range(3)]
    waiting = [clients.start(store.barrier, "barrier_b", 3, LIMIT) for store in stores[:2]]
    before = [one.done() for one in waiting]
    stores[2].barrier("barrier_b", 3, LIMIT)
    return before, [one.result(20) for one in waiting], shown(stores[0].get("barrier_b"))


@scenario
def barrier_times_out(clients):
    a = clients.raw()
    first = outcome(a.barrier, "barrier_late", 2, SHORT)
    a.set("barrier_there", "v")
    return first, shown(a.get("barrier_there")), outcome(a.barrier, "barrier_alone", 1, LIMIT)


@scenario
def barrier_behind_a_prefix(clients):
    stores = [clients.new() for _ in range(3)]
    waiting = [clients.start(store.barrier, "b", 3, LIMIT) for store in stores[:2]]
    stores[2].barrier("b", 3, LIMIT)
    return [one.result(20) for one in waiting]


@scenario
def a_clone_is_a_client(clients):
    a = clients.raw()
    b = a.clone()
    a.set("a_clone", "v")
    a.add("a_clone_after", 1)
    return shown(b.get("a_clone"))


@scenario
def long_values(clients):
    a, b = clients.new(), clients.new()
    a.set("most", b"x" * (8 << 20))
    a.add("after", 1)
    told = [shown(b.get("most"))]
    # It loses its connection, at this call or the next.
    told.append(outcome(lambda: (a.set("more", b"x" * ((8 << 20) + 1)), a.get("most"))))
    return told, shown(b.get("most"))


@scenario
def long_keys(clients):
    a = clients.raw()
    a.set("k" * 8191, "v")  # and the slash that the client puts before it
    told = [shown(a.get("k" * 8191))]
    return told, outcome(lambda: (a.set("k" * 8192, "v"), a.get("k" * 8191)))


def run(host, port):
    return {name: outcome(function, Clients(host, port, f"of-{name}"))
            for name, function in SCENARIOS.items()}


def main():
    if len(sys.argv) > 1:
        host, port = sys.argv[1].rsplit(":", 1)
        told = run(host, int(port))
    else:
        server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
        told = run("127.0.0.1", server.port)
    print(json.dumps(told), flush=True)
    os._exit(0)  # threads of scenarios that failed may wait for long


if __name__ == "__main__":
    main()
