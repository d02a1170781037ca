"""Programs of PyTorch that tests start: with build/peers/frameworks, which scripts/test.sh makes
(scripts/setup.sh frameworks), and our package on its path. Nothing here imports torch."""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

import lockstep

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
PYTHON = pathlib.Path(os.environ.get("FRAMEWORKS_PYTHON",
                                     ROOT / "build" / "peers" / "frameworks" / "bin" / "python"))
PACKAGE = pathlib.Path(lockstep.__file__).parent.parent
TORCHRUN = (str(PYTHON), "-m", "torch.distributed.run")
# Four processes import torch on two busy cores.
LIMIT_S = 240

needs_torch = pytest.mark.skipif(
    not PYTHON.exists(), reason="scripts/setup.sh frameworks has not been run")


def environment(**more):
    """Without what an outer launcher would bring in; one thread for each process."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("LOCKSTEP_", "TORCHELASTIC_", "MASTER_", "PET_"))
            and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "", **{name: str(value) for name, value in more.items()}}


def run(*command, limit_s=LIMIT_S, **variables):
    """A command to its end: (exit code, all it said)."""
    with start(*command, **variables) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            raise AssertionError(f"did not end within {limit_s} s:\n{said}") from None
        return process.returncode, said


@contextlib.contextmanager
def start(*command, **variables):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env=environment(**variables))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def final_losses(said):
    """What each rank printed, by its number."""
    return {int(rank): loss for rank, loss in
            re.findall(r"rank (\d+)/\d+: final loss (\d\.\d+)", said)}


# Of torch's threads, which outlive its process groups, when Python ends before they do: on a slow
# host, after all that the program did, under any launcher (pytorch's issue 190489).
ABORTED_AT_THE_END = "terminate called without an active exception"


def assert_one_loss(ranks, *command):
    """All ranks come to their end, with the same loss; once more, if torch itself aborted there."""
    code, said = run(*command)
    if code != 0 and ABORTED_AT_THE_END in said:
        code, said = run(*command)
    assert code == 0, said
    losses = final_losses(said)
    assert sorted(losses) == list(range(ranks)) and len(set(losses.values())) == 1, said


def run_ranks(text, size, limit_s=LIMIT_S, **variables):
    """A Python program of torch in `size` processes with RANK and WORLD_SIZE: what each came to."""
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.py"
        path.write_text(text)
        processes = [stack.enter_context(start(PYTHON, path, RANK=rank, WORLD_SIZE=size, **variables))
                     for rank in range(size)]
        return [(process.communicate(timeout=limit_s)[0], process.returncode)
                for process in processes]


LOCKSTEP = PACKAGE / "lockstep" / "bin" / "lockstep"


def under_run(size, options, *command):
    """`lockstep run` of that many processes."""
    return (LOCKSTEP, "run", "-n", size, *options, "--", *command)
