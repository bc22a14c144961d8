"""A unit starts although its start limit is used up, and a failure has the host's own reason; a fake systemd counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import unit_start

from tests.unit.modules.module_process import FORKER

# As systemd does: the fourth start fails unless reset-failed has cleared the count. `broken` makes every start fail.
SYSTEMCTL = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> log
case "$1" in
  show) cat show ;;
  reset-failed) echo 0 > count; exit "$(cat reset.rc 2>/dev/null || echo 0)" ;;
  start|restart)
    count=$(($(cat count) + 1)); echo $count > count
    [ ! -e broken ] && [ $count -le 3 ] && exit 0
    sed -i s/Result=.*/Result=start-limit-hit/ show
    echo "Job for $2 failed." >&2; exit 1 ;;
  status) echo "docker.service: Failed with result" ;;
esac
"""
JOURNALCTL = """#!/bin/sh
cat "$(dirname "$0")/journal"
"""


def play(
    folder: Path, *, check: bool = False, active: str = "active", file_state: str = "enabled", **arguments: Any
) -> tuple[dict[str, Any], list[str]]:
    """The module's answer for docker.service with three starts in the last minute, and the calls of systemctl."""
    for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "count").write_text("3\n")
    (folder / "show").write_text(
        f"LoadState=loaded\nActiveState={active}\nUnitFileState={file_state}\nResult=success\n"
    )
    (folder / "journal").touch()
    given = {"name": "docker.service", **arguments, "_ansible_check_mode": check}
    answer = FORKER.answer(unit_start.__file__, given, path=str(folder))
    calls = (folder / "log").read_text().splitlines()
    return answer, [call for call in calls if not call.startswith("show")]


def test_a_used_up_start_limit_does_not_stop_a_restart(tmp_path: Path) -> None:
    answer, calls = play(tmp_path, state="restarted")
    assert calls == ["reset-failed docker.service", "restart docker.service"]
    assert (answer["changed"], answer["unit"]) == (True, "docker.service")


def test_a_stopped_unit_is_enabled_and_started(tmp_path: Path) -> None:
    answer, calls = play(tmp_path, active="failed", file_state="disabled", enabled=True)
    assert calls == ["enable docker.service", "reset-failed docker.service", "start docker.service"]
    assert answer["changed"]


@pytest.mark.parametrize("file_state", ["enabled", "static"])
def test_a_unit_that_is_as_wanted_is_left_alone(tmp_path: Path, file_state: str) -> None:
    answer, calls = play(tmp_path, file_state=file_state, enabled=True)
    assert (answer["changed"], calls) == (False, [])


@pytest.mark.parametrize(("state", "changed"), [("started", False), ("restarted", True)])
def test_check_mode_says_what_would_change_and_does_nothing(tmp_path: Path, state: str, changed: bool) -> None:
    answer, calls = play(tmp_path, check=True, state=state, daemon_reload=True)
    assert (answer["changed"], calls) == (changed, [])


def test_unit_files_are_read_again_first(tmp_path: Path) -> None:
    _, calls = play(tmp_path, state="restarted", daemon_reload=True)
    assert calls[0] == "daemon-reload"


def test_a_unit_that_systemd_has_not_loaded_is_started(tmp_path: Path) -> None:
    (tmp_path / "reset.rc").write_text("1")
    answer, calls = play(tmp_path, active="inactive")
    assert answer["changed"]
    assert calls[-1] == "start docker.service"


def test_a_failure_names_the_unit_the_reason_and_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    (tmp_path / "journal").write_text("unable to configure the Docker daemon\n\nMain process exited\n")
    answer, _ = play(tmp_path, state="restarted")
    assert answer["failed"]
    assert answer["msg"].startswith("systemctl restart docker.service failed (result: start-limit-hit). Job for docker")
    assert "unable to configure the Docker daemon" in answer["msg"]
    assert "journalctl -u docker.service -n 50" in answer["msg"]
    assert answer["journal"] == ["unable to configure the Docker daemon", "Main process exited"]


def test_an_empty_journal_is_replaced_by_the_status(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    assert play(tmp_path)[0]["changed"] is False
    answer, calls = play(tmp_path, active="inactive")
    assert answer["journal"] == ["docker.service: Failed with result"]
    assert calls[-1].startswith("status")


@pytest.mark.parametrize("check", [True, False])
def test_the_answer_tells_a_restart_from_a_start(tmp_path: Path, check: bool) -> None:
    rows = play(tmp_path, check=check, state="restarted")[0]["ddp_changes"]
    assert rows == [{"kind": "restart", "what": "unit docker.service", "whose": "theirs"}]
    rows = play(tmp_path, check=check, active="inactive")[0]["ddp_changes"]
    assert [row["kind"] for row in rows] == ["change"]
    assert play(tmp_path, check=check)[0]["ddp_changes"] == []
