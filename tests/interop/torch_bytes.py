"""Conversations with a TCPStore server byte by byte: each command of the protocol, and where ours differs.

A conversation returns what came back, which the table beside it says to the byte. Needs no torch.
"""

import socket
import struct

MAGIC = struct.pack("<I", 0x3C85F7CE)
(VALIDATE, SET, COMPARE_SET, GET, ADD, CHECK, WAIT, NUM_KEYS, DELETE, APPEND, MULTI_GET, MULTI_SET, CANCEL,
 PING, PUSH, POP, LENGTH, LIST, BARRIER) = (bytes([op]) for op in range(19))
HELLO = VALIDATE + MAGIC
CLOSED = "closed"
SILENT = "silent"
READY, NOT_READY, CANCELLED = b"\0", b"\1", b"\1"
NOTHING = bytes(8)

LIMIT_S = 20
SHORT_S = 0.5  # from the other server something may never come


def number(value):
    return struct.pack("<q", value)


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return number(len(value)) + value


def keys(*names):
    return number(len(names)) + b"".join(text(name) for name in names)


class Connection:
    """One client. `patience`: for what has to come."""

    def __init__(self, address, patience):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=patience)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._fences = 0

    def send(self, *parts):
        try:
            self._socket.sendall(b"".join(parts))
        except ConnectionError:
            pass  # what is received says so
        return self

    def receive(self, count):
        """So many bytes, or why they did not come."""
        got = b""
        try:
            while len(got) < count:
                more = self._socket.recv(count - len(got))
                if not more:
                    return got or CLOSED
                got += more
        except TimeoutError:
            return got or SILENT
        except ConnectionError:
            return got or CLOSED
        return got

    def ask(self, *parts, count=8):
        return self.send(*parts).receive(count)

    def value(self, *parts):
        """A length, and so many bytes."""
        head = self.ask(*parts, count=8)
        if not isinstance(head, bytes) or len(head) < 8:
            return head
        length, = struct.unpack("<q", head)
        return head + (self.receive(length) if length else b"")

    def fence(self):
        """All that was sent has been taken, and nothing of it is left to be received."""
        self._fences += 1
        ping = struct.pack("<I", 0xF0 + self._fences)
        came = self.ask(PING, ping, count=4)
        return "nothing" if came == ping else came

    def leave(self):
        self._socket.close()


class Talk:
    """The connections of one conversation, and keys of its own."""

    def __init__(self, address, name, patience=LIMIT_S):
        self._address, self._name, self._patience = address, name, patience

    def new(self, greeted=True):
        """A connection; one that has greeted is known to the server from here on."""
        connection = Connection(self._address, self._patience)
        if greeted:
            connection.send(HELLO).fence()
        return connection

    def key(self, name):
        return f"/{self._name}/{name}"


EXACT = {}  # name: (conversation, what comes on either server)
BETTER = {}  # name: (conversation, what comes from ours; torch's comes to something else)


def exact(*expected):
    return lambda function: EXACT.setdefault(function.__name__, (function, list(expected))) and function


def better(*expected):
    return lambda function: BETTER.setdefault(function.__name__, (function, list(expected))) and function


@exact(b"\x4d\0\0\0")
def op_0_validate_and_13_ping(talk):
    return [talk.new().ask(PING, b"\x4d\0\0\0", count=4)]


@exact("nothing", text("value"), text(""))
def op_1_set(talk):
    a, k = talk.new(), talk.key("k")
    return [a.send(SET, text(k), text("value")).fence(), a.value(GET, text(k)),
            a.value(SET, text(k), text(""), GET, text(k))]


@exact(text("new"), text("newer"), text("newer"), text("newer"), text("sent"), NOTHING)
def op_2_compare_set(talk):
    a, k, m = talk.new(), talk.key("k"), talk.key("missing")
    return [a.value(COMPARE_SET, text(k), text(old), text(new))
            for old, new in (("", "new"), ("new", "newer"), ("new", "no"), ("", "no"))] + [
                a.value(COMPARE_SET, text(m), text("sent"), text("no")), a.value(GET, text(m))]


@exact(NOTHING, text(bytes(range(256))))
def op_3_get(talk):
    a, k = talk.new(), talk.key("k")
    return [a.value(GET, text(k)), a.value(SET, text(k), text(bytes(range(256))), GET, text(k))]


@exact(number(5), number(-2), text("-2"), number(13), text("13"))
def op_4_add(talk):
    a, k, t = talk.new(), talk.key("k"), talk.key("text")
    return [a.ask(ADD, text(k), number(5)), a.ask(ADD, text(k), number(-7)), a.value(GET, text(k)),
            a.ask(SET, text(t), text(" 12abc"), ADD, text(t), number(1)), a.value(GET, text(t))]


@exact(CLOSED, text("abc"))
def op_4_add_to_a_text(talk):
    a, b, k = talk.new(), talk.new(), talk.key("k")
    return [a.ask(SET, text(k), text("abc"), ADD, text(k), number(1)), b.value(GET, text(k))]


