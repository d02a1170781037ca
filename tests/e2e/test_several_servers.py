"""Several servers with one state in etcd: one leads, and the others take over."""

import re
import signal
import sys

import pytest

from commands import LOCKSTEP, ROOT, Command, clean_environment
from groups import ETCD, Etcd, Group
from stock_steps import STEPS

pytestmark = pytest.mark.skipif(not ETCD.exists(), reason="scripts/setup.sh etcd")
OURS = ROOT / "build" / "venv" / "bin" / "python"  # has lockstep; sys.executable has JAX


@pytest.fixture(scope="module", name="etcd")
def three_members():
    with Etcd() as members:
        yield members


@pytest.fixture(name="place")
def prefix_of_its_own(etcd, request):
    return etcd.place("tests/" + re.sub(r"\W+", "-", request.node.name))


# A member that writes a key in each step, and reads all that it wrote before.
MEMBER = """
import lockstep, sys, time
with lockstep.join(address=sys.argv[1], job='j', index=0) as member:
    keys = member.kv
    longest, last = 0.0, time.monotonic()
    for step in range(int(sys.argv[2])):
        keys.set(f'step/{step}', str(step).encode())
        assert keys.get(f'step/{step}', timeout=60) == str(step).encode()
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        if step % 50 == 0: print('step', step, flush=True)
        time.sleep(0.005)
    for step in range(int(sys.argv[2])):
        assert keys.get(f'step/{step}', timeout=60) == str(step).encode(), step
    print(f'longest {longest:.3f}', flush=True)
"""


def member_of(group, count):
    return Command(OURS, "-c", MEMBER, group.address, count)


def test_a_prefix_without_a_state_is_refused(place):
    with Command(LOCKSTEP, "serve", "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1",
                 "--state", place) as served:
        assert served.end() == 2, served.text()
        assert "--new-state" in served.text() and "restore etcd" in served.text()


@pytest.mark.parametrize("how", ["kill", "end"])
def test_a_member_goes_on_with_the_next_leader(place, tmp_path, how):
    with Group(place, tmp_path, "--job", "j=1") as group, member_of(group, 400) as member:
        for fault in range(3):
            member.wait_for(rf"step {fault * 100 + 50}$")
            leads = group.leader()
            group.kill(leads) if how == "kill" else group.end(leads)
            assert group.leader() != leads
            group.start(leads)
            group.wait_for(leads, "standing by at")
        assert member.end() == 0, member.text() + group.text()
        longest = float(member.wait_for(r"longest (\S+)")[0][1])
        assert longest < 3, f"the lease was waited for: {longest} s"


def test_a_leader_that_was_stopped_stands_by_when_it_goes_on(place, tmp_path):
    with Group(place, tmp_path, "--job", "j=1") as group, member_of(group, 300) as member:
        member.wait_for(r"step 50$")
        group.signal(0, signal.SIGSTOP)
        assert group.leader() == 1
        member.wait_for(r"step 200$")
        group.signal(0, signal.SIGCONT)
        group.wait_for(0, "starting again, to stand by")
        group.wait_for(0, "standing by at")
        assert member.end() == 0, member.text() + group.text()
        # And it can lead again.
        group.kill(1)
        assert group.leader() == 0


def test_members_of_etcd_may_die(etcd, place, tmp_path):
    with Group(place, tmp_path, "--job", "j=1") as group, member_of(group, 400) as member:
        for fault in range(2):
            member.wait_for(rf"step {fault * 150 + 50}$")
            leads = etcd.leader()
            etcd.kill(leads)
            etcd.leader()
            member.wait_for(rf"step {fault * 150 + 150}$")
            etcd.start(leads)
        assert member.end() == 0, member.text() + group.text()


def test_a_client_is_told_who_leads(place, tmp_path):
    with Group(place, tmp_path, "--job", "j=1") as group:
        with Command(LOCKSTEP, "status", "--coordinator", group.address_of(1)) as shown:
            assert shown.end() != 0
            assert group.address_of(0) in shown.text() and "lead" in shown.text(), shown.text()
        with Command(LOCKSTEP, "status", "--coordinator", group.address) as shown:
            assert shown.end() == 0 and group.address_of(0) in shown.text(), shown.text()


def test_stock_processes_behind_an_agent_notice_nothing(place, tmp_path):
    pytest.importorskip("jax")
    environment = clean_environment(JAX_PLATFORMS="cpu", JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo",
                                    LOCKSTEP_AGENT_START_TIMEOUT="60s")
    count = 240
    with Group(place, tmp_path, "--job", "digits=2") as group, \
            Command(LOCKSTEP, "run", "--agent", "--coordinator", group.address, "--job", "digits",
                    "-n", "2", "--", sys.executable, "-c", STEPS, count, env=environment) as job:
        faults = [group.kill, group.end, lambda leads: group.signal(leads, signal.SIGSTOP)]
        for number, fault in enumerate(faults):
            job.wait_for(rf"step {number * 60 + 40}$")
            leads = group.leader()
            fault(leads)
            assert group.leader() != leads
            if fault in faults[:2]:
                group.start(leads)
                group.wait_for(leads, "standing by at")
            else:
                group.signal(leads, signal.SIGCONT)
        assert job.end() == 0, job.text() + group.text()
        counted = [int(m[1]) for m in job.wait_for(r"counted (\d+)", count=2)]
        assert counted == [2 * count] * 2, "an increment was lost, or happened twice"
