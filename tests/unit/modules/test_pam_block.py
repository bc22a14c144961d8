"""The module `pam_block`, run as a program: a trial with a way back, its end, and what an open one leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import pam_block as block
from ansible_collections.ddp.play.plugins.modules import pam_block

from tests.unit.modules.module_process import FORKER
from tests.unit.modules.stand_in import accepted, documented

SITE = "account required pam_nologin.so\n@include common-account"
LINES = ["account required pam_slurm_adopt.so"]
PROGRAM = """#!/bin/sh
cd "$(dirname "$0")"
echo "$(basename "$0") $*" >> log
exit "$(cat "$(basename "$0").rc" 2>/dev/null || echo 0)"
"""


class Host:
    """A host with a file of PAM, and programs that write down how they are called."""

    def __init__(self, folder: Path) -> None:
        """The site's file."""
        self.folder, self.path = folder, folder / "sshd"
        self.kept = folder / "sshd.ddp-play-before"
        self.path.write_text(SITE)
        self.path.chmod(0o640)
        for name in ("systemctl", "systemd-run"):
            (folder / name).write_text(PROGRAM)
            (folder / name).chmod(0o755)

    def play(
        self, state: str = "present", lines: list[str] = LINES, *, check: bool = False, **more: list[str]
    ) -> dict[str, Any]:
        """What the module answers."""
        given = {"path": str(self.path), "state": state, "lines": lines, "_ansible_check_mode": check, **more}
        return FORKER.answer(pam_block.__file__, given, path=str(self.folder))

    def calls(self) -> list[str]:
        """Programs that were called since the last time."""
        log = self.folder / "log"
        found = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    def restore(self) -> None:
        """Do what systemd was told to do."""
        (run,) = [call for call in self.calls() if call.startswith("systemd-run")]
        source, target = run.split()[-2:]
        Path(source).replace(target)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, pam_block) == documented(pam_block)


def test_the_way_back_is_armed_before_the_file_is_written(host: Host) -> None:
    (host.folder / "systemd-run").write_text(PROGRAM.replace("exit", f"cp {host.path} seen\nexit"))
    answer = host.play()
    assert answer["changed"], answer
    assert (answer["unit"], answer["ddp_changes"]) == (
        "ddp-play-restore-sshd.timer",
        [{"kind": "add", "what": f"lines of ddp-play in {host.path}", "whose": "new"}],
    )
    assert block.block_lines(host.path.read_text()) == LINES
    assert ((host.folder / "seen").read_text(), host.kept.read_text()) == (SITE, SITE)
    stop, run = host.calls()
    assert stop == "systemctl stop ddp-play-restore-sshd.timer"
    assert run.startswith(
        "systemd-run --quiet --collect --unit=ddp-play-restore-sshd --on-active=120 --timer-property="
    )
    assert run.endswith(f"/mv --force --no-target-directory {host.kept} {host.path}")


def test_the_timer_of_an_earlier_trial_is_stopped_before_it_could_end_this_one(host: Host) -> None:
    """A controller may die after it has proved a trial and before the timer is stopped."""
    (host.folder / "systemctl").write_text(PROGRAM.replace("exit", f"ls {host.folder} > there\nexit"))
    host.play()
    assert "before" not in (host.folder / "there").read_text()


def test_a_proof_keeps_the_file_and_nothing_else(host: Host) -> None:
    host.play()
    host.calls()
    assert not host.play("proven")["changed"]
    assert host.calls() == ["systemctl stop ddp-play-restore-sshd.timer"]
    assert (host.kept.exists(), block.block_lines(host.path.read_text())) == (False, LINES)
    assert not host.play()["changed"]
    assert host.calls() == []


def test_a_restored_file_is_that_of_the_site_and_its_proof_comes_too_late(host: Host) -> None:
    host.play()
    host.restore()
    assert (host.path.read_text(), host.path.stat().st_mode & 0o777) == (SITE, 0o640)
    answer = host.play("proven")
    assert answer["failed"]
    assert "was restored before it ended" in answer["msg"]


def test_a_login_proves_no_lines_that_another_provisioning_has_written(host: Host) -> None:
    host.play()
    host.play(lines=["account required pam_deny.so"])
    host.calls()
    answer = host.play("proven")
    assert answer["failed"]
    assert "another provisioning" in answer["msg"]
    assert (host.kept.read_text(), host.calls()) == (SITE, [])


def test_two_logins_prove_the_same_lines(host: Host) -> None:
    host.play()
    host.play()
    assert [host.play("proven").get("failed", False) for _ in range(2)] == [False, False]
    assert (host.kept.exists(), block.block_lines(host.path.read_text())) == (False, LINES)


