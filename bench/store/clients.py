"""What bench/store times, by torch's own client. Runs in an interpreter that has torch.

`python clients.py ADDRESS ROW ARGUMENT...` prints one number.
"""

import datetime
import os
import selectors
import socket
import statistics
import struct
import sys
import threading
import time

LIMIT = datetime.timedelta(seconds=300)
VALUE = b"x" * 64
KEYS_AT_ONCE = 64
HELLO = b"\0" + struct.pack("<I", 0x3C85F7CE)
RAW_PER_TURN = 500


def text(one):
    return struct.pack("<Q", len(one)) + one


def store(address):
    from torch.distributed import TCPStore
    host, port = address.rsplit(":", 1)
    return TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=LIMIT)


def together(calls):
    """From the moment that all threads may begin until the last has ended, in seconds."""
    gate = threading.Barrier(len(calls) + 1)

    def run(call):
        gate.wait()
        call()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def rate(address, operation, clients, count):
    """Thousand calls a second, over all clients."""
    stores = [store(address) for _ in range(clients)]
    each = max(count // clients, 1)
    keys = [f"key{i}" for i in range(KEYS_AT_ONCE)]
    stores[0].multi_set(keys, [VALUE] * len(keys))

    def caller(one, number):
        def run():
            mine = f"mine{number}"
            if operation == "set":
                for _ in range(each):
                    one.set(mine, VALUE)
                one.get(mine)  # a set has no answer: here all of them have been taken
            elif operation == "get":
                for _ in range(each):
                    one.get("key0")
            elif operation == "add":
                for _ in range(each):
                    one.add("counter", 1)
            else:
                for _ in range(each):
                    one.multi_get(keys)
        return run

    took = together([caller(one, number) for number, one in enumerate(stores)])
    return each * clients / took / 1000


def release(address, clients, rounds):
    """From a set until the last of those who wait for its key goes on: the median round, in ms."""
    setter = store(address)
    stores = [store(address) for _ in range(clients)]
    gate = threading.Barrier(clients + 1)
    released = [0.0] * clients

    def wait(number):
        for turn in range(rounds):
            gate.wait()
            stores[number].wait([f"go{turn}"])
            released[number] = time.perf_counter()
            gate.wait()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    times = []
    for turn in range(rounds):
        gate.wait()
        # Nothing tells when all wait; one who is late makes the figure smaller, on both servers.
        time.sleep(0.05 + clients * 0.001)
        began = time.perf_counter()
        setter.set(f"go{turn}", VALUE)
        gate.wait()
        times.append(max(released) - began)
    for thread in threads:
        thread.join()
    return 1000 * statistics.median(times)


def connects(address, count):
    """Until so many clients are connected and answered, made by 16 threads, in ms."""
    made = [store(address)]  # torch is imported by then, which takes longer than all the rest

    def connect():
        for _ in range(count // 16):
            made.append(store(address))

    return 1000 * together([connect] * 16)


def process_group(address, size):
    """From the moment that all processes may begin until the last is in its group, in ms."""
    import torch.distributed as dist
    host, port = address.rsplit(":", 1)
    os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(size),
                   "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    done_r, done_w = os.pipe()
    children = []
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            os.environ["RANK"] = str(rank)
            os.write(ready_w, b"r")
            os.read(go_r, 1)
            dist.init_process_group("gloo", timeout=LIMIT)
            os.write(done_w, b"d")
            dist.barrier()
            os._exit(0)
        children.append(pid)
    for _ in range(size):
        os.read(ready_r, 1)
    began = time.perf_counter()
    os.write(go_w, b"g" * size)
    for _ in range(size):
        os.read(done_r, 1)
    took = time.perf_counter() - began
    for pid in children:
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"a process of the group ended with {status}"
    return 1000 * took


def raw(address, count):
    """Until so many raw connections are made, wait for one key, and are released by one set, in ms."""
    host, port = address.rsplit(":", 1)
    hello = HELLO + b"\x06" + struct.pack("<Q", 1) + text(b"/go") + b"\x0d" + struct.pack("<I", 7)
    began = time.perf_counter()
    sockets = []
    while len(sockets) < count:
        # So many at once that the server's queue is never over-full.
        turn = []
        for _ in range(min(RAW_PER_TURN, count - len(sockets))):
            one = socket.create_connection((host, int(port)))
            one.sendall(hello)
            turn.append(one)
        for one in turn:  # the answer to the ping: it waits
            assert one.recv(4) == struct.pack("<I", 7)
        sockets += turn
    with socket.create_connection((host, int(port))) as setter:
        setter.sendall(HELLO + b"\x01" + text(b"/go") + text(b"1"))
        with selectors.DefaultSelector() as selector:
            for one in sockets:
                selector.register(one, selectors.EVENT_READ)
            left = len(sockets)
            while left:
                for key, _ in selector.select():
                    assert key.fileobj.recv(1) == b"\0"
                    selector.unregister(key.fileobj)
                    left -= 1
    return 1000 * (time.perf_counter() - began)


ROWS = {"rate": rate, "release": release, "connects": connects, "process_group": process_group,
        "raw": raw}


def main():
    address, row, *arguments = sys.argv[1:]
    print(ROWS[row](address, *[int(one) if one.isdigit() else one for one in arguments]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
