"""nvidia_driver with a mirror that has another key, that signs with another one, or whose key has expired."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.roles_gpu import mirrors
from tests.roles_gpu.driver_plays import LOADED, play

if TYPE_CHECKING:
    from tests.roles_gpu.hosts import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def keys_of(host: Host, name: str) -> list[str]:
    """Fingerprints that a site would give for this key of the stub repository."""
    found: list[str] = mirrors.trusted(host.sh(f"cat {mirrors.STUB}/{name}"))["nvidia_driver_repo_key_fingerprints"]
    return found


def test_another_key_is_refused_before_anything_is_changed(host: Host) -> None:
    host.show(LOADED)
    before = host.sh("find /etc -type f | sort | xargs sha256sum")
    outcome = play(host, mirror_url=f"file://{mirrors.WRONG_KEY}")
    assert outcome.rc != 0
    for word in (*keys_of(host, "wrong.pub"), *keys_of(host, "gpgkey"), "nvidia_driver_repo_key_fingerprints"):
        assert word in outcome.text
    assert f"The key from file://{mirrors.WRONG_KEY}/{mirrors.CUDA}/debian" in outcome.text
    vendors = play(host, repo_key_fingerprints=[])
    assert vendors.rc != 0
    assert "but the known one is EB693B" in vendors.text or "but the known one is 02182E" in vendors.text
    assert host.sh("find /etc -type f | sort | xargs sha256sum") == before


def test_a_wrong_signature_is_named_and_heals(host: Host) -> None:
    """A key that the site trusts, but with which the repository is not signed."""
    host.show(LOADED)
    trusts = keys_of(host, "wrong.pub")
    outcome = play(host, mirror_url=f"file://{mirrors.WRONG_KEY}", repo_key_fingerprints=trusts)
    assert outcome.rc != 0
    assert f"with the key from file://{mirrors.WRONG_KEY}/{mirrors.CUDA}/debian" in outcome.text


def test_an_expired_key_is_named(host: Host) -> None:
    host.show(LOADED)
    trusts = keys_of(host, "expired/expired.pub")
    outcome = play(host, mirror_url=f"file://{mirrors.EXPIRED_KEY}", repo_key_fingerprints=trusts)
    assert outcome.rc != 0
    assert f"apt cannot use file://{mirrors.EXPIRED_KEY}/{mirrors.CUDA}/debian" in outcome.text
    assert "Wrong or expired key" in outcome.text
