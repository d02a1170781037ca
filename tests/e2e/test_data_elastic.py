"""An epoch that is begun with some workers and consumers and ended with others: server, workers and
consumers are processes of their own, and what they read is compared byte for byte."""

import json
import subprocess
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment

pytest.importorskip("numpy")

PACKAGE = ROOT / "build" / "release" / "python"
ENVIRONMENT = clean_environment(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1")

if not list((PACKAGE / "lockstep").glob("_native*.so")):
    pytest.skip("the Python package has not been built", allow_module_level=True)

# What all programs of these tests read: everything that may change an order is in it.
DATASET = """
import numpy
from lockstep import data

def dataset(folder):
    numbers = data.array({"n": numpy.arange(1500), "x": numpy.ones((1500, 4), "float32")})
    tokens = data.windows(f"{folder}/tokens-*.bin", "uint16", 16, stride=8)
    return (data.zip(numbers, tokens=tokens)
            .shuffle(seed=11)
            .repeat(2)
            .map(lambda row: {**row, "x": row["x"] * 2.0 + row["n"]})
            .batch(5)
            .segment(100))

def text_of(element):
    return "".join(element[name].tobytes().hex() for name in sorted(element))
"""

LOCAL = DATASET + """
import sys
for element in dataset(sys.argv[1]).local():
    print("element", text_of(element))
"""

# Reads so many elements, then says its cursor; without a number all that are left.
CONSUMER = DATASET + """
import sys
folder, address, name, order, consumer, consumers, count, cursor = sys.argv[1:]
reader = dataset(folder).read(address, name=name, order=order, consumer=int(consumer),
                              consumers=int(consumers), cursor=bytes.fromhex(cursor) or None,
                              timeout=100)
count = int(count)
with reader:
    for element in reader:
        print("element", text_of(element), flush=True)
        count -= 1
        if count == 0:
            break
    print("cursor", reader.cursor().hex(), flush=True)
"""


def start_server(stack_of, folder):
    ready = folder / "server.json"
    server = Command(LOCKSTEP, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--ready-file", ready,
                     env=ENVIRONMENT)
    stack_of(server.__exit__, None, None, None)
    deadline = time.monotonic() + DEADLINE_S
    while not ready.exists():
        assert time.monotonic() < deadline and server.process.poll() is None, server.text()
        time.sleep(0.01)
    return json.loads(ready.read_text())["listen"]


@pytest.fixture
def cluster(tmp_path, request):
    """(address, start a worker)"""
    address = start_server(lambda *call: request.addfinalizer(lambda: call[0](*call[1:])), tmp_path)

    def add():
        worker = Command(LOCKSTEP, "worker", "--dispatcher", address, env=ENVIRONMENT, cwd=tmp_path)
        request.addfinalizer(lambda: worker.__exit__(None, None, None))
        return worker

    return address, add


def python(text, *arguments):
    return Command(sys.executable, "-c", text, *arguments, env=ENVIRONMENT)


def elements_of(command):
    return [line.split()[1] for line in command.out if line.startswith("element ")]


def read_all(folder, address, name, order, consumers, count=0, cursor=""):
    """Each consumer's elements, and the cursor that they agree on."""
    commands = [python(CONSUMER, folder, address, name, order, index, consumers, count, cursor)
                for index in range(consumers)]
    try:
        for command in commands:
            assert command.end() == 0, command.text()
        cursors = {line.split()[1] for command in commands for line in command.out
                   if line.startswith("cursor ")}
        assert len(cursors) == 1 or not count, cursors  # at the end some have read one round more
        return [elements_of(command) for command in commands], cursors.pop()
    finally:
        for command in commands:
            command.__exit__(None, None, None)


def turns(parts):
    longest = max(map(len, parts))
    return [part[turn] for turn in range(longest) for part in parts if turn < len(part)]


def make_tokens(folder):
    import numpy

    for number in range(3):
        tokens = numpy.arange(5000 * number, 5000 * (number + 1), dtype="uint16")
        (folder / f"tokens-{number}.bin").write_bytes(tokens.tobytes())


def local_elements(folder):
    done = subprocess.run([sys.executable, "-c", LOCAL, str(folder)], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=DEADLINE_S, check=True)
    return [line.split()[1] for line in done.stdout.splitlines()]


def test_an_epoch_is_resumed_with_other_workers_and_consumers(tmp_path, cluster):
    make_tokens(tmp_path)
    wanted = local_elements(tmp_path)
    assert len(wanted) == 600
    address, add = cluster
    first = [add() for _ in range(2)]
    parts, cursor = read_all(tmp_path, address, "epoch", "exact", 4, count=60)
    begun = turns(parts)
    assert len(bytes.fromhex(cursor)) < 1000
    for worker in first:
        worker.process.kill()
    for _ in range(5):
        add()
    parts, _ = read_all(tmp_path, address, "epoch resumed", "exact", 3, cursor=cursor)
    assert begun + turns(parts) == wanted


def test_rounds_are_resumed_with_other_workers_and_consumers(tmp_path, cluster):
    make_tokens(tmp_path)
    wanted = local_elements(tmp_path)
    address, add = cluster
    first = [add() for _ in range(2)]
    parts, cursor = read_all(tmp_path, address, "rounds", "rounds", 4, count=30)
    begun = turns(parts)
    assert [len(part) for part in parts] == [30] * 4
    for worker in first:
        worker.process.kill()
    for _ in range(3):
        add()
    parts, _ = read_all(tmp_path, address, "rounds resumed", "rounds", 3, cursor=cursor)
    came = begun + turns(parts)
    # Nothing twice; what is missing are last turns of a lane that were not whole.
    assert len(set(came)) == len(came) and set(came) <= set(wanted)
    assert len(wanted) - len(came) <= 2 * (2 + 3)
