#!/usr/bin/python
"""Write lines at the end of a PAM file with a way back: systemd restores the file unless a new login proves them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pam_block
short_description: Lines in a marked block of a PAM file, proved by a new login or taken back
version_added: "0.2.0"
description:
  - C(present) first has systemd restore the present file after I(restore_after_s), then writes the block. The action
    plugin of the same name then logs in again, over an SSH connection of its own, and ends the trial with C(proven)
    through that login. If it cannot log in, it fails, and systemd restores the file.
  - Lines outside the block stay byte for byte. C(absent) removes the block alone.
  - A trial that was left open, by a controller that died, is taken back by the next C(present) or C(absent).
options:
  path:
    description: The file. C(present) needs one.
    type: path
    default: /etc/pam.d/sshd
  lines:
    description: The lines of the block. Needed with C(present).
    type: list
    elements: str
    default: []
  instead_of:
    description:
      - The lines of the block from which I(lines) were made; none without a block. With others on the host, which
        another controller has written since, the module fails and changes nothing. They are not compared without this
        option.
    type: list
    elements: str
  state:
    description: C(proven) ends the trial that C(present) has begun; only the action plugin uses it.
    type: str
    choices: [present, proven, absent]
    default: present
  restore_after_s:
    description: Seconds from the writing until systemd restores the file.
    type: int
    default: 120
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Let in users with a running job only
  ddp.play.pam_block:
    lines: [account required pam_slurm_adopt.so]
"""

RETURN = r"""
armed:
  description: Whether a trial is open now.
  returned: success
  type: bool
unit:
  description: The timer that restores the file.
  returned: success
  type: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: success
  type: list
  elements: dict
"""

import contextlib  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import changes, file_replacement, pam_block  # noqa: E402


def kept_path(path: str) -> Path:
    """The file as it was before a trial. While it is there, the trial is open: one rename or unlink ends it."""
    return Path(path + pam_block.BEFORE)


def unit_of(path: str) -> str:
    """Name of the transient units of a trial, without a suffix."""
    return "ddp-play-restore-%s" % Path(path).name


def read(path: str) -> str:
    """Text of the file; bytes that are no UTF-8 stay what they are. Empty without a file, which has no block."""
    if not Path(path).exists():
        return ""
    return Path(path).read_bytes().decode("utf-8", "surrogateescape")


def stop_timer(module: AnsibleModule, path: str) -> None:
    """Stop the timer of a trial that has ended; without effect if there is none."""
    module.run_command(["systemctl", "stop", unit_of(path) + ".timer"])


def text_before(path: str) -> str:
    """Text without what an open trial has written; lines that others have changed since then stay.

    After a loss of power the kept file stays until the next provisioning, however late that is.
    """
    before, text = read(str(kept_path(path))), read(path)
    rest = pam_block.without_block(text)
    if not text or pam_block.is_damaged(text) or rest == pam_block.without_block(before):
        return before
    lines = pam_block.block_lines(before)
    return rest if lines is None else str(pam_block.with_block(text, lines))


def take_back(module: AnsibleModule, path: str) -> None:
    """End an open trial of an earlier run: the file was not proved, so the one before it returns."""
    kept = kept_path(path)
    if not kept.exists():
        return
    before = text_before(path)
    with contextlib.suppress(FileNotFoundError):  # systemd has just ended it
        if before == read(str(kept)):
            kept.replace(path)
        else:
            write(module, path, before)
            kept.unlink()
        stop_timer(module, path)


def write(module: AnsibleModule, path: str, text: str) -> None:
    """Replace the text of the file; its owner and mode stay."""
    file_replacement.replace_file(path, text.encode("utf-8", "surrogateescape"), move=module.atomic_move)


def restore_command(module: AnsibleModule, path: str, after_s: int) -> List[str]:
    """Command that has systemd rename the kept file to the path later. A rename is one step, and needs no shell."""
    move = [module.get_bin_path("mv", required=True), "--force", "--no-target-directory", str(kept_path(path)), path]
    timer = ["--on-active=%d" % after_s, "--timer-property=AccuracySec=1s"]
    return ["systemd-run", "--quiet", "--collect", "--unit=" + unit_of(path), *timer, *move]


