"""Preemptions: all members save at one step."""

import collections
import itertools
import os
import threading
import time

import pytest

import lockstep
from conftest import LIMIT_S, each


def work(members, first=0, polled=1, **options):
    """Each member in a thread of its own, all in step; returns what each saved, and what stops them."""
    preemptions = [me.preemption(**options) for me in members]
    saved = collections.defaultdict(dict)
    stop = threading.Event()
    together = threading.Barrier(len(members))

    def train(which):
        preemption = preemptions[which]
        try:
            for step in itertools.count(first, polled):
                together.wait(LIMIT_S)
                if stop.is_set():
                    return
                if preemption.reached(step):
                    saved[preemption.notice().id][which] = step
                    preemption.saved(step, f"/ckpt/{step}")
        except threading.BrokenBarrierError:
            pass
        finally:
            together.abort()

    threads = [threading.Thread(target=train, args=(which,)) for which in range(len(members))]
    for thread in threads:
        thread.start()

    def end():
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
        for preemption in preemptions:
            preemption.close()

    return preemptions, saved, end


def until(preemption, holds):
    """What is known of the preemption once that holds."""
    give_up = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up:
        notice = preemption.notice()
        if holds(notice):
            return notice
        time.sleep(0.005)
    raise AssertionError(f"it does not come to that: {preemption.notice()}")


def until_ended(preemption, id):
    return until(preemption, lambda notice: notice.id >= id and not notice.open)


def test_all_save_at_one_step_again_and_again(crowd):
    preemptions, saved, end = work(crowd(3))
    try:
        for id in range(1, 6):
            preemptions[id % 3].notify("test", f"event {id}", left=30)
            notice = until_ended(preemptions[0], id)
            assert notice.outcome == "saved", notice
            assert set(saved[id]) == {0, 1, 2}
            assert set(saved[id].values()) == {notice.step}
            assert notice.sources == ("test",) and notice.subjects == (id % 3,)
    finally:
        end()


def test_a_declared_stride_is_kept(crowd):
    preemptions, saved, end = work(crowd(2), first=1000, polled=10, stride=10)
    try:
        preemptions[0].notify("test")
        notice = until_ended(preemptions[1], 1)
        assert notice.outcome == "saved", notice
        assert len(set(saved[1].values())) == 1
        assert min(saved[1].values()) % 10 == 0
    finally:
        end()


def test_preemption_row_28_nothing_is_reached_without_a_notice(crowd):
    (me,) = crowd(1)
    with me.preemption() as preemption:
        assert not any(preemption.reached(step) for step in range(1000))
        notice = preemption.notice()
        assert (notice.id, notice.phase, notice.open, notice.left) == (0, "none", False, None)


def test_it_is_true_for_one_step_and_again_for_that_one(crowd):
    (me,) = crowd(1)
    with me.preemption() as preemption:
        preemption.reached(4)
        preemption.notify("test", left=30)
        step = next(step for step in range(5, 10**6) if preemption.reached(step))
        assert preemption.reached(step) and not preemption.reached(step - 1)
        preemption.saved(step)
        until_ended(preemption, 1)
        assert not preemption.reached(step + 1)


