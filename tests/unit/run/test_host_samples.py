"""Samples as hosts send them: rows are kept, what is none is left out, whatever a host sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddp_play.run.host_samples import read_frame

GOOD: dict[str, Any] = {
    "up": 100.0,
    "s": 2.0,
    "cpu": 1.5,
    "memory": 1000,
    "nics": {"eth0": [1, 2]},
    "rdma": {"mlx5_0/1": [3, 4]},
    "disk": [5, 6],
    "ranks": {"0": {"cpu": 0.5, "memory": 7}},
    "gpus": {"0": {"utilization": 97, "memory": 1, "power": 300.5, "temperature": 61, "sm_clock": 1980}},
}


def read(*documents: Any, uptime: float = 200.0) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    payload = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    about, rows, found = read_frame({"uptime": uptime}, payload, frozenset({0, 1}))
    assert found == uptime
    return about, rows


def test_a_row_and_what_the_host_is() -> None:
    about = {"cores": 4, "memory_total": 5, "gpus": {"0": {"name": "H100", "memory_total": 6, "power_limit": 700.0}}}
    assert read(about, GOOD) == (about, [GOOD])


@pytest.mark.parametrize(
    "change",
    [{"up": None}, {"up": "100"}, {"s": None}, {"s": -1}, {"s": 101.0}, {"up": 201.0}, {"up": float("nan")}],
)
def test_no_rows(change: dict[str, Any]) -> None:
    assert read({**GOOD, **change}) == ({}, [])


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"cpu": "much"}, {"cpu": None}),
        ({"cpu": float("inf")}, {"cpu": None}),
        ({"memory": -1}, {"memory": None}),
        ({"memory": True}, {"memory": None}),
        ({"nics": {"eth0": [1]}}, {"nics": None}),
        ({"nics": [1]}, {"nics": None}),
        ({"nics": {"e\n": [1, 2], "e" * 65: [1, 2], "": [1, 2], "eth1": [1, 2]}}, {"nics": {"eth1": [1, 2]}}),
        ({"disk": {"a": 1}}, {"disk": None}),
        ({"ranks": {"7": {"cpu": 1}, "1": {"cpu": 1, "x": 2}, "0": 4}}, {"ranks": {"1": {"cpu": 1}}}),
        ({"ranks": "all"}, {"ranks": None}),
        ({"gpus": {"0": {"power": [], "memory": 2, "more": 1}}}, {"gpus": {"0": {"memory": 2}}}),
        ({"other": 1, "attempt": 9, "t": 1}, {}),
    ],
)
def test_a_field_of_another_kind_is_left_out_alone(change: dict[str, Any], kept: dict[str, Any]) -> None:
    expected = {name: value for name, value in {**GOOD, **kept}.items() if value is not None}
    assert read({**GOOD, **change}) == ({}, [expected])


def test_limits_of_number_and_length() -> None:
    many = {f"eth{number}": [0, 0] for number in range(1000)}
    (row,) = read({**GOOD, "nics": many})[1]
    assert len(row["nics"]) == 128
    assert read({**GOOD, "more": "x" * 40_000}) == ({}, [])
    about, _ = read({"cores": "all", "memory_total": 1, "gpus": {"0": {"name": "x" * 1000}, "1": 2}})
    assert about == {"memory_total": 1, "gpus": {"0": {"name": "x" * 64}}}


@pytest.mark.parametrize("payload", [b"", b"\n\n", b"[1]\n", b"\xff\xfe\n", b"[" * 30_000 + b"\n", b'{"up": 1e999}\n'])
def test_bytes_that_are_no_samples(payload: bytes) -> None:
    assert read_frame({"uptime": 5.0}, payload, frozenset()) == ({}, [], 5.0)
