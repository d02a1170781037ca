"""Tensors between members: what is sent is what is received, what is copied, and how waits end."""

import array
import asyncio
import contextlib
import threading

import pytest

import lockstep
from conftest import LIMIT_S, each
from programs import Program
from test_ends import INTERRUPTED_WITHIN_S, interrupt
from test_imports import PACKAGE, PYTHON, needs_frameworks


# --- Two members in this process ----------------------------------------------------------------


@pytest.fixture
def two(crowd):
    """The rendezvous of two members of one job."""
    with contextlib.ExitStack() as stack:
        opened = each(crowd(2), lambda me: me.rendezvous())
        for rendezvous in opened:
            stack.callback(rendezvous.close)
        yield opened


@pytest.fixture
def steps(two):
    return [rendezvous.step(7) for rendezvous in two]


@pytest.mark.parametrize("value", [b"", b"abc", bytearray(b"abc"), memoryview(b"a.b.c")[::2],
                                   b"x" * 100_000], ids=["none", "bytes", "bytearray", "apart", "long"])
def test_bytes_come_as_bytes(steps, value):
    steps[0].send("a", value, to=1)
    tensor = steps[1].recv("a", source=0, timeout=LIMIT_S)
    assert (bytes(tensor), tensor.dtype) == (bytes(value), "uint8")
    assert tensor.shape == (len(tensor),) == (tensor.nbytes,)
    assert memoryview(tensor).readonly and bytes(memoryview(tensor)) == bytes(value)


def test_rendezvous_row_91_texts_are_refused_and_their_bytes_go(steps):
    for count in [*range(100), *range(1000, 10_001, 1000)]:
        text = "ü" * count
        with pytest.raises(TypeError, match=r"value\.encode\(\)"):
            steps[0].send("a", text, to=1)
        steps[0].send("a", text.encode(), to=1)
        assert bytes(steps[1].recv("a", source=0, timeout=LIMIT_S)).decode() == text


@pytest.mark.parametrize("elements", [["a", "b"], [b"a"], [None], [1, "a"]], ids=str)
def test_rendezvous_row_91_lists_are_refused(steps, elements):
    with pytest.raises(TypeError, match="make an array of it first"):
        steps[0].send("a", elements, to=1)


def test_rendezvous_row_106_a_view_refuses_to_be_written(steps):
    for count in 3, 100_000:
        steps[0].send("a", b"x" * count, to=1)
        tensor = steps[1].recv("a", source=0, timeout=LIMIT_S)
        view = memoryview(tensor)
        with pytest.raises(TypeError, match="read-only"):
            view[0] = 1
        with pytest.raises(BufferError):
            steps[0].recv_into("b", tensor, source=1)
        assert bytes(tensor) == b"x" * count


def test_an_array_comes_with_its_type(steps):
    steps[0].send("a", array.array("d", [1.5, 2.5]), to=1)
    tensor = steps[1].recv("a", source=0, timeout=LIMIT_S)
    assert (tensor.dtype, tensor.shape, memoryview(tensor).tolist()) == ("float64", (2,), [1.5, 2.5])
    assert repr(tensor) == "<lockstep.Tensor float64(2,)>"


def test_the_value_may_be_changed_once_it_was_sent(steps):
    for count in 16, 100_000:
        value = bytearray(count)
        steps[0].send("a", value, to=1)
        value[:] = b"x" * count
        assert bytes(steps[1].recv("a", source=0, timeout=LIMIT_S)) == bytes(count)


def test_values_of_a_key_come_in_their_order(steps):
    for i in range(100):
        steps[0].send("a", bytes([i]), to=1)
        steps[0].send("b", b"other", to=1)
    came = [bytes(steps[1].recv("a", source=0, timeout=LIMIT_S))[0] for _ in range(100)]
    assert came == list(range(100))


def test_a_member_may_send_to_itself(steps):
    steps[0].send("a", b"mine", to=0)
    assert bytes(steps[0].recv("a", source=0, timeout=LIMIT_S)) == b"mine"


