"""Which keys a role trusts, and whether the installed one is among them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import repository_key

from tests.unit.modules.test_repository_key import FINGERPRINT, KEY, OTHER


@pytest.mark.parametrize(
    ("site", "known"),
    [
        ([], [OTHER]),
        ("", [OTHER]),
        ([FINGERPRINT], [FINGERPRINT]),
        (FINGERPRINT, [FINGERPRINT]),
        ("AAAA BBBB, CCCC DDDD", ["AAAA BBBB", "CCCC DDDD"]),
    ],
)
def test_keys_of_the_site_replace_the_vendors(site: Any, known: list[str]) -> None:
    assert repository_key.known_keys(site, [OTHER]) == known


@pytest.mark.parametrize(
    ("content", "known", "stale"),
    [
        (KEY.decode(), [FINGERPRINT], False),
        (KEY.decode(), [OTHER, FINGERPRINT[-8:]], False),
        (KEY.decode(), [OTHER], True),
        ("", [FINGERPRINT], True),
        ("damaged", [FINGERPRINT], True),
    ],
)
def test_a_key_is_stale_if_it_is_absent_or_not_known(content: str, known: list[str], stale: bool) -> None:
    assert repository_key.key_is_stale({"type": "file", "content": content}, known) is stale
