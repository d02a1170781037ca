"""Datasets in this process: what each op gives, in which order, and what is told when it is wrong."""

import copy
import inspect
import os
import pathlib
import pickle
import struct

import numpy
import pytest

import data_functions
import lockstep
from lockstep import data
from test_imports import PACKAGE, PYTHON, needs_frameworks
from programs import Program

HERE = pathlib.Path(__file__).name


def numbers(dataset):
    return [one.tolist() for one in dataset.local()]


# --- Sources ------------------------------------------------------------------------------------


def test_range_counts_as_pythons():
    assert numbers(data.range(5)) == [0, 1, 2, 3, 4]
    assert numbers(data.range(2, 11, 3)) == [2, 5, 8]
    assert numbers(data.range(5, 0, -2)) == [5, 3, 1]
    assert numbers(data.range(0)) == []


def test_elements_are_arrays_that_cannot_be_written():
    [element] = data.range(1).local()
    assert (element.dtype, element.shape, element.flags.writeable) == ("int64", (), False)
    with pytest.raises(ValueError, match="read-only"):
        element[...] = 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                   "uint32", "uint64", "float16", "float32", "float64"])
def test_arrays_come_row_by_row(dtype):
    rows = (numpy.arange(24) % 7).astype(dtype).reshape(4, 2, 3)
    came = list(data.array(rows).local())
    assert len(came) == 4 and all(one.dtype == rows.dtype for one in came)
    assert numpy.array_equal(numpy.stack(came), rows)


def test_arrays_by_name_come_as_dicts():
    images = numpy.arange(12, dtype="float32").reshape(3, 4)[:, ::2]
    elements = list(data.array({"image": images, "label": numpy.array([7, 8, 9])}).local())
    assert [list(one) for one in elements] == [["image", "label"]] * 3
    assert elements[2]["image"].tolist() == [8, 10] and int(elements[2]["label"]) == 9


def test_npy_files_come_in_the_order_of_their_names(tmp_path):
    for name, first in ("b", 10), ("a", 0):
        numpy.save(tmp_path / f"{name}.npy", numpy.arange(first, first + 6).reshape(3, 2))
    dataset = data.npy(tmp_path / "*.npy")
    assert dataset.spec is None  # only the files can tell
    assert numbers(dataset) == [[0, 1], [2, 3], [4, 5], [10, 11], [12, 13], [14, 15]]
    assert dataset.local().spec == data.Leaf("int64", (2,))
    assert numbers(data.npy([str(tmp_path / "b.npy"), tmp_path / "a.npy"]))[0] == [10, 11]


