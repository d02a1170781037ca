"""Members that are killed in the midst of a preemption: the others save at one step, or are told why
not. The test says when each member polls."""

import contextlib
import os
import signal

import pytest

import lockstep
from programs import Program

MEMBER = """
import sys, time
import lockstep

me = lockstep.join(job=sys.argv[1], index=int(sys.argv[2]), size=3)
preemption = me.preemption(stride=1)
me.barrier("all listen")

def until(holds):
    give_up = time.monotonic() + 60
    while not holds(preemption.notice()):
        assert time.monotonic() < give_up, preemption.notice()
        time.sleep(0.005)
    return preemption.notice()

print("joined")
for line in sys.stdin:
    what, *rest = line.split()
    if what == "polls":
        print("polled", rest[0], preemption.reached(int(rest[0])))
    elif what == "notifies":
        preemption.notify("test", left=float(rest[0]))
        print("notified")
    elif what == "awaits":
        print("step", until(lambda notice: notice.step is not None).step)
    elif what == "saves":
        preemption.saved(int(rest[0]), "/ckpt/" + rest[0])
        print("saved")
    elif what == "ends":
        notice = until(lambda notice: notice.id and not notice.open)
        print("ended", notice.outcome, notice.step, notice.text)
"""


class Member:
    def __init__(self, program):
        self.program = program

    def does(self, what, answer):
        """Its answer to that, without the word that it begins with."""
        self.program.tell(what)
        return self.program.line(answer).partition(answer)[2].strip()

    def polls(self, *steps):
        """The steps for which that is true."""
        answers = {step: self.does(f"polls {step}", f"polled {step}") for step in steps}
        return [step for step, answer in answers.items() if answer == "True"]

    def ended(self):
        outcome, step, text = self.does("ends", "ended").split(" ", 2)
        return outcome, step, text

    def kill(self):
        self.program.kill()
        self.program.end()


@pytest.fixture
def three(job):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            lockstep.serve(options=["--preempt-sync-timeout", "2s", "--session-grace", "100ms"]))
        programs = [stack.enter_context(Program(MEMBER, job, index,
                                                LOCKSTEP_COORDINATOR=server.address))
                    for index in range(3)]
        for program in programs:
            program.line("joined")
        yield [Member(program) for program in programs]


def all_poll(members):
    """The first is the fastest: it has done step 5."""
    members[0].polls(*range(6))
    members[1].polls(*range(4))
    members[2].polls(*range(3))


def the_others_save(members):
    assert members[0].polls(6) == [6]
    assert members[1].polls(4, 5, 6) == [6]
    for member in members[:2]:
        member.does("saves 6", "saved")
    outcome, step, text = members[0].ended()
    assert (outcome, step) == ("partly_saved", "6"), text
    assert "2 of 3 members saved at step 6" in text and "/2#1 gone" in text
    assert members[1].ended() == (outcome, step, text)


def test_preemption_killed_05_a_member_before_the_agreed_step(three):
    all_poll(three)
    three[0].does("notifies 300", "notified")
    assert [member.does("awaits", "step") for member in three] == ["6"] * 3
    three[2].kill()
    the_others_save(three)


def test_preemption_killed_06_a_member_at_the_agreed_step(three):
    all_poll(three)
    three[0].does("notifies 300", "notified")
    assert [member.does("awaits", "step") for member in three] == ["6"] * 3
    assert three[2].polls(3, 4, 5, 6) == [6]
    three[2].kill()
    the_others_save(three)


def test_preemption_killed_07_a_member_that_has_saved(three):
    all_poll(three)
    three[0].does("notifies 300", "notified")
    assert [member.does("awaits", "step") for member in three] == ["6"] * 3
    assert three[2].polls(3, 4, 5, 6) == [6]
    three[2].does("saves 6", "saved")
    # Its own word has to be on its way before it dies: what it said first was answered first.
    three[2].does("notifies 300", "notified")
    three[2].kill()
    assert three[0].polls(6) == [6]
    assert three[1].polls(4, 5, 6) == [6]
    for member in three[:2]:
        member.does("saves 6", "saved")
    outcome, step, text = three[0].ended()
    assert (outcome, step) == ("saved", "6"), text
    assert "3 of 3 members saved at step 6" in text


def test_preemption_killed_08_the_notified_host_itself_at_once(three):
    all_poll(three)
    three[2].does("notifies 300", "notified")
    three[2].kill()
    # Whether it was there while they agreed or not: it is not ahead of them.
    assert [member.does("awaits", "step") for member in three[:2]] == ["6"] * 2
    the_others_save(three)


def test_preemption_killed_09_a_member_that_stands_still_is_not_waited_for(three):
    all_poll(three)
    still = three[2].program.process
    still.send_signal(signal.SIGSTOP)
    try:
        # It may go on for a moment.
        os.waitid(os.P_PID, still.pid, os.WSTOPPED | os.WNOWAIT)
        three[0].does("notifies 300", "notified")
        assert [member.does("awaits", "step") for member in three[:2]] == ["6"] * 2
        assert three[0].polls(6) == [6]
        assert three[1].polls(4, 5, 6) == [6]
        for member in three[:2]:
            member.does("saves 6", "saved")
        outcome, _, text = three[0].ended()
        assert outcome == "partly_saved" and "/2#1 silent" in text, text
    finally:
        still.send_signal(signal.SIGCONT)


