"""`lockstep run` started by real schedulers: Open MPI's mpirun, and a Slurm of this one machine.
`scripts/setup.sh schedulers` installs them; without them these tests are skipped."""

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment, serving

PYTHON = sys.executable
MEMBER = ("import os\n"
          "e = os.environ\n"
          "print('rank', e['RANK'], 'of', e['WORLD_SIZE'], 'node', e['GROUP_RANK'], 'of',"
          " e['GROUP_WORLD_SIZE'], 'local', e['LOCAL_RANK'], e['OMPI_COMM_WORLD_RANK'],"
          " e.get('PMI_RANK'), e.get('PMIX_RANK'), flush=True)\n")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as command:
        yield command.address


def lockstep_run(server, tmp_path):
    script = tmp_path / "member.py"
    script.write_text(MEMBER)
    return [LOCKSTEP, "run", "--coordinator", server, "--job", "digits", "--nproc-per-node", "2",
            "--no-prefix", "--", PYTHON, script]


def ranks(command):
    return sorted(line for line in command.lines if line.startswith("rank "))


EXPECTED = [f"rank {rank} of 4 node {rank // 2} of 2 local {rank % 2} {rank} None None"
            for rank in range(4)]


# --- Open MPI -----------------------------------------------------------------------------------


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="takes Open MPI")
def test_mpirun_starts_two_nodes(server, tmp_path):
    with Command(*MPIRUN, *lockstep_run(server, tmp_path)) as command:
        assert command.end() == 0, command.text()
        assert ranks(command) == EXPECTED, command.text()


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="takes Open MPI")
def test_what_mpirun_says_is_shown(tmp_path):
    with Command(*MPIRUN, LOCKSTEP, "run", "--coordinator", "127.0.0.1:1", "--nnodes", "1",
                 "--print-env", "-n", "1", "--", "true") as command:
        command.end()
        # Each finds its rank; that nobody is at that address they say, too.
        assert "127.0.0.1:1" in command.text()
    with Command(*MPIRUN, LOCKSTEP, "run", "--nnodes", "1", "--print-env", "-n", "1", "--",
                 "true") as command:
        assert command.end() == 0, command.text()
        for rank in range(2):
            assert f"# open mpi started this: node {rank} by OMPI_COMM_WORLD_RANK" in command.text()


# --- Slurm --------------------------------------------------------------------------------------

SLURM = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
SBIN = os.environ["PATH"] + ":/usr/sbin:/sbin"


