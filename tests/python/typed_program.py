"""A user's program with every public call in it, once with and once without asyncio.

test_types.py has mypy check it as strictly as there is, against the package as it is installed; and
runs it.
"""

import asyncio
import datetime
import sys
from typing import assert_type

import lockstep
from lockstep import data

SHORT = datetime.timedelta(seconds=30)


def train(me: lockstep.Member) -> int | None:
    with me.preemption(stride=1, last_step=99, save_estimate=8.0, wait_max=5) as preemption:
        preemption.on_notice(lambda notice: print(notice.phase, notice.left))
        for step in range(100):
            if not preemption.reached(step):
                continue
            try:
                preemption.saved(step, f"/checkpoints/{step}")
            except OSError as error:
                preemption.failed_to_save(step, str(error))
            notice: lockstep.PreemptionNotice = preemption.notice()
            if not notice.withdrawn:
                return notice.step
        preemption.notify("cluster", "drain", left=30, reason="rack 7")
        preemption.withdraw("cluster", "drain")
        preemption.close()
    with me.notices(["auto"], once_a_host=True) as notices:
        assert_type(notices.looking, bool)
        assert_type(notices.sources(), list[lockstep.SourceState])
        notices.close()
    return None


def told(change: lockstep.JobChange | lockstep.Error) -> None:
    if not isinstance(change, lockstep.Error):
        assert_type(change.members, tuple[lockstep.MemberInfo, ...])
        assert_type(change.errors, tuple[lockstep.JobError, ...])
        assert_type((change.version, change.snapshot, change.attempt, change.state),
                    tuple[int, bool, int, str])


def use_keys(kv: lockstep.Keys) -> None:
    assert_type(kv.set("a", "1", overwrite=True, ttl=SHORT, with_member=True, timeout=30), int)
    assert_type(kv.get("a", timeout=None), bytes)
    assert_type(kv.entry("a"), lockstep.KeyEntry | None)
    assert_type(kv.wait("a", timeout=30.5), bytes)
    assert_type(kv.wait_many(["a"]), list[bytes])
    swap = kv.compare_and_set("leader", None, bytearray(b"me"))
    assert_type(swap, lockstep.SwapResult)
    assert_type(swap.entry, lockstep.KeyEntry | None)
    assert_type(kv.increment("n", 2), int)
    assert_type(kv.max("n", 5), int)
    entries = kv.list("")
    assert_type(entries, list[lockstep.KeyEntry])
    assert_type((entries[0].key, entries[0].value, entries[0].revision), tuple[str, bytes, int])
    with kv.watch("a", after=0) as watch:
        assert_type(watch, lockstep.KeyWatch)
        changes = watch.next(30)
        assert_type(changes, lockstep.KeyChanges)
        assert_type(changes.changes[0].value, bytes | None)
    kv.on_change("a", lambda change: None).close()
    assert_type(kv.delete("a", below=True, revision=None), int)
    try:
        kv.get("a")
    except lockstep.NotFound as error:
        assert_type((error.code, error.reason, error.message, error.member),
                    tuple[str, str, str, int | None])
        assert_type(error.details, dict[str, str])


