"""Elements in memory that a worker and its consumers on the same host share, with real processes."""

import itertools
import platform
import signal
import time

import numpy
import pytest

import lockstep
from conftest import LIMIT_S
from data_workers import LOCKSTEP, Worker
from lockstep import data
from programs import Program

_names = (f"memory-{n}" for n in itertools.count(1))

ROWS, WIDTH = 512, 1 << 17  # elements of 1 MiB
CACHE_MIB = 16

# Holds all that it gets, and says how much of that is shared.
HOLDER = """
    import sys
    from lockstep import data
    address, name, rows, width = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    reader = data.fill(rows, "int64", width, seed=1).segment(4).read(address, name=name, timeout=60)
    held = []
    for element in reader:
        held.append(element)
        if len(held) % 50 == 0:
            print("shared", int(reader.counters()["shared_elements"]), flush=True)
        if len(held) == 150:
            break
    print("holds", len(held), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def name():
    return next(_names)


def elements():
    return data.fill(ROWS, "int64", WIDTH, seed=1).segment(4)


def shared_of(address, name, count=60):
    """How many of the first elements come in shared memory, when each is let go of at once."""
    with elements().read(address, name=name, timeout=LIMIT_S) as reader:
        for came, wanted in zip(itertools.islice(reader, count), elements().local()):
            assert numpy.array_equal(came, wanted)
            del came
        return reader.counters()["shared_elements"]


def test_what_a_killed_consumer_held_comes_back(name):
    with lockstep.serve() as server:
        worker = Worker(server.address, None, "--cache-bytes", f"{CACHE_MIB}MiB")
        try:
            for turn in range(3):
                with Program(HOLDER, server.address, f"{name}-{turn}", ROWS, WIDTH) as holder:
                    assert int(holder.line("shared").split()[1]) > 0
                    holder.line("holds 150")  # which is more than the worker's memory
                    holder.kill()
                    holder.process.wait(LIMIT_S)
                deadline = time.monotonic() + LIMIT_S
                # Had it not come back, all would come as bytes from now on.
                while not shared_of(server.address, f"{name}-{turn}-again-{time.monotonic()}") > 0:
                    assert time.monotonic() < deadline
        finally:
            worker.stop()


def test_a_view_stays_when_its_worker_is_killed(name):
    with lockstep.serve() as server:
        worker = Worker(server.address)
        try:
            with elements().read(server.address, name=name, timeout=LIMIT_S) as reader:
                held = [next(reader) for _ in range(40)]
                assert reader.counters()["shared_elements"] > 0
                worker.kill()
                for came, wanted in zip(held, elements().local()):
                    assert numpy.array_equal(came, wanted)
        finally:
            worker.stop()


# Runs a program that is refused memfd_create, as a container's profile may do.
FORBID = """
import ctypes, os, struct, sys
NUMBERS = {"x86_64": (0xC000003E, 319), "aarch64": (0xC00000B7, 279)}
architecture, number = NUMBERS[os.uname().machine]
program = b"".join(struct.pack("HBBI", *one) for one in (
    (0x20, 0, 0, 4), (0x15, 0, 2, architecture), (0x20, 0, 0, 0), (0x15, 1, 0, number),
    (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | 1)))
code = ctypes.create_string_buffer(program, len(program))
class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
wanted = Filter(len(program) // 8, ctypes.addressof(code))
assert libc.prctl(22, 2, ctypes.byref(wanted)) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="numbers of its calls")
def test_without_shared_memory_elements_come_over_the_network_and_the_worker_says_so(name):
    with lockstep.serve() as server, Program(
            FORBID, LOCKSTEP, "worker", "--dispatcher", server.address) as worker:
        worker.line("answers at")
        assert shared_of(server.address, name) == 0
        worker.process.send_signal(signal.SIGTERM)
        said = worker.end()[1]
    assert "cannot share memory" in said, said
