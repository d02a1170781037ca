"""The extension beside jax, torch and tensorflow, in one process, imported in every order.

Needs build/peers/frameworks (scripts/setup.sh frameworks); skipped, and said so, without it.
"""

import itertools
import os
import pathlib
import subprocess
import sys

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


def run(text, job, server):
    return Program(text, job, python=str(PYTHON), PYTHONPATH=str(PACKAGE),
                   LOCKSTEP_COORDINATOR=server.address, JAX_PLATFORMS="cpu",
                   TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")


@needs_frameworks
@pytest.mark.timeout(300)
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_imported_and_used_in_this_order(server, job, order):
    text = "import sys\n" + "".join(f"import {name}\n" for name in order)
    text += "".join(USES[name] for name in order)
    text += "me.leave(timeout=60)\nprint('all work')\n"
    with run(text, job, server) as program:
        program.line("all work")
        assert program.end()[0] == 0


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
        assert program.end()[0] == 0


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
