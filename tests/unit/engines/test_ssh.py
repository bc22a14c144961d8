"""Engine ssh: channels without a shared master, commands of people, exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.engines.interface import Phase, Wanted
from ddp_play.engines.route import Route
from ddp_play.engines.ssh import SshEngine
from ddp_play.planning.job import parse_job

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = SshEngine()
SSH = Route("h1", ("ssh", "-o", "ControlPath=/x", "h1"), "run me", "password:", "OK")


def test_a_fresh_route_avoids_the_shared_master() -> None:
    fresh = ENGINE.fresh(SSH)
    assert fresh.argv.index("ControlPath=none") < fresh.argv.index("ControlPath=/x"), "ssh takes the first value"
    assert fresh.argv[-1] == "h1"
    assert (fresh.command, fresh.become_prompt, fresh.become_success) == ("run me", "password:", "OK")


def test_a_fresh_route_still_asks_for_a_password() -> None:
    asks = Route("h1", ("ssh", "h1"), "run me", asks_password=True)
    assert ENGINE.fresh(asks).asks_password


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_route_whose_control_directory_is_gone_does_without_the_shared_master(tmp_path: Path, quote: str) -> None:
    """A logout removes the runtime directory of the user."""
    there = Route("h1", ("ssh", "-o", f"ControlPath={quote}{tmp_path}/abc{quote}", "h1"), "run me")
    gone = Route("h1", ("ssh", "-o", f"ControlPath={quote}{tmp_path}/cp/abc{quote}", "h1"), "run me")
    assert ENGINE.usable(there) == there
    assert ENGINE.usable(gone) == ENGINE.fresh(gone)
    assert "ControlPath=none" in ENGINE.interactive(gone, "top", terminal=True)
    assert ENGINE.interactive(there, "top", terminal=True) == ["ssh", "-t", *there.argv[1:], "top"]


def test_a_local_route_is_always_fresh() -> None:
    local = Route("h1", ("/bin/sh", "-c"), "run me")
    assert ENGINE.fresh(local) == local
    assert ENGINE.interactive(local, "id", terminal=True) == ["/bin/sh", "-c", "id"]
    assert ENGINE.interactive(SSH, "id", terminal=False) == ["ssh", "-o", "ControlPath=/x", "h1", "id"]
    assert ENGINE.interactive(SSH, "id", terminal=True) == ["ssh", "-t", "-o", "ControlPath=/x", "h1", "id"]


def test_only_ssh_has_an_exit_code_for_no_connection() -> None:
    local = Route("h1", ("/bin/sh", "-c"), "run me")
    assert ENGINE.no_connection(SSH, 255)
    assert ENGINE.no_connection(SSH, None)
    assert not ENGINE.no_connection(SSH, 3)
    assert not ENGINE.no_connection(local, 255)


def test_hosts_of_an_inventory_need_no_allocation(tmp_path: Path) -> None:
    allocation = ENGINE.allocate(Wanted("calm-otter", tmp_path, parse_job({"command": ["true"]})))
    assert (allocation.id, allocation.has_controller) == ("", False)
    assert ENGINE.state(allocation).phase is Phase.GRANTED
