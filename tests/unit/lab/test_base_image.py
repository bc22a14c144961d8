"""The names that a pulled Debian has afterwards. What needs an engine is tested in tests/lab."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from docker.errors import ImageNotFound

from ddp_play.lab import base_image


@dataclass
class Engine:
    """An engine that can pull: names of images."""

    names: set[str] = field(default_factory=set)

    @property
    def images(self) -> Any:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def get(self, name: str) -> None:
        if name not in self.names:
            raise ImageNotFound(name)

    def pull(self, repository: str, version: str) -> Any:
        self.names.add(f"{repository}:{version}")
        return self

    def tag(self, repository: str, version: str) -> None:
        self.names.add(f"{repository}:{version}")

    def remove(self, name: str, *, noprune: bool) -> None:
        assert noprune
        self.names.remove(name)


@pytest.mark.parametrize("there", [set(), {"debian:bookworm-slim"}])
def test_a_pull_leaves_the_names_that_were_there_and_its_own(there: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No command of removal could name the registry's name: it might be the user's."""
    engine = Engine(set(there))
    monkeypatch.setattr(base_image, "connect", lambda timeout_s: engine)
    assert base_image._pull("debian:bookworm-slim", "ddp-play-lab-root:bookworm-v2") == ""
    assert engine.names == there | {"ddp-play-lab-root:bookworm-v2"}
