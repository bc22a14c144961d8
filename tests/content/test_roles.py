"""Every role keeps to its anatomy: spec equals defaults, no forbidden task, private names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.content.role_files import PLAYBOOKS, ROLES, ROOT, read, spec_of, task_files, tasks_in

PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "path": str,
    "raw": object,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "list": list,
    "dict": dict,
}
NUM_PLATFORM_TABLES = 8  # at least
SHELLS = {"ansible.builtin.shell", "shell", "ansible.builtin.raw", "raw"}


def is_template(value: Any) -> bool:
    return isinstance(value, str) and "{{" in value


def problem(name: str, option: dict[str, Any], value: Any) -> str:
    """Why the default does not satisfy the spec; empty where it does."""
    if is_template(value):
        return ""
    wanted = PYTHON_TYPES[option["type"]]
    if option["type"] == "int" and isinstance(value, bool):
        return f"{name}: a bool where the spec says int"
    if not isinstance(value, wanted):
        return f"{name}: {value!r} is no {option['type']}"
    values = value if isinstance(value, list) else [value]
    if "choices" in option and not set(values) <= set(option["choices"]):
        return f"{name}: {value!r} is not among {option['choices']}"
    return ""


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_spec_and_defaults_have_the_same_names_and_values(role: Path) -> None:
    defaults, spec = read(role / "defaults/main.yml") or {}, spec_of(role)
    required = {name for name, option in spec.items() if option.get("required")}
    assert set(spec) - required == set(defaults)
    documented = {name: option["default"] for name, option in spec.items() if "default" in option}
    assert documented == {name: value for name, value in defaults.items() if name in documented}
    assert set(documented) == set(defaults)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_satisfy_their_types_and_choices(role: Path) -> None:
    spec = spec_of(role)
    problems = [problem(name, spec[name], value) for name, value in (read(role / "defaults/main.yml") or {}).items()]
    assert [text for text in problems if text] == []


def test_a_default_of_the_wrong_type_would_be_seen() -> None:
    assert problem("x", {"type": "int"}, "7")
    assert problem("x", {"type": "int"}, True)
    assert problem("x", {"type": "str", "choices": ["a"]}, "b")
    assert problem("x", {"type": "list", "choices": ["a"]}, ["a", "b"])
    assert problem("x", {"type": "path"}, "/srv") == ""


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_described(role: Path) -> None:
    bare = [name for name, option in spec_of(role).items() if not option.get("description") or not option.get("type")]
    assert bare == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_names_are_prefixed_and_role_vars_are_private(role: Path) -> None:
    names = set(read(role / "defaults/main.yml") or {})
    assert {name for name in names if not name.startswith(f"{role.name}_")} == set()
    private = {name for path in role.glob("vars/*.yml") for name in read(path) or {}}
    assert {name for name in private if not name.startswith(f"__{role.name}_")} == set()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_has_its_files(role: Path) -> None:
    wanted = ["README.md", "meta/main.yml", "meta/argument_specs.yml", "tasks/main.yml"]
    assert [name for name in wanted if not (role / name).is_file()] == []


@pytest.mark.parametrize("path", task_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_tasks_use_no_shell_and_hide_no_error(path: Path) -> None:
    for task in tasks_in(read(path)):
        assert not SHELLS & set(task), task.get("name")
        assert "ignore_errors" not in task, task.get("name")
        assert "ignore_unreachable" not in task, task.get("name")


@pytest.mark.parametrize("path", task_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_units_start_whatever_their_start_limit(path: Path) -> None:
    """ddp.play.unit_start clears systemd's count of starts; without that a restart can leave a host without engine."""
    for task in tasks_in(read(path)):
        systemd = {**task.get("ansible.builtin.systemd_service", {}), **task.get("ansible.builtin.service", {})}
        assert systemd.get("state") in (None, "stopped", "reloaded"), task.get("name")
        command = task.get("ansible.builtin.command", {}).get("argv", [])
        assert command[:1] != ["systemctl"] or not {"start", "restart", "reset-failed"} & set(command), task.get("name")