@exact(READY, NOT_READY, NOT_READY)
def op_5_check(talk):
    a, k, m = talk.new(), talk.key("k"), talk.key("missing")
    return [a.ask(SET, text(k), text(""), CHECK, keys(k), count=1), a.ask(CHECK, keys(k, m), count=1),
            a.ask(CHECK, keys(m), count=1)]


@exact(READY, "nothing", "nothing", READY, READY)
def op_6_wait(talk):
    a, b, k, m = talk.new(), talk.new(), talk.key("k"), talk.key("later")
    told = [a.ask(WAIT, keys(), count=1), a.send(WAIT, keys(k, m)).fence()]
    b.send(SET, text(m), text("")).fence()
    told.append(a.fence())
    b.send(SET, text(k), text(""))
    return told + [a.receive(1), a.ask(WAIT, keys(k, m), count=1)]


@exact(2)
def op_7_num_keys(talk):
    a = talk.new()
    before, = struct.unpack("<q", a.ask(NUM_KEYS))
    for name in ("1", "2"):
        a.send(SET, text(talk.key(name)), text(""))
    a.send(PUSH, text(talk.key("q")), text(""))
    after, = struct.unpack("<q", a.ask(NUM_KEYS))
    return [after - before]


@exact(number(1), number(0), NOTHING)
def op_8_delete(talk):
    a, k = talk.new(), talk.key("k")
    return [a.ask(SET, text(k), text("v"), DELETE, text(k)), a.ask(DELETE, text(k)), a.value(GET, text(k))]


@exact("nothing", text("12"))
def op_9_append(talk):
    a, k = talk.new(), talk.key("k")
    return [a.send(APPEND, text(k), text("1"), APPEND, text(k), text("2")).fence(), a.value(GET, text(k))]


@exact("nothing", text("1") + NOTHING + text("2"))
def op_10_multi_get(talk):
    a, k, m, n = talk.new(), talk.key("k"), talk.key("missing"), talk.key("n")
    a.send(SET, text(k), text("1"), SET, text(n), text("2"))
    return [a.send(MULTI_GET, keys()).fence(), a.ask(MULTI_GET, keys(k, m, n), count=26)]


@exact("nothing", "nothing", text("1") + text("2"))
def op_11_multi_set(talk):
    a, k, n = talk.new(), talk.key("k"), talk.key("n")
    return [a.send(MULTI_SET, number(0)).fence(),
            a.send(MULTI_SET, number(2), text(k), text("1"), text(n), text("2")).fence(),
            a.ask(MULTI_GET, keys(k, n), count=18)]


@exact(CANCELLED, CANCELLED, "nothing", READY + CANCELLED, "nothing")
def op_12_cancel_wait(talk):
    a, b, k, n = talk.new(), talk.new(), talk.key("k"), talk.key("n")
    told = [a.ask(CANCEL, count=1), a.ask(WAIT, keys(k), CANCEL, count=1)]
    b.send(SET, text(k), text("")).fence()
    told.append(a.fence())
    a.send(WAIT, keys(n)).fence()
    b.send(SET, text(n), text("")).fence()
    return told + [a.ask(CANCEL, count=2), a.fence()]


@exact("nothing", number(2), number(2) + text("1"), number(1) + text(""), number(0), number(0))
def op_14_push_15_pop_16_length(talk):
    a, k = talk.new(), talk.key("q")
    return [a.send(PUSH, text(k), text("1"), PUSH, text(k), text("")).fence(), a.ask(LENGTH, text(k)),
            a.ask(POP, text(k), count=17), a.ask(POP, text(k), count=16), a.ask(POP, text(k)),
            a.ask(LENGTH, text(k))]


@exact(READY, READY, number(1), "nothing")
def a_queue_is_there_for_check_and_wait(talk):
    a, b, k = talk.new(), talk.new(), talk.key("q")
    a.send(WAIT, keys(k)).fence()
    b.send(PUSH, text(k), text("1"))
    return [a.receive(1), b.ask(CHECK, keys(k), count=1), b.ask(LENGTH, text(k)), a.fence()]


@exact(READY, "nothing")
def a_push_wakes_one(talk):
    a, b, c, k = talk.new(), talk.new(), talk.new(), talk.key("q")
    a.send(WAIT, keys(k)).fence()
    b.send(WAIT, keys(k)).fence()
    c.send(PUSH, text(k), text("1")).fence()
    return [a.receive(1), b.fence()]


@exact({"1": True, "2": True, "q": False})
def op_17_list(talk):
    a = talk.new()
    for name in ("1", "2"):
        a.send(SET, text(talk.key(name)), text(""))
    a.send(PUSH, text(talk.key("q")), text(""))
    count, = struct.unpack("<q", a.ask(LIST))
    listed = {a.value()[8:].decode() for _ in range(count)}
    a.fence()
    return [{name: talk.key(name) in listed for name in ("1", "2", "q")}]


