"""The same for asyncio."""

import asyncio

import pytest

import lockstep
from conftest import LIMIT_S


def test_members_of_one_loop_meet(server, job):
    async def work(index):
        async with await lockstep.aio.join(server.address, job=job, index=index, size=3,
                                           timeout=LIMIT_S) as me:
            await me.barrier("loaded", timeout=LIMIT_S)
            values = await me.gather("port", f"4{index}", timeout=LIMIT_S)
            agreed = await me.agree("save", index, timeout=LIMIT_S)
            alive = await me.alive(timeout=LIMIT_S)
            return values, agreed, len(alive)

    async def main():
        return await asyncio.gather(*(work(index) for index in range(3)))

    assert asyncio.run(main()) == [([b"40", b"41", b"42"], 2, 3)] * 3


def test_keys(crowd):
    (me,) = crowd(1)

    async def main():
        kv = me.aio.kv
        await kv.set("a", b"1")
        assert await kv.get("a") == b"1"
        assert (await kv.entry("a")).value == b"1"
        assert await kv.wait_many(["a"], timeout=LIMIT_S) == [b"1"]
        assert await kv.increment("n", 2) == 2
        assert await kv.max("n", 5) == 5
        assert (await kv.compare_and_set("a", b"1", b"2")).swapped
        assert [entry.key for entry in await kv.list()] == ["a", "n"]
        assert await kv.delete("n") == 1
        with pytest.raises(lockstep.NotFound):
            await kv.get("n")
        watch = kv.watch("a")
        assert (await watch.next(LIMIT_S)).snapshot
        await kv.set("a", b"3")
        async for changes in watch:
            assert changes.changes[0].value == b"3"
            break
        watch.close()
        assert [one.condition for one in await me.aio.members()] == ["connected"]

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_wait(crowd):
    me, _ = crowd(2)

    async def main():
        task = asyncio.create_task(me.aio.kv.wait("never"))
        await me.aio.kv.set("other", b"")  # by now the wait is on its way, too
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(me.aio.barrier("alone"), 0.2)
        with pytest.raises(lockstep.DeadlineExceeded):
            await me.aio.barrier("alone again", timeout=0.2)

    asyncio.run(main())


def test_what_was_cancelled_can_be_waited_for_again_at_once(crowd):
    me, _ = crowd(2)

    async def main():
        for _ in range(200):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(me.aio.barrier("never"), 0.001)

    asyncio.run(main())


def test_hundreds_of_waits_need_no_thread_each(crowd):
    (me,) = crowd(1)

    async def main():
        waits = [asyncio.create_task(me.aio.kv.wait(f"key/{i}")) for i in range(800)]
        await asyncio.gather(*(me.aio.kv.set(f"key/{i}", str(i)) for i in range(800)))
        return await asyncio.gather(*waits)

    assert asyncio.run(main()) == [str(i).encode() for i in range(800)]
