"""A training loop of torch with the three lines of lockstep.torch: under `lockstep run` it saves at one
step when its host is to die, goes on from there, and comes to the loss of an undisturbed run."""

import re
import sys

import pytest

import lockstep
import lockstep.torch
from conftest import each
from programs import Program
from torch_programs import EXAMPLES, PYTHON, final_losses, needs_torch, run, start, under_run

EXAMPLE = EXAMPLES / "torch_preemption.py"
EPOCHS = 60
# Of two numbers the sum is the same in any order; of more it is not, so they show more.
SIZE = 4


def train(folder, *arguments, options=()):
    return under_run(SIZE, options, PYTHON, EXAMPLE, folder, "--epochs", EPOCHS, *arguments)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    code, said = run(*train(tmp_path_factory.mktemp("undisturbed")))
    assert code == 0, said
    losses = final_losses(said)
    assert len(losses) == SIZE and len(set(losses.values())) == 1, said
    return losses


@needs_torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("arguments", [(), ("--dcp",)], ids=["torch.save", "dcp"])
def test_a_notice_one_step_a_checkpoint_and_the_same_loss(tmp_path, undisturbed, arguments):
    notice = tmp_path / "notice"
    options = ("--on-preempt", "restart", "--notice", f"file:path={notice},interval=50ms")
    with start(*train(tmp_path / "checkpoints", *arguments, options=options)) as process:
        said = ""
        for line in process.stdout:
            said += line
            if "step 20/" in line:
                notice.touch()
        assert process.wait() == 0, said
    saved = re.findall(rf"rank (\d)/{SIZE}: saved after step (\d+), and ends", said)
    assert sorted(int(rank) for rank, _ in saved) == list(range(SIZE)), said
    (step,) = {step for _, step in saved}
    assert f"saved: {SIZE} of {SIZE} members saved at step {step}" in said, said
    assert len(re.findall(rf"goes on after step {step}$", said, re.MULTILINE)) == SIZE, said
    assert final_losses(said) == undisturbed


def test_without_a_server_no_step_is_the_one_to_save_at():
    text = """
import lockstep.torch
with lockstep.torch.preemption() as preemption:
    print(preemption.member, any(preemption.save_and_end(step, print) for step in range(10)))
"""
    code, said = run(sys.executable, "-c", text)
    assert (code, said) == (0, "None False\n")


def test_importing_it_imports_nothing_of_torch():
    text = "import sys, lockstep.torch; print([name for name in sys.modules if name == 'torch'])"
    assert run(sys.executable, "-c", text) == (0, "[]\n")


# As torchrun's workers find it, when their launcher has told them of a server.
WORKER = """
import sys
import lockstep.torch
with lockstep.torch.preemption(timeout=60) as preemption:
    me = preemption.member
    print(me.job, me.member, me.size, flush=True)
    sys.stdin.readline()
    if preemption.reached(7):
        print("early", flush=True)
    preemption.member.barrier("polled", timeout=60)
    if me.member == 0:
        preemption._preemption.notify("test", left=300)
    step = 8
    while not preemption.reached(step):
        step += 1
    try:
        preemption.save_and_end(step, fail if me.member else lambda step: "/ckpt")
    except RuntimeError as error:
        print("raised", error, flush=True)
"""


def test_in_ranks_that_torchrun_started_and_a_failed_save_is_told(server, job, crowd):
    texts = "def fail(step):\n    raise RuntimeError('disk full')\n" + WORKER
    programs = [Program(texts, RANK=str(rank), WORLD_SIZE="2", TORCHELASTIC_RUN_ID=job,
                        LOCKSTEP_COORDINATOR=server.address) for rank in range(2)]
    try:
        for rank, program in enumerate(programs):
            program.line(f"{job} {rank} 2")
        each(programs, lambda program: program.tell(""))
        programs[1].line("raised disk full")
        for program in programs:
            program.end_well()
    finally:
        for program in programs:
            program.__exit__()


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_what_no_launcher_would_set_is_named(name):
    from lockstep.torch._launcher import place_of_this_process

    with pytest.raises(lockstep.InvalidArgument, match=name):
        place_of_this_process({"LOCKSTEP_COORDINATOR": "127.0.0.1:1", "RANK": "0",
                               "WORLD_SIZE": "2", name: "two"})