def use_tensors(me: lockstep.Member) -> None:
    with me.rendezvous(quota_bytes=1 << 20, shared_memory=True,
                       process_memory=False) as rendezvous:
        assert_type(rendezvous, lockstep.Rendezvous)
        fresh = rendezvous.empty((2, 3), "float32")
        assert_type(fresh, lockstep.NewTensor)
        assert_type(rendezvous.transports(), list[lockstep.PeerTransport])
        assert_type(rendezvous.counters(), dict[str, float])
        with rendezvous.step(1) as step:
            assert_type((step, step.number), tuple[lockstep.Step, int])
            step.send("a", fresh, to=0, wait=SHORT)
            tensor = step.recv("a", source=0, timeout=30)
            assert_type(tensor, lockstep.Tensor)
            assert_type((tensor.shape, tensor.dtype, tensor.nbytes, len(tensor), bytes(tensor)),
                        tuple[tuple[int, ...], str, int, int, bytes])
            step.send_dead("b", to=0, reason="not taken")
            dead = step.recv("b", source=0)
            assert_type((dead.dead, dead.why_dead), tuple[bool, str])
            step.send("c", b"12", to=0)
            step.recv_into("c", bytearray(2), source=0, timeout=30)
            asyncio.run(use_step_of_asyncio(step.aio))
            step.abort("cannot go on")
            step.close()
        assert_type(rendezvous.aio, lockstep.aio.Rendezvous)
        rendezvous.close()
    with me.step(2) as step, me.step(3) as other:
        try:
            step.send_acked("a", b"", to=0, timeout=0)
        except lockstep.DeadlineExceeded:
            other.abort(ValueError("the loss is nan"))


async def use_step_of_asyncio(step: lockstep.aio.Step) -> None:
    await step.send("d", b"1", to=0, wait=1)
    acked = asyncio.ensure_future(step.send_acked("e", b"2", to=0, timeout=30))
    await step.recv("e", source=0)
    await acked
    assert_type(await step.recv("d", source=0, timeout=30), lockstep.Tensor)


async def use_tensors_of_asyncio(me: lockstep.aio.Member) -> None:
    async with await me.step(4) as step:
        assert_type(step, lockstep.aio.Step)
        step.send_dead("a", to=0)
        await use_step_of_asyncio(step)


async def open_in_asyncio(me: lockstep.aio.Member) -> None:
    async with await me.rendezvous() as rendezvous:
        async with rendezvous.step(5) as step:
            assert_type(step, lockstep.aio.Step)
        assert_type(rendezvous.empty(3), lockstep.NewTensor)


def make_datasets() -> data.Dataset:
    numbers = data.range(10).shuffle(seed=1, reshuffle=False).repeat(2).skip(1).take(18)
    mapped = numbers.map(lambda x: x * 2).filter(lambda x: x > 3).on_error("skip", budget=1)
    assert_type(mapped.batch(2, drop_remainder=True).segment(8), data.Dataset)
    for unread in (data.npy("*.npy"), data.windows("t.bin", "uint16", 8, stride=4), data.lines("*"),
                   data.records(["r.bin"], bytes=16), data.tfrecord("*.tfrecord"), data.fill(3, "int8", 4)):
        assert_type(unread.explain(), str)
    joined = data.zip(x=data.concat(data.range(2), data.range(2)), y=data.array(b"abcd"))
    assert_type((joined.identity, len(joined)), tuple[str, int])
    assert_type(joined.spec, data.Leaf | dict[str, data.Leaf] | None)
    mixed = data.mix([data.range(5), data.range(5)], [2, 1])
    assert_type(mixed.map("operator:neg", returns="int64", timeout=5), data.Dataset)
    return mixed.map(lambda x: data.where(x > 1, data.minimum(x, 5), data.maximum(x, 2)))


def use_data(me: lockstep.Member) -> None:
    dataset = make_datasets()
    with dataset.local() as elements:
        assert_type(elements, data.LocalIterator)
        assert_type(elements.spec, data.Leaf | dict[str, data.Leaf] | None)
        print(data.as_torch("text"), data.as_jax("text")) if sys.argv[1:] else next(elements)
        elements.close()
    with dataset.read(me, name="typed", consumer=0, consumers=1, timeout=30) as reader:
        assert_type(reader, data.Reader)
        assert_type(reader.place, data.Place | None)
        try:
            reader.next(0)  # there is no worker
            assert_type((reader.cursor(), reader.counters()), tuple[bytes, dict[str, float]])
            reader.ack()
        except lockstep.Error as error:
            print(error.reason)
        reader.close()


