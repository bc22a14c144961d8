"""Two hosts with one directory: neither takes the other's runs for its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import host_identity, processes, state_directory
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import RUN, prepared
from tests.unit.guard.test_main import answer

if TYPE_CHECKING:
    from pathlib import Path

# A host of its own: name, processes and network (abstract sockets belong to a network).
HOST = ("unshare", "--uts", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", 'hostname "$0" && exec "$@"')


def namespaces_work() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*HOST, "probe", "true"], capture_output=True, check=False).returncode == 0


def on_host(name: str, root: Path, *arguments: str) -> Any:
    """What the program answers on another host that has the directory `root` too."""
    return answer(root, *arguments, wrap=(*HOST, name))


@pytest.mark.skipif(not namespaces_work(), reason="needs root, for namespaces")
def test_a_sibling_neither_removes_nor_claims_a_living_run(tmp_path: Path) -> None:
    with Line(tmp_path, wrap=(*HOST, "gpu07")) as line:
        prepared(line, "sleep 600", tmp_path)
        line.ask("go", by="kim")
        (row,) = on_host("gpu08", tmp_path, "runs")["runs"]
        assert (row["guard_alive"], row["elsewhere"]) == (False, "gpu07")
        order = json.dumps({"paths": [row["path"]], "living_too": True})
        left = on_host("gpu08", tmp_path, "clean", order)["left"]
        assert left == [f"{row['path']}: it belongs to gpu07, which shares this directory; run gc there"]
        with Line(tmp_path, wrap=(*HOST, "gpu08")) as sibling:
            sibling.ask("open", **{**RUN, "token": "fedcba9876543210", "host": "h2"})
            assert sibling.ask("claim", shared=[]) == {"t": "claimed"}
        line.order("beat", id=1)
        assert line.until("beat")[-1][0]["guard_gone"] is False
        line.ask("clean")


@pytest.mark.skipif(not namespaces_work(), reason="needs root, for namespaces")
def test_the_same_host_removes_what_is_its_own(tmp_path: Path) -> None:
    """A container host that was started again has other process numbers, and the same name."""
    with Line(tmp_path, wrap=(*HOST, "gpu07")) as line:
        prepared(line, "sleep 600", tmp_path)
        line.ask("go", by="kim")
    (row,) = on_host("gpu07", tmp_path, "runs")["runs"]
    assert (row["guard_alive"], row["elsewhere"]) == (False, "")
    assert on_host("gpu07", tmp_path, "clean", json.dumps({"paths": [row["path"]]})) == {"left": []}


@pytest.mark.parametrize("boot", ["ours", "another"])
def test_state_of_an_earlier_version_in_a_shared_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    """It names no host: the boot that wrote it tells whether it was this one."""
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(state_directory, "OF_ROOT", str(tmp_path / "home" / "ddp-play" / "host"))
    place = HostRun(tmp_path / "home" / "ddp-play" / "host" / "runs" / "night.0123456789abcdef" / "1.h1")
    place.root.mkdir(parents=True)
    state = {"boot": processes.boot_id() if boot == "ours" else "another", "phase": "running"}
    write_json(place.state, state)
    assert host_identity.other_host(place, {}, state) == "", "a local directory is of this host"
    (tmp_path / "local").mkdir()
    monkeypatch.setattr("ddp_play.guard.host_identity.base_dir", lambda: tmp_path / "local")
    assert host_identity.other_host(place, {}, state) == ("" if boot == "ours" else host_identity.UNKNOWN)


def test_copied_disks_are_told_apart_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    place = HostRun.at("night.0123456789abcdef", 1, "h1")
    spec = {host_identity.FIELD: host_identity.identity()}
    assert host_identity.other_host(place, spec, {}) == ""
    monkeypatch.setattr("socket.gethostname", lambda: "gpu08")
    assert host_identity.other_host(place, spec, {}) == spec[host_identity.FIELD][0]
