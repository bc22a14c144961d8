"""Provisioning hosts that work already: engine, containers and daemon.json of others survive it, and every failure.

One run over hosts that differ, so that all of it costs about what one host costs.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu import engine_mirror

from .conftest import Lab, lab_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAEMON = "/etc/docker/daemon.json"
# Theirs: another data root, a key that no role knows, and their own formatting.
THEIRS = '{"data-root": "/data/docker", "max-concurrent-downloads": 2, "log-driver": "json-file"}'
MIRROR = {
    "docker_engine_source": "mirror",
    "docker_engine_replace": True,
    "docker_engine_mirror_key_url": "{{ docker_engine_mirror_url }}/debian/gpg",
}
# An image without a registry: two programs and their libraries.
PROGRAMS = "/bin/sleep /bin/true $(ldd /bin/sleep | grep -o '/lib[^ ]*')"
IMAGE = f"tar -ch {PROGRAMS} 2>/dev/null | docker import - guest:1 >/dev/null"
SETTLE = f"mkdir -p /etc/docker && echo '{THEIRS}' > {DAEMON} && systemctl restart docker && {IMAGE}"
# Also where the tests run on a machine with a way to the vendor.
UNREACHED = "127.0.0.1 download.docker.com\n::1 download.docker.com"
PACKAGES = "dpkg-query --show --showformat '${db:Status-Status} ${Package} ${Version}\\n' 'docker*' 'containerd*' runc"
LISTS = "find /etc/apt -name '*docker*'; cat /etc/apt/sources.list.d/docker.list 2>/dev/null || true"


@dataclass(frozen=True)
class Guest:
    """A host with a history: what was done to it, the variables it gets, and what one provisioning has to say of it."""

    before: str
    variables: dict[str, Any]
    status: str
    says: str


GUESTS = {
    # Defaults: the vendor's repository is out of reach, and an engine that works needs none.
    "h1": Guest(
        "docker run -d --name db guest:1 /bin/sleep 100000", {}, "skipped", "1 container running: db (guest:1)"
    ),
    "h2": Guest("true", {}, "changed", ""),
    "h3": Guest(f"echo '{UNREACHED}' >> /etc/hosts", {"docker_engine_replace": True}, "failed", "Request failed"),
    "h4": Guest(
        "rm /srv/mirror/debian/pool/docker-ce_*; echo '# theirs' > /etc/apt/sources.list.d/docker.list",
        {**MIRROR, "docker_engine_mirror_url": "file:///srv/mirror"},
        "failed",
        "step download, nothing was removed",
    ),
    "h5": Guest(
        engine_mirror.KEEP_PROGRAMS, {**MIRROR, "docker_engine_mirror_url": "file:///srv/mirror"}, "changed", ""
    ),
    "h6": Guest(f"echo '{{\"debug\": true,}}' > {DAEMON}", {}, "failed", "is not valid JSON"),
    "h7": Guest("pkill -STOP -x dockerd", {}, "skipped", "the Docker engine does not answer"),
}
WORKING = ("h1", "h2", "h3", "h4", "h5", "h6")


@dataclass(frozen=True)
class Street:
    """The lab, what its hosts were before and after, and the table of the run."""

    lab: Lab
    before: dict[str, dict[str, str]]
    after: dict[str, dict[str, str]]
    cells: dict[str, dict[str, Any]]


def look(lab: Lab, host: str) -> dict[str, str]:
    words = {
        "dockerd": "pgrep -x dockerd",
        "packages": PACKAGES,
        "daemon": f"cat {DAEMON}",
        "lists": LISTS,
        "info": "timeout 5 docker info --format '{{.DockerRootDir}} {{.LoggingDriver}}' || true",
        "runs": "timeout 20 docker run --rm --net host guest:1 /bin/true && echo ran || true",
        "original": f"cat {DAEMON}.ddp-play.orig 2>/dev/null || true",
        "db": "pgrep -f '[s]leep 100000' || true",
    }
    script = "; echo @@; ".join(words.values())
    return dict(zip(words, (part.strip() for part in lab.on(host, script, user="root").split("@@")), strict=True))


def settle(lab: Lab, host: str, mirror: Path) -> dict[str, str]:
    """Give a host its history; what it is then."""
    lab.put(host, mirror, "/srv")
    lab.on(host, f"{SETTLE} && {GUESTS[host].before}", user="root")
    return look(lab, host)


@pytest.fixture(scope="module")
def street(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """All guests, provisioned once."""
    folder = tmp_path_factory.mktemp("guests")
    engine_mirror.write(folder / "mirror")
    site = folder / "site.json"
    hosts = {name: guest.variables for name, guest in GUESTS.items()}
    site.write_text(json.dumps({"all": {"hosts": hosts}}))
    with lab_of(lab_home, "guests", "--hosts", str(len(GUESTS))) as lab:
        with ThreadPoolExecutor() as pool:
            before = dict(zip(GUESTS, pool.map(lambda name: settle(lab, name, folder / "mirror"), GUESTS), strict=True))
        words = ("-i", str(lab.inventory), "-i", str(site), "--tags", "docker_engine", "--json")
        done = lab.play("provision", *words, timeout_s=600)
        assert done.returncode == 1, done.stderr
        with ThreadPoolExecutor() as pool:
            after = dict(zip(GUESTS, pool.map(lambda name: look(lab, name), GUESTS), strict=True))
        yield Street(lab, before, after, {cell["host"]: cell for cell in json.loads(done.stdout)["cells"]})


@pytest.mark.parametrize("host", GUESTS)
def test_each_host_says_what_became_of_it(street: Street, host: str) -> None:
    cell = street.cells[host]
    assert cell["status"] == GUESTS[host].status, cell
    assert GUESTS[host].says in cell.get("message", "") + cell.get("reason", "")


@pytest.mark.parametrize("host", WORKING)
def test_containers_run_afterwards_whatever_happened(street: Street, host: str) -> None:
    assert street.after[host]["runs"] == "ran"


@pytest.mark.parametrize("host", ["h1", "h3", "h4", "h6", "h7"])
def test_what_was_not_done_left_everything_as_it_was(street: Street, host: str) -> None:
    """The same process, packages, daemon.json and package sources; of the container too, where there is one."""
    assert street.after[host] == street.before[host]


def test_a_busy_host_names_what_waits_and_how_to_get_it(street: Street) -> None:
    assert street.before["h1"]["db"]
    reason = street.cells["h1"]["reason"]
    assert f"{DAEMON}: default-ulimits features live-restore log-driver log-opts" in reason
    assert "ddp-play provision --limit h1 --tags docker_engine" in reason


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


def test_an_engine_is_replaced_when_asked_by_name(street: Street) -> None:
    names = street.after["h5"]["packages"]
    assert "installed docker-ce 5:29.1.3" in names
    assert "installed docker.io 20.10" in street.before["h5"]["packages"]
    assert "installed docker.io" not in names


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
    done = street.lab.play(*words)
    assert done.returncode == 0, done.stderr
    assert "docker.io" in json.loads(done.stdout)["cells"][0]["left"]
    found, before = look(street.lab, "h2"), street.before["h2"]
    assert {**found, "dockerd": ""} == {**before, "dockerd": ""}
    assert street.lab.on("h2", "find /etc -name '*ddp-play*'; apt-mark showhold", user="root") == ""