@pytest.mark.parametrize("value", [3, 3.5, "text", None, [1, 2], object()], ids=str)
def test_what_is_no_array_is_refused_with_what_to_do(steps, value):
    with pytest.raises(TypeError, match="make an array of it first"):
        steps[0].send("a", value, to=1)


def test_wrong_arguments_are_named(steps, two):
    for call in (lambda: steps[0].send("a", b"", to=2), lambda: steps[0].recv("a", source=-1)):
        with pytest.raises(lockstep.InvalidArgument) as raised:
            call()
        assert raised.value.reason == "unknown_member"
    with pytest.raises(ValueError, match="no member"):
        steps[0].send("a", b"", to=2**40)
    with pytest.raises(TypeError, match="a name is str"):
        steps[0].recv(7, source=1)
    with pytest.raises(lockstep.InvalidArgument) as raised:
        steps[0].send("a" * 513, b"", to=1)
    assert raised.value.reason == "key_invalid"
    with pytest.raises(TypeError, match="float31"):
        two[0].empty(3, "float31")


def test_memory_of_a_device_is_refused(steps):
    class OnDevice:
        def __dlpack__(self, **_):
            raise AssertionError("asked for")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(TypeError, match=r"on a device.*copy it first"):
        steps[0].send("a", OnDevice(), to=1)


def test_memory_is_given_back_with_the_last_view(crowd):
    first, second = each(crowd(2), lambda me: me.rendezvous(quota_bytes=150_000))
    with first, second, first.step(1) as sends, second.step(1) as receives:
        for turn in range(20):  # of which the quota holds one
            sends.send("a", bytes([turn]) * 100_000, to=1, wait=LIMIT_S)
            view = memoryview(receives.recv("a", source=0, timeout=LIMIT_S))[1:3]
            assert view.tolist() == [turn, turn]
            del view


def test_a_dead_value_has_a_reason_and_no_content(steps):
    steps[0].send_dead("a", to=1, reason="not taken")
    tensor = steps[1].recv("a", source=0, timeout=LIMIT_S)
    assert tensor.dead and tensor.why_dead == "not taken"
    for call in bytes, memoryview, lockstep.Tensor.numpy, lambda one: one.__dlpack__():
        with pytest.raises(lockstep.FailedPrecondition) as raised:
            call(tensor)
        assert raised.value.reason == "dead_value"


def test_a_time_out_says_who_has_not_sent(steps):
    with pytest.raises(lockstep.DeadlineExceeded) as raised:
        steps[1].recv("late", source=0, timeout=0.05)
    assert raised.value.reason == "receive_timed_out" and "late" in str(raised.value)
    steps[0].send("late", b"now", to=1)
    assert bytes(steps[1].recv("late", source=0, timeout=LIMIT_S)) == b"now"


def test_received_into_an_array(steps):
    into = array.array("i", [0, 0])
    steps[0].send("a", array.array("i", [4, 5]), to=1)
    steps[1].recv_into("a", into, source=0, timeout=LIMIT_S)
    assert into.tolist() == [4, 5]
    steps[0].send("b", b"other", to=1)
    with pytest.raises(lockstep.InvalidArgument) as raised:
        steps[1].recv_into("b", into, source=0, timeout=LIMIT_S)
    assert raised.value.reason == "size_mismatch" and into.tolist() == [4, 5]
    with pytest.raises(BufferError):
        steps[1].recv_into("b", b"only to be read", source=0)


def test_an_acknowledged_value_has_been_taken(steps):
    with pytest.raises(lockstep.DeadlineExceeded):
        steps[0].send_acked("a", b"1", to=1, timeout=0.05)
    taken = threading.Thread(target=lambda: steps[1].recv("b", source=0, timeout=LIMIT_S))
    taken.start()
    steps[0].send_acked("b", b"2", to=1, timeout=LIMIT_S)
    taken.join()


