"""Refused hosts: every host is named, and every remedy belongs to its reason."""

from __future__ import annotations

import pytest

from ddp_play.planning.refused_hosts import Refused, joined

LOAD = "ddp-play image load -i INVENTORY --limit HOSTS"


@pytest.mark.parametrize(
    ("refused", "message", "remedy"),
    [
        ([], "", ""),
        ([Refused("h1", "no image")], "h1: no image", ""),
        ([Refused("h1", "no image", LOAD)], "h1: no image", "ddp-play image load -i INVENTORY --limit h1"),
        (
            [Refused("h1", "no image", LOAD), Refused("h2", "no image", LOAD)],
            "h1, h2: no image",
            "ddp-play image load -i INVENTORY --limit h1,h2",
        ),
        (
            [Refused("h1", "no image", LOAD), Refused("h2", "no engine", "provision"), Refused("h3", "no image", LOAD)],
            "h1, h3: no image\nh2: no engine",
            "h1, h3: ddp-play image load -i INVENTORY --limit h1,h3\nh2: provision",
        ),
        (
            [Refused("h1", "no eth7", "correct it"), Refused("h2", "no eth8", "correct it")],
            "h1: no eth7\nh2: no eth8",
            "correct it",
        ),
        (
            [Refused(host, "no Python", f"install it on {host}, or correct python of {host}") for host in ("h1", "h2")],
            "h1, h2: no Python",
            "install it on h1,h2, or correct python of h1,h2",
        ),
        (
            [Refused(host, "no answer", f"ssh {host}") for host in ("h1", "h2")],
            "h1: no answer\nh2: no answer",
            "h1: ssh h1\nh2: ssh h2",
        ),
        ([Refused("h1", "silent"), Refused("h2", "no engine", "provision")], "h1: silent\nh2: no engine", "provision"),
    ],
)
def test_every_host_and_its_remedy(refused: list[Refused], message: str, remedy: str) -> None:
    assert joined(refused) == (message, remedy)


def test_many_hosts_are_counted_and_the_command_has_all() -> None:
    message, remedy = joined(Refused(f"h{number}", "no image", LOAD) for number in range(100))
    assert message.endswith("h19 and 80 more: no image")
    assert remedy.endswith("h98,h99")
