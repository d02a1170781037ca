"""What is said while nobody listens at the server's address, and where no package is installed."""

import logging
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest

import lockstep
from lockstep import _nobody, data

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def nowhere():
    """An address that nobody listens at: its port is ours, bound and not listened at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def reads(address):
    # One that is not there is looked for while an element is waited for, not before.
    with data.range(3).read(address, name="digits", timeout=4) as reader:
        next(reader)


def test_of_several_servers_one_that_listens_is_enough(nowhere, tmp_path):
    assert _nobody.why_nobody(f"{nowhere}, {nowhere}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        assert not _nobody.why_nobody(f"{nowhere},{there}")
        file = tmp_path / "servers"
        file.write_text(f"# both\n{nowhere}\n\nlockstep://{there}/digits\n")
        assert not _nobody.why_nobody(f"file://{file}")


@pytest.mark.parametrize("call", [
    lambda address: lockstep.join(address, job="digits", size=1, timeout=4),
    lambda address: lockstep.session(address, job="digits", timeout=4),
    reads,
], ids=["join", "session", "read"])
def test_it_is_said_within_three_seconds_that_nobody_listens(nowhere, call):
    began = time.monotonic()
    seen = []

    class Seen(logging.Handler):
        def emit(self, record):
            seen.append((time.monotonic() - began, record.getMessage()))

    handler = Seen(logging.WARNING)
    logging.getLogger("lockstep").addHandler(handler)
    try:
        with pytest.raises(lockstep.Error):
            call(nowhere)
    finally:
        logging.getLogger("lockstep").removeHandler(handler)
    warnings = [(at, text) for at, text in seen if f"nobody listens at {nowhere}" in text]
    assert len(warnings) == 1 and "lockstep serve" in warnings[0][1], seen
    assert warnings[0][0] < 3.5, warnings


def test_join_says_nothing_where_somebody_listens(caplog, server):
    with lockstep.join(server.address, job=f"heard-{os.getpid()}", size=1):
        pass
    assert "nobody listens" not in caplog.text


def test_ctrl_c_while_its_thread_starts_leaves_no_thread(monkeypatch, nowhere):
    start = threading.Thread.start
    threads = []

    def interrupted(thread):
        threads.append(thread)
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), _nobody.Watch(nowhere):
        pass
    [thread] = threads
    assert thread.name == "lockstep-nobody"
    thread.join(10)
    assert not thread.is_alive()


def imported(path):
    """What `import lockstep` in the checkout's folder comes to."""
    return subprocess.run(
        [sys.executable, "-S", "-c", "import lockstep; print(lockstep.__file__, lockstep.join)"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": ""})


def test_the_folder_of_sources_is_no_package():
    ended = imported("")
    assert ended.returncode != 0
    assert "ImportError" in ended.stderr and "pip install" in ended.stderr, ended.stderr


def test_the_installed_package_is_imported_although_the_sources_come_first():
    package = pathlib.Path(lockstep.__file__).parent.parent
    ended = imported(str(package))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(str(package)), ended.stdout
