"""Image tags follow the recipe."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from ddp_play.lab import base_image_recipe
from ddp_play.lab.spec import Distro

if TYPE_CHECKING:
    import pytest


def test_the_engine_image_is_built_on_the_bare_one() -> None:
    bare, full = base_image_recipe.host_steps(Distro.BOOKWORM, engine=True)
    assert (bare,) == base_image_recipe.host_steps(Distro.BOOKWORM, engine=False)
    assert dict(bare.buildargs) == {"ROOT": base_image_recipe.root_tag(Distro.BOOKWORM)}
    assert dict(full.buildargs)["BARE"] == bare.tag


def test_tags_are_stable_and_differ_by_distribution() -> None:
    tags = {base_image_recipe.host_tag(distro, engine=engine) for distro in Distro for engine in (True, False)}
    assert len(tags) == 4
    assert base_image_recipe.host_tag(Distro.TRIXIE, engine=True) in tags


def test_a_changed_file_changes_every_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    before = base_image_recipe.host_tag(Distro.BOOKWORM, engine=True)
    read = base_image_recipe._read
    monkeypatch.setattr(base_image_recipe, "_read", lambda name: read(name) + (b"#" if name == "sshd.conf" else b""))
    assert base_image_recipe.host_tag(Distro.BOOKWORM, engine=True) != before


def test_the_context_holds_what_the_dockerfile_copies() -> None:
    step = base_image_recipe.host_steps(Distro.BOOKWORM, engine=False)[0]
    with tarfile.open(fileobj=io.BytesIO(base_image_recipe.build_context(step))) as tar:
        names = set(tar.getnames())
        dockerfile = tar.extractfile("Dockerfile")
        assert dockerfile is not None
        copied = [line.split()[1:-1] for line in dockerfile.read().decode().splitlines() if line.startswith("COPY")]
    assert {name for names_ in copied for name in names_} <= names
