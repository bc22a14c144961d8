"""Which remains of an attempt may be the only copy of something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.run_directory import HostRun, write_json
from ddp_play.guard.uncollected_files import may_be_uncollected

if TYPE_CHECKING:
    from pathlib import Path

SHARED = {"run_paths": ["/shared/.ddp-play/night"]}


@pytest.mark.parametrize(
    ("state", "files", "spec", "expected"),
    [
        ({"phase": "running"}, ("logs/rank-0.log",), {}, True),
        ({"phase": "stopping"}, ("logs/rank-0.log",), {}, True),
        ({"phase": "running"}, (), SHARED, False),  # a cleanup removed all but what names its ranks
        ({"phase": "ended"}, ("src/out.pt",), {}, True),  # likewise, and it kept the working directory
        ({"phase": "ended"}, (), {"run_paths": ["/"]}, True),  # likewise, on the shared directory
        ({"phase": "ended"}, ("logs/rank-0.log", "src/train.py"), {}, True),
        ({"phase": "prepared"}, ("src/train.py",), SHARED, False),
        ({"phase": "prepared"}, ("logs/rank-0.log", "src/train.py"), SHARED, False),
        ({"phase": "prepared"}, ("logs/rank-0.log", "logs/rank-1.log=x"), {}, True),  # its disk was full
        ({}, (), {}, False),
        ({}, (), {"run_paths": []}, False),
        ({}, ("src",), {}, False),  # no directory
        ({}, ("src/out.pt",), {}, True),  # kept by a cleanup
        ({}, ("rank-0/metrics.jsonl",), {}, True),  # likewise, output of a rank
        ({}, (), SHARED, True),  # likewise, on the shared directory
        ({}, ("logs/rank-0.log", "src/train.py"), SHARED, False),  # the preparation was cut off
        ({}, ("logs/rank-0.log=x", "src/train.py"), {}, True),  # the state was lost with the power of the host
    ],
)
def test_what_may_be_uncollected(
    tmp_path: Path, state: dict[str, Any], files: tuple[str, ...], spec: dict[str, Any], expected: bool
) -> None:
    place = HostRun(tmp_path / "1.h1")
    place.root.mkdir()
    for name, _, text in (file.partition("=") for file in files):
        (place.root / name).parent.mkdir(exist_ok=True)
        (place.root / name).write_text(text)
    if spec:
        write_json(place.spec, spec)
    assert may_be_uncollected(place, state) is expected