def test_preemption_defect_06_the_gil_is_not_held_while_members_agree(run_program, job):
    with lockstep.serve(options=["--preempt-awaits-all", "--preempt-sync-timeout", "10m"]) as own:
        both = run_program("""
        import itertools, sys, threading, time
        import lockstep
        from concurrent.futures import ThreadPoolExecutor

        join = lambda index: lockstep.join(job=sys.argv[1], index=index, size=2)
        one, other = ThreadPoolExecutor().map(join, range(2))
        trained, late = one.preemption(stride=1, wait_max=600), other.preemption(wait_max=600)
        list(ThreadPoolExecutor().map(lambda me: me.barrier("both listen"), (one, other)))
        polled = reached = None

        def train():
            global polled, reached
            for step in itertools.count(1):
                time.sleep(0)
                polled = step
                if trained.reached(step):
                    reached = step
                    return

        # A thread keeps the GIL until it lets go of it: from here on who runs is no accident.
        sys.setswitchinterval(3600)
        thread = threading.Thread(target=train)
        thread.start()
        while polled is None:
            time.sleep(0)
        trained.notify("test", left=600)
        while trained.notice().phase != "holding":
            time.sleep(0)
        # It is held now at a step that it has polled, since the other has not begun.
        held, same = polled, 0
        while same < 1000:
            time.sleep(0)
            held, same = polled, same + 1 if polled == held else 0
        print("held", flush=True)
        if late.reached(1):
            print("the other was let go alone")
        thread.join()
        print("reached", reached == held, flush=True)
        """, job, address=own.address)
        # With the GIL held there, the program would not get as far as that.
        both.line("held")
        assert both.line("reached") == "reached True"
        code, said = both.end()
        assert code == 0 and "alone" not in said, said


def test_a_notice_is_told_moved_and_withdrawn(crowd):
    first, second = crowd(2)
    with first.preemption() as one, second.preemption() as other:
        seen = []
        changed = threading.Condition()

        def note(notice):
            with changed:
                seen.append(notice)
                changed.notify_all()

        other.on_notice(note)
        one.notify("maintenance", "m1", left=7200, reason="host error")
        with changed:
            assert changed.wait_for(lambda: seen, LIMIT_S)
        assert seen[0].phase == "pending" and not seen[0].concerns_me
        assert 7000 < seen[0].left <= 7200 and one.notice().concerns_me
        one.withdraw("maintenance", "m1")
        assert until_ended(other, 1).outcome == "cancelled"
        with pytest.raises(lockstep.NotFound) as raised:
            one.withdraw("maintenance", "m1")
        assert raised.value.reason == "no_preemption"


def test_preemption_row_26_a_closed_one_reads_as_not_preempted(crowd):
    (me,) = crowd(1)
    preemption = me.preemption()
    preemption.close()
    assert not preemption.reached(1)
    with pytest.raises(lockstep.FailedPrecondition):
        preemption.saved(1)


def test_a_forked_child_is_not_asked(crowd):
    (me,) = crowd(1)
    with me.preemption() as preemption:
        child = os.fork()
        if child == 0:
            try:
                assert not preemption.reached(5)
                with pytest.raises(lockstep.FailedPrecondition):
                    preemption.notice()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def test_wrong_arguments_are_named(crowd):
    (me,) = crowd(1)
    with me.preemption() as preemption:
        with pytest.raises(TypeError):
            preemption.reached("7")
        with pytest.raises((TypeError, ValueError)):
            preemption.saved("7")
        with pytest.raises(lockstep.InvalidArgument):
            preemption.notify("")


def test_preemption_row_25_a_save_before_a_death_joins_those_of_the_interval(crowd):
    (me,) = crowd(1)
    with me.preemption(stride=1) as preemption:
        steps = []
        for step in range(10):
            if step == 2:
                preemption.notify("test", left=60)
                until(preemption, lambda notice: notice.step is not None)
            if preemption.reached(step) or step % 4 == 0:
                steps.append(step)
                preemption.saved(step)
        assert steps == [0, 2, 4, 8]
        assert until_ended(preemption, 1).outcome == "saved"


def test_preemption_defect_14_a_notice_is_no_signal_to_anybody(run_program, crowd, job):
    """SIGTERM to a process group ends the children that load data, and then the job."""
    (me,) = crowd(1)
    with run_program("import sys; print(sys.stdin.readline())") as loader, me.preemption() as mine:
        mine.reached(1)
        mine.notify("test", left=30)
        step = next(step for step in range(2, 10**6) if mine.reached(step))
        loader.tell("one batch more")
        loader.line("one batch more")
        mine.saved(step)
        assert until_ended(mine, 1).outcome == "saved"
        loader.end_well()


