"""A stock jaxlib client in a process of its own: what the tests call a member."""

import concurrent.futures
import contextlib
import os
import re
import signal

from jaxlib import _jax

from processes import LIMIT_S, ClientError, Process, ProcessEnded

# What a stock client logs when it ends its process: glog's F line, then the error.
_LAST_WORDS = re.compile(
    r"Terminating process because the JAX distributed service detected fatal errors.*?"
    r"(?:absl::Status: )?([A-Z_]+): (.*?)\s*(?:\*\*\* Check failure|$)", re.DOTALL)


class _Client:
    """Runs in the member's process."""

    def __init__(self, address, index, options):
        self._address, self._index, self._options = address, index, options
        self._client = None
        self._dial()

    def _dial(self):
        self._client = _jax.get_distributed_runtime_client(
            self._address, self._index, **self._options)

    def new_life(self):
        """A second client object of the same member, as a restarted process would make."""
        self._client = None
        self._dial()

    def drop(self):
        """Destroys the client object as a program does that exits."""
        self._client = None

    def rounds(self, method, count, *arguments):
        """The same call many times; what the last one returned."""
        for _ in range(count):
            result = getattr(self._client, method)(*arguments)
        return result

    def __getattr__(self, name):
        return getattr(self._client, name)


class _Clients:
    """Many clients in one process, for tests of numbers; they share one connection."""

    def __init__(self, address, indices, options):
        self._clients = {index: _Client(address, index, options) for index in indices}
        self._threads = concurrent.futures.ThreadPoolExecutor(len(self._clients))

    def all(self, method, *arguments):
        """One call by each client at once: index -> (code and text of its error, or "")."""
        def one(client):
            try:
                getattr(client, method)(*arguments)
                return ""
            except Exception as error:  # Whatever it is, the test has to see it.
                return str(error)
        return dict(zip(self._clients, self._threads.map(one, self._clients.values())))

    def one(self, index, method, *arguments):
        return getattr(self._clients[index], method)(*arguments)


class Crowd(Process):
    """Some members in one process."""

    def __init__(self, indices, address, folder, name="crowd", **options):
        super().__init__(name, _Clients, folder, address, list(indices), _defaults(options))


def _defaults(options):
    """Nothing may go wrong with a client's own clock while a test waits for the service's."""
    return {"init_timeout": LIMIT_S, "shutdown_timeout": LIMIT_S, "heartbeat_timeout": 100,
            "shutdown_on_destruction": True, "use_compression": True, **options}


class Member(Process):
    """Use start() and call() with the names of jaxlib's client methods."""

    def __init__(self, index, address, folder, *, name=None, **options):
        self.index = index
        super().__init__(name or f"member-{index}", _Client, folder, address, index,
                         _defaults(options))

    def refusal(self, method, *arguments, **options):
        """The error that a call ends in; it is a failure of the test if it ends well."""
        return refusal_of(self.start(method, *arguments, **options))

    def last_words(self):
        """(code, text) of the error for which the client ended its process by SIGABRT."""
        code = self.wait_ended()
        output = self.output()
        assert code == -6, f"{self.name} ended with {code}, not by SIGABRT:\n{output}"
        match = _LAST_WORDS.search(output)
        assert match, f"{self.name} did not say why it ended:\n{output}"
        _write_down("last words", f"{match.group(1)}: {match.group(2)}")
        return match.group(1), match.group(2)


def refusal_of(future):
    try:
        value = future.result(LIMIT_S)
    except ClientError as error:
        _write_down("call", error.text)
        return error
    except ProcessEnded:
        raise AssertionError("the process ended before the call was answered") from None
    raise AssertionError(f"the call succeeded with {value!r}")


def all_of(futures):
    return [future.result(LIMIT_S) for future in futures]


def assert_parked(*futures, seconds=0.2):
    """None of the calls is answered for a while: they wait for somebody."""
    done, _ = concurrent.futures.wait(futures, seconds, concurrent.futures.FIRST_COMPLETED)
    assert not done, [future.exception() or future.result() for future in done]


@contextlib.contextmanager
def stopped(member):
    """Its process stands still, and its connections stay open."""
    member.kill(signal.SIGSTOP)
    try:
        yield
    finally:
        member.kill(signal.SIGCONT)


def _write_down(where, text):
    """With INTEROP_TEXTS=file, what each server told is kept there, to be read side by side."""
    path = os.environ.get("INTEROP_TEXTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit("/", 1)[-1]
            file.write(f"## {test}, {where}\n{text}\n\n")