@pytest.mark.parametrize("path", task_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_task_sets_an_input_of_its_role(path: Path) -> None:
    role = path.parent.parent
    inputs = set(spec_of(role)) if (role / "meta/argument_specs.yml").is_file() else set()
    for task in tasks_in(read(path)):
        assert not inputs & set(task.get("ansible.builtin.set_fact", {})), task.get("name")


def topics(handler: dict[str, Any]) -> list[str]:
    listen = handler.get("listen", [])
    return [handler["name"], *([listen] if isinstance(listen, str) else listen)]


@pytest.mark.parametrize("path", task_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_notified_handler_exists(path: Path) -> None:
    handlers = path.parent.parent / "handlers/main.yml"
    known = {topic for task in tasks_in(read(handlers)) for topic in topics(task)} if handlers.is_file() else set()
    for task in tasks_in(read(path)):
        notified = task.get("notify", [])
        names = {notified} if isinstance(notified, str) else set(notified)
        assert names <= known, task.get("name")


def test_the_linter_skips_nothing() -> None:
    config = read(ROOT / ".ansible-lint")
    assert not {"skip_list", "warn_list", "use_default_rules"} & set(config)
    assert config["profile"] == "production"
    assert config["strict"] is True
    marks = [path for path in task_files() if re.search(r"#\s*noqa", path.read_text())]
    assert marks == []


def test_the_playbooks_parse_with_the_example_inventory() -> None:
    """In one process: most of a syntax check's time is the start of ansible-playbook. The error names the file."""
    command = [sys.executable, "-m", "ansible", "playbook", "--syntax-check", "-i", "inventory/example"]
    done = subprocess.run([*command, *map(str, PLAYBOOKS)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line] == [f"playbook: {path}" for path in PLAYBOOKS]


def platform_tables(role: Path) -> list[set[str]]:
    """Systems of the role's table of platforms, where it has one."""
    return [
        {str(key).replace("-", " ") for key in value}
        for path in role.glob("vars/*.yml")
        for name, value in (read(path) or {}).items()
        if name == f"__{role.name}_platforms"
    ]


def test_roles_have_platform_tables() -> None:
    assert len([role.name for role in ROLES if platform_tables(role)]) >= NUM_PLATFORM_TABLES


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_platform_table_covers_the_same_systems(role: Path) -> None:
    for table in platform_tables(role):
        assert table == {
            "Debian 12", "Debian 13", "Ubuntu 22.04", "Ubuntu 24.04", "Ubuntu 26.04", "RedHat 9", "RedHat 10",
        }  # fmt: skip


def test_a_failed_verification_of_rdma_does_not_keep_the_driver_from_a_host() -> None:
    """rdma installs before nvidia_driver, because OFED comes first, and is verified after it."""
    play = next(p for p in read(ROOT / "playbooks/provision.yml") if p["name"] == "GPUs and networks")
    roles = {row["role"].rpartition(".")[2]: row for row in play["roles"]}
    assert list(roles).index("rdma") < list(roles).index("nvidia_driver")
    assert roles["rdma"]["vars"] == {"rdma_verify": False}
    (verify,) = play["post_tasks"]
    included = {"name": "ddp.play.rdma", "tasks_from": "verify", "apply": {"tags": ["rdma"]}}
    assert verify["ansible.builtin.include_role"] == included
    assert verify["tags"] == ["rdma"]


def test_no_condition_of_an_import_reaches_the_handlers_of_a_role() -> None:
    """Ansible hands `when` of an import_role on to the handlers of the role, also of an earlier import in the play."""
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        plays = read(path)
        tasks = [task for play in plays for name in ("pre_tasks", "tasks", "post_tasks") for task in play.get(name, ())]
        conditional = [task for task in tasks if "ansible.builtin.import_role" in task and "when" in task]
        assert conditional == [], path.name


@pytest.mark.parametrize("path", task_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_package_managers_wait_for_each_other(path: Path) -> None:
    """On a new host unattended-upgrades or dnf-makecache often holds the lock."""
    assert [row for row in package_manager_options(path) if "lock_timeout" not in row] == []


def package_manager_options(path: Path) -> list[Any]:
    modules = ("ansible.builtin.apt", "ansible.builtin.dnf", "ansible.builtin.package")
    return [task[name] for task in tasks_in(read(path)) for name in modules if name in task]


def test_roles_have_tasks_of_package_managers() -> None:
    assert sum(len(package_manager_options(path)) for path in task_files()) > 0


# Where a role looks at other hosts of the inventory. Nothing that it writes may depend on which hosts a play has.
READS_OTHER_HOSTS = {
    "roles/slurm/tasks/hardware.yml": "addresses of the cluster's hosts, to be resolved; they are settings, not facts",
    "roles/python_env/vars/main.yml": "busy hosts of a shared environment; hosts outside --limit count as busy",
}
# The whole inventory, whatever the play has, for an environment that no task writes anywhere.
EXCEPT_THE_PROXY = re.compile(
    r"^__\w+_environment: .*\| ddp\.play\.(?:proxy|package)_environment\(.*, hostvars\) }}\"$", re.MULTILINE
)
OTHER_HOSTS = re.compile(r"\bhostvars\b|\bgroups\s*[\[.]|\bansible_play_(hosts|batch)|\bplay_hosts\b")


def test_no_role_depends_on_which_hosts_a_play_has() -> None:
    """So --limit and --serial drop no host from a file, and a role needs no facts of hosts outside the limit."""
    files = [path for path in (ROOT / "roles").glob("*/**/*") if path.suffix in (".yml", ".j2")]
    texts = {str(path.relative_to(ROOT)): EXCEPT_THE_PROXY.sub("", path.read_text()) for path in files}
    reading = {name for name, text in texts.items() if OTHER_HOSTS.search(text)}
    assert reading == set(READS_OTHER_HOSTS)


def test_a_switch_that_disrupts_is_read_as_a_boolean() -> None:
    """`-e NAME=false` gives a text, and a text is true: a busy host was taken for one that may be disturbed."""
    use = re.compile(r"\w+_touch_busy_hosts|nvidia_driver_disrupt_users|nvidia_container_toolkit_disrupt_containers")
    found = []
    for path in sorted((ROOT / "roles").glob("*/*/*.yml")):
        for block in re.findall(r"\{\{.*?\}\}|when:[^\n]*", path.read_text(), re.DOTALL):
            found += [(path.parent.name, block[match.end() :]) for match in use.finditer(block)]
    uses = [rest for folder, rest in found if folder in ("tasks", "vars")]
    assert len(uses) >= 12
    assert [rest for rest in uses if not re.match(r"\s*\|\s*bool", rest)] == []


def test_disrupt_reaches_every_role_that_leaves_busy_hosts_alone() -> None:
    defaults = {name: value for role in ROLES for name, value in (read(role / "defaults/main.yml") or {}).items()}
    found = {name: value for name, value in defaults.items() if re.search(r"_touch_busy_hosts$|_disrupt_", name)}
    assert len(found) >= 12
    assert set(found.values()) == {"{{ ddp_disrupt | default(false) | bool }}"}