def test_a_full_quota_refuses_or_waits(crowd):
    members = crowd(2)
    first, second = each(members, lambda me: me.rendezvous(quota_bytes=100_000))
    with first, second, first.step(1) as sends, second.step(1) as receives:
        sends.send("a", bytes(90_000), to=1)
        with pytest.raises(lockstep.ResourceExhausted) as raised:
            sends.send("a", bytes(90_000), to=1)
        assert raised.value.reason == "quota_exceeded"
        with pytest.raises(lockstep.Error):
            sends.send("a", bytes(90_000), to=1, wait=0.05)
        waits = threading.Thread(target=lambda: sends.send("a", b"2" * 90_000, to=1, wait=None))
        waits.start()
        assert bytes(receives.recv("a", source=0, timeout=LIMIT_S)) == bytes(90_000)
        assert bytes(receives.recv("a", source=0, timeout=LIMIT_S)) == b"2" * 90_000
        waits.join()


def test_an_exception_in_the_block_aborts_the_step_for_all(two):
    other = two[1].step(7)
    with pytest.raises(ZeroDivisionError), two[0].step(7) as step:
        other.send("here", b"", to=0)
        step.recv("here", source=1, timeout=LIMIT_S)
        1 / 0
    with pytest.raises(lockstep.Error, match="division by zero") as raised:
        other.recv("a", source=0, timeout=LIMIT_S)
    assert raised.value.reason == "step_aborted"
    assert raised.value.details["origin"] == "0"


def test_the_end_of_the_block_closes_the_step(two):
    with two[0].step(7) as step:
        step.send("a", b"still", to=1)
    with pytest.raises(lockstep.FailedPrecondition) as raised:
        step.recv("a", source=1)
    assert raised.value.reason == "step_closed"
    assert bytes(two[1].step(7).recv("a", source=0, timeout=LIMIT_S)) == b"still"


def test_closing_the_rendezvous_ends_a_wait(two):
    step = two[0].step(7)
    errors = []

    def wait():
        try:
            step.recv("never", source=1)
        except lockstep.Error as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    two[0].close()
    thread.join(LIMIT_S)
    assert len(errors) == 1


def test_the_short_form_opens_one_rendezvous(crowd):
    members = crowd(2)

    def exchange(me):
        with me.step(1) as step:
            step.send("a", bytes([me.member]), to=1 - me.member)
        with me.step(2) as step, me.step(1 + 2):
            step.send("b", b"", to=1 - me.member)
            with pytest.raises(lockstep.FailedPrecondition) as raised:
                me.rendezvous()
            assert raised.value.reason == "rendezvous_open"
            step.recv("b", source=1 - me.member, timeout=LIMIT_S)

    each(members, exchange)


def test_a_new_tensor_is_filled_and_sent(two):
    tensor = two[0].empty((2, 3), "int16")
    assert (tensor.shape, tensor.dtype, tensor.nbytes, len(tensor)) == ((2, 3), "int16", 12, 2)
    memoryview(tensor).cast("B").cast("h")[:] = array.array("h", range(6))
    with two[0].step(1) as step:
        step.send("a", tensor, to=1)
    assert memoryview(tensor).readonly
    came = two[1].step(1).recv("a", source=0, timeout=LIMIT_S)
    assert memoryview(came).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_what_was_received_can_be_sent_on(steps):
    for count in 10, 100_000:
        steps[0].send("a", b"x" * count, to=1)
        steps[1].send("back", steps[1].recv("a", source=0, timeout=LIMIT_S), to=0)
        assert bytes(steps[0].recv("back", source=1, timeout=LIMIT_S)) == b"x" * count


def test_counters_and_transports(two):
    long = b"x" * 100_000
    two[0].step(1).send("a", long, to=1)
    two[1].step(1).recv("a", source=0, timeout=LIMIT_S)
    sent, received = two[0].counters(), two[1].counters()
    assert (sent["sent_values"], sent["sent_bytes"]) == (1, len(long))
    assert (received["received_values"], received["received_bytes"]) == (1, len(long))
    assert received["waits"] == 0 and received["oldest_wait_seconds"] == 0
    assert two[1].transports() == [lockstep.PeerTransport(0, "shm", "", "")]


