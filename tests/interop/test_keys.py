"""The key-value store through stock clients."""

import pytest

from members import all_of, assert_parked, refusal_of


@pytest.fixture
def two(make_job):
    return make_job(2).members()


@pytest.mark.row(58)
def test_row_058_an_existing_key_is_kept(two):
    one, other = two
    one.call("key_value_set", "k", "first")
    refused = other.refusal("key_value_set", "k", "second")
    assert refused.code == "ALREADY_EXISTS"
    assert "already exists" in refused.text
    assert other.call("key_value_try_get", "k") == "first"


@pytest.mark.row(59)
def test_row_059_an_existing_key_is_replaced_if_asked(two):
    one, other = two
    one.call("key_value_set", "k", "first")
    other.call("key_value_set", "k", "second", True)
    assert one.call("blocking_key_value_get", "k", 1000) == "second"


@pytest.mark.row(60, 77)
@pytest.mark.parametrize("spelling", ["a/b/c", "/a/b/c", "a/b/c/", "//a//b///c//"])
def test_row_060_slashes_do_not_matter(two, spelling):
    one, other = two
    one.call("key_value_set", spelling, "v")
    for other_spelling in ("a/b/c", "/a/b/c", "///a//b/c//"):
        assert other.call("key_value_try_get", other_spelling) == "v"
    assert other.call("key_value_dir_get", "/a/") == [("a/b/c", "v")]
    assert other.refusal("key_value_set", "a//b/c", "w").code == "ALREADY_EXISTS"


@pytest.mark.row(61)
def test_row_061_a_getter_outlives_the_deletion_of_its_key(two):
    one, other = two
    one.call("key_value_set", "gone", "old")
    one.call("key_value_set", "stays", "1")
    one.call("key_value_delete", "gone")
    waiting = other.start("blocking_key_value_get", "gone", 30_000)
    assert_parked(waiting)
    one.call("key_value_delete", "gone")
    assert_parked(waiting)

    one.call("key_value_set", "gone", "new")

    assert all_of([waiting]) == ["new"]
    assert one.call("key_value_try_get", "stays") == "1"


@pytest.mark.row(62)
def test_row_062_a_directory_is_deleted_with_all_below(two):
    one, other = two
    for key in ("d", "d/a", "d/b/c/d", "dx", "x/d/a"):
        one.call("key_value_set", key, key)
    other.call("key_value_delete", "d/")
    for key in ("d", "d/a", "d/b/c/d"):
        assert one.refusal("key_value_try_get", key).code == "NOT_FOUND"
    for key in ("dx", "x/d/a"):
        assert one.call("key_value_try_get", key) == key


@pytest.mark.row(63)
def test_row_063_try_get(two):
    one, other = two
    refused = one.refusal("key_value_try_get", "k")
    assert refused.code == "NOT_FOUND"
    assert "not found" in refused.text
    other.call("key_value_set", "k", "v")
    assert one.call("key_value_try_get", "k") == "v"
    other.call("key_value_delete", "k")
    assert one.refusal("key_value_try_get", "k").code == "NOT_FOUND"


@pytest.mark.row(64)
def test_row_064_increment(two):
    one, other = two
    one.call("key_value_set", "n", "1")
    assert other.call("key_value_increment", "n", 3) == 4
    assert one.call("key_value_increment", "absent", 10) == 10
    assert one.call("key_value_increment", "absent", 1) == 11
    assert other.call("key_value_increment", "absent", -20) == -9
    assert one.call("key_value_try_get", "absent") == "-9"


@pytest.mark.row(64)
def test_row_064_an_increment_answers_a_getter(two):
    one, other = two
    waiting = one.start("blocking_key_value_get", "n", 30_000)
    assert_parked(waiting)
    other.call("key_value_increment", "n", 7)
    assert all_of([waiting]) == ["7"]


@pytest.mark.row(64)
def test_row_064_increments_of_many_add_up(two):
    all_of([member.start("rounds", "key_value_increment", 100, "n", 1) for member in two * 4])
    assert two[0].call("key_value_try_get", "n") == "800"


@pytest.mark.mended("increment is limited to 32 bits")
@pytest.mark.row(64)
def test_row_064_increment_over_64_bits(two):
    one, other = two
    assert one.call("key_value_increment", "n", 3_000_000_000) == 3_000_000_000
    assert other.call("key_value_increment", "n", 3_000_000_000) == 6_000_000_000
    assert one.call("key_value_increment", "n", -(2**62)) == 6_000_000_000 - 2**62


@pytest.mark.row(65)
def test_row_065_increment_of_a_word(two):
    one, other = two
    one.call("key_value_set", "k", "word")
    refused = other.refusal("key_value_increment", "k", 1)
    assert refused.code == "FAILED_PRECONDITION"
    assert one.call("key_value_try_get", "k") == "word"


