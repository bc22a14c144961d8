"""The role ddp_job and the type Job are one interface: names and values, in defaults, spec and code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ddp_play.ansible.plugin_variables import PLAN_TAG
from ddp_play.planning.job import Job, parse_job, variable_names
from ddp_play.planning.job_values import HOST_VARIABLES, PLACEHOLDERS, PREFIX

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles" / "ddp_job"


def read(name: str) -> Any:
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


DEFAULTS: dict[str, Any] = read("defaults/main.yml")
SPEC: dict[str, Any] = read("meta/argument_specs.yml")["argument_specs"]["run"]["options"]


def test_the_same_names_everywhere() -> None:
    expected = {PREFIX + name for name in variable_names()}
    assert set(DEFAULTS) == expected
    assert set(SPEC) == expected


def test_the_roles_defaults_are_the_jobs() -> None:
    """The command has no default in the code: an empty one is refused."""
    secret = {PREFIX + name for name in ("secrets", "registry_password", "webhook")}
    given = {name.removeprefix(PREFIX): value for name, value in DEFAULTS.items() if name not in secret}
    assert given.pop("command") == []
    assert parse_job({**given, "command": ["x"]}) == parse_job({"command": ["x"]})


def test_choices_of_the_spec_are_the_codes() -> None:
    """What the spec lets through must be what the job accepts, and the other way round."""
    assert any(option.get("choices") for option in SPEC.values())
    for name, option in SPEC.items():
        for choice in option.get("choices", ()):
            more = {"docker": {"image": "i"}, "apptainer": {"image": "/i.sif"}, "pyxis": {"image": "/i.sqsh"}}.get(
                choice, {}
            )
            field = name.removeprefix(PREFIX)
            assert getattr(parse_job({"command": ["x"], field: choice, **more}), field) == choice


def test_every_placeholder_is_told_where_the_command_is() -> None:
    text = (ROLE / "defaults" / "main.yml").read_text(encoding="utf-8")
    assert [name for name in PLACEHOLDERS if "{" + name + "}" not in text] == []


def test_host_variables_are_told_in_the_spec() -> None:
    text = (ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
    assert [name for name in HOST_VARIABLES if f"C({name})" not in text] == []


def test_the_planning_tasks_are_tagged_for_dry_runs() -> None:
    """`ddp-play plan` runs the role's one task by its tag; the action then ends after the plan."""
    assert [task.get("tags") for task in read("tasks/run.yml")] == [[PLAN_TAG]]


def test_no_field_is_forgotten_by_the_supervisor() -> None:
    """job.json is read back without `hosts`, whose written form is a pair."""
    made = parse_job({"command": ["x"], "hosts": "2..4", "mounts": ["/a:/b"], "env": {"A": None}})
    data = made.model_dump(mode="json")
    back = Job.model_validate({name: value for name, value in data.items() if name != "hosts"})
    assert back.model_copy(update={"hosts": made.hosts}) == made
