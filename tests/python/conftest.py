"""Fixtures of the tests of the Python package. They run against the real server."""

import concurrent.futures
import contextlib
import itertools
import os
import signal

import pytest

import lockstep
from programs import Program

# A wait of the tests that takes longer than this has failed. Generous: two busy cores.
LIMIT_S = 60

for name in [name for name in os.environ if name.startswith("LOCKSTEP_")
             and name != "LOCKSTEP_SERVER"]:
    del os.environ[name]

# A shell without a terminal starts what it puts into the background deaf to Ctrl-C, and children
# inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    with lockstep.serve(jobs={"first": 1}) as one:
        yield one


@pytest.fixture
def job():
    """A name that no other test has."""
    return f"job-{next(_numbers)}"


def each(members, call):
    """call(member) for all at the same time, each on a thread; the results in their order."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(members))) as pool:
        return list(pool.map(call, members))


@pytest.fixture
def crowd(server, job):
    """crowd(size) joins so many members of one job, all in this process, ordered by index."""
    with contextlib.ExitStack() as stack:
        def make(size, **options):
            def join(index):
                return lockstep.join(server.address, job=job, index=index, size=size,
                                     timeout=LIMIT_S, **options)

            members = each(range(size), join)
            for member in members:
                stack.callback(member.close)
            return members

        yield make


@pytest.fixture
def run_program(server):
    """run_program(text, *arguments): a Python program with LOCKSTEP_COORDINATOR set, to the address of
    the tests' server or the one that is given."""
    with contextlib.ExitStack() as stack:
        def start(text, *arguments, address=server.address, **environment):
            return stack.enter_context(Program(
                text, *arguments, LOCKSTEP_COORDINATOR=address, **environment))

        yield start
