"""Images of stages that a build leaves: the new ones without a name go, all others stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import APIError

from ddp_play.lab.build_stages import removed_stages, stage_of


@dataclass
class Engine:
    """An engine with images and their names; it refuses to remove those in `used`."""

    names: dict[str, list[str]]
    used: tuple[str, ...] = ()
    removed: list[str] = field(default_factory=list)

    @property
    def api(self) -> Any:
        return SimpleNamespace(images=lambda **_: list(self.names))

    @property
    def images(self) -> Any:
        return SimpleNamespace(get=lambda key: SimpleNamespace(tags=self.names[key]), remove=self.remove)

    def remove(self, key: str) -> None:
        if key in self.used:
            raise APIError("conflict")
        self.removed.append(key)


def test_new_images_without_a_name_are_removed() -> None:
    """Others stay: the result, one that was there before (a cached stage), and one that a container uses."""
    engine = Engine({"base": ["debian:12"], "cached": []}, used=("running",))
    with removed_stages(cast(Any, engine)) as stages:
        engine.names |= {"installed": [], "running": [], "result": ["train:1"], "of another build": []}
        stages += ["base", "cached", "installed", "running", "result"]
    assert engine.removed == ["installed"]


def test_a_failed_build_leaves_none_either() -> None:
    engine = Engine({})

    def fail() -> None:
        with removed_stages(cast(Any, engine)) as stages:
            engine.names["installed"] = []
            stages.append("installed")
            raise ValueError("the second stage failed")

    with pytest.raises(ValueError, match="second stage"):
        fail()
    assert engine.removed == ["installed"]


@pytest.mark.parametrize(
    ("event", "stages"),
    [
        ({"aux": {"ID": "sha256:1"}}, ["sha256:1"]),
        ({"stream": " ---> 445a06b0a1e3\n"}, []),
        ({"stream": "a program prints: aux ID sha256:2"}, []),
        ({"aux": None}, []),
        ({"error": "no"}, []),
    ],
)
def test_only_the_engines_own_word_is_a_stage(event: dict[str, Any], stages: list[str]) -> None:
    assert list(stage_of(event)) == stages
