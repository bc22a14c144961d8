"""The cases and the documented table."""

from trainer.collective_cases import CASES, is_documented


def test_documented_table_names_real_rows() -> None:
    assert is_documented("gloo", "cpu", "send/recv") is True
    assert is_documented("gloo", "cuda", "send/recv") is False
    assert is_documented("mpi4py", "cpu", "send/recv") is None
    assert len({case.name for case in CASES}) == len(CASES)
