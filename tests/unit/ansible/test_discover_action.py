"""Host facts from the answers of hosts, which hosts are asked, and the cache of host facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible import discover_action, plugin_variables
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.guard.protocol import BEGIN, END
from ddp_play.planning.job import Job
from ddp_play.planning.job_secrets import Known
from tests.unit.build import hosts, job
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
    text = json.dumps({**KNOWN, "clock": clock}).encode()
    facts = discover_action.checked_facts(text, sent=100.0, received=110.0, inventory={"slots": 2})
    assert facts["clock_offset_s"] == offset
    assert facts["inventory"] == {"slots": 2}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"clock": 1.0, "pyth',
        b"[1, 2]",
        b"null",
        b"{}",
        b"[" * 100_000,
        json.dumps({**KNOWN, "python_version": "three"}).encode(),
        json.dumps({**KNOWN, "clock": "noon"}).encode(),
        json.dumps({**KNOWN, "user": None}).encode(),
        json.dumps({**KNOWN, "interfaces": [{"of": "another version"}]}).encode(),
        json.dumps({**KNOWN, "ephemeral_ports": []}).encode(),
    ],
)
def test_a_broken_answer_is_a_problem_of_its_host(text: bytes) -> None:
    """Discovery goes on with the other hosts."""
    with pytest.raises(HostNotReady, match="the host's answer is not what ddp-play's program sends"):
        discover_action.checked_facts(text, sent=0, received=0, inventory={})


@pytest.mark.parametrize("version", ["3.8.20", "2.7.18", "3.6.15"])
def test_old_pythons_are_refused(version: str) -> None:
    text = json.dumps({"clock": 0, "python_version": version}).encode()
    with pytest.raises(HostNotReady, match=f"Python {version} is too old") as caught:
        discover_action.checked_facts(text, sent=0, received=0, inventory={})
    assert "3.9" in caught.value.message
    assert "ansible_python_interpreter" in caught.value.hint


class Site:
    """Hosts of which some do not answer and some are drained. `waves`: which were asked, in order."""

    def __init__(self, *, broken: str = "", drained: str = "") -> None:
        self.broken, self.drained = broken.split(), drained.split()
        self.waves: list[list[str]] = []

    def ask(self, _job: Job, hosts: list[str]) -> dict[str, dict[str, Any]]:
        self.waves.append(hosts)
        return {host: self.row(host) for host in hosts}

    def row(self, host: str) -> dict[str, Any]:
        return {"problem": {}} if host in self.broken else {"facts": {"drained": "yes" if host in self.drained else ""}}


HOSTS = [f"h{number}" for number in range(1, 9)]


@pytest.mark.parametrize(
    ("values", "site", "waves"),
    [
        ({}, Site(broken="h2"), [HOSTS]),
        ({"hosts": 2}, Site(), [["h1", "h2"]]),
        ({"hosts": "1..2"}, Site(), [["h1", "h2"]]),
        ({"hosts": 2}, Site(broken="h2"), [["h1", "h2"], ["h3"]]),
        ({"hosts": 2}, Site(broken="h1 h2 h3"), [["h1", "h2"], ["h3", "h4"], ["h5"]]),
        ({"hosts": 2}, Site(drained="h1"), [["h1", "h2"], ["h3"]]),
        ({"hosts": 2, "spares": ["h1", "h8"]}, Site(broken="h2"), [["h2", "h3", "h1", "h8"], ["h4"]]),
        ({"hosts": 2, "restarts": 1}, Site(), [["h1", "h2", "h3"]]),
        ({"hosts": 8}, Site(broken="h8"), [HOSTS]),
    ],
)
def test_as_many_hosts_are_asked_as_the_job_needs(values: dict[str, Any], site: Site, waves: list[list[str]]) -> None:
    rows = discover_action.discover_in_waves(job(**values), HOSTS, site.ask)
    assert site.waves == waves
    assert list(rows) == [host for host in HOSTS if host in {name for wave in waves for name in wave}]


def test_discovery_writes_facts_for_plan_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugin_variables.FACTS_ENV, str(tmp_path / "facts.json"))
    site = Site(broken="h2")
    rows = discover_action.discover_in_waves(job(), ["h1", "h2"], site.ask)
    monkeypatch.setenv(plugin_variables.USE_CACHED_ENV, "1")
    assert discover_action.discover_in_waves(job(), ["h1"], site.ask) == {"h1": rows["h1"]}
    with pytest.raises(UsageError) as caught:
        discover_action.discover_in_waves(job(), ["h1", "h2"], site.ask)
    assert caught.value.message == "no cached facts of h2"
    assert len(site.waves) == 1, "a cached plan asks nobody"


def test_many_unknown_hosts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugin_variables.FACTS_ENV, str(tmp_path / "facts.json"))
    monkeypatch.setenv(plugin_variables.USE_CACHED_ENV, "1")
    with pytest.raises(UsageError, match="no cached facts of h1, h2, h3, h4, h5 and 3 more"):
        discover_action.discover_in_waves(job(), HOSTS, Site().ask)


def test_names_of_our_variables() -> None:
    assert discover_action.our_variables(["ddp_slots", "ansible_host", "ddp_job_result", "ddp_job_image"]) == [
        "ddp_job_image",
        "ddp_slots",
    ]
