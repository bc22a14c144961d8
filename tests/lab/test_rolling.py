"""Provisioning of bare hosts in batches: a failure stops it, later hosts stay untouched, the named command goes on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, bare_lab
from .test_brownfield import differences, listing

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
HOSTS = ("h1", "h2", "h3")
ROLL = ("--canary", "--serial", "1", "--tags", "base_os", "--json")
# apt-get of a host whose package manager is broken.
BROKEN = "#!/bin/sh\\necho broken >&2\\nexit 9\\n"
BREAK = f"cd /usr/bin && mv apt-get apt-get.site && printf '{BROKEN}' > apt-get && chmod +x apt-get"
MEND = "mv /usr/bin/apt-get.site /usr/bin/apt-get"


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine."""
    with bare_lab(lab_home, "roll", len(HOSTS)) as lab:
        for host in HOSTS:
            lab.put(host, HERE / "host_listing.py", "/opt")
        yield lab


@pytest.fixture(scope="module")
def stopped(lab: Lab) -> dict[str, Any]:
    """The report of a roll whose second host fails; what it changed on the third is under `touched`."""
    lab.on("h2", BREAK, user="root")
    before = listing(lab, "h3")
    assert before
    done = lab.play("provision", "-i", str(lab.inventory), *ROLL, timeout_s=500)
    assert done.returncode == 1, done.stderr
    assert "not touched: h3" in done.stderr
    return {**json.loads(done.stdout), "touched": differences(before, listing(lab, "h3"))}


def test_the_first_failure_stops_before_the_next_batch(stopped: dict[str, Any]) -> None:
    assert (stopped["batches"], stopped["not_reached"]) == ([["h1"], ["h2"]], ["h3"])
    assert {cell["host"]: cell["status"] for cell in stopped["cells"]} == {"h1": "changed", "h2": "failed"}


def test_hosts_that_were_not_reached_are_untouched(stopped: dict[str, Any]) -> None:
    assert [key for key in stopped["touched"] if not key.startswith("file /var/log/")] == []


def test_the_named_command_goes_on(lab: Lab, stopped: dict[str, Any]) -> None:
    lab.on("h2", MEND, user="root")
    words = shlex.split(stopped["command"])
    assert words[:2] == ["ddp-play", "provision"]
    assert "--limit h2,h3" in stopped["command"]
    done = lab.play(*words[1:], "--json", timeout_s=500)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["batches"] == [["h2"], ["h3"]]
