"""Provisioning hosts that work already: engine, containers and daemon.json survive what is done and what fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .guests import DAEMON, THEIRS, Guest, assert_says, look, provisioned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .guests import Street

pytestmark = pytest.mark.timeout(1800)  # its hosts, and the images that another test builds, are in it

# Also where the tests run on a machine with a way to the vendor.
UNREACHED = "127.0.0.1 download.docker.com\n::1 download.docker.com"
# systemd allows docker.service three starts a minute and refuses the fourth.
USE_UP_STARTS = "systemctl reset-failed docker.service; for start in 1 2 3; do systemctl restart docker.service; done"
GUESTS = {
    # Defaults: the vendor's repository is out of reach, and an engine that works needs none.
    "h1": Guest(
        "docker run -d --name db guest:1 /bin/sleep 100000", {}, "skipped", "1 container running: db (guest:1)"
    ),
    "h2": Guest("true", {}, "changed", ""),
    "h3": Guest(f"echo '{UNREACHED}' >> /etc/hosts", {"docker_engine_replace": True}, "failed", "Request failed"),
    "h4": Guest(f"echo '{{\"debug\": true,}}' > {DAEMON}", {}, "failed", "is not valid JSON"),
}


@pytest.fixture(scope="module")
def street(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """All guests, provisioned once."""
    with provisioned(lab_home, GUESTS, tmp_path_factory.mktemp("site") / "guests.json") as found:
        yield found


@pytest.mark.parametrize("host", GUESTS)
def test_each_host_says_what_became_of_it(street: Street, host: str) -> None:
    assert_says(street, host, GUESTS[host])


@pytest.mark.parametrize("host", GUESTS)
def test_containers_run_afterwards_whatever_happened(street: Street, host: str) -> None:
    assert street.after[host]["runs"] == "ran"


@pytest.mark.parametrize("host", ["h1", "h3", "h4"])
def test_what_was_not_done_left_everything_as_it_was(street: Street, host: str) -> None:
    """The same process, packages, daemon.json and package sources; of the container too, where there is one."""
    assert street.after[host] == street.before[host]


def test_a_busy_host_names_what_waits_and_how_to_get_it(street: Street) -> None:
    assert street.before["h1"]["db"]
    reason = street.cells["h1"]["reason"]
    assert f"{DAEMON}: default-ulimits features live-restore log-driver log-opts" in reason
    assert " --limit h1 --tags docker_engine" in reason
    assert "ddp-play provision -i /" in reason


def test_an_engine_is_adopted_and_its_configuration_merged(street: Street) -> None:
    found = street.after["h2"]
    assert found["packages"] == street.before["h2"]["packages"]
    daemon = json.loads(found["daemon"])
    assert (daemon["data-root"], daemon["max-concurrent-downloads"]) == ("/data/docker", 2)
    assert (daemon["log-driver"], daemon["live-restore"]) == ("local", True)
    assert found["info"] == "/data/docker local"
    assert found["original"] == THEIRS


def test_a_server_out_of_reach_is_named_with_the_variable_that_helps(street: Street) -> None:
    assert "download.docker.com" in street.cells["h3"]["remedy"]
    assert "docker_engine_source: distribution" in street.cells["h3"]["remedy"]


def test_deprovisioning_leaves_the_host_as_it_was_found(street: Street) -> None:
    words = (
        "deprovision",
        "-i",
        str(street.lab.inventory),
        "--limit",
        "h2",
        "--tags",
        "docker_engine",
        "--yes",
        "--json",
    )
    street.lab.on("h2", USE_UP_STARTS, user="root")
    done = street.lab.play(*words)
    assert done.returncode == 0, done.stderr
    assert "docker.io" in json.loads(done.stdout)["cells"][0]["left"]
    found, before = look(street.lab, "h2"), street.before["h2"]
    assert {**found, "dockerd": ""} == {**before, "dockerd": ""}
    assert street.lab.on("h2", "find /etc -name '*ddp-play*'; apt-mark showhold", user="root") == ""
