"""Names of --limit that the inventory does not have: every verb refuses them, also next to names that it has."""

from __future__ import annotations

import json

import pytest

from tests.run.conftest import Play

pytestmark = [pytest.mark.dist, pytest.mark.runner]

INVENTORY = """
ranks:
  hosts:
    gpu01: &here {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}", ddp_slots: 1}
    gpu02: *here
    "fe80::1": *here
"""
VERBS = (
    *("plan job.yml", "run job.yml", "run -d job.yml", "check", "check job.yml", "doctor", "ps", "usage", "gc"),
    *("top --once", "inventory check", "verify", "provision", "deprovision --check", "reboot --check", "collectives"),
)


@pytest.fixture
def site(play: Play) -> Play:
    play.write("hosts.yml", INVENTORY)
    play.job({"command": ["true"], "check": "none"})
    return play


@pytest.mark.parametrize(
    ("verb", "limit"), [*((verb, "gpu01:gpu2") for verb in VERBS), ("plan job.yml", "gpu2"), ("verify", "gpu2")]
)
def test_an_unknown_name_is_refused(site: Play, verb: str, limit: str) -> None:
    done = site(*verb.split(), "-i", "hosts.yml", "--limit", limit)
    if "-d" in verb.split():
        assert done.code == 0, done.err
        done = site("attach", "-")
    assert done.code == 64, (done.out, done.err)
    assert "--limit: 'gpu2' is no host and no group of the inventory" in done.err
    assert "did you mean gpu02" in done.err
    assert site.left_on_host() == []


@pytest.mark.parametrize(
    ("limit", "hosts"),
    [
        ("ranks[0:1]:~gpu0[12]:&ranks:spares", ["gpu01", "gpu02"]),
        ("ranks:!gpu02:!fe8*", ["gpu01"]),
        ("@limit.txt", ["gpu02"]),
        ("gpu01,fe80::1", ["gpu01", "fe80::1"]),
    ],
)
def test_other_patterns_choose_as_before(site: Play, limit: str, hosts: list[str]) -> None:
    site.write("limit.txt", "gpu02\n")
    done = site("plan", "job.yml", "-i", "hosts.yml", "--limit", limit, "--json")
    assert done.code == 0, done.err
    assert [row["name"] for row in json.loads(done.out)["hosts"]] == hosts
