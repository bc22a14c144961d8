"""What a burn-in has found so far: lines while it runs, and the document where it is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.checks.burn_in_progress import keep, keep_round_of, kept, line, shown
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def document(**more: Any) -> dict[str, Any]:
    def row(speed: float | None) -> dict[str, Any]:
        return {"figures": {"speed of processors": [speed], "speed of gpus": [None]}, "wrong": [], "problems": []}

    hosts = {"h1": row(80.0), "h2": row(78.0), "h3": row(None)}
    return {"rounds": 1, "hosts": hosts, "group": {"busbw": [0.512], "problems": []}, **more}


def test_a_round_in_words() -> None:
    said = line(document(), {"round": 1, "took_s": 75.3})
    assert said == "burn-in 1 min 15 s, round 1: 79.0 GFLOP/s of a thread, slowest h2 78.0; all_reduce 0.512 GB/s"
    found = document(group={"busbw": [None], "problems": [[1, "h2: Timed out"]]})
    found["hosts"]["h1"]["wrong"] = [[1, "cpu", "1 of 9 repeats have other bits"]]
    found["hosts"]["h2"]["figures"]["speed of gpus"] = [700_000.0]
    said = line(found, {"round": 1, "took_s": 5})
    assert said.endswith("slowest h2 700,000.0; h1: 1 of 9 repeats have other bits; h2: Timed out")
    assert "other bits" not in line(found, {"round": 2, "took_s": 9}), "of that round only"


def test_what_was_found_before_an_interruption(tmp_path: Path) -> None:
    assert kept(tmp_path) == {}
    keep(tmp_path, {"hosts": {"h1": {}}, "burn_in": document()}, "round 1")
    keep(tmp_path, {"hosts": {"h1": {}}, "burn_in": document(rounds=2)}, "round 2")
    found = kept(tmp_path)
    assert (found["burn_in"]["rounds"], found["burn_in"]["ended"]) == (2, "interrupted")
    assert kept(tmp_path, "the check failed")["burn_in"]["ended"] == "the check failed"


def test_a_round_is_kept_with_all_that_was_found_before_it(tmp_path: Path) -> None:
    keep_round_of(str(tmp_path), lambda: {"hosts": {"h1": {}}, "torch": None}, document(), {"round": 1, "took_s": 9})
    found = kept(tmp_path)
    assert (found["hosts"], found["late"], found["burn_in"]["rounds"]) == ({"h1": {}}, "", 1)
    assert (tmp_path / "rounds.txt").read_text().startswith("burn-in 9 s, round 1: ")
    keep_round_of("", dict, document(), {"round": 1, "took_s": 9})


def test_a_disk_that_takes_nothing_does_not_end_the_burn_in(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file, below which nothing can be written")
    keep_round_of(str(taken), dict, document(), {"round": 1, "took_s": 9})
    assert list(tmp_path.iterdir()) == [taken]


def test_rounds_are_said_while_it_runs_and_the_last_one_at_the_end(tmp_path: Path) -> None:
    said: list[str] = []
    with shown(tmp_path, said.append):
        keep(tmp_path, {"burn_in": document()}, "round 1")
        wait_until(lambda: said == ["round 1"], timeout_s=10)
        keep(tmp_path, {"burn_in": document()}, "round 2")
    assert said == ["round 1", "round 2"]
    with shown(tmp_path, None):
        pass
