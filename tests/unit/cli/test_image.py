"""The table of the hosts' images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.cli.image import _print_table, _remedies
from ddp_play.images.archive import HostImage

if TYPE_CHECKING:
    import pytest


def test_present_absent_and_unknown_images(capsys: pytest.CaptureFixture[str]) -> None:
    digest = "10.0.0.1:5000/train@sha256:" + "0123456789abcdef" * 4
    _print_table([HostImage("h1", "aabb", 70, (digest,)), HostImage("h2"), HostImage("h3", error="no route")])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["host", "content", "MiB", "in", "registries"],
        ["h1", "aabb", "70", "10.0.0.1:5000/train@sha256:0123456789ab"],
        ["h2", "absent"],
        ["h3", "no", "route"],
    ]


def test_an_error_of_a_host_is_whole_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    error = f"docker: [Errno 2] [/x] {'word ' * 30}end"
    _print_table([HostImage("h1", error=error)])
    assert error in capsys.readouterr().out


def test_what_helps_where_hosts_could_not_be_asked() -> None:
    refused = [HostImage(name, error="no", remedy="ddp-play provision -i INVENTORY") for name in ("h1", "h2")]
    assert _remedies([HostImage("h0", "aabb"), *refused], "inv") == ["ddp-play provision -i inv"]
    two = [HostImage("h1", error="no", remedy="this"), HostImage("h2", error="no", remedy="that")]
    assert _remedies(two, "inv") == ["h1: this", "h2: that"]
    assert _remedies([HostImage("h0", "aabb"), HostImage("h1")], "inv") == []
