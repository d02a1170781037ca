"""`torchrun --rdzv-backend=lockstep`: the nodes of a job meet at a Lockstep server."""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from typing import Any

import torch.distributed as dist  # type: ignore[import-not-found]
from torch.distributed.elastic.rendezvous import (  # type: ignore[import-not-found]
    RendezvousClosedError, RendezvousConnectionError, RendezvousError, RendezvousHandler,
    RendezvousInfo, RendezvousParameters, RendezvousStateError, RendezvousStoreInfo,
    RendezvousTimeoutError)

from lockstep import _address, _native
from lockstep._errors import DeadlineExceeded, Error, Unimplemented
from lockstep._session import Session, session
from lockstep.torch._rounds import (Bounds, Node, Round, Verdict, decide, decode, waiting,
                                    why_not_complete)
from lockstep.torch._store import Store
from lockstep.torch._workers import Workers

_log = logging.getLogger("lockstep")

BACKEND = "lockstep"
#: Keys of the nodes' own job.
_STATE, _ALIVE, _ROUNDS = "nodes/state", "nodes/alive", "rounds"
#: Signs of life are this many times as frequent as required.
_SIGNS_PER_TIMEOUT = 5
#: How often a silent watch checks whether it is over.
_LOOK_INTERVAL = 1.0
#: Seconds that a request of this module takes at most.
_REQUEST_MAX = 30.0
_EVERYWHERE = ("0.0.0.0", "[::]", "::", "")


class _Options:
    """`--rdzv-conf`, with defaults for what is omitted."""

    def __init__(self, parameters: RendezvousParameters) -> None:
        self.join_timeout = self._seconds(parameters, "join_timeout", 600)
        self.last_call_timeout = self._seconds(parameters, "last_call_timeout", 30)
        #: From a node's last sign of life until the others continue without it.
        self.node_timeout = self._seconds(parameters, "node_timeout", 5)
        #: Whether Python workers report where they are, and their exceptions.
        self.stacks = self._yes_or_no(parameters, "stacks", True)

    @staticmethod
    def _seconds(parameters: RendezvousParameters, name: str, default: float) -> float:
        said = parameters.get(name, default)
        try:
            value = float(said)
        except (TypeError, ValueError):
            value = 0.0
        if not value > 0:
            raise ValueError(f"--rdzv-conf {name}={said}: seconds, more than 0")
        return value

    @staticmethod
    def _yes_or_no(parameters: RendezvousParameters, name: str, default: bool) -> bool:
        said = str(parameters.get(name, default)).lower()
        if said not in ("true", "false"):
            raise ValueError(f"--rdzv-conf {name}={said}: true or false")
        return said == "true"


