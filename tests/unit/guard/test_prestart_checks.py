"""Checks between hosts before the start, over two real channels on this machine."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tests.unit.guard.host_program import Line

if TYPE_CHECKING:
    from pathlib import Path


def test_hosts_try_each_other(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        dead = int(sock.getsockname()[1])
    with Line(tmp_path) as line, Line(tmp_path) as peer:
        port = peer.ask("listen", address="127.0.0.1")["port"]
        targets = [["127.0.0.1", port], ["127.0.0.1", dead]]
        probed = line.ask("probe", targets=targets, source="127.0.0.1", timeout_s=5)
        assert probed["failed"] == [{"address": "127.0.0.1", "port": dead, "problem": "Connection refused"}]
        assert line.ask("listen", address="203.0.113.1")["message"].startswith("cannot listen on 203.0.113.1")


def test_hosts_see_each_others_locks(tmp_path: Path) -> None:
    path = str(tmp_path / "rendezvous.lock")
    with Line(tmp_path) as line, Line(tmp_path) as peer:
        assert line.ask("hold_lock", path=path, word="w") == {"t": "lock_held"}
        assert peer.ask("see_lock", path=path, word="w") == {"t": "lock_seen", "problem": ""}
        assert line.ask("drop_lock") == {"t": "lock_dropped"}
        assert line.ask("hold_lock", path=str(tmp_path / "gone" / "x"), word="w")["error"] == "host_not_ready"
