"""Host facts from the host program's output, and the cache of host facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible import discover_action, plugin_variables
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.guard.protocol import BEGIN, END
from ddp_play.planning.job_secrets import Known
from tests.unit.build import hosts
from tests.unit.planning.test_next_attempt import raw

KNOWN = {**raw(hosts(1)[0]), "python_version": "3.9.18", "clock": 1.0}


def answer(value: dict[str, Any]) -> str:
    return BEGIN + json.dumps(value) + END


@pytest.mark.parametrize("noise", ["", "Welcome to h1!\n", "a {json} line\n" * 3])
def test_facts_are_found_between_other_output(noise: str) -> None:
    assert discover_action.parse_answer(noise + answer({"a": 1}) + noise, noise) == {"a": 1}


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ("", "", "the host gave no answer"),
        ("", "warning\nit broke\n", "it broke"),
        ("motd\nno python", "", "no python"),
    ],
)
def test_output_without_facts(stdout: str, stderr: str, words: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        discover_action.parse_answer(stdout, stderr)
    assert caught.value.message == words


def test_arguments_with_a_secret_are_refused_without_its_value() -> None:
    known = Known(texts=frozenset({"swordfish-1"}))
    with pytest.raises(HostNotReady, match="contain a value from a vault") as caught:
        discover_action.refuse_secret_arguments(["ssh", "-o", "SetEnv=A=swordfish-1"], known)
    assert "swordfish" not in str(caught.value)
    assert "ansible_password" in caught.value.hint
    discover_action.refuse_secret_arguments(["ssh", "-o", "Port=22"], known)


@pytest.mark.parametrize(("clock", "offset"), [(105.0, 0.0), (90.0, -10.0), (130.0, 20.0), (100.0, 0.0), (110.0, 0.0)])
def test_the_clock_offset_is_relative_to_the_time_of_the_request(clock: float, offset: float) -> None:
    text = answer({**KNOWN, "clock": clock})
    facts = discover_action.parse_facts(text, "", sent=100.0, received=110.0, inventory={"slots": 2})
    assert facts["clock_offset_s"] == offset
    assert facts["inventory"] == {"slots": 2}


@pytest.mark.parametrize(
    "text",
    [
        BEGIN + '{"clock": 1.0, "pyth' + END,
        BEGIN + "[1, 2]" + END,
        BEGIN + "null" + END,
        answer({}),
        answer({**KNOWN, "python_version": "three"}),
        answer({**KNOWN, "clock": "noon"}),
        answer({**KNOWN, "user": None}),
        answer({**KNOWN, "interfaces": [{"of": "another version"}]}),
        answer({**KNOWN, "ephemeral_ports": []}),
    ],
)
def test_a_broken_answer_is_a_problem_of_its_host(text: str) -> None:
    """Discovery goes on with the other hosts."""
    with pytest.raises(HostNotReady, match="the host's answer is not what ddp-play's program sends"):
        discover_action.parse_facts(text, "", sent=0, received=0, inventory={})


@pytest.mark.parametrize("version", ["3.8.20", "2.7.18", "3.6.15"])
def test_old_pythons_are_refused(version: str) -> None:
    text = answer({"clock": 0, "python_version": version})
    with pytest.raises(HostNotReady, match=f"Python {version} is too old") as caught:
        discover_action.parse_facts(text, "", sent=0, received=0, inventory={})
    assert "3.9" in caught.value.hint


def test_discovery_writes_facts_for_plan_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugin_variables.FACTS_ENV, str(tmp_path / "facts.json"))
    rows: dict[str, Any] = {"h1": {"facts": {"a": 1}}, "h2": {"problem": {}}}
    assert discover_action.cached_facts(["h1", "h2"], rows) == rows
    monkeypatch.setenv(plugin_variables.USE_CACHED_ENV, "1")
    assert discover_action.only_cached()
    assert discover_action.cached_facts(["h1"], {}) == {"h1": {"facts": {"a": 1}}}
    with pytest.raises(UsageError, match="no cached facts of h2$".rstrip("$")):
        discover_action.cached_facts(["h1", "h2"], {})


def test_many_unknown_hosts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugin_variables.FACTS_ENV, str(tmp_path / "facts.json"))
    monkeypatch.setenv(plugin_variables.USE_CACHED_ENV, "1")
    with pytest.raises(UsageError, match="no cached facts of h0, h1, h2, h3, h4 and 3 more"):
        discover_action.cached_facts([f"h{n}" for n in range(8)], {})


def test_without_a_cache_nothing_changes() -> None:
    assert discover_action.cached_facts(["h1"], {"h1": {}}) == {"h1": {}}
