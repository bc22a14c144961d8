"""The model: shapes, and equal weights from equal seeds."""

import pytest
import torch

from trainer.model import build_model, parameters_sha256


def built(seed: int = 1, side: int = 8, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    return build_model(side, seed=seed, dropout=0.0, dtype=dtype)


@pytest.mark.parametrize("side", [8, 28])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_become_ten_logits(side: int, dtype: torch.dtype) -> None:
    logits = built(side=side, dtype=dtype)(torch.zeros(3, 1, side, side, dtype=dtype))
    assert logits.shape == (3, 10)
    assert logits.dtype == dtype


def test_the_seed_decides_the_weights() -> None:
    assert parameters_sha256(built(seed=1)) == parameters_sha256(built(seed=1))
    assert parameters_sha256(built(seed=1)) != parameters_sha256(built(seed=2))


def test_the_weights_are_the_same_numbers_in_both_dtypes() -> None:
    single, double = built(dtype=torch.float32), built(dtype=torch.float64)
    assert all(
        torch.equal(one, other.float()) for one, other in zip(single.parameters(), double.parameters(), strict=True)
    )


def test_one_changed_bit_changes_the_hash() -> None:
    model = built()
    before = parameters_sha256(model)
    with torch.no_grad():
        last = list(model.parameters())[-1]
        last[0] = torch.nextafter(last[0], torch.tensor(float("inf")))
    assert parameters_sha256(model) != before
