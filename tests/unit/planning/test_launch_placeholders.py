"""Placeholders of a plan and their values at launch."""

from __future__ import annotations

import pytest

from ddp_play.planning.launch_placeholders import ATTEMPT, HEAD_PORT, HOST_DIR, RUN_KEY, bind


@pytest.mark.parametrize(
    ("text", "values", "bound"),
    [
        ("python train.py", {HEAD_PORT: "29500"}, "python train.py"),
        (f"tcp://10.0.0.1:{HEAD_PORT}", {HEAD_PORT: "29500"}, "tcp://10.0.0.1:29500"),
        (f"ddp-{RUN_KEY}-a{ATTEMPT}-r0", {RUN_KEY: "calm-otter-1-x", ATTEMPT: "2"}, "ddp-calm-otter-1-x-a2-r0"),
        (f"{HOST_DIR}/a:{HOST_DIR}/b", {HOST_DIR: "/var/run"}, "/var/run/a:/var/run/b"),
        (f"{HOST_DIR}/a", {}, f"{HOST_DIR}/a"),
    ],
)
def test_bind(text: str, values: dict[str, str], bound: str) -> None:
    assert bind(text, values) == bound