@exact("nothing", text("1"), READY, READY, READY, READY)
def op_18_barrier(talk):
    a, b, k, one = talk.new(), talk.new(), talk.key("b"), talk.key("one")
    told = [a.send(BARRIER, text(k), number(2)).fence(), b.value(GET, text(k)),
            b.ask(BARRIER, text(k), number(2), count=1), a.receive(1)]
    return told + [a.ask(BARRIER, text(k), number(2), count=1), a.ask(BARRIER, text(one), number(1), count=1)]


@exact(CLOSED)
def op_19_is_none(talk):
    return [talk.new().ask(bytes([19]), count=1)]


@exact(text("v" * 10), CLOSED, CLOSED, CLOSED, CLOSED)
def limits(talk):
    longest = "k" * 8192
    a = talk.new()
    return [a.value(SET, text(longest), text("v" * 10), GET, text(longest)),
            talk.new().ask(GET, number(8193), b"k" * 8193, count=1),
            talk.new().ask(SET, text(talk.key("k")), number((8 << 20) + 1), b"v" * 1000, count=1),
            talk.new().ask(WAIT, number(131_073), count=1),
            talk.new().ask(MULTI_GET, number(131_073), count=1)]


@better(b"\x4d\0\0\0")
def a_handshake_in_pieces(talk):
    a = talk.new(greeted=False)
    for byte in HELLO:
        a.send(bytes([byte]))
        # Nothing tells that one piece was taken before the next; if none is, this passes on both.
        a._socket.settimeout(0.02)
        a.receive(1)
    a._socket.settimeout(talk._patience)
    return [a.ask(PING, b"\x4d\0\0\0", count=4)]


@better("nothing", READY)
def a_wait_for_a_queue_and_a_key(talk):
    a, b, q, k = talk.new(), talk.new(), talk.key("q"), talk.key("k")
    b.send(PUSH, text(q), text("1")).fence()
    told = [a.send(WAIT, keys(q, k)).fence()]
    b.send(SET, text(k), text("")).fence()
    return told + [a.receive(1)]


@better("nothing")
def a_compare_set_that_stores_nothing_wakes_nobody(talk):
    a, b, k = talk.new(), talk.new(), talk.key("k")
    a.send(WAIT, keys(k)).fence()
    b.value(COMPARE_SET, text(k), text("old"), text("new"))
    return [a.fence()]


@better("nothing", number(2), number(3), READY)
def a_set_does_not_release_a_barrier(talk):
    a, b, k = talk.new(), talk.new(), talk.key("k")
    a.send(BARRIER, text(k), number(3)).fence()
    b.send(SET, text(k), text("1")).fence()
    return [a.fence(), b.ask(ADD, text(k), number(1)), b.ask(ADD, text(k), number(1)), a.receive(1)]


@better(READY)
def a_barrier_that_makes_a_key_releases_its_wait(talk):
    a, b, k = talk.new(), talk.new(), talk.key("k")
    a.send(WAIT, keys(k)).fence()
    b.send(BARRIER, text(k), number(2)).fence()
    return [a.receive(1)]


@better("nothing", READY)
def a_key_that_was_deleted_meanwhile_is_waited_for_again(talk):
    a, b, k, n = talk.new(), talk.new(), talk.key("k"), talk.key("n")
    a.send(WAIT, keys(k, n)).fence()
    b.send(SET, text(k), text("")).ask(DELETE, text(k))
    b.send(SET, text(n), text("")).fence()
    told = [a.fence()]
    b.send(SET, text(k), text(""))
    return told + [a.receive(1)]


@better(READY, READY)
def two_waits_of_one_connection(talk):
    a, b, k, n = talk.new(), talk.new(), talk.key("k"), talk.key("n")
    a.send(WAIT, keys(k), WAIT, keys(n)).fence()
    b.send(SET, text(k), text("")).fence()
    told = [a.receive(1)]
    b.send(SET, text(n), text("")).fence()
    return told + [a.receive(1)]


@better(READY, READY)
def a_value_whose_taker_has_gone_is_anothers(talk):
    a, b, c, q = talk.new(), talk.new(), talk.new(), talk.key("q")
    a.send(WAIT, keys(q)).fence()
    b.send(WAIT, keys(q)).fence()
    c.send(PUSH, text(q), text("1")).fence()
    told = [a.receive(1)]
    a.leave()
    return told + [b.receive(1)]


# What is no client of torch's: closed at once here. What torch's server does with it is its own affair.
FOREIGN = {
    "another_number": VALIDATE + b"\x01\x02\x03\x04",
    "http": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "http_2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": bytes.fromhex("160301020001"),
    "a_command_first": SET + text("/a") + text("b"),
    "validate_twice": HELLO + HELLO,
}


def converse(conversation, address, name, patience=LIMIT_S):
    return conversation(Talk(address, name, patience))
