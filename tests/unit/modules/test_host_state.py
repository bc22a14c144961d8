"""The module host_state: its options, and what it says about a new host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import host_record
from ansible_collections.ddp.play.plugins.modules import host_state

from tests.unit.modules.stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from pathlib import Path


def test_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, host_state) == documented(host_state)


@pytest.mark.parametrize(("record", "is_new"), [('{"acceptance": {"due": true}, "a": {}}', True), ('{"a": {}}', False)])
def test_a_new_host_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: str, is_new: bool) -> None:
    path = tmp_path / "record.json"
    path.write_text(record)
    monkeypatch.setattr(host_record, "RECORD", str(path))
    assert play(monkeypatch, host_state, StandIn())["is_new"] is is_new
