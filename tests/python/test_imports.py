"""The extension beside jax, torch and tensorflow, in one process, imported in every order.

Needs build/peers/frameworks, which scripts/test.sh makes (scripts/setup.sh frameworks); skipped, and
said so, without it.
"""

import collections
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import queue
import re
import subprocess
import sys
import time

import pytest

import lockstep
from programs import Program

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = pathlib.Path(os.environ.get("FRAMEWORKS_PYTHON",
                                     ROOT / "build" / "peers" / "frameworks" / "bin" / "python"))
PACKAGE = pathlib.Path(lockstep.__file__).parent.parent

needs_frameworks = pytest.mark.skipif(
    not PYTHON.exists(), reason="scripts/setup.sh frameworks has not been run")

USES = {
    "lockstep": """
me = lockstep.join(job=sys.argv[1], index=0, size=1)
me.barrier("loaded", timeout=60)
me.kv.set("a", b"1")
assert me.gather("b", me.kv.get("a"), timeout=60) == [b"1"]
""",
    "jax": "assert int(jax.numpy.arange(4).sum()) == 6\n",
    "torch": "assert int(torch.arange(4).sum()) == 6\n",
    "tensorflow": "assert int(tensorflow.reduce_sum(tensorflow.range(4))) == 6\n",
}

ORDERS = [order for length in (2, 4) for order in itertools.permutations(USES, length)
          if "lockstep" in order]


