"""The lookup of images in plain archives: the answers of the module, without its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.ddp.play.plugins.lookup.image_archive import LookupModule
from ansible_collections.ddp.play.plugins.modules import image_archive

from tests.content.role_files import ROOT
from tests.unit.modules.test_image_archive import CONFIG, archive, manifest

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"manifest.json": manifest(RepoTags=["train:1"]), "config.json": CONFIG}


def test_the_answers_are_those_of_the_module(tmp_path: Path) -> None:
    paths = [archive(tmp_path / f"{name}.tar", FILES) for name in ("a", "b")]
    found = LookupModule().run([{"archive": path} for path in paths])
    assert found == [image_archive.read(path) for path in paths]
    assert LookupModule().run([]) == []


def test_the_role_looks_each_image_up_by_its_name(tmp_path: Path) -> None:
    images = [{"name": name, "archive": archive(tmp_path / f"{name}.tar", FILES)} for name in ("a", "b")]
    loader = DataLoader()
    role = loader.load_from_file(str(ROOT / "roles/image_distribution/vars/main.yml"), trusted_as_template=True)
    variables = {**role, "image_distribution_images": images, "image_distribution_source": "archive"}
    found = Templar(loader=loader, variables=variables).template(role["__image_distribution_expected"])
    assert found == {image["name"]: image_archive.read(image["archive"]) for image in images}


def test_a_path_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    archive(tmp_path / "a.tar", FILES)
    assert LookupModule().run([{"archive": "~/a.tar"}])[0]["tags"] == ["train:1"]


def test_a_compressed_archive_is_left_to_the_module(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", FILES, mode="w:gz")
    assert image_archive.read(path)["tags"] == ["train:1"]
    with pytest.raises(AnsibleError, match=r"a\.tar is not a plain archive"):
        LookupModule().run([{"archive": path}])


@pytest.mark.parametrize("files", [{}, {"manifest.json": b"[]"}, {"manifest.json": b"{"}, {"manifest.json": b"7"}])
def test_what_is_no_archive_of_an_image(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(AnsibleError, match="not a plain archive of `docker save`"):
        LookupModule().run([{"archive": archive(tmp_path / "a.tar", files)}])


def test_no_archive(tmp_path: Path) -> None:
    with pytest.raises(AnsibleError, match="FileNotFoundError"):
        LookupModule().run([{"archive": str(tmp_path / "none.tar")}])
