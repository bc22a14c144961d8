"""Reading a host: programs that are missing or hang, files, packages, units."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.ddp.play.plugins.module_utils import host

UNITS = """\
ActiveState=active
UnitFileState=enabled
LoadState=loaded
DropInPaths=/etc/systemd/system/docker.service.d/limits.conf

ActiveState=inactive
UnitFileState=
LoadState=not-found
DropInPaths=
"""


@pytest.mark.parametrize(
    ("argv", "timeout_s", "rc"),
    [(["true"], 60, 0), (["false"], 60, 1), (["no-such-program-here"], 60, 127), (["sleep", "60"], 0, 124)],
)
def test_the_exit_code_says_what_became_of_a_program(argv: list[str], timeout_s: int, rc: int) -> None:
    assert host.run(argv, timeout_s)[0] == rc


def test_files_that_cannot_be_read_are_empty(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b" text\n")
    assert (host.read(tmp_path / "there"), host.read_bytes(tmp_path / "there")) == ("text", b" text\n")
    assert (host.read(tmp_path / "gone"), host.read_bytes(tmp_path / "gone")) == ("", None)


def test_packages_by_dpkg_else_by_rpm(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "dpkg-query": (1, "nvidia-smi\t580.95.05-1\thi \nlibcuda1\t580.95.05-1\tii \n", "no packages found"),
        "rpm": (0, "nvidia-smi\t3:580.95.05-1.el9\n", ""),
    }
    monkeypatch.setattr(host, "run", lambda argv: answers.get(argv[0], (127, "", "")))
    assert host.packages([], []) == {}
    assert host.packages(["*"], ["libcuda*"]) == {"nvidia-smi": {"version": "580.95.05-1", "held": True}}
    del answers["dpkg-query"]
    assert host.packages(["*"], []) == {"nvidia-smi": {"version": "580.95.05-1.el9", "held": False}}


def test_units_that_systemd_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "run", lambda _argv: (0, UNITS, ""))
    assert host.unit_states([]) == {}
    assert host.unit_states(["docker.service", "gone.service"]) == {
        "docker.service": {
            "active": "active",
            "enabled": "enabled",
            "drop_ins": "/etc/systemd/system/docker.service.d/limits.conf",
        }
    }
