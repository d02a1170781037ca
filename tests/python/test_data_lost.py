"""A consumer is killed: its successor begins at once, whatever the lease is, and nobody living is robbed."""

import os
import signal
import time

import pytest

import lockstep
from conftest import LIMIT_S
from data_workers import Worker
from lockstep import data
from programs import Program

LEASE_S = 60
AT_ONCE_S = 15  # which is far from the lease, also on a machine that has much else to do

# Reads some, says so, and waits to be killed.
CONSUMER = """if True:
    import sys
    from lockstep import data
    address, order = sys.argv[1:]
    dataset = data.range(400).batch(1).segment(10)
    options = {} if order == "first_come" else {"consumer": 0, "consumers": 1}
    if order == "rounds":
        options["on_lost"] = "wait"
    reader = dataset.read(address, name=order, order=order, **options)
    for count, element in enumerate(reader, 1):
        print("got", int(element[0]), flush=True)
        if count == 20:
            print("cursor", "-" if order == "first_come" else reader.cursor().hex(), flush=True)
            sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def address():
    with lockstep.serve(options=("--consumer-timeout", f"{LEASE_S}s")) as server:
        worker = Worker(server.address)
        yield server.address
        worker.stop()


def read_killed(address, order):
    with Program(CONSUMER, address, order) as first:
        cursor = first.line("cursor").split()[1]
        got = [int(line.split()[1]) for line in first.lines if line.startswith("got")]
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    return got, b"" if cursor == "-" else bytes.fromhex(cursor)


@pytest.mark.parametrize("order", ["exact", "rounds"])
def test_the_successor_of_a_killed_consumer_begins_at_once(address, order):
    got, cursor = read_killed(address, order)
    began = time.monotonic()
    options = {"on_lost": "wait"} if order == "rounds" else {}
    while True:
        # Another process with a name of its own, and the dead one's index.
        try:
            reader = data.range(400).batch(1).segment(10).read(
                address, name=order, order=order, consumer=0, consumers=1, rejoin=cursor,
                timeout=LIMIT_S, **options)
            break
        except lockstep.AlreadyExists as error:  # the server has not seen the end yet
            assert error.reason == "consumer_index_taken"
            assert time.monotonic() - began < AT_ONCE_S
            time.sleep(0.02)
    with reader:
        rest = [int(next(reader)[0])]
        assert time.monotonic() - began < AT_ONCE_S < LEASE_S / 2
        rest += [int(one[0]) for one in reader]
    assert got + rest == list(range(400))


def test_others_get_what_a_killed_one_held_at_once(address):
    got, _ = read_killed(address, "first_come")
    began = time.monotonic()
    with data.range(400).batch(1).segment(10).read(address, name="first_come", order="first_come",
                                                   timeout=LIMIT_S) as reader:
        rest = [int(one[0]) for one in reader]
    assert time.monotonic() - began < AT_ONCE_S < LEASE_S / 2
    # What was asked for after it was acknowledged; the last one was not.
    assert sorted(set(got) | set(rest)) == list(range(400))
    assert len(got) + len(rest) <= 400 + 20


def test_a_living_consumer_that_only_stands_still_keeps_its_place(address):
    with Program(CONSUMER.replace("name=order", "name='living'"), address, "exact") as living:
        living.line("cursor")
        os.kill(living.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(lockstep.AlreadyExists) as caught:
                data.range(400).batch(1).segment(10).read(
                    address, name="living", consumer=0, consumers=1, timeout=LIMIT_S)
            assert caught.value.reason == "consumer_index_taken"
        finally:
            os.kill(living.process.pid, signal.SIGCONT)