def test_members_that_leave_at_the_step_end_it(crowd):
    members = crowd(2)
    preemptions = [me.preemption() for me in members]
    for preemption in preemptions:
        preemption.reached(1)
    preemptions[0].notify("test", left=30)

    def run(pair):
        me, preemption = pair
        step = next(step for step in range(2, 10**6) if preemption.reached(step))
        preemption.saved(step)
        preemption.close()
        me.leave(LIMIT_S)
        return step

    steps = each(list(zip(members, preemptions)), run)
    assert steps[0] == steps[1]


def test_a_source_of_the_members_tells_the_job(crowd, tmp_path):
    spec = f"file:path={tmp_path / 'notice'},interval=10ms"
    first, second = crowd(2, host="one-host")
    with first.notices([spec]) as one, second.notices([spec]) as other:
        # In one process both may hold the host's lock; what is told twice is one notice.
        assert one.looking
        with first.preemption() as preemption:
            told = threading.Event()
            preemption.on_notice(lambda notice: told.set() if notice.id else None)
            # Renamed into place: a look between creation and content would see no time.
            (tmp_path / "written").write_text("1h")
            (tmp_path / "written").rename(tmp_path / "notice")
            assert told.wait(LIMIT_S)
            notice = preemption.notice()
            assert notice.subjects == (0, 1) and set(notice.sources) == {"file"}
            assert 3500 < notice.left <= 3600
        give_up = time.monotonic() + LIMIT_S
        while not (states := one.sources())[0].notices:
            assert time.monotonic() < give_up, states
        (state,) = states
        assert state.source == "file" and state.healthy and state.notices == 1
        assert state.last_success is not None and not other.sources()[0].last_error


def test_of_many_processes_on_a_host_one_looks(run_program, job, server):
    program = """
    import sys, lockstep
    me = lockstep.join(job=sys.argv[1], index=int(sys.argv[2]), size=2)
    notices = me.notices(["file:path=/nonexistent/notice"])
    print("looking", notices.looking)
    sys.stdin.readline()
    while not notices.looking:
        pass
    print("looking now")
    me.leave()
    """
    programs = [run_program(program, job, index) for index in range(2)]
    said = [each.line("looking") for each in programs]
    assert sorted(said) == ["looking False", "looking True"]
    looks = said.index("looking True")
    programs[looks].kill()
    programs[1 - looks].tell("the other one is gone")
    programs[1 - looks].line("looking now")


def test_a_sigterm_is_a_notice_and_python_s_handlers_go_on(run_program, job):
    program = run_program("""
    import os, signal, sys, threading, time, lockstep
    signal.signal(signal.SIGTERM, lambda *_: print("the program's own handler"))
    me = lockstep.join(job=sys.argv[1], index=0, size=1)
    preemption = me.preemption()
    with me.notices(["signal"]):
        os.kill(os.getpid(), signal.SIGTERM)
        for step in range(10**9):
            if preemption.reached(step):
                print("saves for", preemption.notice().sources)
                preemption.saved(step)
                break
    me.leave()
    """, job)
    program.line("the program's own handler")
    program.line("saves for ('signal',)")
    program.end_well()


@pytest.mark.parametrize("sources, error", [
    (["gcp"], lockstep.InvalidArgument), (["file"], lockstep.InvalidArgument),
    ("auto", TypeError), ([7], TypeError)])
def test_wrong_sources_are_refused(crowd, sources, error):
    (me,) = crowd(1)
    with pytest.raises(error):
        me.notices(sources)


def test_a_path_may_be_a_path(crowd, tmp_path):
    (me,) = crowd(1)
    with me.preemption() as preemption:
        preemption.notify("test", left=30)
        step = next(step for step in itertools.count() if preemption.reached(step))
        preemption.saved(step, tmp_path)
        assert until_ended(preemption, 1).outcome == "saved"