def test_lines_that_others_have_written_since_they_were_read_stay(host: Host) -> None:
    others = ["account [success=1 default=ignore] pam_succeed_if.so quiet user = kim", *LINES]
    host.play(lines=others)
    for proven in (False, True):
        answer = host.play(instead_of=[])
        assert "another provisioning" in answer["msg"]
        assert (host.kept.exists(), block.block_lines(host.path.read_text())) == (not proven, others)
        host.play("proven", lines=others)
    assert host.play(instead_of=others)["armed"]


def test_lines_of_other_bytes_are_compared_as_they_were_read(host: Host) -> None:
    host.path.write_bytes(f"{SITE}\n{block.BEGIN}\n# k".encode() + b"\xff" + f"\n{block.END}\n".encode())
    assert host.play(instead_of=["# k\ufffd"])["armed"]


def test_without_a_way_back_nothing_is_written(host: Host) -> None:
    (host.folder / "systemd-run.rc").write_text("1")
    answer = host.play()
    assert answer["failed"]
    assert "stays as it is: systemd-run cannot arm its restoration (exit code 1)" in answer["msg"]
    assert (host.path.read_text(), host.kept.exists()) == (SITE, False)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_trial_that_nobody_ended_is_taken_back_first(host: Host, state: str) -> None:
    host.play()
    assert host.play(state, check=True)["changed"]
    assert host.kept.exists()
    assert host.play(state)["changed"]
    assert host.kept.exists() == (state == "present")
    assert block.without_block(host.path.read_text()) == SITE


@pytest.mark.parametrize("earlier", [[], ["account required pam_deny.so"]])
def test_what_others_have_changed_since_a_trial_stays(host: Host, earlier: list[str]) -> None:
    """Systemd forgets the trial when the host loses its power."""
    if earlier:
        host.play(lines=earlier)
        host.play("proven", lines=earlier)
    host.play()
    host.path.write_text("# of the site, weeks later\n" + host.path.read_text())
    state = "present" if earlier else "absent"
    listed = host.play(state, earlier, check=True)
    assert (listed["changed"], listed["ddp_changes"]) == (True, [])
    answer = host.play(state, earlier)
    assert (answer["changed"], answer["armed"], host.kept.exists()) == (True, False, False)
    assert block.without_block(host.path.read_text()) == "# of the site, weeks later\n" + SITE
    assert (block.block_lines(host.path.read_text()) or []) == earlier
    assert host.path.stat().st_mode & 0o777 == 0o640


def test_a_trial_of_other_lines_that_is_taken_back_to_the_wanted_ones_needs_no_proof(host: Host) -> None:
    assert host.play()["armed"]
    assert not host.play("proven")["armed"]
    host.play(lines=["account required pam_deny.so"])
    answer = host.play()
    assert (answer["changed"], answer["armed"], host.kept.exists()) == (True, False, False)
    assert block.block_lines(host.path.read_text()) == LINES


def test_check_mode_lists_the_change(host: Host) -> None:
    answer = host.play(check=True)
    assert (answer["changed"], answer["armed"], answer["ddp_changes"][0]["kind"]) == (True, False, "add")
    assert (host.path.read_text(), host.calls()) == (SITE, [])


def test_the_removal_takes_the_block_alone(host: Host) -> None:
    host.play()
    host.play("proven")
    host.path.write_text("# of the site\n" + host.path.read_text())
    answer = host.play("absent")
    assert (answer["changed"], answer["ddp_changes"][0]["kind"]) == (True, "remove")
    assert (host.path.read_text(), host.path.stat().st_mode & 0o777) == ("# of the site\n" + SITE, 0o640)
    assert not host.play("absent")["changed"]


def test_lines_that_were_changed_by_hand_are_written_again(host: Host) -> None:
    host.play()
    host.play("proven")
    host.path.write_text(host.path.read_text().replace("required pam_slurm", "optional pam_slurm"))
    answer = host.play()
    assert (answer["changed"], answer["ddp_changes"][0]["kind"]) == (True, "change")
    assert block.block_lines(host.path.read_text()) == LINES


def test_a_block_without_its_end_is_refused(host: Host) -> None:
    host.path.write_text(f"{SITE}\n{block.BEGIN}\n")
    for state in ("present", "absent"):
        answer = host.play(state)
        assert "without the other one" in answer["msg"]
    assert host.path.read_text() == f"{SITE}\n{block.BEGIN}\n"


def test_a_host_without_the_file_has_nothing_to_remove(host: Host) -> None:
    host.path.unlink()
    assert not host.play("absent")["changed"]
    assert not host.path.exists()
