"""The module gpu_facts: its options, and the name of its facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.ddp.play.plugins.modules import gpu_facts

from tests.unit.modules.stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, gpu_facts) == documented(gpu_facts)


def test_a_host_without_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = play(monkeypatch, gpu_facts, StandIn(sysfs=str(tmp_path), procfs=str(tmp_path)))
    assert found["ansible_facts"]["ddp_gpu"]["num_pci_devices"] == 0
