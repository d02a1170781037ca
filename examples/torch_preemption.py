"""Trains as torch_digits.py does, and saves at one step in all processes before hosts die.

    lockstep run -n 4 --on-preempt restart -- python examples/torch_preemption.py FOLDER
    lockstep preempt --job JOB --in 30s                     # meanwhile; or the cloud says so

All processes hear of a notice at the same step: each saves there, and ends. Started again, they go
on from there, and come to the loss that they would have come to undisturbed. With --dcp all
processes write one checkpoint together (torch.distributed.checkpoint), otherwise rank 0 writes it
with torch.save. The lines that Lockstep takes are marked with *.
"""

import argparse
import pathlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel
from torch_digits import (BATCH, LEARNING_RATE, MOMENTUM, SEED, load_images, mean_of_all, new_model,
                          np, say)

import lockstep.torch                                                                           # *


class Training:
    """The model, the optimizer, and what this epoch's steps came to in each process."""

    def __init__(self, steps):
        self.model = DistributedDataParallel(new_model())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE,
                                         momentum=MOMENTUM)
        self.losses = torch.zeros(steps, dtype=torch.float64)
        # After its first backward DistributedDataParallel orders what it adds up anew. Done before
        # the first step, a training that goes on adds in the order of one that was not disturbed.
        self.model(torch.zeros(1, 64)).sum().backward()
        self.optimizer.zero_grad()

    def state(self):
        """As it is saved: the same in all processes, so that any number of them may write it."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        losses = [torch.empty_like(self.losses) for _ in range(dist.get_world_size())]
        dist.all_gather(losses, self.losses)
        return {"model": model, "optimizer": optimizer, "losses": torch.stack(losses)}

    def load(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        self.losses = state["losses"][dist.get_rank()].clone()


class Checkpoints:
    """A folder for each step, which has the name of its step once all of it is there."""

    def __init__(self, folder, together):
        self._folder, self._together = folder, together

    def save(self, step, state):
        unfinished, whole = self._folder / f"unfinished-{step}", self._folder / f"step-{step}"
        if self._together:
            dcp.save(state, checkpoint_id=unfinished)
        elif dist.get_rank() == 0:
            unfinished.mkdir(parents=True, exist_ok=True)
            torch.save(state, unfinished / "state.pt")
        if dist.get_rank() == 0:
            unfinished.rename(whole)
        dist.barrier()
        return whole

    def newest(self):
        """The last step that was saved; None when there is none."""
        return max((int(path.name.removeprefix("step-")) for path in self._folder.glob("step-*")),
                   default=None)

    def load(self, step, state):
        """Reads into `state` what was saved at that step."""
        path = self._folder / f"step-{step}"
        if self._together:
            dcp.load(state, checkpoint_id=path)
            return state
        return torch.load(path / "state.pt")


def train(epochs, checkpoints, preemption):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    (images, labels), _ = load_images()
    batch = BATCH - BATCH % ranks
    steps = len(images) // batch
    training, first = Training(steps), 0
    if (saved := checkpoints.newest()) is not None:
        training.load(checkpoints.load(saved, training.state()))
        first = saved + 1
        say(f"rank {rank}/{ranks}: goes on after step {saved}")

    order = np.random.default_rng(SEED)
    orders = [order.permutation(len(images)) for _ in range(epochs)]
    for step in range(first, epochs * steps):
        begin = step % steps * batch
        rows = orders[step // steps][begin:begin + batch][rank::ranks]
        training.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(training.model(images[rows]), labels[rows])
        loss.backward()
        training.optimizer.step()
        training.losses[step % steps] = loss.item()
        if preemption.save_and_end(step, lambda step: checkpoints.save(step, training.state())):  # *
            say(f"rank {rank}/{ranks}: saved after step {step}, and ends")
            return
        if rank == 0 and step % 20 == 0:
            say(f"step {step}/{epochs * steps}")
    say(f"rank {rank}/{ranks}: final loss {mean_of_all(training.losses.mean().item()):.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="of the checkpoints")
    parser.add_argument("--dcp", action="store_true", help="all processes write one checkpoint")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images")
    options = parser.parse_args()

    torch.set_num_threads(1)  # several processes share a host
    dist.init_process_group("gloo")
    with lockstep.torch.preemption() as preemption:                                             # *
        train(options.epochs, Checkpoints(options.folder, options.dcp), preemption)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
