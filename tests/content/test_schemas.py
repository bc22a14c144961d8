"""Schemas of `--json` in docs/schemas: one for each verb that has the option, and strict.

Tests of the verbs compare their answers with them: tests/run/test_json_answers.py, and unit tests for clusters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
from typer.core import TyperGroup

from ddp_play.bundle.outcome import RankOutcome, RunStatus, Verdict
from ddp_play.cli.error_boundary import as_document
from ddp_play.cli.main import app
from ddp_play.cli.next_commands import NextCommand
from ddp_play.errors import DdpPlayError, HostNotReady
from ddp_play.images.archive import HostImage
from ddp_play.images.build import BuiltImage
from ddp_play.lab.layout import plan_lab
from ddp_play.lab.lifecycle import Removed, UpResult
from ddp_play.lab.requirements import KernelLimit
from ddp_play.lab.spec import LabSpec, make_spec
from ddp_play.lab.state import lab_state
from ddp_play.lab.status import HostStatus, LabStatus
from tests.content.test_help import VERBS
from tests.schemas import check, schemas

# Schemas that others refer to, the one of errors, and that of another answer of a verb.
SHARED = {"check-self-test", "error", "playbook-report", "run-document"}
PLANS = Path(__file__).resolve().parents[1] / "unit" / "golden"
# Objects with fields of others: of hosts with another version, of the job, of the ranks.
OPEN = {"description", "required", "type"}


def has_json(words: tuple[str, ...]) -> bool:
    """Does the verb have --json?"""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return not isinstance(command, TyperGroup) and any("--json" in option.opts for option in command.params)


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def subclasses(cls: type[DdpPlayError]) -> Iterator[type[DdpPlayError]]:
    yield cls
    for one in cls.__subclasses__():
        yield from subclasses(one)


def test_every_verb_with_json_has_a_schema() -> None:
    assert {"-".join(words) for words in VERBS if has_json(words)} == schemas().keys() - SHARED


@pytest.mark.parametrize("name", schemas())
def test_a_schema_is_valid_and_strict(name: str) -> None:
    schema = schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"{name}.json"
    for one in objects(schema):
        assert "additionalProperties" in one or set(one) <= OPEN


def test_fields_and_values_are_those_of_the_classes() -> None:
    document = schemas()["run-document"]
    for name, cls in (("rank", RankOutcome), ("verdict", Verdict)):
        assert set(document["$defs"][name]["properties"]) == {field.name for field in fields(cls)}
    assert set(document["properties"]["status"]["enum"]) == {str(status) for status in RunStatus}
    found = {(cls.kind, cls.exit_code) for cls in subclasses(DdpPlayError)}
    error = schemas()["error"]["properties"]
    assert set(error["exit_class"]["enum"]) == {kind for kind, _ in found}
    assert set(error["exit_code"]["enum"]) == {code for _, code in found}


@pytest.mark.parametrize("path", sorted(PLANS.glob("plan-*.json")), ids=lambda path: path.stem)
def test_plans(path: Path) -> None:
    check("plan", json.loads(path.read_text(encoding="utf-8")))


def test_answers_about_hosts_and_errors() -> None:
    host = HostStatus("h1", ("10.0.0.1",), 2, "running", ssh=True)
    plan = plan_lab(make_spec(LabSpec("lab", 2, ())))
    commands = [NextCommand("ddp-play ps", "lists runs").to_json()]
    up = UpResult(plan, lab_state("lab"), ("h1",), ("h1",), (KernelLimit("kernel.keys.maxkeys", 1, 2),))
    check("lab-up", {**up.as_dict(), "next": commands})
    check("lab-down", {"name": "lab", **asdict(Removed(2, 3, 1))})
    check("image-build", BuiltImage("train:1", "sha256:1", 7, "2.13.0", ("tqdm==4.0",)).as_dict())
    check("lab-status", LabStatus("lab", "up", "/lab", "/lab/hosts.yml", (host,)).as_dict())
    check("image-list", {"image": "train:1", "hosts": [asdict(HostImage("h1", "sha256:1", 7, ("r/train@sha256:2",)))]})
    check("error", as_document(HostNotReady("h1: silent", hint="ssh h1", hosts=("h1",))))


def test_an_unknown_key_does_not_fit() -> None:
    with pytest.raises(jsonschema.ValidationError, match="more"):
        check("error", {**as_document(HostNotReady("h1: silent")), "more": 1})
