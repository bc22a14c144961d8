"""Judgement of a program, such as a daemon, on a new text of its file before it is written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def validate(module: AnsibleModule, want: Dict[str, Any]) -> None:
    """End the module if the program refuses the new text. In check mode the program may be missing."""
    if not want["validate"] or (module.check_mode and not module.get_bin_path(want["validate"][0])):
        return
    # in the directory of the file: AppArmor and SELinux let a daemon read there, and not in /tmp
    folder = Path(want["path"]).parent
    handle, temporary = tempfile.mkstemp(prefix=".ddp-play-validate-", dir=str(folder) if folder.is_dir() else None)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(want["content"])
        rc, out, err = module.run_command([word.replace("%s", temporary) for word in want["validate"]])
    finally:
        Path(temporary).unlink()
    if rc != 0:
        module.fail_json(
            msg="%s: the new text is refused by '%s' (exit code %d): %s"
            % (want["path"], " ".join(want["validate"]), rc, (err or out).strip()),
            changed_paths=[],
        )
