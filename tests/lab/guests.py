"""Hosts with a history for the tests of provisioning: made once, provisioned in one run, looked at before and after."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .conftest import Lab, lab_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DAEMON = "/etc/docker/daemon.json"
# Theirs: another data root, a key that no role knows, and their own formatting.
THEIRS = '{"data-root": "/data/docker", "max-concurrent-downloads": 2, "log-driver": "json-file"}'
# An image without a registry: two programs and their libraries.
PROGRAMS = "/bin/sleep /bin/true $(ldd /bin/sleep | grep -o '/lib[^ ]*')"
IMAGE = f"tar -ch {PROGRAMS} 2>/dev/null | docker import - guest:1 >/dev/null"
SETTLE = f"mkdir -p /etc/docker && echo '{THEIRS}' > {DAEMON} && systemctl restart docker && {IMAGE}"
PACKAGES = "dpkg-query --show --showformat '${db:Status-Status} ${Package} ${Version}\\n' 'docker*' 'containerd*' runc"
LISTS = "find /etc/apt -name '*docker*'; cat /etc/apt/sources.list.d/docker.list 2>/dev/null || true"


@dataclass(frozen=True)
class Guest:
    """A host with a history: what was done to it, the variables it gets, and what one provisioning has to say of it."""

    before: str
    variables: dict[str, Any]
    status: str
    says: str


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
        "info": "timeout 60 docker info --format '{{.DockerRootDir}} {{.LoggingDriver}}' || true",
        "runs": "timeout 120 docker run --rm --net host guest:1 /bin/true && echo ran || true",
        "original": f"cat {DAEMON}.ddp-play.orig 2>/dev/null || true",
        "db": "pgrep -f '[s]leep 100000' || true",
    }
    script = "; echo @@; ".join(words.values())
    return dict(zip(words, (part.strip() for part in lab.on(host, script, user="root").split("@@")), strict=True))


def settle(lab: Lab, host: str, history: str, folder: Path | None) -> dict[str, str]:
    """Give a host its history; what it is then."""
    if folder:
        lab.put(host, folder, "/srv")
    lab.on(host, f"{SETTLE} && {history}", user="root")
    return look(lab, host)


@contextmanager
def provisioned(
    lab_home: Path, guests: Mapping[str, Guest], site: Path, folder: Path | None = None
) -> Iterator[Street]:
    """A lab of these guests after one provisioning with defaults and their variables; `folder` is copied to /srv."""
    site.write_text(json.dumps({"all": {"hosts": {name: guest.variables for name, guest in guests.items()}}}))
    with lab_of(lab_home, site.stem, "--hosts", str(len(guests))) as lab, ThreadPoolExecutor() as pool:
        rows = pool.map(lambda name: settle(lab, name, guests[name].before, folder), guests)
        before = dict(zip(guests, rows, strict=True))
        words = ("-i", str(lab.inventory), "-i", str(site), "--tags", "docker_engine", "--json")
        done = lab.play("provision", *words, timeout_s=600)
        assert done.returncode == 1, done.stderr
        after = dict(zip(guests, pool.map(lambda name: look(lab, name), guests), strict=True))
        yield Street(lab, before, after, {cell["host"]: cell for cell in json.loads(done.stdout)["cells"]})


def assert_says(street: Street, host: str, guest: Guest) -> None:
    """The table has the status and the words that this guest expects."""
    cell = street.cells[host]
    assert cell["status"] == guest.status, cell
    assert guest.says in cell.get("message", "") + cell.get("reason", ""), cell
