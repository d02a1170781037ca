"""What a training step takes, bare and under `lockstep run`, side by side.

Both jobs are started, and from then on one of them is stopped (SIGSTOP: its ranks, and whatever started
them) while the other trains for a slice of a fifth of a second. So each pair of slices has the same
minute of the same host, whose speed changes by more from one run to the next than any launcher costs.
"""

import array
import contextlib
import os
import pathlib
import random
import signal
import socket
import statistics
import sys
import tempfile
import time

from programs import LOCKSTEP, ROOT, Program, Trouble, cpu_of, descendants_of

TIMED = pathlib.Path(__file__).resolve().parent / "timed.py"
KINDS = ("bare", "run")
ENDLESS = 10**6   # epochs
SETTLE_S = 0.03   # of a slice that is not counted: caches are another's, and what is late is made up for
RESAMPLED = 2000

# One shell for all, so that they are one session to the scheduler, as they are under a launcher.
BARE = """for rank in $RANKS; do
  RANK=$rank LOCAL_RANK=$rank OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank "$@" &
done; wait"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def bare(program, ranks, cores, folder):
    """The ranks as their framework's own documents say: a store, or service, in rank 0."""
    port = free_port()
    return Program("sh", "-c", BARE, "sh", *program, cores=cores, STEPS_IN=folder,
                   RANKS=" ".join(map(str, range(ranks))), WORLD_SIZE=str(ranks),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMPI_MCA_orte_hnp_uri="bare",
                   JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}", OMPI_COMM_WORLD_SIZE=str(ranks))


def under_run(program, ranks, cores, folder):
    return Program(LOCKSTEP, "run", "-n", ranks, "--", *program, cores=cores, STEPS_IN=folder)


class Job:
    """One that trains, or is stopped."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.pids = [program.pid]
        self.slices = []  # (from, until) on the monotonic clock

    def begin(self):
        self.program.find(r"epoch 3/")  # all of them train, and what is compiled has been
        self.pids += descendants_of(self.program.pid)
        self.own = [pid for pid in self.pids
                    if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("lockstep")]
        self.signal(signal.SIGSTOP)
        self.used = self.cpu()

    def signal(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def cpu(self):
        return sum(map(cpu_of, self.own))

    def train(self, seconds):
        self.signal(signal.SIGCONT)
        began = time.monotonic()
        time.sleep(seconds)
        self.slices.append((began + SETTLE_S, time.monotonic()))
        self.signal(signal.SIGSTOP)

    def share(self):
        """Of a core, that launcher, guardian and server used while their job trained."""
        return (self.cpu() - self.used) / sum(SETTLE_S + until - began for began, until in self.slices)

    def kill(self):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.program.end()

    def steps(self):
        """What a step took in each slice, in us, over the ranks."""
        ranks = []
        for file in sorted(self.folder.iterdir()):
            marks = array.array("d")
            content = file.read_bytes()
            marks.frombytes(content[:len(content) // marks.itemsize * marks.itemsize])
            ranks.append(marks)
        return [statistics.mean(self.step(marks, *one) for marks in ranks) for one in self.slices]

    @staticmethod
    def step(marks, began, until):
        within = [mark for mark in marks if began <= mark <= until]
        if len(within) < 3:
            raise Trouble(f"{len(within)} steps in a slice; give --slice more time")
        return 1e6 * (within[-1] - within[0]) / (len(within) - 1)


def interval(ratios):
    """Where the median of such ratios lies, in 95 of 100 cases: by drawing from them again."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLED))
    return medians[RESAMPLED * 25 // 1000], medians[RESAMPLED * 975 // 1000 - 1]


def compare(example, python, ranks, pairs, slice_s, cores):
    """(steps of each kind by slice, ratios of pairs, Lockstep's share of a core)."""
    command = [python, TIMED, ROOT / "examples" / example, "--epochs", ENDLESS]
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in KINDS]
        jobs = []
        for start, folder in zip((bare, under_run), folders):
            job = Job(stack.enter_context(start(command, ranks, cores, folder)), folder)
            stack.callback(job.kill)
            job.begin()  # and stops: the next one starts undisturbed
            jobs.append(job)
        for pair in range(pairs):
            for job in jobs if pair % 2 == 0 else jobs[::-1]:
                job.train(slice_s)
            if sys.stdout.isatty():
                print(f"\r  {example}: {pair + 1} of {pairs} pairs", end="", flush=True)
        share = jobs[1].share()
        steps = [job.steps() for job in jobs]
    return dict(zip(KINDS, steps)), [run / alone for alone, run in zip(*steps)], share