def test_asyncio(crowd):
    members = [me.aio for me in crowd(2)]

    async def exchange(me):
        async with await me.rendezvous() as rendezvous, rendezvous.step(1) as step:
            other = 1 - me.member
            later = asyncio.ensure_future(step.recv("a", source=other, timeout=LIMIT_S))
            await asyncio.gather(step.send("a", bytes([me.member]), to=other),
                                 step.send("b", b"", to=other, wait=1),
                                 step.send_acked("c", b"", to=other, timeout=LIMIT_S),
                                 step.recv("b", source=other), step.recv("c", source=other))
            assert bytes(await later) == bytes([other])
            never = asyncio.ensure_future(step.recv("never", source=other))
            await asyncio.sleep(0)
            never.cancel()
            with pytest.raises(asyncio.CancelledError):
                await never
            with pytest.raises(lockstep.DeadlineExceeded):
                await step.recv("never", source=other, timeout=0.01)
            await me.barrier("done", timeout=LIMIT_S)

    async def both():
        await asyncio.gather(*map(exchange, members))

    asyncio.run(both())


def test_asyncio_in_the_short_form(crowd):
    async def main(me):
        async with await me.step(3) as step:
            await step.send("a", b"1", to=0)
            assert bytes(await step.recv("a", source=0)) == b"1"

    asyncio.run(main(crowd(1)[0].aio))


# --- Two processes ------------------------------------------------------------------------------

HEAD = """
import os, sys, threading, time
import lockstep
me = lockstep.join(job=sys.argv[1], index=int(sys.argv[2]), size=2)
other = 1 - me.member
rendezvous = me.rendezvous()
step = rendezvous.step(1)

def mapping(address):
    "What /proc says of the memory there."
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= address < end:
                return line.strip()
"""
END = """
me.barrier("end", timeout=60)
print("fine")
"""


@pytest.fixture
def pair(server, job):
    """pair(first, second): two programs, members 0 and 1, each with a `step`; the programs."""
    with contextlib.ExitStack() as stack:
        def start(*texts, python=None):
            return [stack.enter_context(Program(
                HEAD + text, job, index, LOCKSTEP_COORDINATOR=server.address,
                **({} if python is None else {
                    "python": str(python), "PYTHONPATH": str(PACKAGE), "JAX_PLATFORMS": "cpu"})))
                for index, text in enumerate(texts)]

        yield start


def both_end_well(programs):
    ends = [program.end() for program in programs]
    assert all(code == 0 and "fine" in said for code, said in ends), "\n".join(
        said for _, said in ends)


def test_bytes_between_processes(pair):
    both_end_well(pair("""
for count in 0, 1, 8192, 8193, 3_000_000:
    step.send("a", bytes([count % 251]) * count, to=1)
""" + END, """
for count in 0, 1, 8192, 8193, 3_000_000:
    assert bytes(step.recv("a", source=0, timeout=60)) == bytes([count % 251]) * count
""" + END))


WITHOUT_SHARED_MEMORY = """
rendezvous.close()
rendezvous = me.rendezvous(shared_memory=False)
me.barrier("without", timeout=60)
step = rendezvous.step(2)
"""


def test_long_values_are_read_from_the_senders_process_or_it_is_said_why_not(pair):
    both_end_well(pair(WITHOUT_SHARED_MEMORY + """
for count in 300_000, 3_000_000:
    step.send("a", bytes([count % 251]) * count, to=1)
""" + END, WITHOUT_SHARED_MEMORY + """
for count in 300_000, 3_000_000:
    assert bytes(step.recv("a", source=0, timeout=60)) == bytes([count % 251]) * count
(peer,) = rendezvous.transports()
assert peer.why_not_shared
assert (peer.transport == "cma") != bool(peer.why_not_read), peer
""" + END))


