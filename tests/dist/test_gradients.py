"""Parameters do not depend on the number of ranks: equal after 40 steps on 1, 2 and 4 ranks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.dist.gang import gang
from tests.dist.parity_worker import CASES

pytestmark = pytest.mark.dist

Load = Callable[[int, str], npt.NDArray[np.float64]]


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Train all cases once per world size; gives the parameters by world size and case."""
    base = tmp_path_factory.mktemp("parity")
    worker = Path(__file__).with_name("parity_worker.py")
    for world_size in (1, 2, 4):
        directory = base / str(world_size)
        with gang(directory, world_size, [str(worker), str(directory)]) as running:
            assert running.wait(90) == [0] * world_size, running.text
    return lambda world_size, case: np.load(base / str(world_size) / f"{case}.npy").astype(np.float64)


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("case", sorted(CASES))
def test_same_parameters_as_one_process(parameters: Load, case: str, world_size: int) -> None:
    error = np.abs(parameters(world_size, case) - parameters(1, case)).max()
    assert error <= (1e-12 if case.startswith("float64") else 1e-5)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_accumulation_changes_nothing(parameters: Load, world_size: int) -> None:
    at_once, accumulated = parameters(world_size, "float64-at-once"), parameters(world_size, "float64-accumulate")
    assert np.abs(at_once - accumulated).max() <= 1e-12


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_averaging_written_out_equals_ddp(parameters: Load, world_size: int) -> None:
    ddp, manual = parameters(world_size, "float32"), parameters(world_size, "float32-manual")
    assert np.abs(ddp - manual).max() <= 1e-5


def test_averaging_means_of_unequal_shares_would_be_wrong(parameters: Load) -> None:
    error = np.abs(parameters(4, "float64-naive") - parameters(1, "float64-uneven")).max()
    assert error > 1e-4


def test_parameters_moved(parameters: Load) -> None:
    assert np.abs(parameters(1, "float64") - parameters(1, "float64-empty-shares")).max() > 1e-2