def run(text, job, server, secure=False):
    return Program(text, job, python=str(PYTHON), PYTHONPATH=str(PACKAGE),
                   LOCKSTEP_COORDINATOR=server.join_string if secure else server.address,
                   JAX_PLATFORMS="cpu",
                   TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")


def import_and_use(order, server):
    text = "import sys\n" + "".join(f"import {name}\n" for name in order)
    text += "".join(USES[name] for name in order)
    text += "me.leave(timeout=60)\nprint('all work')\n"
    # With all of them there, by TLS, for which the interpreter's OpenSSL is in the process, too.
    with run(text, "-".join(order), server, secure=len(order) == len(USES)) as program:
        program.line("all work")
        return program.end()


@pytest.fixture(scope="session")
def ends_of_orders(request, server):
    """What becomes of each order that was asked for: futures. As many run at a time as there are
    cores, since one spends its ten seconds in one thread."""
    orders = [item.callspec.params["order"] for item in request.session.items
              if "order" in getattr(getattr(item, "callspec", None), "params", {})]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {order: pool.submit(import_and_use, order, server) for order in orders}
        yield futures
        for future in futures.values():
            future.cancel()


@needs_frameworks
@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_imported_and_used_in_this_order(ends_of_orders, order):
    code, said = ends_of_orders[order].result()
    assert code == 0, said


@needs_frameworks
@pytest.mark.timeout(300)
def test_a_member_killed_while_its_data_loader_works_is_lost_at_once(server, job):
    text = """
import sys
import torch
import lockstep

class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        print("worker runs", flush=True)
        while True:
            yield 1

me = lockstep.join(job=sys.argv[1], index=0, size=2)
for _ in torch.utils.data.DataLoader(Endless(), num_workers=2, multiprocessing_context="fork"):
    me.kv.set("step", b"1")
"""
    with concurrent.futures.ThreadPoolExecutor(1) as pool, run(text, job, server) as program:
        joining = pool.submit(lockstep.join, server.address, job=job, index=1, size=2, timeout=60)
        program.line("worker runs")
        told = queue.SimpleQueue()
        with contextlib.closing(joining.result()) as me:
            me.on_error(told.put)
            me.kv.wait("step", timeout=60)
            began = time.monotonic()
            program.kill()
            error = told.get(timeout=60)
            # session_grace is 0.3 s; the heartbeat's time-out would be 100 s.
            assert time.monotonic() - began < 10
            assert (error.reason, error.member) == ("connection_lost", 0)


@needs_frameworks
@pytest.mark.timeout(300)
def test_a_data_loader_forks_workers_of_a_member(server, job):
    text = """
import sys
import torch
import lockstep

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        if i == 0:
            try:
                me.kv.get("x")
            except lockstep.FailedPrecondition as error:
                print("worker:", error.reason, flush=True)
        return i * i

me = lockstep.join(job=sys.argv[1], index=0, size=1)
loader = torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=2,
                                     multiprocessing_context="fork")
for _ in range(2):
    print("sum", sum(int(batch.sum()) for batch in loader))
    me.barrier("epoch", timeout=60)
me.leave(timeout=60)
print("left")
"""
    with run(text, job, server) as program:
        program.line("worker: forked")
        program.line("sum 140")
        program.line("left")
        program.end_well()


def test_the_extension_exports_its_init_and_links_only_the_system():
    native = lockstep._native.__file__
    symbols = subprocess.run(["nm", "-D", "--defined-only", native], capture_output=True, text=True,
                             check=True).stdout.split("\n")
    assert [line.split()[-1] for line in symbols if line] == ["PyInit__native"]
    needed = subprocess.run(["readelf", "-d", native], capture_output=True, text=True,
                            check=True).stdout
    libraries = {line.split("[")[1].rstrip("]") for line in needed.split("\n") if "NEEDED" in line}
    assert libraries <= {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1",
                         "ld-linux-x86-64.so.2"}


# What a processor of 2003 has not got, and gcc would use if it were told of a newer one. Not tzcnt,
# which such a one executes as bsf.
NEWER = re.compile(r"v(?!err|erw)[a-z0-9]+|popcnt|lzcnt|crc32[bwlq]?|movbe|andn|bextr|bls(i|r|msk)|pdep"
                   r"|pext|rorx|sarx|shlx|shrx|mulx|adcx|adox|aes\w+|sha\d\w+|pclmul\w+|pshufb"
                   r"|palignr|pmulld|p(min|max)(sb|sd|uw|ud)|pinsr[bdq]|pextr[bdq]|ptest|round[ps][sd]"
                   r"|fma\w+|movdir\w+|lddqu|h(add|sub)p[sd]|addsubp[sd]|mov[sd][lhd]dup")


@pytest.mark.parametrize("program", ["_native", "bin/lockstep", "bin/lockstep-server"])
def test_nothing_is_compiled_for_newer_processors_but_what_is_asked_for(program):
    """At run time it is asked what the processor has: for Crc32c in lockstep/base, and for the
    copies past the caches in lockstep/rendezvous/transport, which only the client has."""
    folder = pathlib.Path(lockstep.__file__).parent
    path = lockstep._native.__file__ if program == "_native" else folder / program
    listing = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", str(path)],
                               stdout=subprocess.PIPE, text=True)
    found, function = collections.defaultdict(set), ""
    for line in listing.stdout:
        if line.endswith(">:\n"):
            function = line.split("<")[1][:-3]
        elif (instruction := line.split("\t")[1:2]) and NEWER.fullmatch(instruction[0].split()[0]):
            found[function].add(instruction[0].split()[0])
    assert listing.wait() == 0 and function
    checksum = [name for name in found if "WithInstruction" in name]
    assert checksum
    for name in checksum:
        assert all(kind.startswith("crc32") for kind in found.pop(name)), name
    copies = [name for name in found if "StreamAvx" in name]
    for name in copies:
        assert all(kind.startswith("v") for kind in found.pop(name)), name
    assert not found


def test_importing_starts_no_thread_and_opens_nothing():
    text = """
import os, threading
before = len(os.listdir("/proc/self/fd"))
import lockstep
print(threading.active_count(), len(os.listdir("/proc/self/task")),
      len(os.listdir("/proc/self/fd")) - before)
"""
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          check=True).stdout.split() == ["1", "1", "0"]