def test_views_outlive_the_step_the_rendezvous_and_the_sender(pair):
    first, second = pair("""
step.send("a", b"x" * 1_000_000, to=1)
print("sent")
sys.stdin.readline()
""", """
view = memoryview(step.recv("a", source=0, timeout=60))
print("received")
sys.stdin.readline()
step.close()
rendezvous.close()
me.close()
assert view == b"x" * 1_000_000
print("fine")
""")
    second.line("received")
    first.kill()
    first.end()
    second.tell("the sender is dead")
    both_end_well([second])


def test_a_killed_peer_is_named(pair):
    first, second = pair("print('waits'); sys.stdin.readline()", """
step.send("ready", b"", to=0)
print("waits")
try:
    step.recv("never", source=0)
except lockstep.Unavailable as error:
    print(error.reason, error)
    print("fine")
""")
    first.line("waits")
    second.line("waits")
    first.kill()
    assert "task/0" in second.line("peer_lost")
    second.line("fine")


def test_ctrl_c_ends_a_receive(pair):
    both = [pair_program for pair_program in pair("sys.stdin.readline()", """
print("waits")
try:
    step.recv("never", source=0)
except KeyboardInterrupt:
    print("interrupted", time.monotonic())
step.send("still", b"here", to=1)
assert bytes(step.recv("still", source=1)) == b"here"
print("fine")
""")]
    assert interrupt(both[1]) < INTERRUPTED_WITHIN_S
    both_end_well(both[1:])


def test_a_forked_child_is_told_so_and_may_look_at_what_was_received(pair):
    both_end_well(pair("step.send('a', b'x' * 100_000, to=1)" + END, """
tensor = step.recv("a", source=0, timeout=60)
child = os.fork()
if child == 0:
    assert bytes(tensor) == b"x" * 100_000
    for call in (lambda: step.recv("b", source=0), lambda: step.send("b", b"", to=0),
                 lambda: rendezvous.empty(3), lambda: rendezvous.step(2), lambda: me.step(2)):
        try:
            call()
        except lockstep.FailedPrecondition as error:
            assert error.reason == "forked"
        else:
            os._exit(1)
    del tensor
    rendezvous.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert bytes(tensor) == b"x" * 100_000
""" + END))


@pytest.mark.parametrize("daemon", [True, False])
def test_the_interpreter_ends_with_open_receives(pair, daemon):
    first, second = pair("print('waits'); sys.stdin.readline()", f"""
def wait():
    try:
        step.recv("never", source=0)
    except lockstep.Error as error:
        print(type(error).__name__)

import asyncio
loop = asyncio.new_event_loop()
waits = loop.create_task(step.aio.recv("never", source=0))
loop.run_until_complete(asyncio.sleep(0.01))
threading.Thread(target=wait, daemon={daemon}).start()
tensor = rendezvous.empty(100_000)
print("fine")
""")
    first.line("waits")
    code, said = second.end()
    assert code == 0 and "fine" in said and "Fatal" not in said, said


# --- With NumPy, torch and JAX ------------------------------------------------------------------


@needs_frameworks
@pytest.mark.timeout(300)
def test_rendezvous_row_90_values_of_every_length_come_as_they_were(pair):
    text = """
import ml_dtypes, numpy
types = [numpy.dtype(name) for name in "float32 float64 int32 uint16 uint8 int16 int8 complex64 "
         "complex128 int64 bool float16".split()] + [numpy.dtype(ml_dtypes.bfloat16)]
lengths = [*range(100), *range(1000, 10_001, 1000)]

def value(dtype, n):
    bytes_of_it = numpy.arange(n * dtype.itemsize, dtype=numpy.uint32).astype(numpy.uint8)
    return (bytes_of_it & 1 if dtype == bool else bytes_of_it).view(dtype).reshape(1, n)
"""
    both_end_well(pair(text + """
for dtype in types:
    for n in lengths:
        step.send("a", value(dtype, n), to=1, wait=60)
    step.send_dead("a", to=1)
""" + END, text + """
for dtype in types:
    for n in lengths:
        tensor = step.recv("a", source=0, timeout=60)
        came = tensor.numpy()
        assert (came.dtype, came.shape) == (dtype, (1, n)) and not tensor.dead
        assert came.tobytes() == value(dtype, n).tobytes(), (dtype, n)
    assert step.recv("a", source=0, timeout=60).dead
""" + END, python=PYTHON))


