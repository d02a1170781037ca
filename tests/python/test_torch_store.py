"""torch.distributed over the keys of a job: the store, and init_method="lockstep://...". """

import signal

import pytest

from torch_programs import PYTHON, needs_torch, run, run_ranks

pytestmark = [needs_torch, pytest.mark.timeout(600)]

COLLECTIVES = """
import datetime, sys
import torch, torch.distributed as dist
import lockstep.torch

lockstep.torch.register_init_method()
lockstep.torch.register_init_method()
for round in range(2):  # a process group may be made again
    dist.init_process_group("gloo", init_method=URL)
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    dist.barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    halves = [dist.new_group(list(range(half, size, 2))) for half in range(2)]
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=halves[rank % 2])
    print("round", round, int(total), [one["rank"] for one in gathered], int(mine), flush=True)
    dist.destroy_process_group()
"""


def test_the_collectives_of_gloo_in_four_processes(server, job):
    text = f"URL = 'lockstep://{server.address}/{job}'\n" + COLLECTIVES
    for rank, (said, code) in enumerate(run_ranks(text, 4)):
        assert code == 0, said
        for round in range(2):
            assert f"round {round} 10 [0, 1, 2, 3] {(2, 4)[rank % 2]}\n" in said, said


# The same calls to torch's own store and to ours: what came of each is printed.
SAME = """
import datetime, sys, threading
import torch.distributed as dist
import lockstep, lockstep.torch

def outcome(call):
    try:
        return call()
    except RuntimeError as error:
        return type(error).__name__

def calls(store):
    short = datetime.timedelta(milliseconds=50)
    yield store.set("a", "1")
    yield store.get("a")
    yield store.set("//a/", "2"), store.get("//a/"), store.get("a")
    yield store.add("n", 5), store.add("n", -7), store.get("n")
    yield store.set("text", " 12 of 64"), store.add("text", 1), store.get("text")
    yield store.check(["a", "n"]), store.check(["a", "none"])
    yield store.compare_set("c", "", "first"), store.compare_set("c", "first", "second")
    yield store.compare_set("c", "other", "third"), store.get("c")
    yield store.compare_set("d", "expected", "new"), store.check(["d"])
    yield store.append("log", "ab"), store.append("log", "cd"), store.get("log")
    yield store.multi_set(["x", "y/z"], ["1", "2"]), store.multi_get(["y/z", "x"])
    yield store.delete_key("x"), store.delete_key("x"), store.check(["x"])
    yield outcome(lambda: store.wait(["never"], short))
    yield outcome(lambda: store.wait(["a", "n"]))
    yield store.has_extended_api()
    yield store.set("empty", ""), store.check(["empty"]), store.get("empty")
    clone = store.clone()
    yield clone.get("a"), clone.set("from the clone", "3"), store.get("from the clone")
    store.set_timeout(short)
    yield store.timeout, outcome(lambda: store.get("never"))
    store.set_timeout(datetime.timedelta(seconds=60))
    threading.Timer(0.05, lambda: store.clone().set("late", "now")).start()
    yield store.get("late")

theirs = dist.TCPStore("127.0.0.1", 0, 1, True)
session = lockstep.session(ADDRESS, job=JOB, size=1)
pairs = {"plain": (theirs, lockstep.torch.Store(session.kv)),
         "prefixed": (dist.PrefixStore("p/", theirs),
                      dist.PrefixStore("p/", lockstep.torch.Store(session.kv, "other")))}
for name, pair in pairs.items():
    for number, (their, our) in enumerate(zip(*map(calls, pair))):
        print(name, number, "same" if their == our else f"DIFFERS: {their} and {our}", flush=True)
ours = lockstep.torch.Store(session.kv, "third")
ours.set("a/b", "1")
ours.set("c", "2")
through = dist.PrefixStore("p", ours)
through.set("d", "3")
print(sorted(ours.list_keys()), ours.num_keys(), through.num_keys(), through.delete_key("d"))
try:
    ours.wait(["a/b", "x", "y"], datetime.timedelta(milliseconds=50))
except dist.DistStoreError as error:
    print("raised", error)
try:
    ours.add("a/b", 1), ours.set("w", "words"), ours.add("w", 1)
except lockstep.InvalidArgument as error:
    print("raised", error)
"""


def test_it_does_what_torchs_own_store_does(server, job):
    text = f"ADDRESS, JOB = {server.address!r}, {job!r}\n" + SAME
    code, said = run(PYTHON, "-c", text)
    assert code == 0 and "prefixed 17 same" in said and "DIFFERS" not in said, said
    assert "['a/b', 'c', 'p/d'] 3 3 True" in said, said
    assert "keys: x, y (" in said, said
    assert "key 'w' holds b'words', to which nothing can be added" in said, said


LOST = """
import os, signal, sys, time
import torch.distributed as dist
import lockstep, lockstep.torch
lockstep.torch.register_init_method()
dist.init_process_group("gloo", init_method=URL)
store = dist.distributed_c10d._get_default_store()
dist.barrier()
if dist.get_rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
began = time.monotonic()
try:
    store.get("never")
except lockstep.Error as error:
    print("told", error.member, error.reason, time.monotonic() - began < 10)
"""


def test_when_a_rank_is_killed_the_others_waits_name_it(server, job):
    ends = run_ranks(f"URL = 'lockstep://{server.address}/{job}'\n" + LOST, 3)
    assert ends[2][1] == -signal.SIGKILL
    for said, _ in ends[:2]:
        assert "told 2 connection_lost True" in said, said


def test_a_rank_that_does_not_come_is_named(server, job):
    text = f"""
import datetime, torch.distributed as dist, lockstep.torch
lockstep.torch.register_init_method()
dist.init_process_group("gloo", init_method="lockstep://{server.address}/{job}", rank=0, world_size=2,
                        timeout=datetime.timedelta(seconds=1))
"""
    code, said = run(PYTHON, "-c", text)
    assert code == 1 and "DeadlineExceeded" in said and "task/1" in said, said


@pytest.mark.parametrize("url, why", [
    ("lockstep:///job", "no server"),
    ("lockstep://127.0.0.1:1/job?world_siz=3", "world_siz"),
    ("lockstep://127.0.0.1:1/job?rank=first", "rank"),
])
def test_a_url_that_makes_no_sense_is_told(url, why):
    text = ("import sys; from lockstep.torch._init_method import meeting_of\n"
            f"try: meeting_of({url!r})\nexcept Exception as error: print(type(error).__name__, error)")
    code, said = run(PYTHON, "-c", text)
    assert said.startswith("InvalidArgument") and why in said, said
