"""Lockstep: the control plane of distributed machine-learning jobs.

    import lockstep

    with lockstep.join("10.0.0.1:7070", job="digits", index=0, size=4) as me:
        me.barrier("loaded", timeout=60)
        ports = me.gather("port", b"4711", timeout=60)    # what each member brought, by member

`lockstep.aio` is the same for asyncio, `lockstep.data` feeds training, and `lockstep.serve` runs a
server for a test or a notebook.
"""

from lockstep import aio, data
from lockstep._errors import (Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error,
                              FailedPrecondition, Internal, InvalidArgument, NotFound, OutOfRange,
                              PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable,
                              Unimplemented, Unknown)
from lockstep._keys import Keys, KeyWatch
from lockstep._member import JobWatch, Member, join
from lockstep._notices import HostNotices
from lockstep._native import NewTensor, Tensor
from lockstep._preemption import Preemption
from lockstep._rendezvous import Rendezvous, Step
from lockstep._serve import Server, serve
from lockstep._session import Session, session
from lockstep._types import (AliveMember, JobChange, JobError, KeyChange, KeyChanges, KeyEntry,
                             MemberInfo, OpenBarrier, OpenBarriers, PeerTransport,
                             PreemptionNotice, SourceState, SwapResult, Timeout, Value)

__all__ = [
    "Aborted", "AliveMember", "AlreadyExists", "Cancelled", "DataLoss", "DeadlineExceeded", "Error",
    "FailedPrecondition", "HostNotices", "Internal", "InvalidArgument", "JobChange", "JobError",
    "JobWatch", "KeyChange", "KeyChanges", "KeyEntry", "KeyWatch", "Keys", "Member", "MemberInfo",
    "NewTensor", "NotFound", "OpenBarrier", "OpenBarriers", "OutOfRange", "PeerTransport",
    "PermissionDenied", "Preemption", "PreemptionNotice", "Rendezvous", "ResourceExhausted", "Server",
    "Session", "SourceState", "Step", "SwapResult", "Tensor", "Timeout", "Unauthenticated",
    "Unavailable", "Unimplemented", "Unknown", "Value", "aio", "data", "join", "serve", "session",
]
