"""Names that hosts can and cannot have."""

from __future__ import annotations

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.host_names import name_problem, refuse_names


@pytest.mark.parametrize("name", ["h1", "gpu-01.example.org", "10.0.0.1", "fe80::1", "_x", "...", "größe", "no", "01"])
def test_names_that_can_be_a_host(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize("name", ["rack1/h1", "/h1", ".", "..", "-x", "--help", "a\nb", "a\0"])
def test_names_that_cannot(name: str) -> None:
    with pytest.raises(UsageError, match="host") as caught:
        refuse_names(["h1", name])
    assert caught.value.message.startswith(f"host {name}: ")
    assert caught.value.hint == "rename it in the inventory, and put its address into ansible_host"


def test_good_names_pass() -> None:
    refuse_names(["h1", "h2"])