def test_windows_of_tokens(tmp_path):
    (tmp_path / "tokens.bin").write_bytes(numpy.arange(10, dtype="uint16").tobytes())
    path = str(tmp_path / "tokens.bin")
    assert numbers(data.windows(path, "uint16", 4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert numbers(data.windows(path, numpy.uint16, 4, stride=3)) == [
        [0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]


def test_records_of_a_fixed_length(tmp_path):
    (tmp_path / "r.bin").write_bytes(bytes(range(9)))
    assert numbers(data.records(tmp_path / "r.bin", bytes=3)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_lines_are_texts_or_bytes(tmp_path):
    (tmp_path / "l.txt").write_bytes("eins\nzwölf\r\n\nlast".encode())
    lines = data.lines(tmp_path / "l.txt")
    assert list(lines.local()) == ["eins", "zwölf", "", "last"]
    assert list(lines.batch(3).local()) == [["eins", "zwölf", ""], ["last"]]
    assert list(data.lines(tmp_path / "l.txt", text=False).local())[1] == "zwölf".encode()


def crc32c_masked(value):
    crc = 0xFFFFFFFF
    for byte in value:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord_of(values):
    parts = []
    for value in values:
        length = struct.pack("<Q", len(value))
        parts += [length, struct.pack("<I", crc32c_masked(length)), value,
                  struct.pack("<I", crc32c_masked(value))]
    return b"".join(parts)


def test_tfrecords_are_bytes(tmp_path):
    values = [b"", b"a", b"long" * 100]
    (tmp_path / "t.tfrecord").write_bytes(tfrecord_of(values))
    assert list(data.tfrecord(tmp_path / "*.tfrecord").local()) == values


# --- What is made of them -----------------------------------------------------------------------


def test_shuffle_is_an_order_that_the_seed_decides():
    once = numbers(data.range(1000).shuffle(seed=7))
    assert sorted(once) == list(range(1000)) and once != list(range(1000))
    assert numbers(data.range(1000).shuffle(seed=7)) == once
    assert numbers(data.range(1000).shuffle(seed=8)) != once


def test_each_repetition_has_its_own_order():
    twice = numbers(data.range(50).shuffle(seed=1).repeat(2))
    assert sorted(twice[:50]) == sorted(twice[50:]) == list(range(50)) and twice[:50] != twice[50:]
    same = numbers(data.range(50).shuffle(seed=1, reshuffle=False).repeat(2))
    assert same[:50] == same[50:]


def test_take_skip_and_batch():
    assert numbers(data.range(10).skip(3).take(4)) == [3, 4, 5, 6]
    assert numbers(data.range(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert numbers(data.range(5).batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
    assert numbers(data.range(4).batch(2).batch(2)) == [[[0, 1], [2, 3]]]


def test_repeat_for_ever_goes_on():
    elements = data.range(3).repeat().local()
    assert [int(next(elements)) for _ in range(8)] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_map_and_filter_run_what_the_lambda_says():
    squares = data.range(10).filter(lambda x: x % 3 == 0).map(lambda x: {"n": x, "sq": x * x})
    assert [(int(one["n"]), int(one["sq"])) for one in squares.local()] == [
        (0, 0), (3, 9), (6, 36), (9, 81)]


def test_expressions_compute_as_numpy_does():
    rows = numpy.random.default_rng(3).normal(size=(20, 5)).astype("float32")
    mapped = data.array(rows).map(lambda x: data.where(x > 0, x * 2.0, abs(x) - x.sum()))
    for row, came in zip(rows, mapped.local()):
        assert came.dtype == "float32"
        numpy.testing.assert_allclose(came, numpy.where(row > 0, row * 2, abs(row) - row.sum()),
                                      rtol=1e-5)


def test_fields_are_kept_and_added():
    source = data.array({"a": numpy.arange(3), "b": numpy.ones(3, "float32")})
    came = list(source.map(lambda row: {**row, "c": row["a"] + row["b"]}).local())
    assert list(came[2]) == ["a", "b", "c"] and came[2]["c"] == 3.0


def test_concat_zip_and_mix():
    assert numbers(data.concat(data.range(2), data.range(5, 7))) == [0, 1, 5, 6]
    pairs = data.zip(data.array({"x": numpy.arange(3)}), y=data.range(10, 20))
    assert [(int(one["x"]), int(one["y"])) for one in pairs.local()] == [(0, 10), (1, 11), (2, 12)]
    mixed = numbers(data.mix([data.range(0, 100), data.range(1000, 1100)], [3, 1]))
    assert sum(one >= 1000 for one in mixed[:40]) == 10
    assert [one for one in mixed if one < 1000] == list(range(len([1 for one in mixed if one < 1000])))


def test_a_dataset_never_changes():
    base = data.range(6)
    doubled, batched = base.map(lambda x: x * 2), base.batch(3)
    assert numbers(base) == [0, 1, 2, 3, 4, 5]
    assert numbers(doubled) == [0, 2, 4, 6, 8, 10]
    assert numbers(batched) == [[0, 1, 2], [3, 4, 5]]


def test_segments_do_not_change_the_elements():
    dataset = data.range(100).shuffle(seed=3).repeat(2).map(lambda x: x * 3).batch(7)
    whole = numbers(dataset)
    for positions in (1, 7, 20, 1000):
        assert numbers(dataset.segment(positions)) == whole


# --- What it is ---------------------------------------------------------------------------------


def test_the_spec_is_known_before_anything_is_read():
    assert data.range(3).spec == data.Leaf("int64", ())
    batched = data.array({"x": numpy.zeros((4, 2), "float32"), "y": numpy.zeros(4, "int8")}).batch(2)
    assert batched.spec == {"x": data.Leaf("float32", (None, 2)), "y": data.Leaf("int8", (None,))}
    assert str(data.Leaf("float32", (None, 2))) == "float32[?,2]"


def test_the_length_when_it_is_known(tmp_path):
    assert len(data.range(10).repeat(3).batch(4)) == 8
    assert len(data.range(10).batch(4, drop_remainder=True)) == 2
    with pytest.raises(TypeError, match="no end"):
        len(data.range(10).repeat())
    for unknown in (data.range(10).filter(lambda x: x > 3), data.lines(tmp_path / "*")):
        with pytest.raises(TypeError, match="not known"):
            len(unknown)


def test_the_identity_is_that_of_the_meaning():
    def build(seed):
        return data.range(10).shuffle(seed=seed).map(lambda x: x + 1)

    assert build(1).identity == build(1).identity != build(2).identity
    assert len(build(1).identity) == 32


def test_it_tells_what_it_is():
    line = inspect.currentframe().f_lineno + 1
    dataset = data.range(10).map(lambda x: x / 2).batch(4)
    assert repr(dataset) == "<lockstep.data.Dataset range.map.batch>"
    text = dataset.explain()
    assert "map(expression='(div _ 2)') of #0" in text and "float64" in text
    assert f"{HERE}:{line}" in text and dataset.identity in text


def test_datasets_can_be_pickled_and_iterators_not():
    dataset = data.range(10).shuffle(seed=1).batch(3)
    for again in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert numbers(again) == numbers(dataset) and again.identity == dataset.identity
    with pytest.raises(TypeError, match="belongs to its process"):
        pickle.dumps(dataset.local())


def test_a_dataset_is_not_iterated_over_itself():
    with pytest.raises(TypeError, match=r"local\(\)"):
        iter(data.range(3))


# --- What is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: data.range(3).map(lambda x: x["a"]),
    lambda: data.array({"a": numpy.zeros(3)}).map(lambda row: row["b"]),
    lambda: data.range(3).filter(lambda x: x + 1),
    lambda: data.array(numpy.zeros((3, 2))).map(lambda x: x[5]),
    lambda: data.concat(data.range(3), data.array(numpy.zeros(3))),
    lambda: data.array({"a": numpy.zeros(3), "b": numpy.zeros(4)}),
    lambda: data.range(10).batch(3).shuffle(seed=1),
], ids=["no fields", "no such field", "no bool", "beyond the end", "not alike", "other lengths",
        "shuffled batches"])
def test_a_definition_that_is_wrong_is_told_at_its_line(make):
    dataset = make()
    with pytest.raises(lockstep.InvalidArgument) as caught:
        dataset.local()
    assert caught.value.reason == "definition_invalid"
    line = make.__code__.co_firstlineno
    assert f"{HERE}:{line}: " in str(caught.value), caught.value


@pytest.mark.parametrize(("call", "error"), [
    (lambda: data.range("3"), TypeError),
    (lambda: data.range(1, 2, 0), ValueError),
    (lambda: data.range(3).batch(0), ValueError),
    (lambda: data.range(3).take(-1), ValueError),
    (lambda: data.range(3).repeat(-2), ValueError),
    (lambda: data.range(3).shuffle("a"), TypeError),
    (lambda: data.range(3).map(3), TypeError),
    (lambda: data.range(3).on_error("ignore"), ValueError),
    (lambda: data.range(3).on_error("fail", budget=3), ValueError),
    (lambda: data.npy([]), ValueError),
    (lambda: data.npy([3]), TypeError),
    (lambda: data.npy(b"a"), TypeError),
    (lambda: data.records("a", bytes=0), ValueError),
    (lambda: data.array(["a", "b"]), TypeError),
    (lambda: data.array({1: numpy.zeros(3)}), TypeError),
    (lambda: data.concat(data.range(3)), ValueError),
    (lambda: data.concat(data.range(3), 4), TypeError),
    (lambda: data.mix([data.range(3)], [1, 2]), ValueError),
], ids=str)
def test_arguments_that_make_no_sense_are_refused_at_once(call, error):
    with pytest.raises(error):
        call()


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(lockstep.NotFound, match=r"none-\*\.npy") as caught:
        data.npy(tmp_path / "none-*.npy").local()
    assert caught.value.reason == "source_missing"


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path):
    path = tmp_path / "r.bin"
    path.write_bytes(bytes(4000))
    elements = data.records(path, bytes=4).segment(10).local()
    next(elements)
    path.write_bytes(bytes(2000))
    with pytest.raises(lockstep.Error, match=r"r\.bin") as caught:
        list(elements)
    assert caught.value.reason == "source_changed"


def poisoned(tmp_path):
    content = bytearray(tfrecord_of([bytes([n]) * 10 for n in range(20)]))
    record = 8 + 4 + 10 + 4
    for n in (3, 4, 11):
        content[n * record + 12] ^= 1
    (tmp_path / "p.tfrecord").write_bytes(content)
    return data.tfrecord(tmp_path / "p.tfrecord")


def test_a_poisoned_record_fails_with_its_position(tmp_path):
    elements = poisoned(tmp_path).local()
    came = []
    with pytest.raises(lockstep.DataLoss, match=r"at position 3: .*p\.tfrecord") as caught:
        came.extend(elements)
    assert caught.value.reason == "record_poisoned"
    assert came == [bytes([n]) * 10 for n in range(len(came))]
    with pytest.raises(lockstep.DataLoss):  # and stays failed
        next(elements)


def test_poisoned_records_are_skipped_where_the_policy_says_so(tmp_path):
    came = [one[0] for one in poisoned(tmp_path).on_error("skip").local()]
    assert came == [n for n in range(20) if n not in (3, 4, 11)]


def test_a_budget_of_poisoned_records_is_one(tmp_path):
    elements = poisoned(tmp_path).on_error("skip", budget=2).local()
    with pytest.raises(lockstep.Error) as caught:
        list(elements)
    assert caught.value.reason == "record_poisoned"
    assert len(list(poisoned(tmp_path).on_error("skip", budget=3).local())) == 17


def test_the_policy_holds_for_what_was_said_before_it():
    dataset = data.range(9).map(lambda x: 6 // (x - 3)).on_error("skip").map(lambda x: x + 1)
    assert "on_error='skip'" in dataset.explain().splitlines()[3]
    assert len(list(dataset.local())) == 8
    with pytest.raises(lockstep.Error):
        list(data.range(9).on_error("skip").map(lambda x: 6 // (x - 3)).local())


# --- Python functions ---------------------------------------------------------------------------


def test_a_python_function_runs_in_this_process():
    came = numbers(data.range(5).map(data_functions.pid, returns="int64").batch(5))
    assert came == [[os.getpid()] * 5]
    assert numbers(data.range(5).map(data_functions.double)) == [0, 2, 4, 6, 8]
    assert numbers(data.range(5).map("data_functions:double").map(lambda x: x + 1)) == [1, 3, 5, 7, 9]


def test_a_python_function_takes_and_gives_fields():
    source = data.array({"x": numpy.arange(6, dtype="float32").reshape(3, 2), "n": numpy.arange(3)})
    for returns in ("sum:float64;text:text", {"sum": "float64", "text": data.Leaf("text", ())}):
        mapped = source.map(data_functions.describe, returns=returns)
        assert mapped.spec == {"sum": data.Leaf("float64", ()), "text": data.Leaf("text", ())}
        assert [(float(one["sum"]), one["text"]) for one in mapped.local()] == [
            (1.0, "row 0"), (5.0, "row 1"), (9.0, "row 2")]


def test_what_a_python_function_is_given_cannot_be_written():
    rows = numpy.arange(6, dtype="int16").reshape(2, 3)
    assert numbers(data.array(rows).map(data_functions.sees)) == [[2, 1, 0], [5, 4, 3]]


def test_what_a_python_function_raises_is_told_with_its_traceback():
    with pytest.raises(lockstep.Error, match="five is not for me") as caught:
        list(data.range(9).map(data_functions.fails_at_five).local())
    assert caught.value.reason == "function_failed"
    assert isinstance(caught.value.__cause__, ValueError)
    assert "fails_at_five" in str(caught.value) and f"{HERE}:" in str(caught.value)
    assert numbers(data.range(9).map(data_functions.fails_at_five).on_error("skip")) == [
        0, 1, 2, 3, 4, 6, 7, 8]


def test_a_python_function_that_returns_something_else_is_told():
    with pytest.raises(lockstep.Error, match="int64.*float64") as caught:
        list(data.range(3).map(data_functions.wrong_type).local())
    assert caught.value.reason == "function_failed"


def test_ctrl_c_in_a_python_function_is_ctrl_c():
    with pytest.raises(KeyboardInterrupt):
        list(data.range(3).map(data_functions.interrupts).local())


def test_a_module_that_is_not_there_is_told():
    with pytest.raises(lockstep.Error, match="no_such_module"):
        list(data.range(3).map("no_such_module:f").local())


def test_what_a_python_function_returns_is_to_be_said_when_the_files_decide(tmp_path):
    with pytest.raises(lockstep.InvalidArgument, match="returns="):
        data.npy(tmp_path / "*.npy").map(data_functions.double)


# --- The memory ---------------------------------------------------------------------------------


def test_elements_outlive_their_iterator():
    with data.array(numpy.arange(3000, dtype="float32").reshape(3, 1000)).batch(2).local() as elements:
        kept = list(elements)
    del elements
    assert [float(one.sum()) for one in kept] == [1999000.0, 2499500.0]
    assert all(one.ctypes.data % 64 == 0 for one in kept)


@needs_frameworks
@pytest.mark.timeout(300)
def test_torch_and_jax_see_the_same_memory():
    with Program("""
        import jax, numpy, torch
        from lockstep import data
        rows = numpy.arange(120_000, dtype="float32").reshape(40, 3000)
        for element in data.array({"x": rows, "n": numpy.arange(40)}).batch(20).local():
            address = element["x"].ctypes.data
            theirs = data.as_torch(element)
            assert theirs["x"].data_ptr() == address and theirs["n"].tolist() == element["n"].tolist()
            jaxs = data.as_jax(element)
            assert jaxs["x"].unsafe_buffer_pointer() == address
            assert float(jaxs["x"][-1, -1]) == float(theirs["x"][-1, -1]) == element["x"][-1, -1]
        assert data.as_torch({"t": ["a"]}) == {"t": ["a"]}
        print("shared")
        """, python=str(PYTHON), PYTHONPATH=str(PACKAGE)) as program:
        code, said = program.end()
    assert code == 0 and "shared" in said, said
