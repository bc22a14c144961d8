"""Tracebacks in the end of a log: which error ended the program."""

from __future__ import annotations

import pytest

from ddp_play.guard.tracebacks import errors, find_all, meaningful, without_summary
from tests.unit.guard.recorded_tails import TAILS


def texts(name: str) -> list[str]:
    """First lines of the errors in a recorded tail."""
    return [error.first_line.partition(":")[0] for error in errors(meaningful(TAILS[name].text))]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("", []),
        ("step 3\n", ["step 3"]),
        ("[rank1]: ValueError: x", ["ValueError: x"]),
        ("[default1]:[rank1]:   File", ["  File"]),
        ("[rank0]:[E301 10:00:00.1 ProcessGroupNCCL.cpp:1] x", ["[E301 10:00:00.1 ProcessGroupNCCL.cpp:1] x"]),
        ("10%\r20%\r30%", ["30%"]),
        ("\x1b[1;34mwandb\x1b[0m: Find logs at: x", []),
        ("frame #3: clone + 0x43 (0x7f in /lib/libc.so.6)", []),
        ("  <no Python frame>", []),
    ],
)
def test_lines_that_may_explain_an_end(line: str, left: list[str]) -> None:
    assert meaningful(line) == left


def test_a_chain_and_its_first_error() -> None:
    last = find_all(meaningful(TAILS["requests-refused"].text))[-1]
    assert last.first_line.startswith("requests.exceptions.ConnectionError")
    assert last.root.first_line == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert last.after == 0


def test_errors_of_threads_are_not_the_programs() -> None:
    name = "gloo-and-thread-refused"
    assert texts(name) == ["RuntimeError"]
    assert [each.aside for each in find_all(meaningful(TAILS[name].text))] == [True, True, False]


def test_torchruns_summary_is_not_an_error() -> None:
    lines = meaningful(TAILS["torchrun-inside"].text)
    assert texts("torchrun-inside")[-1].endswith("ChildFailedError")
    assert errors(without_summary(lines))[-1].first_line == "ValueError: loss is nan"
    assert without_summary(["step 3"]) == ["step 3"]


def test_the_worker_of_a_data_loader_has_the_innermost_frame() -> None:
    last = errors(meaningful(TAILS["loader-reset"].text))[-1]
    assert last.frames[-1]["name"] == "__getitem__"


def test_a_traceback_whose_header_was_cut_off() -> None:
    cut = '  File "/workspace/train.py", line 9, in f\n    f()\nRecursionError: maximum recursion depth exceeded\n'
    (error,) = find_all(meaningful(cut))
    assert (error.first_line[:14], error.frames[-1]["line"]) == ("RecursionError", "9")


def test_torchs_log_lines_are_not_part_of_an_error() -> None:
    (error,) = errors(meaningful(TAILS["cuda-ecc-then-watchdog"].text))
    assert not any("watchdog" in line for line in error.text)


TRACEBACK = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    g()"]


def test_the_lines_after_an_error_are_those_after_its_message() -> None:
    """Further lines of a message are indented; what is printed later is not part of the end."""
    (error,) = find_all([*TRACEBACK, "ValueError: x", "  and y", "  and z", "step 8", "step 9"])
    assert (error.first_line, error.after, [frame["line"] for frame in error.frames]) == ("ValueError: x", 2, ["1"])
    assert error.text[:3] == ["ValueError: x", "  and y", "  and z"]
    assert find_all([*TRACEBACK, "ValueError: x", "  and y", "step 8", "step 9"])[0].after == 2
    assert find_all([*TRACEBACK, "ValueError: x"])[0].after == 0
    assert find_all(TRACEBACK)[0].first_line == "", "the end of the log is missing"
    assert find_all(["Traceback (most recent call last):", "KeyboardInterrupt"])[0].first_line == "KeyboardInterrupt"


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "During handling of the above exception, another exception occurred:",
        "Exception in thread Thread-1:",
        "[E301 10:00:00.1 ProcessGroupNCCL.cpp:1] x",
        "terminate called after throwing an instance of 'c10::Error'",
    ],
)
def test_the_text_of_an_error_ends_where_another_begins(line: str) -> None:
    error = find_all([*TRACEBACK, "ValueError: x", "more", line, "RuntimeError: gloo"])[0]
    assert error.text == ["ValueError: x", "more"]


@pytest.mark.parametrize("words", ["During handling of the above exception, another exception occurred:", ""])
def test_only_what_python_calls_a_chain_is_one(words: str) -> None:
    second = find_all([*TRACEBACK, "ValueError: x", words, *TRACEBACK, "RuntimeError: y"])[1]
    assert (second.cause is not None, second.root.first_line) == (
        bool(words),
        "ValueError: x" if words else "RuntimeError: y",
    )


def test_a_chain_whose_beginning_was_cut_off_is_an_error_of_its_own() -> None:
    words = "During handling of the above exception, another exception occurred:"
    (error,) = find_all([words, *TRACEBACK, "RuntimeError: y"])
    assert (error.cause, error.root.first_line, error.aside) == (None, "RuntimeError: y", False)


def test_the_first_traceback_may_be_a_threads() -> None:
    (error,) = find_all(["Exception in thread Thread-1:", *TRACEBACK, "RuntimeError: y"])
    assert error.aside
    later = "Exception ignored in: <function f at 0x7f>"
    assert [each.aside for each in find_all([*TRACEBACK, "ValueError: x", later])] == [False]


def test_a_header_that_was_cut_off_does_not_hide_the_others() -> None:
    cut = ['  File "a.py", line 1, in f', "ValueError: x"]
    first, second = find_all(["    g()", *cut, *TRACEBACK, "RuntimeError: y"])
    assert (first.first_line, second.first_line) == ("ValueError: x", "RuntimeError: y")
    assert len(find_all([*TRACEBACK, "ValueError: x", *cut])) == 1, "its own frames begin no other"
