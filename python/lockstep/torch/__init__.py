"""Lockstep in PyTorch programs. Importing this does not import torch; using its names does.

    with lockstep.torch.preemption() as preemption:
        for step in range(first, steps):
            train(step)
            if preemption.save_and_end(step, save):
                break

`preemption` saves at one step before hosts die. `Store` and `register_init_method` are for programs
that connect torch.distributed to a Lockstep server themselves. docs/pytorch.md describes what needs
no change of the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.torch._preemption import TrainingPreemption, preemption

if TYPE_CHECKING:
    from lockstep.torch._init_method import register_init_method
    from lockstep.torch._store import Store

__all__ = ["Store", "TrainingPreemption", "preemption", "register_init_method"]


def __getattr__(name: str) -> Any:
    if name == "Store":
        from lockstep.torch._store import Store

        return Store
    if name == "register_init_method":
        from lockstep.torch._init_method import register_init_method

        return register_init_method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
