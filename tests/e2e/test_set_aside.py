"""What a server cannot use of its state directory: it is set aside, shown, and ended by whoever says so;
everything else is served."""

import contextlib
import json
import signal
import socket
import sqlite3
import struct
import subprocess
import time

from commands import DEADLINE_S, LOCKSTEP, Command, clean_environment


@contextlib.contextmanager
def serving(folder, *more):
    """A server on `folder`'s state directory, until the end of the block; it has to end well."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    with Command(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--state", folder / "state",
                 "--ready-file", ready, *more) as server:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert time.monotonic() < deadline and server.process.poll() is None, server.text()
            time.sleep(0.01)
        server.told = json.loads(ready.read_text())
        yield server
        server.signal(signal.SIGTERM)
        assert server.end() == 0, server.text()


def ask(server, *arguments):
    """What `lockstep ARGUMENTS` says to that server, and its exit code."""
    done = subprocess.run([LOCKSTEP, *arguments, "--coordinator", server.told["listen"]],
                          env=clean_environment(), capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout + done.stderr


def set_aside(server):
    code, said = ask(server, "jobs", "-o", "json")
    assert code == 0, said
    return {one["job"]: one for one in json.loads(said)["set_aside"]}


def jobs(server):
    code, said = ask(server, "jobs", "-o", "json")
    assert code == 0, said
    return [job["job"] for job in json.loads(said)["jobs"]]


def crc32c(value, data):
    value ^= 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def write_entry(folder, entry):
    """One more row, as a server of a newer version may have written it."""
    row = struct.pack("<I", len(entry)) + entry
    with contextlib.closing(sqlite3.connect(folder / "state" / "journal.db")) as database, database:
        sequence, checksum = database.execute(
            "SELECT sequence, checksum FROM rows ORDER BY sequence DESC LIMIT 1").fetchone()
        head = struct.pack("<IQ", checksum, sequence + 1)
        database.execute("INSERT INTO rows(sequence, checksum, bytes) VALUES(?, ?, ?)",
                         (sequence + 1, crc32c(crc32c(0, head), row), row))


def field(number, payload):
    """Of a message, in less than 128 bytes."""
    return bytes((number << 3 | 2, len(payload))) + payload


UNKNOWN_KIND = bytes((0xFA, 0x07, 0))  # field 127, empty
NEWER_RECORD_OF_SICK = field(1, b"sick") + field(5, UNKNOWN_KIND)
NEWER_RECORD_OF_DATA = field(6, UNKNOWN_KIND)


def test_finding_02_jobs_shows_a_job_that_is_set_aside_and_job_delete_ends_it(tmp_path):
    with serving(tmp_path, "--job", "sick=2", "--job", "well=3"):
        pass
    write_entry(tmp_path, NEWER_RECORD_OF_SICK)
    with serving(tmp_path) as server:
        server.wait_for(r"job 'sick' has been set aside since the server started")
        code, said = ask(server, "jobs")
        assert code == 0 and "job sick is set aside: " in said and "a newer version" in said
        assert "lockstep job delete sick ends it" in said
        assert jobs(server) == ["well"] and int(set_aside(server)["sick"]["kept_bytes"]) > 0
        code, said = ask(server, "job", "create", "sick=4")
        assert code != 0 and "set aside" in said
    # Whoever looks only has changed nothing.
    with serving(tmp_path) as server:
        assert list(set_aside(server)) == ["sick"]
        code, said = ask(server, "job", "delete", "sick")
        assert code == 0, said
        assert set_aside(server) == {} and jobs(server) == ["well"]
        code, said = ask(server, "job", "create", "sick=4")
        assert code == 0 and "job sick created" in said
    with serving(tmp_path) as server:
        assert set_aside(server) == {} and sorted(jobs(server)) == ["sick", "well"]


def test_finding_02_a_data_service_that_cannot_be_read_stops_no_job(tmp_path):
    with serving(tmp_path, "--job", "well=3"):
        pass
    write_entry(tmp_path, NEWER_RECORD_OF_DATA)
    with serving(tmp_path) as server:
        server.wait_for(r"the data service has been set aside since the server started")
        assert jobs(server) == ["well"] and list(set_aside(server)) == ["@data"]
        code, said = ask(server, "jobs")
        assert code == 0 and "the data service is set aside: " in said
        assert "lockstep job delete @data ends it" in said
        code, said = ask(server, "data")
        assert code != 0 and "the data service has been set aside" in said
        code, said = ask(server, "job", "delete", "@data")
        assert code == 0, said
        assert set_aside(server) == {}
        code, said = ask(server, "data")
        assert code == 0, said
    with serving(tmp_path) as server:
        assert set_aside(server) == {} and jobs(server) == ["well"]


def test_finding_02_a_job_whose_port_is_taken_is_shown_and_may_be_ended(tmp_path):
    with serving(tmp_path, "--job", "digits=2") as server:
        code, said = ask(server, "jobs", "-o", "json")
        assert code == 0, said
        host, port = json.loads(said)["jobs"][0]["grpc"].rsplit(":", 1)
    with socket.create_server((host, int(port))):
        with serving(tmp_path) as server:
            assert jobs(server) == [] and f":{port}" in set_aside(server)["digits"]["why"]
            code, said = ask(server, "job", "delete", "digits")
            assert code == 0, said
            code, said = ask(server, "job", "create", "digits=3")
            assert code == 0 and "job digits created" in said
    with serving(tmp_path) as server:
        assert set_aside(server) == {} and jobs(server) == ["digits"]
