"""xla.coordination.CoordinationService by hand: calls that no stock client makes in this order.

Messages are written and read from the field tables below, which are this folder's own reading of
the protocol: a mistake in Lockstep's cannot hide in a shared definition.
"""

import os
import struct

import grpc

from processes import LIMIT_S

SERVICE = "/xla.coordination.CoordinationService/"
_PREFIX = "type.googleapis.com/tensorflow."
COORDINATION_ERROR = _PREFIX + "CoordinationServiceError"
BARRIER_ERROR = _PREFIX + "BarrierError"
SERVICE_MISMATCH = _PREFIX + "ServiceMismatchError"

DISCONNECTED, CONNECTED, ERROR = 2, 3, 4

_INCARNATIONS = {"task_id": (1, "int"), "task_incarnation": (2, "fixed64"),
                 "service_incarnation": (3, "fixed64")}
_ENTRY = {"key": (1, "text"), "value": (2, "bytes")}
_TASK = {"task_id": (1, "int"), "state": (2, "int"), "error_code": (3, "int"),
         "error_message": (4, "text"), "incarnation": (6, "fixed64")}

REQUESTS = {
    "RegisterTask": {"incarnation": (3, "fixed64"), "source_task_id": (5, "int")},
    "Heartbeat": {"incarnation": (2, "fixed64"), "source_task_id": (3, "int")},
    "PollForError": {"source_task_id": (2, "int")},
    "ShutdownTask": {"source_task_id": (2, "int")},
    "WatchTasks": {"version_number": (2, "int")},
    "InsertKeyValue": {"kv": (2, _ENTRY), "allow_overwrite": (3, "int")},
    "GetKeyValue": {"key": (2, "text")},
    "TryGetKeyValue": {"key": (2, "text")},
    "IncrementKeyValue": {"key": (2, "text"), "increment": (3, "int")},
    "GetKeyValueDir": {"directory_key": (2, "text")},
    "DeleteKeyValue": {"key": (2, "text"), "is_directory": (3, "int")},
    "Barrier": {"barrier_id": (2, "text"), "barrier_timeout_in_ms": (3, "int"),
                "task_ids": (4, "ints"), "source_task_id": (5, "int"), "counter": (6, "int")},
    "CancelBarrier": {"barrier_id": (2, "text"), "counter": (3, "int"),
                      "source_task_id": (4, "int")},
    "GetAliveTasks": {"requesting_task_id": (2, "int"), "task_ids": (3, "ints")},
}

REPLIES = {
    "RegisterTask": {"service_incarnation": (1, "fixed64")},
    "Heartbeat": {"service_incarnation": (1, "fixed64")},
    "WatchTasks": {"task_state": (1, [_TASK]), "version_number": (2, "int")},
    "GetKeyValue": {"kv": (1, _ENTRY)},
    "TryGetKeyValue": {"kv": (1, _ENTRY)},
    "IncrementKeyValue": {"kv": (1, _ENTRY)},
    "GetKeyValueDir": {"kv": (2, [_ENTRY])},
    "Barrier": {"counter": (1, "int")},
    "GetAliveTasks": {"alive_task_ids": (1, "ints"), "incarnations": (2, "fixed64s")},
}


def _varint(value):
    value &= (1 << 64) - 1  # negative numbers travel in two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def encode(table, values):
    out = b""
    for name, value in values.items():
        number, kind = table[name]
        if isinstance(kind, dict):
            out += _block(number, encode(kind, value))
        elif isinstance(kind, list):
            out += b"".join(_block(number, encode(kind[0], one)) for one in value)
        elif kind == "int":
            out += _varint(number << 3) + _varint(int(value))
        elif kind == "fixed64":
            out += _varint(number << 3 | 1) + struct.pack("<Q", value)
        elif kind == "ints":
            out += _block(number, b"".join(_varint(one) for one in value))
        else:
            out += _block(number, value.encode() if kind == "text" else value)
    return out