@pytest.mark.row(66, 67, 68, 69, 70, 71, 72)
def test_row_067_directories(two):
    one, other = two
    for key in ("d/b", "d/a", "d/n/e/s/t", "d", "dir_key", "x/d/y", "e/one"):
        one.call("key_value_set", key, f"<{key}>")

    def listed(directory):
        return other.call("key_value_dir_get", directory)

    assert listed("d") == [("d/a", "<d/a>"), ("d/b", "<d/b>"), ("d/n/e/s/t", "<d/n/e/s/t>")]
    assert listed("d/n") == [("d/n/e/s/t", "<d/n/e/s/t>")]
    assert listed("e/") == [("e/one", "<e/one>")]
    assert listed("nothing") == []
    assert listed("di") == []
    assert listed("dir_key") == []
    assert listed("") == []


@pytest.mark.row(74, 135)
def test_row_074_getters_before_and_after_the_key(two):
    one, other = two
    early = [one.start("blocking_key_value_get", "k", 30_000) for _ in range(3)]
    early.append(other.start("blocking_key_value_get_bytes", "k", 30_000))
    assert_parked(*early)
    other.call("key_value_set", "k", "v")
    assert all_of(early) == ["v", "v", "v", b"v"]
    assert one.call("blocking_key_value_get", "k", 1000) == "v"


@pytest.mark.row(75)
def test_row_075_what_is_not_there_may_be_deleted(two):
    two[0].call("key_value_delete", "never/was")
    two[0].call("key_value_set", "d/below", "v")
    two[1].call("key_value_delete", "d")
    assert two[0].call("key_value_dir_get", "d") == []


@pytest.mark.row(79)
def test_row_079_a_directory_of_ten_mebibytes(two):
    one, other = two
    values = {f"big/{number}": bytes([number]) * (1 << 20) for number in range(10)}
    all_of([one.start("key_value_set_bytes", key, value) for key, value in values.items()])
    assert dict(other.call("key_value_dir_get_bytes", "big")) == values


@pytest.mark.row(80)
def test_row_080_text_and_bytes(two):
    one, other = two
    raw = bytes(range(256)) + b"\x00\x00"
    one.call("key_value_set_bytes", "d/raw", raw)
    other.call("key_value_set_bytes", "d/empty", b"")
    assert other.call("blocking_key_value_get_bytes", "d/raw", 1000) == raw
    assert other.call("key_value_try_get_bytes", "d/raw") == raw
    assert one.call("blocking_key_value_get_bytes", "d/empty", 1000) == b""
    assert one.call("key_value_dir_get_bytes", "d") == [("d/empty", b""), ("d/raw", raw)]
    one.call("key_value_set", "t/ü", "grüße")
    assert other.call("key_value_dir_get", "t") == [("t/ü", "grüße")]
    assert one.refusal("key_value_set_bytes", "d/raw", b"x").code == "ALREADY_EXISTS"
    one.call("key_value_set_bytes", "d/raw", b"x", True)
    assert other.call("key_value_try_get_bytes", "d/raw") == b"x"


@pytest.mark.row(81)
@pytest.mark.parametrize("compressed", [True, False])
def test_row_081_compressed_or_not(make_job, compressed):
    one, other = make_job(2).members(use_compression=compressed)
    value = b"all work and no play " * (8 << 20 >> 4)
    one.call("key_value_set_bytes", "k", value)
    assert other.call("blocking_key_value_get_bytes", "k", 30_000) == value


@pytest.mark.row(81)
def test_row_081_compressed_messages_may_come_in_pieces(make_job, make_proxied):
    """Of a byte each, as a network may cut them; a compressed message is one from its first byte."""
    member, _ = make_proxied(make_job(1), 0, piece_bytes=1)
    member.call("connect")
    value = b"x" * 400
    for number in range(100):
        member.call("key_value_set_bytes", f"k/{number}", value)
    assert [stored for _, stored in member.call("key_value_dir_get_bytes", "k")] == [value] * 100


def test_a_get_times_out(two):
    refused = two[0].refusal("blocking_key_value_get", "never", 100)
    assert refused.text.startswith(
        "DEADLINE_EXCEEDED: GetKeyValue() timed out with key: never and duration: 100ms")


@pytest.mark.row(114)
def test_row_114_a_client_that_leaves_cancels_its_own_gets(two):
    one, other = two
    waiting = one.start("blocking_key_value_get", "never", 60_000)
    assert_parked(waiting)
    all_of([one.start("shutdown"), other.start("shutdown")])
    assert refusal_of(waiting).code == "CANCELLED"