class _Mirror:
    """What the nodes have written, as far as this one has heard of it.

    Threads: thread-safe; a separate thread follows the keys until `close`.
    """

    def __init__(self, kv: Any) -> None:
        self._kv = kv
        self._changed = threading.Condition()
        self._alive: dict[str, bytes] = {}
        self._heard: dict[str, float] = {}  # by id, when this node heard of it
        self._state, self._state_revision, self._revision = Round(), 0, 0
        self._error: Error | ValueError | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._follow, name="lockstep-nodes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._thread.join(2 * _LOOK_INTERVAL)

    def _follow(self) -> None:
        try:
            with self._kv.watch("nodes") as watch:
                while not self._closing:
                    try:
                        changes = watch.next(_LOOK_INTERVAL)
                    except DeadlineExceeded:
                        continue
                    self._take(changes)
        except (Error, ValueError) as error:
            with self._changed:
                if not self._closing:
                    self._error = error
                self._changed.notify_all()

    def _take(self, changes: Any) -> None:
        with self._changed:
            if changes.snapshot:
                self._alive.clear()
            for change in changes.changes:
                directory, _, name = change.key.rpartition("/")
                if change.key == _STATE and change.value is not None:
                    self._learn(change.value, change.revision)
                elif directory == _ALIVE and change.value is not None:
                    self._alive[name] = change.value
                    self._heard[name] = time.monotonic()
                elif directory == _ALIVE:
                    self._alive.pop(name, None)
            self._revision = max(self._revision, changes.revision)
            self._changed.notify_all()

    def _learn(self, value: bytes, revision: int) -> None:
        if revision > self._state_revision:
            self._state, self._state_revision = decode(value), revision

    def now(self) -> tuple[Round, int, set[str]]:
        """The round, the revision of its key, and the living nodes. Raises if that is unknown."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._state, self._state_revision, set(self._alive)

    def up_to_date(self) -> bool:
        """Whether the signs of life are as new as the round."""
        with self._changed:
            return self._revision > 0 and self._revision >= self._state_revision

    def swap(self, state: Round) -> None:
        """Writes it if no node has written since `now`; learns what is there."""
        with self._changed:
            revision = self._state_revision
        swap = self._kv.compare_and_set(_STATE, None, state.encode(), revision=revision or None,
                                        timeout=_REQUEST_MAX)
        if swap.entry is not None:
            with self._changed:
                self._learn(swap.entry.value, swap.entry.revision)

    def wait(self, timeout: float) -> None:
        """Waits until something changes, or the time is over."""
        with self._changed:
            self._changed.wait(timeout)

    def heard_ago(self) -> dict[str, float]:
        with self._changed:
            return {name: time.monotonic() - at for name, at in self._heard.items()}


class LockstepRendezvousHandler(RendezvousHandler):  # type: ignore[misc]
    """Tells torchrun's agent who its peers are.

    No node holds any state: the server knows the nodes, and the others continue without a dead
    node, even rank 0's. Each round has a separate store, so that nothing of an earlier one is met.
    """

    def __init__(self, parameters: RendezvousParameters) -> None:
        self._run = parameters.run_id
        self._bounds = Bounds(parameters.min_nodes, parameters.max_nodes)
        self._options = _Options(parameters)
        address = parameters.endpoint or os.environ.get("LOCKSTEP_COORDINATOR") or ""
        if not address:
            raise ValueError("--rdzv-backend=lockstep takes --rdzv-endpoint HOST:PORT, of a server that "
                             "`lockstep serve` runs; or LOCKSTEP_COORDINATOR")
        #: The workers' job, which those that know Lockstep join.
        self._job = re.sub(r"[^A-Za-z0-9._-]", "-", self._run)
        try:
            self._session: Session = session(address, job=f"{self._job}.nodes", size=1,
                                             who=f"torchrun of {self._run}")
        except Error as error:
            raise RendezvousConnectionError(str(error)) from error
        self._host = parameters.local_addr or _own_address(address)
        self._me = Node(uuid.uuid4().hex, socket.gethostname(), os.getpid())
        self._last = 0
        self._stores: list[Any] = []
        self._mirror = _Mirror(self._session.kv)
        self._workers = Workers(address, self._job, self._run, self._options.stacks)
        self._ended = threading.Event()
        self._signs = threading.Thread(target=self._give_signs, name="lockstep-sign-of-life",
                                       daemon=True)
        self._give_sign()
        self._signs.start()

    def get_backend(self) -> str:
        """The name after `--rdzv-backend`."""
        return BACKEND

    def get_run_id(self) -> str:
        """`--rdzv-id`."""
        return str(self._run)

    @property
    def use_agent_store(self) -> bool:
        """Whether workers connect to the store of `next_rendezvous`: true."""
        return True  # workers are clients of the round's store, and rank 0 is no server

    def next_rendezvous(self) -> RendezvousInfo:
        """Waits until a round is complete with this node in it; returns its rank and the store.

        Raises RendezvousClosedError if the job has ended, RendezvousTimeoutError with the missing
        nodes after `join_timeout`, RendezvousConnectionError if the server is lost, and
        RendezvousStateError if the key of the nodes holds something else.
        """
        try:
            joined = self._join()
            return self._info(joined)
        except RendezvousError:
            raise
        except ValueError as error:
            raise RendezvousStateError(str(error)) from error
        except Error as error:
            raise RendezvousConnectionError(str(error)) from error

    def is_closed(self) -> bool:
        """Whether the job has ended: no node comes in any more. Raises if that is unknown."""
        return self._mirror.now()[0].closed

    def set_closed(self) -> None:
        """Ends the job for all nodes; does nothing before the first round.

        Gives up after losing 100 times to nodes that write at the same moment.
        """
        for _ in range(100):
            now, _, _ = self._mirror.now()
            if now.closed or now.number == 0:
                return
            self._mirror.swap(dataclasses.replace(now, closed=True))

    def num_nodes_waiting(self) -> int:
        """How many nodes wait for this one to restart its workers; 0 while that is unknown."""
        try:
            now, _, alive = self._mirror.now()
        except (Error, ValueError) as error:
            # The training goes on without the server; who restarts will be told.
            _log.debug("how many nodes wait cannot be known: %s", error)
            return 0
        if not self._mirror.up_to_date():
            return 0
        return waiting(now, self._last, alive | {self._me.id})

    def shutdown(self) -> bool:
        """Ends the job and this node's part; returns whether the other nodes know of it."""
        done = True
        try:
            self.set_closed()
            self._ended.set()
            self._signs.join(_LOOK_INTERVAL)
            self._session.kv.delete(f"{_ALIVE}/{self._me.id}", timeout=_LOOK_INTERVAL)
        except Error as error:
            _log.warning("the end of job %r was not told: %s", self._run, error)
            done = False
        self._ended.set()
        self._workers.close()
        self._mirror.close()
        self._session.close()
        return done

    def _join(self) -> Round:
        began = time.monotonic()
        deadline = began + self._options.join_timeout
        enough_since: float | None = None
        while True:
            now, _, alive = self._mirror.now()
            left = deadline - time.monotonic()
            if self._mirror.up_to_date():
                enough = not now.complete and len(now.nodes) >= self._bounds.least
                enough_since = (enough_since or time.monotonic()) if enough else None
                last_call = (enough_since + self._options.last_call_timeout - time.monotonic()
                             if enough_since is not None else left)
                verdict, next_ = decide(now, self._me, self._last, alive, self._bounds,
                                        last_call <= 0)
                if verdict is Verdict.JOINED:
                    return now
                if verdict is Verdict.CLOSED:
                    raise RendezvousClosedError(
                        f"job {self._run!r} has ended; a job that is to be another one takes another "
                        "--rdzv-id")
                if verdict is Verdict.CHANGE:
                    self._mirror.swap(next_)
                    continue
                left = min(left, max(last_call, 0.001)) if left > 0 else left
            if left <= 0:
                raise RendezvousTimeoutError(why_not_complete(
                    now, self._bounds, self._run, time.monotonic() - began,
                    self._mirror.heard_ago()))
            self._mirror.wait(min(left, _LOOK_INTERVAL))

    def _info(self, joined: Round) -> RendezvousInfo:
        self._last = joined.number
        rank, place = joined.rank(self._me), f"{_ROUNDS}/{joined.number}"
        if rank == 0:
            self._session.kv.delete(f"{_ROUNDS}/{joined.number - 1}", below=True,
                                    timeout=_REQUEST_MAX)
            self._session.kv.set(f"{place}/workers", json.dumps(self._new_store(joined)),
                                 timeout=_REQUEST_MAX)
        said = self._session.kv.wait(f"{place}/workers", timeout=self._options.join_timeout)
        host, port = json.loads(said)
        # For workers that know of Lockstep: torchrun passes its own environment on.
        os.environ["LOCKSTEP_COORDINATOR"] = self._session.address
        os.environ["LOCKSTEP_JOB"] = self._job
        os.environ["LOCKSTEP_ATTEMPT"] = str(joined.number)
        self._workers.set_environment()
        _log.info("round %d of %r: node %d of %d, workers' store at %s:%d", joined.number, self._run,
                  rank, len(joined.nodes), host, port)
        return RendezvousInfo(Store(self._session.kv, f"{place}/agents"), rank, len(joined.nodes),
                              RendezvousStoreInfo(host, port))

    def _new_store(self, joined: Round) -> tuple[str, int]:
        """Where the workers of this round meet: at the server, or else here."""
        server = self._session.address
        try:
            _, address = _native.open_torch_store(server, self._session.job, joined.number,
                                                  _REQUEST_MAX)
        except Unimplemented:  # an older server
            address = ""
        if address:
            host, _, port = address.rpartition(":")
            if host in _EVERYWHERE:  # where it listens is no place to call
                host = server.rpartition(":")[0]
            return host.strip("[]"), int(port)
        store = dist.TCPStore("0.0.0.0", 0, is_master=True, wait_for_workers=False)
        self._stores = [store]  # the one of the round before ends
        return self._host, store.port

    def _give_sign(self) -> None:
        self._session.kv.set(f"{_ALIVE}/{self._me.id}", str(self._me),
                             ttl=datetime.timedelta(seconds=self._options.node_timeout),
                             timeout=self._options.node_timeout)

    def _give_signs(self) -> None:
        while not self._ended.wait(self._options.node_timeout / _SIGNS_PER_TIMEOUT):
            try:
                self._give_sign()
            except Error as error:
                _log.debug("no sign of life could be given: %s", error)


def _own_address(address: str) -> str:
    """The address of this host that reaches the server, or the first of several that can be looked
    up; others are near the server too.
    """
    for server in _address.servers(address):
        own = _own_address_towards(server)
        if own:
            return own
    return socket.gethostname()


def _own_address_towards(server: str) -> str:
    host, port = _address.host_and_port(server)
    try:
        family, _, _, _, place = socket.getaddrinfo(host, int(port),
                                                    type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect(place)  # sends nothing
            return str(one.getsockname()[0])
    except (OSError, ValueError):
        return ""
