"""Random run ids and tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import check_run_id
from ddp_play.bundle.run_ids import ADJECTIVES, ANIMALS, new_run_id, new_token

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_made_up_names_are_valid_and_new(tmp_path: Path) -> None:
    names = {new_run_id(tmp_path) for _ in range(50)}
    assert len(names) > 40
    for name in names:
        check_run_id(name)


def test_a_taken_name_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([1, 1, 2])
    monkeypatch.setattr("ddp_play.bundle.run_ids.secrets.choice", lambda words: words[0])
    monkeypatch.setattr("ddp_play.bundle.run_ids.secrets.randbelow", lambda _: next(numbers))
    (tmp_path / "amber-badger-101").mkdir()
    assert new_run_id(tmp_path) == "amber-badger-102"


def test_the_words_are_different_and_short_enough_for_a_name() -> None:
    assert len(set(ADJECTIVES)) == len(ADJECTIVES)
    assert len(set(ANIMALS)) == len(ANIMALS)
    check_run_id(f"{max(ADJECTIVES, key=len)}-{max(ANIMALS, key=len)}-999")


def test_tokens_have_64_bits_and_differ() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch("[0-9a-f]{16}", token) for token in tokens)
