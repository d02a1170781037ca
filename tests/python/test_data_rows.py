"""What upstream's tests of tf.data service ask of reading, row by row (docs/conformance-data.md): real
server, real workers, this process's readers."""

import collections
import concurrent.futures
import itertools
import os
import signal
import threading

import numpy
import pytest

import lockstep
from conftest import LIMIT_S, each
from data_workers import Cluster, Worker
from lockstep import data

_names = (f"row-{n}" for n in itertools.count(1))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three workers, which run in a folder of their own."""
    with Cluster(3, tmp_path_factory.mktemp("rows")) as one:
        yield one


@pytest.fixture
def name():
    return next(_names)


def plain(elements):
    return [one.tolist() if hasattr(one, "tolist") else one for one in elements]


def read_all(dataset, cluster, name, **options):
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S, **options) as reader:
        return plain(reader)


def read_each(dataset, cluster, name, readers, **options):
    """What each of the consumers gets, all at the same time."""
    with concurrent.futures.ThreadPoolExecutor(readers) as pool:
        return list(pool.map(lambda index: read_all(dataset, cluster, name, consumer=index, **options),
                             range(readers)))


def counts_of(*parts):
    return collections.Counter(map(str, itertools.chain(*parts)))


# --- One reader ---------------------------------------------------------------------------------


def test_dispatch_row_058_a_worker_makes_squares(cluster, name):
    assert read_all(data.range(10).map(lambda x: x * x), cluster, name) == [n * n for n in range(10)]


@pytest.mark.parametrize("order", ["exact", "first_come", "rounds"])
def test_dispatch_row_059_an_empty_dataset_ends_at_once(cluster, name, order):
    assert read_all(data.range(0), cluster, name, order=order) == []
    everything_dropped = data.range(3).batch(10, drop_remainder=True)
    assert read_all(everything_dropped, cluster, f"{name}-dropped", order=order) == []


def test_dispatch_row_061_a_wait_that_is_closed_is_cancelled(name):
    with lockstep.serve() as server:  # without a worker
        reader = data.range(10).read(server.address, name=name, timeout=LIMIT_S)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next, reader)
            with pytest.raises(concurrent.futures.TimeoutError):
                waiting.result(0.2)
            reader.close()
            with pytest.raises(lockstep.Cancelled):
                waiting.result(LIMIT_S)
        with pytest.raises(lockstep.FailedPrecondition):  # and it stays closed
            next(reader)


def test_dispatch_row_062_the_end_is_told_again_and_again(cluster, name):
    with data.range(5).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        assert plain(reader) == list(range(5))
        for _ in range(3):
            with pytest.raises(StopIteration):
                next(reader)


def test_dispatch_row_064_errors_between_elements_stop_nothing_where_the_policy_says_so(cluster, name):
    dataset = data.range(20).map(lambda x: 100 // (x % 5)).on_error("skip")
    assert read_all(dataset, cluster, name) == [100 // (n % 5) for n in range(20) if n % 5]


# --- Many readers -------------------------------------------------------------------------------


def test_dispatch_row_063_ten_readers_share_all_and_all_see_the_end(cluster, name):
    parts = read_each(data.range(1000).segment(10), cluster, name, 10, order="first_come")
    assert sorted(itertools.chain(*parts)) == list(range(1000))


# What upstream keeps a cache for: each trainer makes the elements of its own here, and none is skipped.
def test_dispatch_row_065_ten_trainers_each_get_all(cluster, name):
    def train(number):
        return read_all(data.range(10), cluster, f"{name}-{number}")

    assert each(range(10), train) == [list(range(10))] * 10


def test_dispatch_row_070_a_slow_trainer_and_a_late_one_miss_nothing(cluster, name):
    dataset = data.range(200).segment(5)
    with dataset.read(cluster.address, name=f"{name}-slow", timeout=LIMIT_S) as slow:
        begun = [int(next(slow)) for _ in range(3)]
        assert read_all(dataset, cluster, f"{name}-fast") == list(range(200))
        assert read_all(dataset, cluster, f"{name}-late") == list(range(200))
        assert begun + plain(slow) == list(range(200))


@pytest.mark.parametrize(("elements", "consumers"),
                         [(1000, 5), (1003, 5), (1000, 20), (4, 20), (0, 20)])
def test_dispatch_row_067_element_i_goes_to_consumer_i_mod_n(cluster, name, elements, consumers):
    parts = read_each(data.range(elements).segment(64), cluster, name, consumers,
                      consumers=consumers)
    assert parts == [list(range(index, elements, consumers)) for index in range(consumers)]


def test_dispatch_row_073_threads_of_one_reader_get_each_element_once(cluster, name):
    got, lock = [], threading.Lock()
    with data.range(2000).segment(50).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        def take(_):
            while True:
                with lock:  # one thread reads at a time, as a reader wants it
                    element = next(reader, None)
                if element is None:
                    return
                got.append(int(element))

        each(range(8), take)
    assert sorted(got) == list(range(2000))


def test_dispatch_row_097_epochs_are_independent(cluster, name):
    dataset = data.range(30).shuffle(seed=3).batch(4)
    wanted = plain(dataset.local())
    for repetition in range(10):
        assert read_all(dataset, cluster, name, repetition=repetition) == wanted
    assert each(range(3), lambda n: read_all(dataset, cluster, f"{name}-{n}")) == [wanted] * 3


@pytest.mark.parametrize("order", ["exact", "first_come"])
def test_dispatch_row_104_repeated_and_shared_the_union_is_three_copies(cluster, name, order):
    options = {"order": order, **({"consumers": 2} if order == "exact" else {})}
    parts = read_each(data.range(100).repeat(3).segment(20), cluster, name, 2, **options)
    assert sorted(itertools.chain(*parts)) == sorted(list(range(100)) * 3)


def test_dispatch_row_104_one_that_is_late_still_gets_of_what_never_ends(cluster, name):
    dataset = data.range(10).repeat().segment(5)
    with dataset.read(cluster.address, name=name, order="first_come", consumer="early",
                      timeout=LIMIT_S) as early:
        for _ in range(200):
            next(early)
        with dataset.read(cluster.address, name=name, order="first_come", consumer="late",
                          timeout=LIMIT_S) as late:
            assert {int(next(late)) for _ in range(50)} <= set(range(10))


def test_dispatch_row_135_an_endless_repeat_is_fair(cluster, name):
    dataset = data.range(20).repeat().segment(20)
    with dataset.read(cluster.address, name=name, order="first_come", timeout=LIMIT_S) as reader:
        counts = collections.Counter(int(next(reader)) for _ in range(1000))
    assert len(counts) == 20 and max(counts.values()) <= 2 * min(counts.values())


# --- Shardings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetched", [1, 64])
def test_dispatch_row_098_without_sharding_each_worker_makes_all(cluster, name, prefetched):
    dataset = data.range(40).segment(prefetched)
    came = read_all(dataset, cluster, name, order="first_come", sharding="off")
    assert counts_of(came) == counts_of(list(range(40)) * 3)


@pytest.mark.parametrize("sharding", ["dynamic", "static_data", "static_file"])
def test_dispatch_row_090_and_every_other_sharding_gives_each_element_once(cluster, name, sharding):
    for number in range(3):
        (cluster.folder / f"{name}-{number}.txt").write_text(
            "".join(f"{number}:{line}\n" for line in range(50)))
    shares = {} if sharding == "dynamic" else {"shares": 3}
    came = read_all(data.lines(f"{name}-*.txt").segment(10), cluster, name, order="first_come",
                    sharding=sharding, **shares)
    assert sorted(came) == sorted(f"{n}:{line}" for n in range(3) for line in range(50))


def test_dispatch_row_141_a_static_sharding_reads_of_all_workers(cluster, name):
    came = read_all(data.range(300).segment(10), cluster, name, order="first_come",
                    sharding="static_data", shares=3)
    assert sorted(came) == list(range(300))


JOINED = {
    "range": lambda: data.range(100),
    "slices": lambda: data.array({"x": numpy.arange(60).reshape(30, 2)}).batch(4),
    "repeat before": lambda: data.range(20).repeat(3).shuffle(seed=1),
    "repeat behind": lambda: data.range(20).shuffle(seed=1).repeat(3).batch(3),
    "one element": lambda: data.range(1),
    "zip": lambda: data.zip(a=data.range(50), b=data.range(50, 100)),
    "nested zip": lambda: data.zip(c=data.range(30), d=data.zip(a=data.range(30), b=data.range(30))),
    "uneven zip": lambda: data.zip(a=data.range(50), b=data.range(7)),
    "uneven zip, repeated": lambda: data.zip(a=data.range(50), b=data.range(7)).repeat(3),
    "zip by name": lambda: data.zip(x=data.range(40), y=data.range(40).shuffle(seed=2)).batch(5),
    "concat": lambda: data.concat(data.range(33), data.range(100, 140)).batch(4),
    "mix": lambda: data.mix([data.range(90), data.range(1000, 1030)], [3, 1]),
    "mix of epochs": lambda: data.mix([data.range(10).repeat(4), data.range(500, 520)], [2, 1]).batch(3),
}


def text_of(element):
    """An element as a text, whatever it is made of."""
    if isinstance(element, dict):
        return str({key: text_of(value) for key, value in element.items()})
    if isinstance(element, (tuple, list)):
        return str([text_of(one) for one in element])
    return str(numpy.asarray(element).tolist())


@pytest.mark.parametrize("kind", sorted(JOINED))
def test_dispatch_row_136_joined_datasets_come_as_they_are_here(cluster, name, kind):
    dataset = JOINED[kind]().segment(8)
    wanted = [text_of(one) for one in dataset.local()]
    assert wanted

    def read(index):
        with dataset.read(cluster.address, name=name, consumer=index, consumers=2,
                          timeout=LIMIT_S) as reader:
            return [text_of(one) for one in reader]

    parts = each(range(2), read)
    turns = [one for turn in itertools.zip_longest(*parts) for one in turn if one is not None]
    assert turns == wanted
    with dataset.read(cluster.address, name=f"{name}-first", order="first_come",
                      timeout=LIMIT_S) as reader:
        assert sorted(map(text_of, reader)) == sorted(wanted)


def test_dispatch_row_139_shuffled_files_give_every_record_once(cluster, name):
    for number in range(4):
        (cluster.folder / f"{name}-{number}.txt").write_text(
            "".join(f"{number}:{line}\n" for line in range(25)))
    dataset = data.lines(f"{name}-*.txt").shuffle(seed=11).segment(7)
    came = read_all(dataset, cluster, name, order="first_come")
    assert sorted(came) == sorted(f"{n}:{line}" for n in range(4) for line in range(25))


# --- Arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [3, None, b"bytes", ["a"]], ids=str)
def test_dispatch_row_101_names_that_are_no_text_are_refused(bad):
    with pytest.raises(TypeError):
        data.range(3).read("127.0.0.1:1", name=bad)
    with pytest.raises(TypeError):
        data.range(3).read("127.0.0.1:1", name="x", order="first_come", consumer=[bad])


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:99999", "grpc://h:1", 5, b"h:1"],
                         ids=str)
def test_dispatch_row_111_addresses_that_are_none_are_refused(address):
    with pytest.raises((TypeError, ValueError, lockstep.Error)):
        data.range(3).read(address, timeout=0.5)


def test_dispatch_row_111_modes_that_there_are_not_are_refused():
    for options in ({"sharding": "data"}, {"sharding": ""}, {"order": "coordinated"}, {"ack": ""}):
        with pytest.raises(ValueError, match="is"):
            data.range(3).read("127.0.0.1:1", **options)


def test_dispatch_row_086_the_default_is_exact_and_dynamic(cluster, name):
    with data.range(30).segment(3).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        assert plain(reader) == list(range(30))
        with pytest.raises(lockstep.InvalidArgument) as caught:
            data.range(30).segment(3).read(cluster.address, name=name, order="first_come",
                                           timeout=LIMIT_S)
    assert caught.value.reason == "iteration_differs"
    with pytest.raises(ValueError, match="EXACT"):  # in small letters, as it is written
        data.range(3).read(cluster.address, order="EXACT")


def test_dispatch_row_088_what_does_not_fit_together_is_refused(cluster, name):
    for options in ({"sharding": "off"}, {"sharding": "static_data", "shares": 2}):
        with pytest.raises(lockstep.InvalidArgument) as caught:
            data.range(3).read(cluster.address, name=name, order="exact", timeout=LIMIT_S, **options)
        assert caught.value.reason == "sharding_unsupported"


@pytest.mark.parametrize("options", [{"consumer": 1}, {"consumer": 2, "consumers": 2}], ids=str)
def test_dispatch_defect_23_a_pair_that_is_half_given_is_refused(options):
    for order in "exact", "rounds":
        with pytest.raises(ValueError, match="there is no consumer"):
            data.range(3).read("127.0.0.1:1", order=order, **options)


@pytest.mark.parametrize("path", ["../../../etc/passwd", "/etc/passwd", "inside/../../secret.txt"])
def test_dispatch_defect_22_no_path_leads_outside(tmp_path, name, path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret\n")
    with Cluster(1, inside, ("--allow-path", inside)) as own:
        with pytest.raises((lockstep.PermissionDenied, lockstep.NotFound)) as caught:
            read_all(data.lines(path), own, name)
    assert caught.value.reason in ("path_refused", "source_missing")
    assert "secret\n" not in str(caught.value)


# --- Ends and beginnings ------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True], ids=["ephemeral", "state"])
def test_dispatch_row_094_with_and_without_a_state_directory(tmp_path, name, kept):
    with Cluster(1, tmp_path, state=tmp_path / "state" if kept else None) as own:
        assert read_all(data.range(50).segment(5), own, name) == list(range(50))


@pytest.mark.parametrize("kept", [False, True], ids=["ephemeral", "state"])
def test_dispatch_row_126_a_large_definition_waits_for_the_first_worker(tmp_path, name, kept):
    rows = numpy.arange(3 << 17).reshape(-1, 1024)  # 3 MiB of int64
    dataset = data.array(rows)
    with Cluster(0, tmp_path, state=tmp_path / "state" if kept else None) as own:
        with dataset.read(own.address, name=name, timeout=LIMIT_S) as reader:
            with pytest.raises(lockstep.DeadlineExceeded):
                reader.next(timeout=0.2)
            own.add()
            assert numpy.array_equal(numpy.stack(list(reader)), rows)


def test_dispatch_row_146_workers_with_tags_are_read_like_the_others(tmp_path, name):
    with Cluster(0, tmp_path) as own:
        for tags in ("--tag", "COLOCATED"), ("--tag", "colocated", "--tag", "other"), ():
            worker = Worker(own.address, tmp_path, *tags)
            own.workers.append(worker)
        try:
            came = read_all(data.range(40).segment(10), own, name, order="first_come", sharding="off")
        finally:
            for worker in own.workers:
                worker.stop()
        assert counts_of(came) == counts_of(list(range(40)) * 3)


def test_dispatch_row_150_a_worker_that_is_stopped_does_not_hold_up_who_reads(tmp_path, name):
    dataset = data.range(4000).segment(50)
    with Cluster(2, tmp_path) as own:
        with dataset.read(own.address, name=name, order="first_come", timeout=LIMIT_S) as reader:
            came = [int(next(reader)) for _ in range(100)]
            os.kill(own.workers[0].pid, signal.SIGSTOP)
            try:
                came += plain(reader)
            finally:
                os.kill(own.workers[0].pid, signal.SIGCONT)
        assert sorted(came) == list(range(4000))