def program(name):
    return shutil.which(name, path=SBIN)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A Slurm of this machine alone: without cgroups, as whoever runs the tests."""
    if not all(program(name) for name in SLURM) or os.geteuid() != 0:
        pytest.skip("takes Slurm, and root")
    folder = tmp_path_factory.mktemp("slurm")
    host = socket.gethostname().split(".")[0]
    (folder / "munge.key").write_bytes(os.urandom(1024))
    for path in (folder, folder / "munge.key"):
        path.chmod(0o700)
    controller, daemon = free_port(), free_port()
    conf = folder / "slurm.conf"
    conf.write_text(f"""
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={getpass.getuser()}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
""")
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    environment = clean_environment(SLURM_CONF=str(conf), PATH=SBIN)
    started = []

    def start(*arguments):
        command = Command(*arguments, env=environment)
        started.append(command)
        return command

    munge = start(program("munged"), "--foreground", "--force", f"--key-file={folder}/munge.key",
                  f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid",
                  f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed")
    deadline = time.monotonic() + DEADLINE_S
    while not (folder / "munge.socket").exists():
        assert time.monotonic() < deadline and munge.process.poll() is None, munge.text()
        time.sleep(0.05)
    start(program("slurmctld"), "-D", "-i", "-f", conf)
    start(program("slurmd"), "-D", "-N", host, "-f", conf)
    while True:
        seen = subprocess.run([program("sinfo"), "-h", "-o", "%t"], env=environment, timeout=DEADLINE_S,
                              capture_output=True, text=True, check=False)
        if seen.stdout.strip() == "idle":
            break
        text = "\n".join(command.text() for command in started)
        assert time.monotonic() < deadline, seen.stdout + seen.stderr + text
        time.sleep(0.2)
    yield environment
    for command in reversed(started):
        command.signal(signal.SIGTERM)
        command.end()


SRUN = ["srun", "--overcommit", "-n", "2", "--mpi=none"]


def test_srun_starts_two_nodes(slurm, server, tmp_path):
    with Command(*SRUN, *lockstep_run(server, tmp_path), env=slurm) as command:
        assert command.end() == 0, command.text()
        assert ranks(command) == EXPECTED, command.text()


def test_the_batch_script_of_the_security_document_runs(slurm, tmp_path):
    [script] = re.findall(r"^```bash\n(#!/bin/bash\n#SBATCH.*?)^```$",
                          (ROOT / "docs" / "security.md").read_text(), re.M | re.S)
    member = tmp_path / "train.py"
    member.write_text(MEMBER + "\nimport os, subprocess\n"
                      f"subprocess.run(['{LOCKSTEP}', 'token', 'inspect', "
                      "os.environ['LOCKSTEP_TOKEN_FILE']], check=True)\n")
    # One host instead of two, which its own processes call.
    for said, here in (("--nodes=2 --ntasks-per-node=1", "--ntasks=2 --overcommit"),
                       ("$(hostname -f)", "127.0.0.1"), ("7070", str(free_port())),
                       ("$HOME", str(tmp_path)), ("srun ", "srun --overcommit --mpi=none "),
                       ("--nproc-per-node 8", "--nproc-per-node 2 --no-prefix"),
                       ("python3 train.py", f"{PYTHON} {member}")):
        assert said in script, said
        script = script.replace(said, here)
    batch, output = tmp_path / "train.sbatch", tmp_path / "output"
    batch.write_text(script)
    environment = dict(slurm, PATH=f"{LOCKSTEP.parent}:{slurm['PATH']}")
    with Command("sbatch", "--wait", "--output", output, batch, env=environment,
                 cwd=tmp_path) as command:
        code = command.end()
    lines = output.read_text().splitlines() if output.exists() else command.lines
    assert code == 0, lines
    assert sorted(line for line in lines if line.startswith("rank ")) == EXPECTED, lines
    assert sum(line.split()[-2:] == ["role", "task"] for line in lines) == 4, lines
    assert list((tmp_path / ".lockstep").iterdir()) == []


def test_what_slurm_says_is_shown(slurm):
    with Command(*SRUN, LOCKSTEP, "run", "--nnodes", "1", "--print-env", "-n", "1", "--", "true",
                 env=slurm) as command:
        assert command.end() == 0, command.text()
        for rank in range(2):
            assert re.search(rf"# slurm started this: node {rank} by SLURM_PROCID, of 2 by "
                             r"SLURM_STEP_NUM_TASKS", command.text())
        host = socket.gethostname().split(".")[0]
        assert f"the coordinator's host would be {host}, from SLURM_STEP_NODELIST" in command.text()
        assert re.search(r"^TORCHELASTIC_RUN_ID=slurm-\d+\.0$", command.text(), re.M)


def test_scancel_reaches_the_processes(slurm, server, tmp_path):
    script = tmp_path / "member.py"
    script.write_text("import os, signal, sys\n"
                      "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True),"
                      " sys.exit(0)))\n"
                      "print('up', flush=True)\n"
                      "while True: signal.pause()\n")
    with Command(*SRUN, "--signal=TERM@1", LOCKSTEP, "run", "--coordinator", server, "--job", "digits",
                 "--nproc-per-node", "1", "--", PYTHON, script, env=slurm) as command:
        command.wait_for("] up$", 2)
        job = subprocess.run(["squeue", "-h", "-o", "%i"], env=slurm, capture_output=True, text=True,
                             timeout=DEADLINE_S, check=True).stdout.split()[0]
        subprocess.run(["scancel", "--signal=TERM", job], env=slurm, timeout=DEADLINE_S, check=True)
        command.wait_for("] saved$", 2)
        command.end()
