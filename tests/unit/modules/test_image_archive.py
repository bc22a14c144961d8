"""What identifies an image in an archive of `docker save`."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Literal

import pytest
from ansible_collections.ddp.play.plugins.modules import image_archive

from tests.unit.modules.stand_in import StandIn, play

Mode = Literal["w", "w:gz"]
CONFIG = json.dumps({"rootfs": {"diff_ids": ["sha256:aa", "sha256:bb"]}, "created": "2024-05-01T00:00:00Z"}).encode()


def archive(path: Path, files: dict[str, bytes], *directories: str, mode: Mode = "w") -> str:
    with tarfile.open(path, mode) as made:
        for name in directories:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            made.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return str(path)


def manifest(**more: Any) -> bytes:
    return json.dumps([{"Config": "config.json", **more}]).encode()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_image_is_its_configuration_and_its_layers(tmp_path: Path, mode: Mode) -> None:
    files = {"manifest.json": manifest(RepoTags=["train:1"]), "config.json": CONFIG}
    assert image_archive.read(archive(tmp_path / "image.tar", files, mode=mode)) == {
        "id": "sha256:" + hashlib.sha256(CONFIG).hexdigest(),
        "layers": ["sha256:aa", "sha256:bb"],
        "created": "2024-05-01T00:00:00Z",
        "tags": ["train:1"],
    }


def test_an_image_without_a_name_has_no_tags(tmp_path: Path) -> None:
    files = {"manifest.json": manifest(RepoTags=None), "config.json": CONFIG}
    assert image_archive.read(archive(tmp_path / "image.tar", files))["tags"] == []


@pytest.mark.parametrize(
    ("files", "directories"),
    [
        ({}, ()),
        ({"manifest.json": manifest()}, ()),
        ({"config.json": CONFIG}, ("manifest.json",)),
        ({"manifest.json": manifest()}, ("config.json",)),
    ],
    ids=["empty", "no configuration", "manifest is a directory", "configuration is a directory"],
)
def test_another_archive_is_a_key_error_which_the_module_reports(
    tmp_path: Path, files: dict[str, bytes], directories: tuple[str, ...]
) -> None:
    with pytest.raises(KeyError):
        image_archive.read(archive(tmp_path / "other.tar", files, *directories))


@pytest.mark.parametrize("text", [b"[]", b"7", b"{"])
def test_a_manifest_of_another_form_is_reported_with_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes
) -> None:
    path = archive(tmp_path / "other.tar", {"manifest.json": text})
    found = play(monkeypatch, image_archive, StandIn(path=path))
    assert found["failed"]
    assert f"{path} is not an archive of `docker save`" in found["msg"]
