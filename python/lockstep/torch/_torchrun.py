"""The entry point `torchrun.handlers`, which torch loads whenever its launcher is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def handler() -> Callable[[Any], Any]:
    """Makes a rendezvous handler from torchrun's parameters."""
    def make(parameters: Any) -> Any:
        from lockstep.torch._elastic import LockstepRendezvousHandler

        return LockstepRendezvousHandler(parameters)

    return make
