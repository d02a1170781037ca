"""Datasets that workers make the elements of: real server, real workers, this process's readers."""

import asyncio
import collections
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy
import pytest

import data_functions
import lockstep
from conftest import LIMIT_S, each
from data_workers import LOCKSTEP, Cluster, Worker
from lockstep import data
from programs import Program
from test_imports import PACKAGE

_names = (f"pass-{n}" for n in itertools.count(1))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers, which run in a folder of their own."""
    with Cluster(2, tmp_path_factory.mktemp("data")) as one:
        yield one


@pytest.fixture
def name():
    return next(_names)


def plain(dataset):
    return [one.tolist() for one in dataset]


def numbers_of(size=2000, batch=7):
    return data.range(size).shuffle(seed=5).map(lambda x: x * 3).batch(batch).segment(64)


# --- Orders -------------------------------------------------------------------------------------


def test_exact_is_the_order_of_local(cluster, name):
    dataset = numbers_of()
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        assert plain(reader) == plain(dataset.local())


def test_consumers_take_turns_in_exact_order(cluster, name):
    dataset = numbers_of()

    def read(index):
        with dataset.read(cluster.address, name=name, consumer=index, consumers=3,
                          timeout=LIMIT_S) as reader:
            return plain(reader)

    parts = each(range(3), read)
    turns = [one for turn in itertools.zip_longest(*parts) for one in turn if one is not None]
    assert turns == plain(dataset.local())


def test_first_come_gives_each_element_once(cluster, name):
    dataset = numbers_of()

    def read(index):
        with dataset.read(cluster.address, name=name, order="first_come", consumer=f"c{index}",
                          timeout=LIMIT_S) as reader:
            return plain(reader)

    parts = each(range(3), read)
    came = sorted(one for part in parts for one in part)
    assert came == sorted(plain(dataset.local()))


def test_rounds_give_all_consumers_elements_of_one_worker(cluster, name):
    dataset = numbers_of(size=4000, batch=4)

    def read(index):
        came = []
        with dataset.read(cluster.address, name=name, order="rounds", consumer=index, consumers=2,
                          timeout=LIMIT_S) as reader:
            for element in reader:
                came.append((reader.place.round, reader.place.lane, element.tolist()))
        return came

    parts = each(range(2), read)
    assert [one[:2] for one in parts[0]] == [one[:2] for one in parts[1]]
    rounds = [one[0] for one in parts[0]]  # a round is a turn of each lane
    assert rounds == sorted(rounds) and set(rounds) == set(range(rounds[-1] + 1))
    came = sorted(one[2] for part in parts for one in part)
    wanted = sorted(plain(dataset.local()))
    # The last turn of a lane is dropped when it is not whole.
    assert len(wanted) - 2 <= len(came) <= len(wanted) and all(one in wanted for one in came)
    assert len({one[1] for one in parts[0]}) == 2  # lanes


def test_elements_by_name_and_texts_arrive_as_they_were(cluster, name):
    rows = {"x": numpy.arange(60, dtype="float32").reshape(20, 3), "n": numpy.arange(20, dtype="uint8")}
    dataset = data.array(rows).shuffle(seed=2).batch(6)
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        for came, wanted in zip(reader, dataset.local(), strict=True):
            assert list(came) == ["x", "n"] and not came["x"].flags.writeable
            assert all(came[one].tobytes() == wanted[one].tobytes() for one in came)
            assert all(came[one].dtype == rows[one].dtype for one in came)


def test_files_are_found_where_the_worker_is(cluster, name):
    (cluster.folder / "l.txt").write_text("eins\nzwei\ndrei\n")
    numpy.save(cluster.folder / "a.npy", numpy.arange(30).reshape(10, 3))
    with data.lines("l*.txt").batch(2).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        assert list(reader) == [["eins", "zwei"], ["drei"]]
    with data.npy(cluster.folder / "a.npy").read(cluster.address, timeout=LIMIT_S) as reader:
        assert numpy.array_equal(numpy.stack(list(reader)), numpy.arange(30).reshape(10, 3))
        assert reader.name


def test_repetitions_are_passes_of_their_own(cluster, name):
    dataset = numbers_of(100)
    wanted = plain(dataset.local())
    for repetition in range(2):
        with dataset.read(cluster.address, name=name, repetition=repetition,
                          timeout=LIMIT_S) as reader:
            assert plain(reader) == wanted


# --- Cursors ------------------------------------------------------------------------------------


def test_a_cursor_goes_on_with_other_consumers(cluster, name):
    dataset = numbers_of()
    wanted = plain(dataset.local())
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        begun = [next(reader).tolist() for _ in range(101)]
        cursor = reader.cursor()
    assert begun == wanted[:101] and isinstance(cursor, bytes) and len(cursor) < 1000

    def read(index):
        with dataset.read(cluster.address, name=f"{name}-again", consumer=index, consumers=2,
                          cursor=cursor, timeout=LIMIT_S) as again:
            return plain(again)

    parts = each(range(2), read)
    turns = [one for turn in itertools.zip_longest(*parts) for one in turn if one is not None]
    assert turns == wanted[101:]


def test_a_cursor_of_another_dataset_is_refused(cluster, name):
    with numbers_of(100).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        next(reader)
        cursor = reader.cursor()
    begin = time.monotonic()
    with pytest.raises(lockstep.FailedPrecondition, match="cursor") as refused:
        numbers_of(101).read(cluster.address, cursor=cursor, timeout=LIMIT_S)
    assert refused.value.reason == "cursor_mismatch"
    assert time.monotonic() - begin < LIMIT_S / 2, "it waited for an answer to nothing"


def test_first_come_has_no_cursor(cluster, name):
    with numbers_of(100).read(cluster.address, name=name, order="first_come",
                              timeout=LIMIT_S) as reader:
        next(reader)
        with pytest.raises(lockstep.FailedPrecondition):
            reader.cursor()


# --- Deaths -------------------------------------------------------------------------------------


def test_exact_order_survives_a_killed_worker(tmp_path, name):
    dataset = numbers_of(6000)
    with Cluster(2, tmp_path) as own:
        with dataset.read(own.address, name=name, timeout=LIMIT_S) as reader:
            came = [next(reader).tolist() for _ in range(50)]
            own.workers[0].kill()
            came += plain(reader)
        assert came == plain(dataset.local())


def test_first_come_survives_a_killed_worker_and_a_new_one(tmp_path, name):
    dataset = numbers_of(6000)
    with Cluster(1, tmp_path) as own:
        with dataset.read(own.address, name=name, order="first_come", timeout=LIMIT_S) as reader:
            came = [next(reader).tolist() for _ in range(50)]
            own.workers[0].kill()
            own.add()
            came += plain(reader)
        assert sorted(came) == sorted(plain(dataset.local()))


CONSUMER = """
    import sys, time
    from lockstep import data
    address, name = sys.argv[1:]
    dataset = data.range(600).batch(1).segment(20)
    reader = dataset.read(address, name=name, order="first_come", consumer="second", ack="manual")
    for count, element in enumerate(reader, 1):
        print("got", int(element[0]), flush=True)
        if count == 10:
            reader.ack()
            time.sleep(1)  # which is more than it takes to tell the server
            print("acknowledged", flush=True)
            sys.stdin.readline()
