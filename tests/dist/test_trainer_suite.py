"""Trainer with real processes: collectives, bandwidth, stores, communication hooks, Join, host groups."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dist.gang import free_port, gang

pytestmark = pytest.mark.dist


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of three ranks found."""
    directory = tmp_path_factory.mktemp("suite")
    worker = Path(__file__).with_name("suite_worker.py")
    with gang(directory, 3, [str(worker), str(directory)]) as running:
        assert running.wait(90) == [0, 0, 0], running.text
    return [json.loads((directory / f"found-{rank}.json").read_text()) for rank in range(3)]


def test_a_hang_is_a_result_and_the_next_case_runs(found: list[dict[str, Any]]) -> None:
    assert found[0]["outcomes"] == {
        "hangs": "hung",
        "after the hang": "works",
        "wrong": "wrong",
        "refused": "refused",
        "after the refusal": "works",
    }
    assert found[1]["outcomes"]["hangs"] == "works"  # it had nothing to wait for


def test_compressed_gradients_stay_close(found: list[dict[str, Any]]) -> None:
    hooks = found[0]["hooks"]
    assert 0 < hooks["fp16"] < 1e-3
    assert 0 < hooks["powersgd"] < 0.1


def test_unequal_inputs_train_under_join(found: list[dict[str, Any]]) -> None:
    first, third = found[0]["uneven"]
    assert third < first / 2


def test_host_groups_reduce_to_their_first_rank(found: list[dict[str, Any]]) -> None:
    assert [rank["hosts"] for rank in found] == [[[0, 1], [2.0, 1.0]], [[0, 1], None], [[2], [1.0, 2.0]]]


def test_timed_collectives_give_the_right_values(found: list[dict[str, Any]]) -> None:
    assert len(found[0]["bench"]) == 6
    assert set(found[0]["bench"].values()) == {0}


def test_plain_tcp_is_measured_between_hosts_only(found: list[dict[str, Any]]) -> None:
    assert found[0]["wires"] == found[1]["wires"] == found[2]["wires"]
    assert [(wire["source"], wire["target"]) for wire in found[0]["wires"]] == [("host0", "host1"), ("host1", "host0")]
    for wire in found[0]["wires"]:
        assert len(wire["rounds_gb_s"]) == 3
        assert 0.01 < wire["gb_s"] < 100
    assert found[0]["one host"] == []


def test_bench_keeps_its_sweeps(tmp_path: Path) -> None:
    """Two collectives; sizes that would take too long are skipped; values are checked."""
    words = "-m trainer allreduce --backend gloo --timeout 60 --op all_reduce --op broadcast"
    with gang(
        tmp_path,
        2,
        [*words.split(), "--max-bytes", "64K", "--factor", "16", "--seconds-per-size", "0.05", "--limit", "1e-9"],
        env=lambda rank: {"DDP_PLAY_RESULT": str(tmp_path / f"result-{rank}.json")},
    ) as running:
        assert running.wait() == [0, 0], running.text
    first, second = (json.loads((tmp_path / f"result-{rank}.json").read_text()) for rank in (0, 1))
    assert first["sweeps"] == second["sweeps"]
    assert {sweep["op"]: sweep["bus_factor"] for sweep in first["sweeps"]} == {"all_reduce": 1.0, "broadcast": 1.0}
    for sweep in first["sweeps"]:
        (row,) = sweep["rows"]
        assert sweep["note"] == "128 bytes and more would take over 1e-09 s each (--limit)"
        assert row["min_s"] <= row["median_s"] <= row["p99_s"] <= row["max_s"]
        assert row["algbw_gb_s"] == pytest.approx(8 / row["median_s"] / 1e9)
        assert row["wrong"] == 0


def test_collectives_all_work_on_gloo(tmp_path: Path) -> None:
    with gang(
        tmp_path,
        2,
        ("-m", "trainer", "collectives", "--backend", "gloo", "--timeout", "60"),
        env=lambda rank: {"DDP_PLAY_RESULT": str(tmp_path / f"result-{rank}.json")},
    ) as running:
        assert running.wait() == [0, 0], running.text
        assert running.ranks[0].text.startswith("gloo on cpu, 2 ranks")
    result = json.loads((tmp_path / "result-1.json").read_text())
    assert result["all_ranks_heard"]
    assert {row["name"]: row["status"] for row in result["collectives"] if row["status"] != "works"} == {}
    assert {row["documented"] for row in result["collectives"]} == {True}


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_rendezvous_through_an_explicit_store(tmp_path: Path, kind: str) -> None:
    url = f"tcp://127.0.0.1:{free_port()}" if kind == "tcp" else f"file://{tmp_path}/store"
    arguments = ("-m", "trainer", "store", "--backend", "gloo", "--timeout", "60")
    with gang(tmp_path, 2, arguments, env=lambda rank: {"DDP_PLAY_STORE": url}) as running:
        assert running.wait() == [0, 0], running.text
        assert "rank 0 was here; rank 1 was here; the ranks add up to 1" in running.ranks[0].text
