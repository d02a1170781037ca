"""A stock torch program: one case, named by the first argument, of how programs use stores and groups.

Knows nothing of Lockstep. Each rank prints one line, `rank R: ...`, that has to be the same wherever it runs.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LIMIT = datetime.timedelta(seconds=60)
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def client():
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), SIZE, False, LIMIT)


def total(group=None):
    value = torch.tensor([RANK + 1.0])
    dist.all_reduce(value, group=group)
    return int(value)


def await_file(path):
    give_up = time.monotonic() + LIMIT.total_seconds()
    while not os.path.exists(path):
        assert time.monotonic() < give_up, path
        time.sleep(0.01)


@case
def preset(folder):
    """Rank 0 sets a key and closes its store; only then do the others open theirs."""
    done = os.path.join(folder, "preset")
    if RANK == 0:
        store = client()
        store.set("cfg", "hello")
        assert store.get("cfg") == b"hello"  # it is there: a set has no answer
        del store
        time.sleep(0.5)  # for the server to see the end of the connection, which nobody tells of
        with open(done, "w"):
            pass
        return "hello"
    await_file(done)
    return client().get("cfg").decode()


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@case
def preset_and_end(folder):
    """The same, but rank 0 has ended before the others begin."""
    done = os.path.join(folder, "pid")
    if RANK == 0:
        store = client()
        store.set("cfg", "hello")
        assert store.get("cfg") == b"hello"
        with open(done + ".new", "w") as out:
            out.write(str(os.getpid()))
        os.rename(done + ".new", done)
        return "hello"
    await_file(done)
    with open(done) as text:
        pid = int(text.read())
    give_up = time.monotonic() + LIMIT.total_seconds()
    while not has_ended(pid):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return client().get("cfg").decode()


@case
def rpc(_folder):
    import torch.distributed.rpc as rpc
    rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=SIZE)
    told = rpc.rpc_sync(f"worker{(RANK + 1) % SIZE}", torch.add, args=(torch.ones(2), RANK))
    rpc.shutdown()
    return told.tolist()


@case
def groups(_folder):
    dist.init_process_group("gloo", timeout=LIMIT)
    one = dist.new_group([0])
    everybody = [dist.new_group(list(range(SIZE))) for _ in range(3)]
    told = [total(group) for group in everybody] + ([total(one)] if RANK == 0 else [])
    dist.monitored_barrier(timeout=LIMIT)
    dist.destroy_process_group()
    return told


@case
def again(_folder):
    """Groups one after the other, of the same processes."""
    told = []
    for _ in range(10):
        dist.init_process_group("gloo", timeout=LIMIT)
        told.append(total())
        dist.barrier()
        dist.destroy_process_group()
    return told


def spawned(index, rank, size, port, queue):
    os.environ.update(RANK=str(index), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    dist.init_process_group("gloo", timeout=LIMIT, rank=index, world_size=size)
    value = torch.tensor([index + 1.0 + 10 * rank])
    dist.all_reduce(value)
    if index == 0:
        queue.put(int(value))
    dist.destroy_process_group()


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@case
def spawn(_folder):
    """Processes of its own, with a store of their own."""
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    torch.multiprocessing.spawn(spawned, args=(RANK, 2, free_port(), queue), nprocs=2)
    return queue.get()


@case
def file_store(folder):
    store = dist.FileStore(os.path.join(folder, "store"), SIZE)
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=SIZE, timeout=LIMIT)
    told = total()
    dist.destroy_process_group()
    return told


@case
def own_address(folder):
    """init_method="tcp://...", to an address that rank 0 has chosen; torch then asks for no agent's store."""
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    path = os.path.join(folder, "port")
    if RANK == 0:
        with open(path + ".new", "w") as out:
            out.write(str(free_port()))
        os.rename(path + ".new", path)
    await_file(path)
    with open(path) as text:
        address = f"tcp://127.0.0.1:{text.read()}"
    dist.init_process_group("gloo", init_method=address, rank=RANK, world_size=SIZE, timeout=LIMIT)
    told = total()
    dist.destroy_process_group()
    return told


if __name__ == "__main__":
    # In one piece: all ranks write to the same pipe.
    os.write(1, f"rank {RANK}: {CASES[sys.argv[1]](sys.argv[2])}\n".encode())
