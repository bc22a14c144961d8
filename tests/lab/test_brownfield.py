"""A host with a history, provisioned and deprovisioned: nothing of theirs is disturbed, and nothing of ours stays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, lab_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)  # its hosts, and the images that another test builds, are in it

HERE = Path(__file__).parent
LIST = HERE.parents[1] / "docs" / "onboarding.md"
HOST = "h1"
ROLES = ("base_os", "nccl", "docker_engine", "nfs_server", "monitoring")
VARIABLES: dict[str, Any] = {
    # The site's container has live-restore, so its operator does not wait for it.
    **{f"{role}_touch_busy_hosts": True for role in ROLES if role != "nccl"},
    "base_os_firewall": True,
    "base_os_firewall_subnets": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
    "base_os_ntp_servers": ["ntp.example.org"],
    "docker_engine_users": ["ops", "games"],
    "docker_engine_ca_certs": {"registry.example:5000": "certificate\n"},
    "nccl_enabled": True,
    "nccl_conf": {"NCCL_IB_TIMEOUT": "22"},
    "nfs_server_exports": [
        {"path": "/srv/site", "clients": ["10.0.0.0/8"]},
        {"path": "/srv/new/runs", "clients": ["10.0.0.0/8"]},
    ],
    "nfs_server_threads": 16,
}
# Private names of roles, which only the command line may set: the lab's kernel has no NFS server.
HIDDEN = {"__nfs_server_kernel": True, "__nfs_server_to_install": [], "__nfs_server_threads_wanted": ""}
SITE = {
    "all": {"vars": VARIABLES, "children": {name: {"hosts": {HOST: None}} for name in ("monitoring", "nfs_server")}}
}
# What provisioning writes where the site has files: its own, and the five that it merges or keeps an original of.
WRITTEN = (
    *("/etc/*ddp*", "/etc/docker/certs.d*", "/etc/docker/daemon.json", "/etc/nccl.conf", "/etc/chrony/chrony.conf"),
    *("/etc/default/prometheus-node-exporter", "/srv/new*", "/etc/exports.d/ddp-play.exports"),
    *("/etc/group", "/etc/group-", "/etc/gshadow", "/etc/gshadow-", "/etc/nfs.conf.d", "/etc/systemd/logind.conf.d"),
    # Written by ldconfig after the installation of a library, and by the engine when it starts.
    *("/etc/ld.so.cache", "/data/docker/buildkit/cache.db", "/data/docker/volumes/metadata.db"),
)
# Rows that differ after a provisioning although no line of `--check` stands for them.
UNANNOUNCED = {
    "file /etc/ddp-play*": "the record of the changes",
    "file /etc/g*": "account files, and their backups: the check names the new member of the group",
    "file /etc/ld.so.cache": "written by ldconfig after the installation of a library",
    "file /etc/systemd/system/*.wants*": "links that enabling a unit makes",
    "file /usr/*": "files of the packages",
    "file /var/*": "caches, logs and databases of packages, of their manager and of the engine",
    "file /data/docker/*": "written by the engine when it starts",
}
# A reload of systemd alone is no change for Ansible's module.
RELOAD = ("base_os", "restart", "systemd (daemon-reload)")
THEIR_FOLDERS = ("/etc/", "/srv/", "/data/", "/home/", "/root/", "/boot/")
CONTAINER = "docker inspect --format '{{.State.Pid}} {{.State.StartedAt}} {{.State.Running}}' db"


@dataclass(frozen=True)
class Stay:
    """The host before, with and after ddp-play; its container at these times; the reports of the three runs.

    `looked`: the host after `provision --check`, before the first provisioning; `check`: the report of that.
    `undo_looked` and `undo_check`: the same of `deprovision --check`, before the removal.
    """

    listings: tuple[dict[str, str], ...]
    containers: tuple[str, ...]
    reports: tuple[dict[str, Any], ...]
    looked: dict[str, str]
    check: dict[str, Any]
    undo_looked: dict[str, str]
    undo_check: dict[str, Any]


def listing(lab: Lab, host: str) -> dict[str, str]:
    """Everything there is on a host, as `SECTION KEY` and value."""
    found = json.loads(lab.on(host, "python3 /opt/host_listing.py", user="root"))
    return {f"{section} {key}": value for section, rows in found.items() for key, value in rows.items()}


def differences(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Rows that are not the same in two listings."""
    return {
        key: (one.get(key, "nothing"), other.get(key, "nothing"))
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    }


def allowed() -> tuple[str, ...]:
    """The rows of docs/onboarding.md that say what may differ after deprovision."""
    section = LIST.read_text().partition("### What may differ afterwards")[2].partition("\n#")[0]
    return tuple(re.findall(r"(?m)^\| `([^`]+)` \|", section))