def _fields(data):
    """(number, value) of a message: an int, or the bytes of a block."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 1:
            yield tag >> 3, struct.unpack_from("<Q", data, at)[0]
            at += 8
        elif tag & 7 == 2:
            length = varint()
            yield tag >> 3, data[at:at + length]
            at += length
        else:
            raise ValueError(f"wire type {tag & 7}")


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _varints(data):
    # A packed list is a message without tags: number each value by itself.
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            out.append(value)
            value = shift = 0
    return out


_EMPTY = {"int": 0, "fixed64": 0, "text": "", "bytes": b"", "ints": [], "fixed64s": []}


def decode(table, data):
    by_number = {number: (name, kind) for name, (number, kind) in table.items()}
    values = {}
    for name, (_, kind) in table.items():
        values[name] = ([] if isinstance(kind, list) else decode(kind, b"")
                        if isinstance(kind, dict) else _EMPTY[kind])
    for number, value in _fields(data):
        if number not in by_number:
            continue
        name, kind = by_number[number]
        if isinstance(kind, list):
            values[name] = values[name] + [decode(kind[0], value)]
        elif isinstance(kind, dict):
            values[name] = decode(kind, value)
        elif kind in ("ints", "fixed64s"):
            many = [value] if isinstance(value, int) else _varints(value) if kind == "ints" else [
                one for one, in struct.iter_unpack("<Q", value)]
            values[name] = values[name] + many
        else:
            values[name] = (value.decode() if kind == "text" else
                            _signed(value) if kind == "int" else value)
    return values


class Refused(Exception):
    """An error answer: code, text, and the payloads that stock clients look at."""

    def __init__(self, method, error):
        self.code = error.code().name
        self.text = error.details() or ""
        self.payloads = {}
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        for number, entry in _fields(details):
            if number == 1:
                pair = dict(_fields(entry))
                self.payloads[pair[1].decode()] = pair.get(2, b"")
        super().__init__(f"{method}: {self.code}: {self.text} {self.payloads}")
        _write_down(method, self)


def _write_down(method, refused):
    path = os.environ.get("INTEROP_TEXTS")
    if path:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit("/", 1)[-1]
        payloads = {url.removeprefix(_PREFIX): data.hex()
                    for url, data in sorted(refused.payloads.items())}
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"## {test}, {method}\n{refused.code}: {refused.text}\n{payloads}\n\n")


class Call:
    """A call under way."""

    def __init__(self, method, future, reply):
        self._method = method
        self._future = future
        self._reply = reply

    def value(self):
        """Its answer; Refused if that is an error."""
        try:
            data = self._future.result(LIMIT_S)
        except grpc.RpcError as error:
            raise Refused(self._method, error) from None
        return decode(self._reply, data)

    def refusal(self):
        try:
            value = self.value()
        except Refused as refused:
            return refused
        raise AssertionError(f"{self._method} succeeded with {value}")

    def cancel(self):
        self._future.cancel()

    def assert_parked(self, seconds=0.2):
        try:
            answer = self._future.result(seconds)
        except grpc.FutureTimeoutError:
            return
        except grpc.RpcError as error:
            raise AssertionError(f"not parked: {Refused(self._method, error)}") from None
        raise AssertionError(f"{self._method} is not parked: {answer}")


class Wire:
    """One connection to a server. By default it knows no service incarnation."""

    service, requests, replies = SERVICE, REQUESTS, REPLIES

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address, options=[
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
        self.service_incarnation = 0

    def start(self, method, *, deadline_s=LIMIT_S, **fields):
        request = encode(self.requests[method], fields)
        return self.start_raw(method, self._incarnations(method) + request, deadline_s)

    def _incarnations(self, method):
        """What this family's requests begin with."""
        if method == "RegisterTask":
            return b""
        return _block(1, encode(_INCARNATIONS, {"service_incarnation": self.service_incarnation}))

    def start_raw(self, method, request, deadline_s=LIMIT_S):
        call = self._channel.unary_unary(self.service + method)
        future = call.future(request, timeout=deadline_s, wait_for_ready=True)
        return Call(method, future, self.replies.get(method, {}))

    def call(self, method, **fields):
        return self.start(method, **fields).value()

    def refusal(self, method, **fields):
        return self.start(method, **fields).refusal()

    def learn_incarnation(self):
        """What anybody can learn from being refused."""
        mismatch = self.refusal("TryGetKeyValue", key="x").payloads[SERVICE_MISMATCH]
        self.service_incarnation = dict(_fields(mismatch))[1]

    def close(self):
        self._channel.close()


def show_period(poll, members):
    """Each sends a heartbeat half a second after it came: as often as one may be expected of it.

    A server need not take a silence for a death before it knows that.
    """
    poll.assert_parked(0.5)
    for member in members:
        member.heartbeat().value()


class WireMember(Wire):
    """One life of one member."""

    def __init__(self, address, index, incarnation):
        super().__init__(address)
        self.index = index
        self.incarnation = incarnation

    def register(self, **options):
        return self.start("RegisterTask", incarnation=self.incarnation, source_task_id=self.index,
                          **options)

    def registered(self, call):
        self.service_incarnation = call.value()["service_incarnation"]
        return self

    def heartbeat(self):
        return self.start("Heartbeat", incarnation=self.incarnation, source_task_id=self.index)

    def poll(self):
        return self.start("PollForError", source_task_id=self.index)

    def shut_down(self):
        return self.start("ShutdownTask", source_task_id=self.index)

    def barrier(self, name, counter=0, timeout_ms=60_000, indices=()):
        return self.start("Barrier", barrier_id=name, barrier_timeout_in_ms=timeout_ms,
                          task_ids=indices, source_task_id=self.index, counter=counter)

    def cancel_barrier(self, name, counter=0):
        return self.start("CancelBarrier", barrier_id=name, counter=counter,
                          source_task_id=self.index)

    def alive(self, indices):
        return self.start("GetAliveTasks", requesting_task_id=self.index, task_ids=indices)


def register_all(members):
    calls = [member.register() for member in members]
    return [member.registered(call) for member, call in zip(members, calls)]
