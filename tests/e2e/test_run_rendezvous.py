"""`lockstep run` with the examples that exchange tensors."""

import re
import sys

import pytest

from commands import ROOT, clean_environment, run

pytest.importorskip("sklearn")

EXAMPLES = ROOT / "examples"
PACKAGE = ROOT / "build" / "release" / "python"
ENVIRONMENT = clean_environment(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1",
                                OPENBLAS_NUM_THREADS="1")

if not list((PACKAGE / "lockstep").glob("_native*.so")):
    pytest.skip("the Python package has not been built", allow_module_level=True)


def losses_of(example, size, epochs):
    """Of a run with so many members: what each says is the last loss, in their order."""
    ended = run("-n", str(size), "--", sys.executable, EXAMPLES / example, "--epochs", str(epochs),
                env=ENVIRONMENT)
    assert ended.code == 0, ended.text()
    found = sorted(re.findall(r"\[task/(\d+)\] .* final loss ([0-9.]+)", "\n".join(ended.out)))
    assert len(found) == size, ended.text()
    return [float(loss) for _, loss in found]


@pytest.mark.parametrize("size", [1, 4])
def test_digits_are_learnt_alike_by_all_members(size):
    losses = losses_of("numpy_digits.py", size, epochs=4)
    assert len(set(losses)) == 1, losses
    assert losses[0] < 0.6  # 2.3 when nothing is learnt
    # One batch is one batch, however many share it; but for the order of the sums.
    assert losses[0] == pytest.approx(losses_of("numpy_digits.py", 2, epochs=4)[0], abs=1e-5)


def test_two_stages_learn_as_a_pipeline():
    losses = losses_of("pipeline.py", 2, epochs=4)
    assert len(set(losses)) == 1, losses
    assert losses[0] < 0.6