def report_of(lab: Lab, site: Path, verb: str, *more: str) -> dict[str, Any]:
    """The report of a verb that succeeded with the roles of this test."""
    words = ("-i", str(lab.inventory), "-i", str(site), "--tags", ",".join(ROLES), "-e", json.dumps(HIDDEN))
    done = lab.play(verb, *words, "--json", *more, timeout_s=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def stay(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stay]:
    """One host through all of it."""
    site = tmp_path_factory.mktemp("site") / "brownfield.json"
    site.write_text(json.dumps(SITE))
    with lab_of(lab_home, "brown", "--hosts", "1") as lab:
        for name in ("brownfield.sh", "host_listing.py"):
            lab.put(HOST, HERE / name, "/opt")
        lab.on(HOST, "sh /opt/brownfield.sh", user="root")
        listings, containers = [listing(lab, HOST)], [lab.on(HOST, CONTAINER, user="root")]
        check, looked = report_of(lab, site, "provision", "--check"), listing(lab, HOST)
        reports = [report_of(lab, site, "provision")]
        listings.append(listing(lab, HOST))
        containers.append(lab.on(HOST, CONTAINER, user="root"))
        reports.append(report_of(lab, site, "provision"))
        undo_check = report_of(lab, site, "deprovision", "--limit", HOST, "--check")
        undo_looked = listing(lab, HOST)
        reports.append(report_of(lab, site, "deprovision", "--limit", HOST, "--yes"))
        listings.append(listing(lab, HOST))
        containers.append(lab.on(HOST, CONTAINER, user="root"))
        yield Stay(tuple(listings), tuple(containers), tuple(reports), looked, check, undo_looked, undo_check)


def test_every_role_does_its_work_once(stay: Stay) -> None:
    first, second, last = stay.reports
    assert {cell["role"]: cell["status"] for cell in first["cells"]} == dict.fromkeys(ROLES, "changed")
    assert {cell["role"]: cell["num_changed"] for cell in second["cells"]} == dict.fromkeys(ROLES, 0)
    assert {cell["role"]: cell["status"] for cell in last["cells"]} == dict.fromkeys(ROLES, "changed")


def test_the_container_of_the_site_runs_on(stay: Stay) -> None:
    """The same process since the same moment, although the engine was restarted twice."""
    assert stay.containers == (stay.containers[0],) * 3
    assert stay.containers[0].endswith("true")


def test_provisioning_changes_only_the_files_that_it_names(stay: Stay) -> None:
    before, provisioned, _ = stay.listings
    paths = [key.removeprefix("file ") for key in differences(before, provisioned) if key.startswith("file ")]
    theirs = [path for path in paths if path.startswith(THEIR_FOLDERS)]
    assert theirs
    assert [path for path in theirs if not any(fnmatchcase(path, pattern) for pattern in WRITTEN)] == []


def test_the_check_changes_nothing(stay: Stay) -> None:
    changed = [key for key in differences(stay.listings[0], stay.looked) if not key.startswith("file /var/log/")]
    assert changed == []
    assert stay.check["check"]


def test_the_check_of_the_removal_changes_nothing(stay: Stay) -> None:
    changed = [key for key in differences(stay.listings[1], stay.undo_looked) if not key.startswith("file /var/log/")]
    assert changed == []
    assert stay.undo_check["check"]


def test_the_removal_does_what_its_check_announced(stay: Stay) -> None:
    """What is removed or restarted, and what each role leaves.

    Of what a program changes, the check has the name, and the removal only that of the task.
    """
    check, done = (
        {(row["role"], row["kind"], row["what"], row["whose"]) for row in report["changes"]}
        for report in (stay.undo_check, stay.reports[2])
    )
    assert {row for row in check - done if row[1] in ("remove", "restart")} == {(*RELOAD, "theirs")}
    assert {row for row in done - check if row[1] in ("remove", "restart")} == set()
    assert ("docker_engine", "change", "group docker: member games", "theirs") in check
    leaves = [{cell["role"]: cell["left"] for cell in report["cells"]} for report in (stay.undo_check, stay.reports[2])]
    assert leaves[0] == leaves[1]


def announced(stay: Stay) -> set[str]:
    """Patterns of the listing's keys for the rows of the check. A new file stands for its new directories too."""
    found = set()
    for row in stay.check["changes"]:
        kind, _, name = row["what"].removeprefix("hold of ").partition(" ")
        if kind in ("file", "directory"):
            found |= {f"file {path}" for path in (name, *map(str, Path(name).parents))}
        elif kind in ("unit", "package"):
            found.add(f"{kind} {name.split()[0]}")
        elif kind == "kernel":
            found.add(f"setting {name.removeprefix('setting ').replace('.', '/')}")
        else:
            found.add(f"{kind.removesuffix('s')} *")
    return found


def test_every_change_was_announced_by_the_check(stay: Stay) -> None:
    # dpkg names a package of another architecture NAME:ARCH.
    rows = differences(stay.looked, stay.listings[1])
    keys = sorted({key.partition(":")[0] if key.startswith("package ") else key for key in rows})
    patterns = (*announced(stay), *UNANNOUNCED)
    assert keys
    assert [key for key in keys if not any(fnmatchcase(key, pattern) for pattern in patterns)] == []


def test_the_provisioning_does_what_the_check_announced(stay: Stay) -> None:
    """What is removed or restarted in the real run was listed before, and the reverse."""
    check, done = (
        {(row["role"], row["kind"], row["what"]) for row in report["changes"]}
        for report in (stay.check, stay.reports[0])
    )
    assert {row for row in check - done if row[1] in ("remove", "restart")} == {RELOAD}
    assert {row for row in done - check if row[1] in ("remove", "restart")} == set()


def test_a_merged_file_keeps_owner_and_mode(stay: Stay) -> None:
    rows = [one["file /etc/docker/daemon.json"].split() for one in stay.listings[:2]]
    assert rows[0][:3] == rows[1][:3]
    assert rows[0][3] != rows[1][3]


def test_deprovisioning_gives_back_the_host_as_it_was(stay: Stay) -> None:
    before, _, after = stay.listings
    rest = {
        key: values
        for key, values in differences(before, after).items()
        if not any(fnmatchcase(key, pattern) for pattern in allowed())
    }
    assert rest == {}


@pytest.mark.parametrize(
    "key", ["file /etc", "file /etc/fstab", "file /srv/site", "unit docker.service", "export 0001"]
)
def test_no_configuration_unit_or_export_is_on_the_list(key: str) -> None:
    assert allowed()
    assert [pattern for pattern in allowed() if fnmatchcase(key, pattern)] == []