@needs_frameworks
@pytest.mark.timeout(300)
def test_rendezvous_row_95_every_type_of_numpy_goes_round(pair):
    text = """
import ml_dtypes, numpy
names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
small = [one for one in ("bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
                         "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn "
                         "int4 uint4").split() if hasattr(ml_dtypes, one)]
types = [numpy.dtype(name) for name in names.split()]
types += [numpy.dtype(getattr(ml_dtypes, name)) for name in small]
random = numpy.random.default_rng(1)
arrays = [random.integers(0, 2, shape).astype(dtype) for dtype in types
          for shape in ((), (1,), (0,), (2, 0, 3), (3, 4), (131, 97))]
"""
    both_end_well(pair(text + """
for array in arrays:
    step.send("a", array, to=1)
""" + END, text + """
for array in arrays:
    tensor = step.recv("a", source=0, timeout=60)
    came = tensor.numpy()
    assert (came.dtype, came.shape) == (array.dtype, array.shape), (came.dtype, array.dtype)
    assert tensor.dtype == array.dtype.name and tensor.shape == array.shape
    assert came.tobytes() == array.tobytes() and not came.flags.writeable
""" + END, python=PYTHON))


@needs_frameworks
@pytest.mark.timeout(300)
def test_rendezvous_row_106_received_memory_is_shared_and_cannot_be_written(pair):
    both_end_well(pair("""
import numpy
value = numpy.arange(1_000_000, dtype=numpy.float32).reshape(1000, 1000)
step.send("a", value, to=1)
value[:] = 0
""" + END, """
import jax, numpy, torch
tensor = step.recv("a", source=0, timeout=60)
seen = tensor.numpy()
address = seen.ctypes.data
where = mapping(address)
print(where)
assert " r--s " in where, where
views = {"numpy": numpy.from_dlpack(tensor), "asarray": numpy.asarray(tensor)}
assert all(view.ctypes.data == address for view in views.values())
for view in seen, *views.values():
    assert not view.flags.writeable
    try:
        view[0] = 1
    except ValueError:
        pass
    else:
        raise AssertionError("written")
theirs = torch.from_dlpack(tensor)
print("torch shares:", theirs.data_ptr() == address)
assert theirs.data_ptr() == address and float(theirs[-1, -1]) == 999_999
jaxs = jax.device_put(seen, may_alias=True)
assert jaxs.unsafe_buffer_pointer() == address and float(jaxs[-1, -1]) == 999_999
copied = jax.dlpack.from_dlpack(tensor)  # which does not ask for DLPack 1.0
assert copied.unsafe_buffer_pointer() != address and float(copied[-1, -1]) == 999_999
private = numpy.from_dlpack(tensor, copy=True)
assert private.ctypes.data != address
private[0] = 1
del tensor, views, theirs, jaxs
step.close(); rendezvous.close()
assert (seen == numpy.arange(1_000_000, dtype=numpy.float32).reshape(1000, 1000)).all()
""" + END, python=PYTHON))


@needs_frameworks
@pytest.mark.timeout(300)
def test_a_tensor_of_ones_own_memory_is_sent_without_a_copy(pair):
    both_end_well(pair("""
import numpy
tensor = rendezvous.empty((512, 512), numpy.float64)
view = tensor.numpy()
assert view.flags.writeable and " rw-s " in mapping(view.ctypes.data)
assert numpy.from_dlpack(tensor).ctypes.data == view.ctypes.data
view[:] = numpy.arange(512 * 512).reshape(512, 512)
step.send("a", tensor, to=1)
assert not tensor.numpy().flags.writeable and not numpy.from_dlpack(tensor).flags.writeable
step.recv("seen", source=1, timeout=60)
view[0, 0] = -7  # what must not be done, and shows that nothing was copied
step.send("written", b"", to=1)
""" + END, """
import numpy
seen = step.recv("a", source=0, timeout=60).numpy()
assert (seen == numpy.arange(512 * 512).reshape(512, 512)).all()
step.send("seen", b"", to=0)
step.recv("written", source=0, timeout=60)
assert seen[0, 0] == -7
""" + END, python=PYTHON))


