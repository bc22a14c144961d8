"""Homes on NFS that all hosts share, with real kernels: an ordinary user and root, NFSv4 and NFSv3."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from .conftest import Site
from .machines import RANKS
from .site import SUBNET, write_job

HOMES = "/srv/homes"
HOME = "/home/ops"
# Prints which locks of which modes the file system gives: `a LOCK_SH no`.
LOCKS = (
    "import fcntl, itertools\n"
    'for mode, lock in itertools.product(("a", "r", "a+", "r+"), ("LOCK_SH", "LOCK_EX")):\n'
    '    with open("/home/ops/.lock", mode) as file:\n'
    "        try:\n"
    "            fcntl.flock(file, getattr(fcntl, lock))\n"
    "        except OSError:\n"
    '            print(mode, lock, "no")\n'
)


@pytest.fixture(params=["4.2", "3"])
def version(site: Site, request: pytest.FixtureRequest) -> Iterator[str]:
    """The NFS version of the homes, which both machines have for the duration of the test."""
    cluster, version = site.cluster, str(request.param)
    cluster.on("nfs1", f"mkdir -p {HOMES} && cp -a {HOME} {HOMES}/ && exportfs -o rw,no_subtree_check {SUBNET}:{HOMES}")
    address = cluster.machine("nfs1").address
    for name in RANKS:
        cluster.on(name, f"mount -t nfs -o vers={version} {address}:{HOMES}/ops {HOME}")
    try:
        yield version
    finally:
        for name in RANKS:
            cluster.on(name, f"umount --lazy {HOME}")
        cluster.on("nfs1", f"exportfs -u {SUBNET}:{HOMES} && rm -r {HOMES}")


def test_locks_are_as_the_unit_tests_take_them_to_be(site: Site, version: str) -> None:
    """tests/conftest.py holds every lock of the unit tests to these rules."""
    site.cluster.on("vm1", f"runuser -u ops touch {HOME}/.lock")
    found = site.cluster.on("vm1", f"runuser -u ops python3 - <<'END'\n{LOCKS}END").splitlines()
    assert found == (["a LOCK_SH no", "r LOCK_EX no"] if version == "4.2" else [])


# The server of the shared directory maps root to nobody, so root does not use that directory.
@pytest.mark.parametrize("become", [(), ("-b", "-e", "ddp_shared_dir=")], ids=["ordinary user", "root"])
def test_a_run_keeps_its_state_on_each_host(site: Site, version: str, become: tuple[str, ...]) -> None:
    job = write_job(
        site.cluster, "homes", image="", mounts=[], runtime="process", command=["sleep", "1"], host_timeout="3m"
    )
    name = f"homes-{secrets.token_hex(3)}"
    done = site.play("run", str(job), "--name", name, "--json", *become)
    assert done.returncode == 0, done.stderr[-3000:]
    warnings = " ".join(json.loads((site.home / "runs" / name / "plan.json").read_text())["warnings"])
    assert (f"{HOME}/.local/state/ddp-play/host is on nfs" in warnings) is (not become)
    state = "/var/lib/ddp-play" if become else "/var/tmp/ddp-play-1000"
    for host in RANKS:
        assert site.cluster.on(host, f"stat -c '%U %F' {state}").split()[0] == ("root" if become else "ops")
        assert site.cluster.on(host, f"find {HOME}/.local -path '*ddp-play*' 2>/dev/null; ls {state}/runs") == ""


def test_a_directory_on_nfs_is_refused_by_name(site: Site, version: str) -> None:
    job = write_job(site.cluster, "homes", image="", mounts=[], runtime="process", command=["true"])
    done = site.play("run", str(job), "-e", f"ddp_state_dir={HOME}/mine")
    assert done.returncode == 69
    assert f"ddp_state_dir is {HOME}/mine, which is on nfs" in done.stdout + done.stderr
