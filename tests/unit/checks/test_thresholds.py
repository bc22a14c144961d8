"""The file of thresholds, and what is said of hardware that is not in it."""

from __future__ import annotations

import pytest

from ddp_play.checks.thresholds import Floor, RecordLimit, Thresholds, thresholds


def test_every_limit_has_a_source_and_one_side() -> None:
    known = thresholds()
    assert {"rate", "round trip", "cpus", "link speed"} <= set(known.records)
    for name, limit in known.records.items():
        assert limit.source, name
        assert (limit.least is None) != (limit.most is None), name
    assert all(row.source and row.floor > 0 and row.sku for row in known.floors)


@pytest.mark.parametrize(
    ("figure", "then", "now", "worse"),
    [
        ("rate: h2", 1000.0, 850.0, False),
        ("rate: h2", 1000.0, 849.0, True),
        ("rate: h2", 1000.0, 2000.0, False),
        ("round trip: h2", 0.1, 0.6, False),  # half a millisecond more
        ("round trip: h2", 0.1, 0.61, True),
        ("round trip: h2", 2.0, 4.0, False),  # twice
        ("round trip: h2", 2.0, 4.1, True),
        ("cpus", 8.0, 7.0, True),
    ],
)
def test_a_value_against_its_record(figure: str, then: float, now: float, worse: bool) -> None:
    limit = thresholds().record_limit(figure)
    assert limit is not None
    assert limit.is_worse(now, then) is worse


def test_hardware_that_is_not_known_has_no_limit() -> None:
    known = thresholds()
    assert known.floor("gpu memory", "NVIDIA H200") is not None
    assert known.floor("gpu memory", "NVIDIA H999") is None
    assert known.floor("gpu memory", "NVIDIA GH200 480GB") is None, "another kind, whose name ends like that of one"
    assert known.floor("gpu memory", "NVIDIA H200", fabric="infiniband") is None
    assert known.record_limit("something else") is None


def test_the_part_of_a_record_that_the_network_matrix_uses_too() -> None:
    assert thresholds().record_share("rate") == 0.85
    with pytest.raises(LookupError):
        thresholds().record_share("round trip")


def test_a_floor_belongs_to_a_fabric_and_a_size_and_the_longest_name_is_meant() -> None:
    rows = [
        Floor("busbw", sku, fabric, "1GiB", 1.0, "GB/s", "s")
        for sku in ("A100", "A100 PCIe")
        for fabric in ("ib", "tcp")
    ]
    known = Thresholds({"x": RecordLimit("", "s", least=1.0)}, tuple(rows))
    found = known.floor("busbw", "NVIDIA A100 PCIe", fabric="tcp", size="1GiB")
    assert found is not None
    assert (found.sku, found.fabric) == ("A100 PCIe", "tcp")
    assert known.floor("busbw", "NVIDIA A100 PCIe", fabric="tcp", size="1MiB") is None
