"""A stock program of torch.distributed, in which one rank does something wrong at one step.

Usage: program.py FAULT RANK STEP. It prints when.
"""

import datetime
import os
import signal
import sys
import time

import loader
import torch
import torch.distributed as dist

FAULT, ODD, FAULTY_STEP = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
STEPS, EVALUATE_EVERY, STEP_S = 1_000_000, 5, 0.01
TIMEOUT = datetime.timedelta(seconds=float(os.environ.get("FAULTS_TIMEOUT_S", "15")))


def fault():
    print(f"fault at {time.time()} in pid {os.getpid()}", flush=True)


def is_odd(*faults):
    return int(os.environ["RANK"]) == ODD and FAULT in faults


def with_fault(what):
    def run():
        fault()
        what()
    return run


def make_loader():
    before = {}
    if is_odd("loops"):
        before[FAULTY_STEP] = with_fault(loader.read_for_ever)
    if is_odd("waits for data"):
        before[FAULTY_STEP] = with_fault(loader.wait_for_ever)
    return loader.Loader(ODD, before)


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def evaluate(loss, group):
    """The mean over all ranks, and each rank's own. In a group of its own: gloo does not hang but
    break when collectives of different sizes meet in one."""
    total = loss.detach().clone()
    dist.all_reduce(total, group=group)
    each = [torch.empty_like(loss.detach()) for _ in range(dist.get_world_size())]
    dist.all_gather(each, loss.detach(), group=group)
    return total


def train(model, batches):
    evaluation = dist.new_group()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        batch = batches.batch(step)
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        if step == FAULTY_STEP:
            go_wrong()
        if not (is_odd("skips") and step == FAULTY_STEP):
            average_gradients(model)
        optimizer.step()
        if step % EVALUATE_EVERY == 0:
            evaluate(loss, evaluation)
            dist.barrier(evaluation)
        time.sleep(STEP_S)


def go_wrong():
    if is_odd("skips"):
        fault()
    if is_odd("killed"):
        fault()
        os.kill(os.getpid(), signal.SIGKILL)
    if is_odd("stopped"):
        fault()
        os.kill(os.getpid(), signal.SIGSTOP)


def main():
    torch.set_num_threads(1)
    print(f"rank {os.environ['RANK']} is pid {os.getpid()}", flush=True)
    if is_odd("killed at the start"):
        with_fault(lambda: os.kill(os.getpid(), signal.SIGKILL))()
    if is_odd("never comes"):
        with_fault(loader.wait_for_ever)()
    dist.init_process_group("gloo", timeout=TIMEOUT)
    train(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)),
          make_loader())


main()
