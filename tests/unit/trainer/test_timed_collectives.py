"""Bus factors."""

import pytest

from trainer.timed_collectives import TIMED_COLLECTIVES


@pytest.mark.parametrize(
    ("op", "factor"), [("all_reduce", 1.5), ("all_gather", 0.75), ("all_to_all", 0.75), ("broadcast", 1.0)]
)
def test_bus_factor_as_nccl_tests_define_it(op: str, factor: float) -> None:
    assert TIMED_COLLECTIVES[op].bus_factor(4) == factor