@needs_frameworks
@pytest.mark.timeout(300)
def test_arrays_in_any_order_are_packed(pair):
    text = """
import numpy, torch
base = numpy.arange(60 * 70 * 8, dtype=numpy.int32).reshape(60, 70, 8)
arrays = [base.T, base[::2, ::-3], base[:, 3], numpy.asfortranarray(base), base[5:9, 2:5, 1:7],
          numpy.broadcast_to(base[0], (3, 70, 8)), base.transpose(1, 0, 2), numpy.int64(7)]
tensors = [torch.from_numpy(base.copy()).permute(2, 0, 1), torch.arange(6.0)[::2],
           torch.ones(3, dtype=torch.bfloat16)]
"""
    both_end_well(pair(text + """
for array in arrays + tensors:
    step.send("a", array, to=1)
""" + END, text + """
for array in arrays:
    numpy.testing.assert_array_equal(step.recv("a", source=0, timeout=60).numpy(), array)
for tensor in tensors:
    assert torch.equal(torch.from_dlpack(step.recv("a", source=0, timeout=60)), tensor)
""" + END, python=PYTHON))


@needs_frameworks
@pytest.mark.timeout(300)
def test_large_arrays_and_those_of_jax_and_torch(pair):
    text = """
import jax, numpy, torch
large = numpy.arange(16 << 20, dtype=numpy.uint32)
"""
    both_end_well(pair(text + """
step.send("large", large, to=1)
step.send("jax", jax.numpy.arange(5000.0) * 2, to=1)
step.send("bfloat16", jax.numpy.ones((3, 5), jax.numpy.bfloat16), to=1)
weights = torch.nn.Linear(50, 60).weight
try:
    step.send("torch", weights, to=1)
except BufferError as error:
    assert "detach" in str(error), error
else:
    raise AssertionError
step.send("torch", weights.detach().fill_(3), to=1)
try:
    step.send("meta", torch.empty(3, device="meta"), to=1)
except (TypeError, BufferError, ValueError) as error:
    print(type(error), error)
else:
    raise AssertionError
step.recv("into", source=1, timeout=60)
""" + END, text + """
came = step.recv("large", source=0, timeout=60).numpy()
assert came.nbytes == 64 << 20 and (came == large).all()
assert (step.recv("jax", source=0, timeout=60).numpy() == numpy.arange(5000.0) * 2).all()
ones = step.recv("bfloat16", source=0, timeout=60)
assert ones.dtype == "bfloat16" and (ones.numpy() == 1).all()
assert jax.dlpack.from_dlpack(ones).dtype == jax.numpy.bfloat16
into = torch.zeros(60, 50)
step.recv_into("torch", into, source=0, timeout=60)
assert bool((into == 3).all())
step.send("into", into, to=0)
""" + END, python=PYTHON))


@needs_frameworks
def test_arrays_of_what_is_no_number_are_refused(pair):
    both_end_well(pair("""
import numpy
for value in (numpy.zeros(3, "i4,f8"), numpy.array(["a"]), numpy.array([b"a"]), numpy.array([{}]),
              numpy.zeros(3, "datetime64[s]"), numpy.zeros(3, ">f4"), numpy.zeros(3, "V4"),
              numpy.zeros(3, numpy.longdouble)):
    try:
        step.send("a", value, to=1)
    except TypeError as error:
        print(value.dtype, error)
    else:
        raise AssertionError(value.dtype)
step.send("a", b"nothing was sent before", to=1)
""" + END, """
assert bytes(step.recv("a", source=0, timeout=60)) == b"nothing was sent before"
""" + END, python=PYTHON))
