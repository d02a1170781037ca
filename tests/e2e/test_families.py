"""Two generations of stock JAX through one server at the same time, as two jobs."""

import contextlib
import json
import re
import time

from commands import DEADLINE_S, LOCKSTEP, ROOT, Command, clean_environment

SERVER = LOCKSTEP.with_name("lockstep-server")
EXAMPLE = ROOT / "examples" / "jax_digits.py"
GENERATIONS = {"older": "jax-0.9.2", "newer": "jax"}
SIZE = 2


def read_when_written(path):
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.005)
    return json.loads(path.read_text())


def environment(address, index):
    return clean_environment(
        JAX_PLATFORMS="cpu", JAX_COORDINATOR_BIND_ADDRESS="127.0.0.1:0",
        JAX_COORDINATOR_ADDRESS=address, OMPI_MCA_orte_hnp_uri="x", OMPI_COMM_WORLD_SIZE=str(SIZE),
        OMPI_COMM_WORLD_RANK=str(index), OMPI_COMM_WORLD_LOCAL_RANK=str(index))


def test_two_generations_of_jax_train_through_one_server(tmp_path):
    ready = tmp_path / "ready.json"
    jobs = [argument for name in GENERATIONS for argument in ("--job", f"{name}={SIZE}")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(Command(SERVER, "--listen", "127.0.0.1:0", "--ephemeral",
                                    "--ready-file", ready, *jobs))
        told = read_when_written(ready)["jobs"]
        running = {
            (name, index): stack.enter_context(Command(
                ROOT / "build" / "peers" / peer / "bin" / "python", EXAMPLE, "--epochs", "8",
                env=environment(told[name]["grpc"], index)))
            for name, peer in GENERATIONS.items() for index in range(SIZE)}
        # Both jobs have begun before either is waited for.
        for command in running.values():
            command.wait_for(r"epoch 1/8|is connected to")
        losses = {}
        for (name, index), command in running.items():
            assert command.end() == 0, command.text()
            final = re.search(r"final loss ([\d.]+), held-out accuracy ([\d.]+)", command.text())
            assert float(final[2]) > 0.9
            losses.setdefault(name, set()).add(final[1])
        assert all(len(of_one_job) == 1 for of_one_job in losses.values()), losses