def arm(module: AnsibleModule, path: str, after_s: int) -> None:
    """Keep the present file and have systemd restore it; ends the module if it cannot be had."""
    stop_timer(module, path)  # of an earlier trial: it would move this one's kept file
    kept = kept_path(path)
    file_replacement.keep_copy(path, str(kept))
    rc, out, err = module.run_command(restore_command(module, path, after_s))
    if rc != 0:
        kept.unlink()
        module.fail_json(
            msg="%s stays as it is: systemd-run cannot arm its restoration (exit code %d): %s. Run on this host: "
            "systemctl status %s.timer" % (path, rc, (err or out).strip(), unit_of(path))
        )


def prove(module: AnsibleModule, path: str) -> None:
    """End the trial: the file stays. Ends the module if systemd was faster, or if others have begun another trial."""
    lines = module.params["lines"]
    if pam_block.block_lines(read(path)) == lines:
        with contextlib.suppress(FileNotFoundError):  # restored since, or proved by another login
            kept_path(path).unlink()
    if pam_block.block_lines(read(path)) != lines:
        module.fail_json(
            msg="the login took too long: %s was restored before it ended, or another provisioning has written "
            "other lines into it" % path
        )
    stop_timer(module, path)


def refuse_others(module: AnsibleModule, text: str) -> None:
    """End the module if the block is another one than that from which the wanted lines were made."""
    seen = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    expected = module.params["instead_of"]
    if expected is not None and (pam_block.block_lines(seen) or []) != expected:
        module.fail_json(
            msg="%s stays as it is: another provisioning has changed the lines of ddp-play in it since this one read "
            "them. Run provision again" % module.params["path"]
        )


def change_row(before: str, after: str, path: str) -> changes.Change:
    """Row of the listing for the block."""
    there, wanted = pam_block.without_block(before) != before, pam_block.without_block(after) != after
    kind = changes.CHANGE if there and wanted else changes.ADD if wanted else changes.REMOVE
    return changes.change(kind, "lines of ddp-play in %s" % path, changes.OURS if there else changes.NEW)


def wanted_text(module: AnsibleModule, before: str) -> str:
    """The text with or without the block; ends the module for a block of which a mark is missing."""
    if pam_block.is_damaged(before):
        module.fail_json(
            msg="%s has a line '%s' or '%s' without the other one: remove the lines of ddp-play from it by hand"
            % (module.params["path"], pam_block.BEGIN, pam_block.END)
        )
    if module.params["state"] == "absent":
        return str(pam_block.without_block(before))
    return str(pam_block.with_block(before, module.params["lines"]))


def main() -> None:
    """Take back what was not proved, arm the way back, write."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/pam.d/sshd"},
            "lines": {"type": "list", "elements": "str", "default": []},
            "instead_of": {"type": "list", "elements": "str"},
            "state": {"type": "str", "choices": ["present", "proven", "absent"], "default": "present"},
            "restore_after_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    path, state = module.params["path"], module.params["state"]
    unit = unit_of(path) + ".timer"
    if state == "proven":
        prove(module, path)
        module.exit_json(changed=False, armed=False, unit=unit, ddp_changes=[])
    refuse_others(module, read(path))
    unproved = kept_path(path).exists()
    if not module.check_mode:
        take_back(module, path)
    before = text_before(path) if unproved and module.check_mode else read(path)
    after = wanted_text(module, before)
    armed = after != before and state == "present" and not module.check_mode
    if after != before and not module.check_mode:
        if armed:
            arm(module, path, module.params["restore_after_s"])
        write(module, path, after)
    texts = {"before_header": path, "after_header": path, "before": before, "after": after}
    rows = [change_row(before, after, path)] if after != before else []
    changed, diff = bool(rows) or unproved, [texts] if rows else []
    module.exit_json(changed=changed, armed=armed, unit=unit, ddp_changes=rows, diff=diff)


if __name__ == "__main__":
    main()
