"""What the removal of a role gives back, says, and is not refused for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.content.role_files import ROOT, read, tasks_in
from tests.content.role_tasks import (
    IMPORT,
    INCLUDE,
    JUDGE,
    ROLES,
    SAY,
    condition,
    included,
    modules,
    names,
    tasks_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

IMPORT_ROLE = "ansible.builtin.import_role"
UNIT_MODULES = {"ansible.builtin.systemd_service", "ddp.play.unit_start"}


def roles_by_hosts(playbook: str) -> dict[str, set[str]]:
    """The groups on whose hosts a playbook plays or removes each role."""
    found: dict[str, set[str]] = {}
    for play in read(ROOT / f"playbooks/{playbook}.yml"):
        names = [row["role"] for row in play.get("roles", [])]
        imports = [task.get(IMPORT_ROLE, {}) for task in play.get("tasks", [])]
        names += [row["name"] for row in imports if row.get("tasks_from") == "remove"]
        for name in names:
            found.setdefault(name, set()).update(play["hosts"].split(":"))
    return found


def test_deprovision_removes_each_role_from_all_hosts_that_provision_gives_it() -> None:
    given = roles_by_hosts("provision")
    assert len(given) == len(set(given) & {f"ddp.play.{role.name}" for role in ROLES}) > 10
    assert roles_by_hosts("deprovision") == given


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_remove_says_what_remains(role: Path) -> None:
    last = tasks_of(role, "remove")[-1]
    assert last["name"] == "remove | Report what remains on the host"
    assert "left on {{ inventory_hostname }}" in last["ansible.builtin.debug"]["msg"]


NOTHING_KEPT: dict[str, list[str]] = {"kept": []}
THERE, ABSENT = {"type": "directory"}, {"type": "absent"}
UNDONE = {"homes": ["/home/a"], "busy": [], "needed": []}
BUSY = {"homes": [], "busy": ["b"], "needed": ["video"]}
AGAIN = [{"mountpoint": "/data", "command": "mount /data"}]
TRIED: dict[str, Any] = {"tried": {"results": []}, "back": {"commands": {"back /data": {"rc": 1}}}}
# By role: what remove.yml has read and done, and what it then says of the host.
LEFT: list[tuple[str, dict[str, Any], str]] = [
    ("cluster_users", {"undone": {**UNDONE, "homes": []}, "after": {"files": {}}}, "nothing"),
    ("cluster_users", {"undone": UNDONE, "after": {"files": {"/home/a": ABSENT}}}, "nothing"),
    ("cluster_users", {"undone": UNDONE, "after": {"files": {"/home/a": THERE}}}, "homes of removed accounts: /home/a"),
    (
        "cluster_users",
        {"undone": BUSY, "after": {"files": {}}},
        "accounts with processes: b, groups that others have: video",
    ),
    ("image_distribution", {"theirs": [], "stored": [], "used": [], "files": {"left_paths": []}}, "nothing"),
    (
        "image_distribution",
        {
            "theirs": ["a:1"],
            "stored": ["/data"],
            "used": ["b:1"],
            "packages_gone": {"kept": ["p"]},
            "files": {"left_paths": ["/c/ca.crt"]},
        },
        "images that were there before: a:1, images that containers use: b:1, images of the registry: /data, "
        "certificates that this role did not write: /c/ca.crt, packages that others need: p",
    ),
    ("monitoring", {"after": {"skipped": True}}, "nothing"),
    ("monitoring", {"after": {"commands": {"image": {"rc": 1}}}}, "nothing"),
    ("monitoring", {"after": {"commands": {"image": {"rc": 0}}}}, "image of dcgm-exporter: exporter:1"),
    ("nfs_client", {"mounted": [], "again": [], "lines_gone": NOTHING_KEPT, **TRIED}, "nothing"),
    ("nvidia_container_toolkit", {"ours": ["a"], "installed": ["a"]}, "nothing"),
    ("nvidia_container_toolkit", {"ours": [], "installed": []}, "nothing"),
    ("nvidia_container_toolkit", {"ours": [], "installed": ["a"]}, "toolkit that this role has not installed: a"),
    (
        "nfs_client",
        {"mounted": [{"mountpoint": "/shared"}], "again": AGAIN, "lines_gone": {"kept": ["/old"]}, **TRIED},
        "data on the server of: /shared, not mounted again: mount /data (no answer), "
        "lines of fstab that were changed by hand: /old",
    ),
    ("nfs_server", {"after": {"files": {}}, "files": {"changed_paths": []}}, "nothing"),
    (
        "nfs_server",
        {"after": {"files": {"/a": ABSENT, "/b": THERE, "/c": THERE}}, "files": {"changed_paths": ["/c"]}},
        "exported directories: /b",
    ),
    ("python_env", {"made": ["/e"], "state": {"files": {"/e": THERE}}}, "nothing"),
    ("python_env", {"made": [], "state": {"files": {"/e": ABSENT}}}, "nothing"),
    (
        "python_env",
        {"made": [], "state": {"files": {"/e": THERE}}, "packages_gone": {"kept": ["p"]}},
        "environment that this role has not created: /e, packages that others need: p",
    ),
    ("rdma", {"files_gone": {"changed_paths": []}, "ipoib_file": "/a"}, "nothing"),
    (
        "rdma",
        {"files_gone": {"changed_paths": ["/a"]}, "ipoib_file": "/a", "packages_gone": {"kept": ["p"]}},
        "packages that others need: p, addresses of interfaces: ib0",
    ),
    ("scratch", {"decision": {"ours": []}, "to_wipe": [], "lines_gone": NOTHING_KEPT}, "nothing"),
    (
        "scratch",
        {"decision": {"ours": [{"device": "/dev/x"}]}, "to_wipe": [], "lines_gone": NOTHING_KEPT},
        "data (scratch_wipe removes it where the inventory has the file system) on: /dev/x",
    ),
    ("slurm", {"data_paths": ["/var/log/slurm"], "after": {"files": {"/var/log/slurm": ABSENT}}}, "nothing"),
    (
        "slurm",
        {"data_paths": ["/var/log/slurm"], "after": {"files": {"/var/log/slurm": THERE}}},
        "logs and data: /var/log/slurm",
    ),
]


@pytest.mark.parametrize(("role", "read", "text"), LEFT)
def test_a_role_says_only_what_it_leaves_on_this_host(role: str, read: dict[str, Any], text: str) -> None:
    tasks = DataLoader().load_from_file(str(ROOT / f"roles/{role}/tasks/remove.yml"), trusted_as_template=True)
    site = {"scratch_wipe": False, "monitoring_dcgm_image": "exporter:1", "inventory_hostname": "h1"}
    site |= {"rdma_ipoib": [{"interface": "ib0"}], "python_env_path": "/e"}
    given = {f"__{role}_{name}": value for name, value in ({"packages_gone": NOTHING_KEPT} | read).items()}
    templar = Templar(DataLoader(), {**site, **tasks[-1].get("vars", {}), **given})
    assert templar.template(tasks[-1]["ansible.builtin.debug"]["msg"]) == f"left on h1: {text}"


@pytest.mark.parametrize(
    ("entries", "now", "returns"),
    [
        ({"timezone": "UTC", "timezones": ["Europe/Rome"]}, "Europe/Rome", True),
        ({"timezone": "UTC", "timezones": ["Europe/Rome"]}, "Asia/Tokyo", False),
        ({"timezone": "UTC", "timezones": ["Europe/Rome"]}, "UTC", False),
        ({"timezone": "UTC"}, "Asia/Tokyo", False),
        ({}, "Asia/Tokyo", False),
    ],
)
def test_the_time_zone_returns_only_if_the_role_has_set_the_present_one(
    entries: dict[str, Any], now: str, returns: bool
) -> None:
    own = DataLoader().load_from_file(str(ROOT / "roles/base_os/vars/main.yml"), trusted_as_template=True)
    read = {"__base_os_record": {"entries": entries}, "__base_os_state": {"commands": {"timezone": {"stdout": now}}}}
    templar = Templar(DataLoader(), {**own, **read})
    assert templar.template(trust_as_template("{{ __base_os_timezone_is_ours }}")) is returns


def test_a_wiped_device_is_not_left() -> None:
    last = DataLoader().load_from_file(str(ROOT / "roles/scratch/tasks/remove.yml"), trusted_as_template=True)[-1]
    wiped = {"device": "/dev/x"}
    read = {"__scratch_decision": {"ours": [wiped]}, "__scratch_to_wipe": [wiped], "__scratch_lines_gone": NOTHING_KEPT}
    site = {"inventory_hostname": "h1", "__scratch_packages_gone": NOTHING_KEPT}
    templar = Templar(DataLoader(), {**last["vars"], **site, **read})
    assert templar.template(last["ansible.builtin.debug"]["msg"]) == "left on h1: nothing"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_removal_is_not_refused_for_settings_that_only_an_installation_needs(role: Path) -> None:
    """Of what preflight refuses, only an unknown system keeps the role from giving back what it changed."""
    if not any(included(task) == "preflight" for task in tasks_of(role, "remove")):
        return
    for task in tasks_of(role, "preflight"):
        if not modules(task) & JUDGE or f"not __{role.name}_removes" in condition(task):
            continue
        items = task.get("ansible.builtin.assert", {}).get("that", "fail")
        needed = [items] if isinstance(items, str) else items
        allowed = (f"__{role.name}_removes or ", f"__{role.name}_os in ", "source != 'distribution' or ")
        assert [text for text in needed if not any(words in text for words in allowed)] == [], task["name"]


# What goes at once from a busy host, and why that disturbs nobody.
AT_ONCE = {
    "cluster_users": "accounts with processes stay",
    "image_distribution": "images of containers stay",
    "nccl": "a rank reads the file when it starts, and its container has it mounted",
}
READS = {f"ddp.play.{name}" for name in ("host_state", "gpu_facts", "rdma_facts", "slurm_facts", "slurm_cluster")}


def test_roles_that_leave_a_busy_host_at_once_are_named_here_and_in_the_documents() -> None:
    waiting = {role.name for role in ROLES if f"{role.name}_touch_busy_hosts" in read(role / "defaults/main.yml")}
    assert {role.name for role in ROLES} - waiting == set(AT_ONCE)
    section = (ROOT / "docs/onboarding.md").read_text().partition("## Taking a host out")[2].partition("\n#")[0]
    (sentence,) = re.findall(r"(?s)Only ([\w, ]+?) go at once", section)
    assert sorted(re.findall(r"\w+_\w+|nccl", sentence)) == sorted(AT_ONCE)


@pytest.mark.parametrize("role", [role for role in ROLES if role.name not in AT_ONCE], ids=lambda role: role.name)
def test_a_removal_waits_on_a_busy_host_before_it_changes_anything(role: Path) -> None:
    tasks = list(followed(role, "remove"))
    (end,) = [number for number, task in enumerate(tasks) if ends_busy(task)]
    message = tasks[end - 1]["ansible.builtin.debug"]["msg"]
    assert message.startswith(f"skipped: {role.name}: pending: ")
    assert f"{role.name}_touch_busy_hosts" in message
    changing = modules_of(tasks[:end]) - {*JUDGE, *SAY, *READS, IMPORT, INCLUDE, "ansible.builtin.setup"}
    records = [task["ddp.play.host_record"] for task in tasks[:end] if "ddp.play.host_record" in task]
    assert changing - {"ddp.play.host_record"} == set()
    assert [record for record in records if record["state"] != "read"] == []


def ends_busy(task: dict[str, Any]) -> bool:
    """Whether a task ends the role on a busy host; a part of that name is included on such a host only."""
    return task.get("ansible.builtin.meta") == "end_role" and bool(re.search(r"_(busy|waits)\b|^busy ", said_of(task)))


def said_of(task: dict[str, Any]) -> str:
    return task["name"] if task["name"].startswith("busy | ") else condition(task)


def followed(role: Path, name: str) -> Iterator[dict[str, Any]]:
    """Tasks of a file in their order, with those of the files that it names."""
    for task in tasks_of(role, name):
        yield task
        if included(task) and "{" not in included(task):
            yield from followed(role, included(task))


def modules_of(tasks: list[dict[str, Any]]) -> set[str]:
    return {module for task in tasks for module in modules(task)}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_units_that_a_role_enables_are_disabled_or_get_their_recorded_state_back(role: Path) -> None:
    """A package that is removed may leave the link of its unit."""
    tasks = [task for name in sorted(names(role)) for task in tasks_in(tasks_of(role, name))]
    enables = any(setting.get("enabled") is True for setting in settings(tasks, UNIT_MODULES))
    records = any(setting.get("units") for setting in settings(tasks, {"ddp.play.host_record"}))
    disables = any(
        setting.get("enabled") is False for setting in settings(tasks_in(tasks_of(role, "remove")), UNIT_MODULES)
    )
    assert records or disables or not enables


@pytest.mark.parametrize(
    ("line", "ours", "removes"),
    [
        ("account required pam_slurm_adopt.so", True, False),
        ("account required pam_slurm_adopt.so", False, True),
        ("# account required pam_slurm_adopt.so", True, True),
        ("# BEGIN ddp-play (role slurm)\naccount required pam_slurm_adopt.so\n# END ddp-play (role slurm)", True, True),
    ],
)
def test_the_module_of_a_line_of_pam_that_stays_is_not_removed(*, line: str, ours: bool, removes: bool) -> None:
    """PAM refuses everybody where the module of a required line is missing."""
    names = [next(iter(modules(task))) for task in tasks_of(ROOT / "roles/slurm", "remove")]
    judge = names.index("ansible.builtin.assert")
    assert judge < names.index("ddp.play.pam_block") < names.index("ddp.play.recorded_packages")
    own = DataLoader().load_from_file(str(ROOT / "roles/slurm/vars/main.yml"), trusted_as_template=True)
    files = {"/etc/pam.d/sshd": {"content": line + "\n"}, "/etc/pam.d/common-account": {"content": ""}}
    read = {"__slurm_state": {"files": files}, "ansible_facts": {"ddp_slurm": {"pam_adopt_is_ours": ours}}}
    that = tasks_of(ROOT / "roles/slurm", "remove")[judge]["ansible.builtin.assert"]["that"]
    assert Templar(DataLoader(), {**own, **read}).evaluate_conditional(trust_as_template(that)) is removes


def settings(tasks: Iterable[dict[str, Any]], wanted: set[str]) -> Iterator[dict[str, Any]]:
    """Options of the tasks with one of these modules."""
    for task in tasks:
        yield from (task[module] for module in wanted & set(task))
