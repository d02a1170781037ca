"""The examples of PyTorch, under its own launcher and under ours."""

import pytest

from torch_programs import EXAMPLES, PYTHON, TORCHRUN, assert_one_loss, needs_torch, under_run

pytestmark = [needs_torch, pytest.mark.timeout(600)]

DIGITS = EXAMPLES / "torch_digits.py"


def test_digits_knows_nothing_of_lockstep_and_runs_under_stock_torchrun():
    assert_one_loss(4, *TORCHRUN, "--standalone", "--nproc-per-node", 4, DIGITS, "--epochs", 3)
    assert "import lockstep" not in DIGITS.read_text()


def test_digits_runs_under_torchrun_on_our_server(server, job):
    assert_one_loss(4, *TORCHRUN, "--nproc-per-node", 4, "--rdzv-backend=lockstep",
                    "--rdzv-endpoint", server.address, "--rdzv-id", job, DIGITS, "--epochs", 3)


def test_digits_runs_under_lockstep_run_and_all_come_to_the_same_loss():
    assert_one_loss(4, *under_run(4, (), PYTHON, DIGITS, "--epochs", 3))
