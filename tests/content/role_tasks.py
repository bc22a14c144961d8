"""Tasks of the provisioning roles, for the tests that compare their files: modules, files included, conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.content.role_files import ROOT, read

# Roles of another kind.
OTHER_KIND = {
    "ddp_job": "plans and runs a job; it leaves no state on a host that could be verified or removed",
    "host_reboot": "an action on request: drain, reboot, open; a host is not wanted to be in a rebooted state",
}
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir() and path.name not in OTHER_KIND)

IMPORT, INCLUDE = "ansible.builtin.import_tasks", "ansible.builtin.include_tasks"
SAYS = "ansible.builtin.debug"
SAY = {SAYS, "ansible.builtin.meta"}
JUDGE = {"ansible.builtin.assert", "ansible.builtin.fail"}
KEYWORDS = {"name", "when", "vars", "register", "notify", "loop", "loop_control", "environment", "block", "rescue"} | {
    "changed_when", "failed_when", "no_log", "delegate_to", "run_once", "tags", "become", "check_mode",
}  # fmt: skip


def tasks_of(role: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(role / "tasks" / f"{name}.yml")
    return found


def modules(task: dict[str, Any]) -> set[str]:
    return set(task) - KEYWORDS


def included(task: dict[str, Any]) -> str:
    """The file that a task imports or includes, without its ending; empty for another task."""
    return str(task.get(IMPORT) or task.get(INCLUDE) or "").removesuffix(".yml")


def condition(task: dict[str, Any]) -> str:
    when = task.get("when", "")
    return " and ".join(when) if isinstance(when, list) else str(when)


def names(role: Path) -> set[str]:
    return {path.stem for path in (role / "tasks").glob("*.yml")}
