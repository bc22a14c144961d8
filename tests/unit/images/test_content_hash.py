"""Hashes of images with the same and with different content."""

from __future__ import annotations

from ddp_play.images.content_hash import fingerprint


def test_content_ignores_the_id_and_sees_layers_and_configuration() -> None:
    image = {"Id": "sha256:1", "RootFS": {"Layers": ["a", "b"]}, "Config": {"Env": ["X=1"], "Cmd": None}}
    assert fingerprint(image) == fingerprint({**image, "Id": "sha256:2", "Config": {"Env": ["X=1"], "Cmd": []}})
    assert fingerprint(image) != fingerprint({**image, "RootFS": {"Layers": ["a"]}})
    assert fingerprint(image) != fingerprint({**image, "Config": {"Env": ["X=2"]}})
