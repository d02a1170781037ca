"""Four consumers in rounds while workers come, end and are killed: in each turn of a round all of them
read the same lane, and every segment is read from its beginning on, with nothing lost and nothing twice.

LOCKSTEP_CHURN_S=N: for how long (8). LOCKSTEP_SEED=N: which workers, as that run did.
"""

import json
import os
import random
import signal
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment

pytest.importorskip("numpy")

PACKAGE = ROOT / "build" / "release" / "python"
CHURN_S = float(os.environ.get("LOCKSTEP_CHURN_S", 8))
SEED = int(os.environ.get("LOCKSTEP_SEED", random.randrange(1_000_000)))
ENVIRONMENT = clean_environment(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1")
CONSUMERS, BATCH, SEGMENT = 4, 10, 400
IN_A_SEGMENT = SEGMENT // BATCH
WORKERS_MAX = 4
UNDER_WAY_MAX = 4 * WORKERS_MAX  # segments that lanes hold when the consumers are stopped

if not list((PACKAGE / "lockstep").glob("_native*.so")):
    pytest.skip("the Python package has not been built", allow_module_level=True)

# Writes a line for each element, after a pause as long as a quick step.
CONSUMER = f"""
import sys, time
from lockstep import data
address, index, path = sys.argv[1:]
numbers = data.range(1_000_000_000).batch({BATCH}).segment({SEGMENT})
with open(path, "w", buffering=1) as log, numbers.read(
        address, name="churn", order="rounds", consumer=int(index), consumers={CONSUMERS},
        timeout=60) as reader:
    for batch in reader:
        at = reader.place
        print(time.monotonic(), at.round, at.lane, at.segment, at.element, batch[0], file=log)
        time.sleep(0.002)
"""


def start_server(folder):
    ready = folder / "server.json"
    server = Command(LOCKSTEP, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--ready-file",
                     ready, env=ENVIRONMENT)
    deadline = time.monotonic() + DEADLINE_S
    while not ready.exists():
        assert time.monotonic() < deadline and server.process.poll() is None, server.text()
        time.sleep(0.01)
    return server, json.loads(ready.read_text())["listen"]


def change(draw, workers, add):
    """One worker more or less; one always stays."""
    if len(workers) == 1 or len(workers) < WORKERS_MAX and draw.random() < 0.5:
        workers.append(add())
        return
    worker = workers.pop(draw.randrange(len(workers)))
    worker.signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))


def rows_of(path):
    """(moment, round, lane, segment, element, first number); a line that was cut does not count."""
    lines = path.read_text().split("\n")[:-1]
    return [(float(moment), *map(int, rest)) for moment, *rest in map(str.split, lines)]


def check_lanes(turns):
    """`turns`: of each turn the rows of all consumers, in their order. A round is a turn of each lane."""
    reached, number, of_round = {}, 0, set()
    for rows in turns:
        assert len({row[1:3] for row in rows}) == 1, f"not all read the same round and lane: {rows}"
        if rows[0][1] != number:
            assert rows[0][1] == number + 1, f"after round {number} comes {rows[0][1]}"
            number, of_round = rows[0][1], set()
        assert rows[0][2] not in of_round, f"a lane has two turns in round {number}"
        of_round.add(rows[0][2])
        for _, _, _, segment, element, first in rows:
            assert first == BATCH * (segment * IN_A_SEGMENT + element)
            # A lane that ends early leaves the rest of its segment to another.
            after = reached.get(segment, 0)
            assert element == after, f"round {number}: {segment} was read up to {after}, now {element}"
            reached[segment] = element + 1
    begun = [segment for segment, count in reached.items() if count < IN_A_SEGMENT]
    left_out = set(range(max(reached))) - set(reached)
    assert len(begun) + len(left_out) <= UNDER_WAY_MAX, f"begun only: {begun}; left out: {left_out}"


def test_workers_come_and_go_and_all_stay_in_step(tmp_path):
    print(f"LOCKSTEP_SEED={SEED} LOCKSTEP_CHURN_S={CHURN_S:g}")
    draw, started = random.Random(SEED), []
    server, address = start_server(tmp_path)
    started.append(server)

    def add():
        started.append(Command(LOCKSTEP, "worker", "--dispatcher", address, env=ENVIRONMENT))
        return started[-1]

    try:
        workers = [add(), add()]
        logs = [tmp_path / f"consumer-{index}" for index in range(CONSUMERS)]
        consumers = [Command(sys.executable, "-c", CONSUMER, address, index, log, env=ENVIRONMENT)
                     for index, log in enumerate(logs)]
        started += consumers
        end = time.monotonic() + CHURN_S
        changes = 0
        while time.monotonic() < end:
            time.sleep(draw.uniform(0.3, 3))
            change(draw, workers, add)
            changes += 1
            for consumer in consumers:
                assert consumer.process.poll() is None, consumer.text()
        at = [len(rows_of(log)) for log in logs]
        deadline = time.monotonic() + DEADLINE_S
        while min(len(rows_of(log)) for log in logs) < max(at) + 1:  # and they still go on
            assert time.monotonic() < deadline, "nobody gets anything any more"
            time.sleep(0.1)
    finally:
        for command in reversed(started):
            command.__exit__(None, None, None)

    parts = [rows_of(log) for log in logs]
    check_lanes(list(zip(*parts)))
    moments = [row[0] for row in parts[0]]
    stall = max(after - before for before, after in zip(moments, moments[1:]))
    print(f"{min(map(len, parts))} turns, {changes} changes, longest stall {1000 * stall:.0f} ms")