def use_member(me: lockstep.Member) -> None:
    assert_type((me.job, me.role, me.index, me.member, me.size, me.name, me.attempt),
                tuple[str, str, int, int, int, str, int])
    me.on_error(lambda error: print(error.reason, error.member))
    watch = me.on_change(told)
    assert_type(watch, lockstep.JobWatch)
    watch.close()
    me.barrier("loaded", timeout=SHORT, members=[me.member])
    assert_type(me.gather("port", b"4711", timeout=30), list[bytes])
    assert_type(me.agree("save", 7, stride=5), int)
    assert_type(me.barriers(), lockstep.OpenBarriers)
    assert_type(me.alive()[0], lockstep.AliveMember)
    assert_type(me.members(), list[lockstep.MemberInfo])
    with me.watch() as changes:
        told(changes.next(30))
    me.progress(3, "train")
    try:
        me.cancel_barrier("loaded", timeout=30)
    except lockstep.Error as error:
        print(type(error).__name__)
    use_keys(me.kv)
    use_tensors(me)
    use_data(me)


async def use_keys_of_asyncio(kv: lockstep.aio.Keys) -> None:
    assert_type(await kv.set("a", b"1"), int)
    assert_type(await kv.get("a"), bytes)
    assert_type(await kv.entry("a"), lockstep.KeyEntry | None)
    assert_type(await kv.wait("a"), bytes)
    assert_type(await kv.wait_many(["a"]), list[bytes])
    assert_type(await kv.compare_and_set("a", b"1", "2"), lockstep.SwapResult)
    assert_type(await kv.increment("m"), int)
    assert_type(await kv.max("m", 3), int)
    assert_type(await kv.list(), list[lockstep.KeyEntry])
    watch = kv.watch("a")
    assert_type(await watch.next(30), lockstep.KeyChanges)
    watch.close()
    assert_type(await kv.delete("a"), int)


async def use_asyncio(me: lockstep.aio.Member) -> None:
    await me.barrier("loaded again", timeout=30)
    assert_type(await me.gather("port again", "4711"), list[bytes])
    assert_type(await me.agree("save again", 7), int)
    assert_type(await me.barriers(), lockstep.OpenBarriers)
    assert_type(await me.alive(), list[lockstep.AliveMember])
    assert_type(await me.members(), list[lockstep.MemberInfo])
    watch = me.watch()
    async for change in watch:
        assert_type(change, lockstep.JobChange)
        break
    watch.close()
    try:
        await me.cancel_barrier("loaded again")
    except lockstep.Error as error:
        print(type(error).__name__)
    await use_keys_of_asyncio(me.kv)
    await use_tensors_of_asyncio(me)


async def join_in_asyncio(address: str) -> None:
    async with await lockstep.aio.join(address, job="coroutines", index=0, size=1) as me:
        assert_type(me, lockstep.aio.Member)
        await open_in_asyncio(me)
        await me.leave(timeout=30)
    me = await lockstep.aio.join(address, job="coroutines", timeout=30)
    await me.report_error(ValueError("the loss is nan"))
    me.close()


def main() -> int:
    with lockstep.serve(jobs={"first": 1}, timeout=SHORT) as server:
        assert_type((server.address, server.join_string, server.grpc("first"), server.log(),
                     server.pid), tuple[str, str, str, str, int])
        with lockstep.join(server.address, job="threads", role="trainer", index=0, size=1,
                           labels={"rack": "r7"}, host="gpu-3", timeout=60, grace=60) as me:
            use_member(me)
            asyncio.run(use_asyncio(me.aio))
        asyncio.run(join_in_asyncio(server.address))
        with lockstep.session(server.address, job="watched", size=2, who="a tool", timeout=30,
                              grace=60) as session:
            assert_type(session, lockstep.Session)
            assert_type((session.job, session.size, session.attempt), tuple[str, int, int])
            assert_type(session.kv.set("a", "1"), int)
            session.close()
        me = lockstep.join(server.address, job="failing", index=0, size=1)
        me.report_error("cannot go on", timeout=30)
        me.close()
        server.stop()
    print("every call was made")
    return 0


if __name__ == "__main__":
    sys.exit(main())