"""


def test_what_a_dead_consumer_did_not_acknowledge_is_given_again(tmp_path, name):
    with Cluster(2, tmp_path) as own, Program(CONSUMER, own.address, name) as other:
        other.line("acknowledged")
        theirs = [int(line.split()[1]) for line in other.lines if line.startswith("got")]
        other.kill()
        dataset = data.range(600).batch(1).segment(20)
        with dataset.read(own.address, name=name, order="first_come", consumer="first",
                          timeout=LIMIT_S) as reader:
            came = [int(one[0]) for one in reader]
    assert len(theirs) == 10
    assert sorted(came + theirs) == list(range(600))


def test_counters_are_readable_after_the_block(cluster, name):
    with data.range(20).batch(1).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        assert len(list(reader)) == 20
    assert reader.counters()["elements"] == 20
    reader.close()
    assert reader.counters()["elements"] == 20


def test_who_may_hold_no_more_is_told_so_at_once_and_goes_on_after_ack(cluster, name):
    dataset = data.range(300).batch(1).segment(10)
    with dataset.read(cluster.address, name=name, order="first_come", ack="manual",
                      unacknowledged_max=40, timeout=LIMIT_S) as reader:
        came = [int(next(reader)[0]) for _ in range(40)]
        began = time.monotonic()
        with pytest.raises(lockstep.FailedPrecondition, match="unacknowledged_max") as caught:
            next(reader)
        assert caught.value.reason == "ack_needed" and time.monotonic() - began < LIMIT_S / 4
        assert reader.counters()["unacknowledged"] == 40
        while len(came) < 300:
            reader.ack()
            came += [int(next(reader)[0]) for _ in range(min(40, 300 - len(came)))]
        # The end is told, although the last ones are not acknowledged.
        with pytest.raises(StopIteration):
            reader.next()
        reader.ack()
    assert sorted(came) == list(range(300))


def test_a_coroutine_that_may_hold_no_more_is_told_so(cluster, name):
    dataset = data.range(100).batch(1).segment(10)

    async def read():
        came = []
        with dataset.read(cluster.address, name=name, order="first_come", ack="manual",
                          unacknowledged_max=30, timeout=LIMIT_S) as reader:
            while True:
                try:
                    async for one in reader:
                        came.append(int(one[0]))
                    return came
                except lockstep.FailedPrecondition as error:
                    assert error.reason == "ack_needed"
                    reader.ack()

    assert sorted(asyncio.run(read())) == list(range(100))


def test_limits_of_what_is_not_acknowledged_are_at_least_one(cluster):
    for limit in "unacknowledged_max", "unacknowledged_bytes_max":
        with pytest.raises(ValueError, match=limit):
            numbers_of(10).read(cluster.address, order="first_come", ack="manual", **{limit: 0})


# --- Several who read ---------------------------------------------------------------------------


def test_a_slow_trainer_does_not_stall_a_fast_one_and_a_late_one_gets_the_rest(cluster, name):
    dataset = data.range(3000).batch(1).segment(50)
    slow = dataset.read(cluster.address, name=name, order="first_come", consumer="slow",
                        timeout=LIMIT_S)
    got = {"slow": [int(next(slow)[0]) for _ in range(3)]}  # and does nothing more for now
    began = time.monotonic()
    with dataset.read(cluster.address, name=name, order="first_come", consumer="fast",
                      timeout=LIMIT_S) as fast:
        # The slow one keeps at most the segments of its window.
        got["fast"] = [int(next(fast)[0]) for _ in range(2500)]
        assert time.monotonic() - began < LIMIT_S / 2
        with dataset.read(cluster.address, name=name, order="first_come", consumer="late",
                          timeout=LIMIT_S) as late:
            got["late"] = [int(next(late)[0])]
            with slow:
                rest = each([("slow", slow), ("fast", fast), ("late", late)],
                            lambda one: (one[0], [int(element[0]) for element in one[1]]))
    for who, came in rest:
        got[who] += came
    counts = collections.Counter(itertools.chain(*got.values()))
    assert set(counts.values()) == {1} and len(counts) == 3000 and len(got["late"]) > 1


# --- Python functions ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_functions(tmp_path_factory):
    """A worker whose Python has our package and the functions of these tests."""
    options = ("--python", sys.executable, "--allow-function", "data_functions")
    with Cluster(0, tmp_path_factory.mktemp("functions"), options) as one:
        one.add(PYTHONPATH=os.pathsep.join([str(PACKAGE), os.path.dirname(__file__)]))
        yield one


def test_python_functions_run_beside_the_worker(with_functions, name):
    dataset = data.range(100).map(data_functions.double).batch(8)
    with dataset.read(with_functions.address, name=name, timeout=LIMIT_S) as reader:
        assert plain(reader) == plain(dataset.local())
    pids = data.range(10).map("data_functions:pid", returns="int64")
    with pids.read(with_functions.address, timeout=LIMIT_S) as reader:
        assert os.getpid() not in {int(one) for one in reader}


def test_a_function_that_kills_its_process_is_told_or_skipped(with_functions, name):
    dataset = data.range(20).map(data_functions.dies_at_seven)
    with pytest.raises(lockstep.Error) as caught:
        list(dataset.read(with_functions.address, name=name, timeout=LIMIT_S))
    assert caught.value.reason == "function_failed"
    skipping = dataset.on_error("skip").read(with_functions.address, name=f"{name}-skipping",
                                             timeout=LIMIT_S)
    assert plain(skipping) == [n for n in range(20) if n != 7]


def test_finding_01_a_worker_runs_no_function_that_its_operator_did_not_allow(cluster, tmp_path, name):
    proof = tmp_path / "proof"
    program = numpy.frombuffer(f"open({str(proof)!r}, 'w').close()".encode(), dtype="uint8")
    attack = data.array(program[None]).map("builtins:exec", returns="uint8[?]")
    with pytest.raises(lockstep.PermissionDenied, match="--allow-function") as caught:
        list(attack.read(cluster.address, name=name, timeout=LIMIT_S))
    assert caught.value.reason == "function_refused" and not proof.exists()


def test_finding_01_functions_of_builtins_cannot_be_allowed(cluster):
    said = subprocess.run([LOCKSTEP, "worker", "--allow-function", "builtins:exec"], text=True,
                          capture_output=True, timeout=LIMIT_S, check=False)
    assert said.returncode == 2 and "builtins:exec" in said.stderr, said


def test_a_worker_says_when_its_server_is_not_there():
    nowhere = {**os.environ, "LOCKSTEP_COORDINATOR": "127.0.0.1:1"}
    with subprocess.Popen([LOCKSTEP, "worker"], env=nowhere, text=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as worker:
        try:
            said = next(line for line in worker.stderr if "is away" in line)
        finally:
            worker.kill()
    assert "the dispatcher at 127.0.0.1:1 is away, and is tried again: " in said


# --- Bad input ----------------------------------------------------------------------------------


def test_a_definition_that_is_wrong_is_told_at_its_line(cluster):
    with pytest.raises(lockstep.InvalidArgument, match=rf"{os.path.basename(__file__)}:\d+: ") as caught:
        data.range(3).map(lambda x: x["a"]).read(cluster.address)
    assert caught.value.reason == "definition_invalid"


def test_a_function_of_the_program_itself_is_refused(cluster):
    with Program("""
        import sys
        from lockstep import data
        def double(x):
            return x * 2
        dataset = data.range(3).map(double)
        print([int(one) for one in dataset.local()], flush=True)
        dataset.read(sys.argv[1])
        """, cluster.address) as program:
        code, said = program.end()
    assert code == 1 and "[0, 2, 4]" in said and "put it into a module of its own" in said, said


def test_missing_files_are_told_to_who_reads(cluster, name):
    with pytest.raises(lockstep.NotFound, match="nothing-here") as caught:
        list(data.lines("nothing-here*").read(cluster.address, name=name, timeout=LIMIT_S))
    assert caught.value.reason == "source_missing"


def test_a_path_outside_what_is_allowed_is_refused(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret\n")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "good.txt").write_text("good\n")
    with Cluster(1, inside, ("--allow-path", inside)) as own:
        assert list(data.lines("good.txt").read(own.address, timeout=LIMIT_S)) == ["good"]
        for path in tmp_path / "secret.txt", "../secret.txt", "link.txt":
            with pytest.raises(lockstep.PermissionDenied) as caught:
                list(data.lines(path).read(own.address, timeout=LIMIT_S))
            assert caught.value.reason == "path_refused"


def test_finding_16_what_is_refused_tells_nothing_of_what_is_there(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret\n")
    (inside / "way").symlink_to(tmp_path)
    with Cluster(1, inside, ("--allow-path", inside)) as own:
        def refused(path):
            with pytest.raises(lockstep.PermissionDenied) as caught:
                list(data.lines(path).read(own.address, timeout=LIMIT_S))
            return re.sub(r"secret|absent", "FILE", str(caught.value).split("lines: ")[1])

        assert refused("../secret.txt") == refused("../absent.txt")
        assert refused("way/secret.txt") == refused("way/absent.txt")
        assert refused("../secret*") == refused("../absent*")
        assert refused("way/secret*") == refused("way/absent*")


def test_finding_16_braces_are_bounded(cluster, name):
    with pytest.raises(lockstep.InvalidArgument, match="brace_expansions_max"):
        list(data.lines("{a,b}" * 40).read(cluster.address, name=name, timeout=LIMIT_S))


def test_a_file_that_changes_while_it_is_read_is_told(cluster, name):
    path = cluster.folder / "changing.bin"
    path.write_bytes(bytes(400_000))
    with data.records(path, bytes=4).segment(10).read(cluster.address, name=name,
                                                      timeout=LIMIT_S) as reader:
        next(reader)
        path.write_bytes(bytes(200_000))
        with pytest.raises(lockstep.Error, match="changing") as caught:
            list(reader)
    assert caught.value.reason == "source_changed"


def test_a_poisoned_record_is_told_or_skipped_by_policy(cluster, name):
    dataset = data.range(100).map(lambda x: 60 // (x - 30)).segment(10)
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        with pytest.raises(lockstep.Error, match="position 30") as caught:
            list(reader)
    assert caught.value.reason == "record_poisoned"
    skipping = dataset.on_error("skip")
    with skipping.read(cluster.address, name=f"{name}-skipping", timeout=LIMIT_S) as reader:
        assert plain(reader) == plain(skipping.local())


# --- Waits and ends -----------------------------------------------------------------------------


def test_a_wait_has_a_time_out_and_goes_on(name):
    with lockstep.serve() as server:  # without a worker
        with numbers_of().read(server.address, name=name) as reader:
            with pytest.raises(lockstep.DeadlineExceeded):
                reader.next(timeout=0.05)
            worker = Worker(server.address)
            try:
                assert reader.next(timeout=LIMIT_S).tolist() == next(numbers_of().local()).tolist()
            finally:
                worker.stop()


def test_close_ends_a_wait(name):
    with lockstep.serve() as server, numbers_of().read(server.address, name=name) as reader:
        ended = []

        def wait():
            try:
                next(reader)
            except lockstep.Error as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        reader.close()
        thread.join(LIMIT_S)
        assert isinstance(ended[0], lockstep.Cancelled)


def test_ctrl_c_ends_a_wait_at_once(name):
    with lockstep.serve() as server, Program("""
        import sys, time
        from lockstep import data
        reader = data.range(10).read(sys.argv[1], name=sys.argv[2])
        print("waiting", flush=True)
        try:
            next(reader)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic(), flush=True)
        """, server.address, name) as program:
        program.line("waiting")
        time.sleep(0.2)
        interrupted = time.monotonic()
        program.interrupt()
        at = float(program.line("interrupted").split()[1])
        assert at - interrupted < 1.0
        program.end_well()


def test_a_forked_child_is_told_and_the_parent_goes_on(cluster, name):
    dataset = numbers_of(500)
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        came = [next(reader).tolist() for _ in range(3)]
        child = os.fork()
        if child == 0:
            try:
                next(reader)
            except lockstep.FailedPrecondition as error:
                os._exit(7 if error.reason == "forked" else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert came + plain(reader) == plain(dataset.local())


def test_forked_children_drop_what_they_inherit_while_the_parent_reads(cluster, name):
    dataset = data.range(200_000).batch(10)
    with dataset.read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        held = [next(reader) for _ in range(100)]
        count = len(held)

        def read_on():
            nonlocal count
            for _ in reader:
                count += 1

        reading = threading.Thread(target=read_on)
        reading.start()
        children = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(LIMIT_S)
                held.clear()
                os._exit(0)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 20
        reading.join(LIMIT_S)
        assert count == 20_000


def test_a_pool_of_forked_processes_may_read_for_itself(cluster, name):
    with Program("""
        import multiprocessing, sys
        import lockstep
        from lockstep import data

        address, name = sys.argv[1:]
        dataset = data.range(100)
        reader = dataset.read(address, name=name, timeout=60)
        first = next(reader)

        def work(number):
            try:
                next(reader)
            except lockstep.FailedPrecondition as error:
                assert error.reason == "forked", error
            with dataset.read(address, name=f"{name}-{number}", timeout=60) as own:
                return sorted(int(one) for one in own) == list(range(100))

        with multiprocessing.get_context("fork").Pool(2) as pool:
            print("children", all(pool.map(work, range(4))), flush=True)
        print("parent", 1 + sum(1 for _ in reader), flush=True)
        """, cluster.address, name) as program:
        assert program.line("children") == "children True"
        assert program.line("parent") == "parent 100"
        program.end_well()


def test_ctrl_c_between_any_two_lines_of_next_leaves_a_reader_that_reads(cluster, name):
    code = data.Reader.next.__code__
    with data.range(200).read(cluster.address, name=name, timeout=LIMIT_S) as reader:
        for line in range(1, 12):
            left = line

            def interrupt(frame, event, _argument):
                nonlocal left
                if frame.f_code is not code:
                    return None
                if event == "line":
                    left -= 1
                    if left == 0:
                        raise KeyboardInterrupt
                return interrupt

            sys.settrace(interrupt)
            try:
                reader.next(LIMIT_S)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            reader.next(LIMIT_S)


def test_a_coroutine_reads_all(cluster, name):
    async def read():
        with numbers_of().read(cluster.address, name=name, timeout=LIMIT_S) as reader:
            return [batch.tolist() async for batch in reader]

    assert asyncio.run(read()) == plain(numbers_of().local())


def test_coroutines_go_on_while_one_waits_and_a_cancelled_one_loses_nothing(name):
    async def read(server):
        with data.range(3).read(server.address, name=name, timeout=LIMIT_S) as reader:
            for _ in range(2):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.__anext__(), 0.2)
            worker = await asyncio.get_running_loop().run_in_executor(None, Worker, server.address)
            try:
                return [int(number) async for number in reader]
            finally:
                worker.stop()

    with lockstep.serve() as server:
        assert asyncio.run(read(server)) == [0, 1, 2]


def test_a_name_that_was_read_to_its_end_warns_who_reads_it_again(cluster, name):
    def read(**options):
        with numbers_of().read(cluster.address, name=name, **options) as reader:
            return len(list(reader))

    first = read()
    with pytest.warns(RuntimeWarning, match="had no element for this reader.*repetition="):
        assert read() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(repetition=1) == first


def test_a_coroutine_is_told_that_it_takes_too_long(name):
    async def read(server):
        with data.range(3).read(server.address, name=name, timeout=0.3) as reader:
            await reader.__anext__()

    with lockstep.serve() as server, pytest.raises(lockstep.DeadlineExceeded, match="worker"):
        asyncio.run(read(server))


def test_other_threads_run_while_one_waits(name):
    with lockstep.serve() as server, numbers_of().read(server.address, name=name) as reader:
        counted = []

        def count():
            for number in range(1000):
                counted.append(number)

        def wait():
            with pytest.raises(lockstep.DeadlineExceeded):
                reader.next(timeout=0.5)

        waiting = threading.Thread(target=wait)
        waiting.start()
        count()
        assert len(counted) == 1000 and waiting.is_alive()
        waiting.join(LIMIT_S)


@pytest.mark.parametrize(("options", "error"), [
    ({"order": "random"}, ValueError), ({"ack": "never"}, ValueError), ({"consumer": 3}, ValueError),
    ({"cursor": "text"}, TypeError), ({"visitation": "twice"}, ValueError),
    ({"sharding": "hint"}, ValueError), ({"name": 3}, TypeError), ({"timeout": -1}, ValueError),
], ids=str)
def test_arguments_that_make_no_sense_are_refused_at_once(options, error):
    with pytest.raises(error):
        data.range(3).read("127.0.0.1:1", **options)
    with pytest.raises(TypeError, match="member's server"):
        data.range(3).read(3)


# --- Workers ------------------------------------------------------------------------------------


def test_a_worker_ends_in_time_whatever_it_runs(name):
    options = ("--drain-time", "500ms", "--end-timeout", "5s", "--allow-function", "data_functions")
    with Cluster(1, None, options) as own:
        dataset = data.range(100).map("data_functions:takes_for_ever", returns="int64")
        with dataset.read(own.address, name=name, timeout=LIMIT_S) as reader:
            with pytest.raises(lockstep.DeadlineExceeded):
                reader.next(1)
            began = time.monotonic()
            own.workers[0].process.terminate()
            assert own.workers[0].process.wait(LIMIT_S) == 0, own.workers[0].log()
            assert time.monotonic() - began < 5
            assert "end_timeout" not in own.workers[0].log()


def test_a_worker_that_others_can_reach_needs_to_be_allowed(cluster):
    # 192.0.2.1 is nobody's: nothing is called there before the options are looked at.
    command = [LOCKSTEP, "worker", "--dispatcher", "192.0.2.1:7070", "--listen", "0.0.0.0:0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert refused.returncode == 2
    assert "--insecure-network" in refused.stderr and "--listen 0.0.0.0:0" in refused.stderr
    assert "join string" in refused.stderr
    Worker(cluster.address, None, "--listen", "0.0.0.0:0", "--insecure-network").stop()


def test_a_worker_that_others_can_reach_serves_its_consumers_by_tls(name):
    with Cluster(0) as own:
        worker = Worker(own.server.join_string, None, "--listen", "0.0.0.0:0")
        try:
            address = worker.log().split("answers at ")[1].split()[0]
            with data.range(100).read(own.server.join_string, name=name, timeout=LIMIT_S) as reader:
                assert sorted(int(each) for each in reader) == list(range(100))
            # In clear, as any client of the link.
            stranger = subprocess.run([LOCKSTEP, "status", "--coordinator", address],
                                      capture_output=True, text=True, timeout=LIMIT_S, check=False)
            assert stranger.returncode != 0 and "TLS only" in stranger.stderr
        finally:
            worker.stop()
