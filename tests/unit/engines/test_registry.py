"""Engines by name and by route."""

from __future__ import annotations

import pytest

from ddp_play.engines.registry import ENGINES, engine_named, engine_of
from ddp_play.engines.route import Route
from ddp_play.errors import UsageError


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_its_name(name: str) -> None:
    assert engine_named(name).name == name


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no engine moon") as refused:
        engine_named("moon")
    assert refused.value.hint == "the engines are ssh, slurm"


@pytest.mark.parametrize(
    ("argv", "name"),
    [(("ssh", "h1"), "ssh"), (("/usr/bin/srun", "-w", "n1"), "slurm"), (("/bin/sh", "-c"), "ssh"), (("other",), "ssh")],
)
def test_the_engine_of_a_stored_route_is_known_by_its_program(argv: tuple[str, ...], name: str) -> None:
    assert engine_of(Route("h1", argv, "run me")).name == name
