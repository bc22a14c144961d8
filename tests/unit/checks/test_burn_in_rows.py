"""Rows of a host in a burn-in, from what its program printed, whatever that is."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.burn_in_rows import MOST_ODD, MOST_PROBLEMS, HostRows

REPEAT = {"part": "repeat", "device": "cpu", "kind": "EPYC", "calls": 100, "wrong": 0, "digest": "ab", "next": 100,
          "cpus": 4, "odd": []}  # fmt: skip

MULTIPLY = {
    "part": "multiply",
    "device": "cpu",
    "gflops": 80.0,
    "gflops_per_cpu": 80.0,
    "cpu_share": 0.9,
    "right": True,
}


def answer(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"parts": list(parts), **more}


def test_a_round_without_an_answer_has_no_values() -> None:
    rows = HostRows()
    rows.add(0, answer(problem="the connection ended"))
    found = rows.to_json()
    assert found["figures"] == {"speed of processors": [None], "time on processors": [None], "speed of gpus": [None]}
    assert found["counted"]["stolen_s"] == [0.0]
    assert found["problems"] == [[1, "the connection ended"]]


def test_repeats_with_other_bits_name_the_processors() -> None:
    rows = HostRows()
    rows.add(0, answer(REPEAT))
    rows.add(1, answer({**REPEAT, "wrong": 2, "odd": ["3"], "next": 200}))
    assert rows.wrong == [[2, "cpu", "2 of 100 repeats have other bits on CPU 3"]]
    assert rows.digests == {"EPYC": {"ab": 198}}
    assert (rows.repeats, rows.cpus, rows.next) == (200, 4, 200)


def test_a_gpu_whose_bits_are_always_others_than_those_of_the_first_is_wrong() -> None:
    rows = HostRows()
    for number in range(3):
        gpus = [{**REPEAT, "device": f"cuda:{at}", "digest": "bb" if at == 1 else "aa"} for at in range(3)]
        rows.add(number, answer(*gpus))
    assert rows.wrong == [[1, "cuda:1", "other bits than this host had before"]]


def test_bits_that_change_in_one_round_and_stay_are_wrong() -> None:
    rows = HostRows()
    for number in range(9):
        rows.add(number, answer({**REPEAT, "digest": "aa" if number < 6 else "bb"}))
    assert rows.wrong == [[7, "cpu", "other bits than this host had before"]]
    rows.add(9, answer({**REPEAT, "kind": "H100", "digest": "cc"}))
    assert len(rows.wrong) == 1, "another kind of device has other bits"


def test_gpus_are_those_that_have_multiplied_and_repeated_in_a_round_without_a_problem() -> None:
    rows = HostRows()
    gpus = [{**part, "device": f"cuda:{at}"} for at in range(2) for part in (MULTIPLY, REPEAT)]
    rows.add(0, answer(*gpus))
    rows.add(1, answer(*gpus[:3]))
    rows.add(2, answer(*gpus, problem="it did not end"))
    rows.add(3, answer({**MULTIPLY, "device": "cpu"}, REPEAT))
    assert rows.gpus == [2, 1, None, 0]


def test_a_wrong_product_is_wrong_and_a_part_that_failed_is_a_problem() -> None:
    rows = HostRows()
    rows.add(0, answer({"part": "multiply", "device": "cuda:1", "gflops": 1.0, "right": False}))
    rows.add(1, answer({"part": "multiply", "problem": "CUDA error"}))
    assert rows.wrong[0][:2] == [1, "cuda:1"]
    assert rows.problems == [[2, "multiply: CUDA error"]]


@pytest.mark.parametrize("odd", [{}, {"calls": "many"}, {"calls": 1, "wrong": True, "next": None}])
def test_a_repeat_of_another_form_counts_for_nothing(odd: dict[str, Any]) -> None:
    rows = HostRows()
    rows.add(0, answer({"part": "repeat", **odd}))
    assert (rows.repeats, rows.digests) == (0, {})


def test_what_a_host_sends_is_kept_within_limits() -> None:
    rows = HostRows()
    for number in range(200):
        part = {**REPEAT, "wrong": 1, "digest": f"{number}", "odd": ["7"] * 999, "device": "x" * 999}
        rows.add(number, answer(part, problem="p" * 9999))
    assert len(rows.problems) == MOST_PROBLEMS
    assert rows.failed == 200
    assert len(rows.wrong) == MOST_ODD
    assert len(rows.digests["EPYC"]) == MOST_ODD
    assert max(len(str(row)) for row in (*rows.problems, *rows.wrong)) < 400


ODD_ANSWERS: tuple[dict[str, Any], ...] = (
    answer(MULTIPLY, REPEAT, before=7),
    answer(MULTIPLY, REPEAT, after={"stolen_s": "many"}),
    answer({**MULTIPLY, "gflops_per_cpu": "fast"}, REPEAT),
    answer(MULTIPLY, {**REPEAT, "wrong": 1, "odd": 5}),
    answer(MULTIPLY, {**REPEAT, "cpus": "all"}),
    answer(MULTIPLY, {**REPEAT, "cpus": float("inf")}),
)


@pytest.mark.parametrize("odd", ODD_ANSWERS)
def test_one_odd_answer_is_a_problem_of_its_round_and_the_others_stay(odd: dict[str, Any]) -> None:
    rows = HostRows()
    for number, given in enumerate((answer(MULTIPLY, REPEAT), odd, answer(MULTIPLY, REPEAT))):
        rows.add(number, given)
    found = rows.to_json()
    lengths = {len(row) for name in ("figures", "counted") for row in found[name].values()}
    assert lengths == {3} == {len(found["gpus"])}
    ((number, text),) = found["problems"]
    assert number == 2
    assert text.startswith("the answer is not what ddp-play's program sends (")
    assert (found["failed"], found["gpus"]) == (1, [0, None, 0])
    assert found["figures"]["speed of processors"][::2] == [80.0, 80.0]
