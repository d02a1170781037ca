"""The keys of a job."""

import threading

import pytest

import lockstep
from conftest import LIMIT_S


@pytest.fixture
def kv(crowd):
    (me,) = crowd(1)
    return me.kv


def test_what_is_set_can_be_got(kv):
    revision = kv.set("config/lr", b"0.1")
    assert kv.get("config/lr") == b"0.1"
    assert kv.entry("config/lr") == lockstep.KeyEntry("config/lr", b"0.1", revision)
    assert kv.set("config/lr", "ä") > revision
    assert kv.get("config/lr", timeout=LIMIT_S) == "ä".encode()


def test_bytes_of_any_kind_arrive(kv):
    every = bytes(range(256))
    for value in (every, bytearray(every), memoryview(every)):
        kv.set("bytes", value)
        assert kv.get("bytes") == every
    kv.set("empty", b"")
    assert kv.get("empty") == b""
    with pytest.raises(TypeError):
        kv.set("number", 7)


def test_a_key_that_is_not_there(kv):
    with pytest.raises(lockstep.NotFound) as raised:
        kv.get("nowhere")
    assert raised.value.reason == "key_not_found" and "nowhere" in str(raised.value)
    assert kv.entry("nowhere") is None


def test_a_key_is_not_overwritten_when_told_so(kv):
    kv.set("once", b"1", overwrite=False)
    with pytest.raises(lockstep.AlreadyExists):
        kv.set("once", b"2", overwrite=False)
    assert kv.get("once") == b"1"


def test_wait_returns_when_the_key_comes(crowd):
    first, second = crowd(2)
    found = []
    thread = threading.Thread(target=lambda: found.append(first.kv.wait("late", timeout=LIMIT_S)))
    thread.start()
    second.kv.set("late", b"now")
    thread.join(LIMIT_S)
    assert found == [b"now"]


def test_wait_times_out(kv):
    with pytest.raises(lockstep.DeadlineExceeded) as raised:
        kv.wait("never", timeout=0.2)
    assert "never" in str(raised.value)


def test_wait_many_keeps_the_order_asked(kv):
    for name in "abc":
        kv.set(name, name)
    assert kv.wait_many(["c", "a", "b"], timeout=LIMIT_S) == [b"c", b"a", b"b"]
    with pytest.raises(TypeError):
        kv.wait_many("abc")


def test_compare_and_set(kv):
    made = kv.compare_and_set("leader", None, b"me")
    assert made.swapped and made.entry.value == b"me"
    assert not kv.compare_and_set("leader", None, b"you").swapped
    lost = kv.compare_and_set("leader", b"you", b"they")
    assert not lost.swapped and lost.entry.value == b"me"
    assert kv.compare_and_set("leader", b"me", b"you").swapped
    revision = kv.entry("leader").revision
    assert kv.compare_and_set("leader", None, b"they", revision=revision).swapped
    assert not kv.compare_and_set("leader", None, b"we", revision=revision).swapped


def test_numbers(kv):
    assert kv.increment("count") == 1
    assert kv.increment("count", 4) == 5
    assert kv.increment("count", -2) == 3
    assert kv.max("count", 2) == 3
    assert kv.max("count", 10) == 10
    assert kv.get("count") == b"10"
    kv.set("word", b"ten")
    with pytest.raises(lockstep.Error) as raised:
        kv.increment("word")
    assert "word" in str(raised.value)


def test_delete_and_list(kv):
    for name in ("a/1", "a/2", "a/b/3", "c"):
        kv.set(name, name)
    assert [entry.key for entry in kv.list("a")] == ["a/1", "a/2", "a/b/3"]
    assert len(kv.list()) == 4
    assert kv.delete("a/1") == 1
    assert kv.delete("a/1") == 0
    assert kv.delete("a", below=True) == 2
    assert [entry.key for entry in kv.list()] == ["c"]


def test_what_is_below_nothing_is_everything(kv):
    kv.set("a/b", "1")
    kv.set("c", "2")
    with pytest.raises(lockstep.InvalidArgument):
        kv.delete("")
    assert kv.delete("", below=True) == 2
    assert kv.list("") == []


def test_a_key_with_a_time_to_live_goes(kv):
    kv.set("short", b"1", ttl=0.2)
    with kv.watch("short") as watch:
        while (changes := watch.next(LIMIT_S).changes) == () or changes[-1].value is not None:
            pass
    assert kv.entry("short") is None


def test_a_watch_tells_what_is_there_and_then_what_changes(kv):
    kv.set("a/1", b"1")
    with kv.watch("a") as watch:
        first = watch.next(LIMIT_S)
        assert first.snapshot and [change.key for change in first.changes] == ["a/1"]
        kv.set("a/2", b"2")
        second = next(watch)
        assert [(change.key, change.value) for change in second.changes] == [("a/2", b"2")]
        kv.delete("a/1")
        assert [(change.key, change.value) for change in next(watch).changes] == [("a/1", None)]
        with pytest.raises(lockstep.DeadlineExceeded):
            watch.next(0.1)
        kv.set("b", b"not ours")
        kv.set("a/3", b"3")
        assert [change.key for change in next(watch).changes] == ["a/3"]


def test_a_callback_follows_a_key(kv):
    seen = []
    done = threading.Event()

    def changed(changes):
        seen.extend(change.value for change in changes.changes)
        if b"last" in seen:
            done.set()

    watch = kv.on_change("a", changed)
    kv.set("a", b"first")
    kv.set("a", b"last")
    assert done.wait(LIMIT_S)
    watch.close()


def test_a_value_at_the_limit_can_be_set_read_and_watched(kv):
    value = bytes(63 << 20)
    kv.set("big", value)
    assert kv.get("big") == value
    with kv.watch("big") as watch:
        assert watch.next(LIMIT_S).changes[0].value == value
    with pytest.raises(lockstep.ResourceExhausted, match="value_bytes_max"):
        kv.set("big", value + b"1")


def test_what_cannot_be_sent_is_refused_at_once(crowd):
    (me,) = crowd(1)
    with pytest.raises(lockstep.ResourceExhausted, match="message_bytes_max") as raised:
        me.kv.set("big", bytes(64 << 20))
    assert raised.value.reason == "limit_exceeded"
    with pytest.raises(lockstep.InvalidArgument, match="above zero"):
        me.kv.set("k", b"v", ttl=0)
    me.kv.set("k", b"still here")
    assert me.kv.get("k") == b"still here"
