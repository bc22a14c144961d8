"""Hosts whose only way out is an HTTP proxy: an engine, a Python environment and an image arrive through it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu import engine_mirror

from .conftest import Lab, lab_of
from .guests import IMAGE
from .stand_ins import DOMAIN, Servers, serving, write_certificate, write_index, write_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

DROP_INS = "/etc/systemd/system/docker.service.d"
OURS = f"{DROP_INS}/00-ddp-play-proxy.conf"
# h2's own, for plain HTTP only.
THEIRS = f'[Service]\\nEnvironment="HTTP_PROXY=http://theirs.{DOMAIN}:1"\\n'
SET_THEIRS = f"mkdir -p {DROP_INS} && printf '{THEIRS}' > {DROP_INS}/http-proxy.conf"
# No route and no names from outside; a name server that nobody answers would cost seconds for each name.
CUT_OFF = "ip route del default && echo nameserver 127.0.0.1 > /etc/resolv.conf"
RESTARTED = "systemctl daemon-reload && systemctl restart docker"
TRUST = "update-ca-certificates 2>/dev/null >/dev/null"
INFO = "docker info --format '{{.HTTPProxy}} {{.HTTPSProxy}}'"
LISTING = f"find {DROP_INS} /etc/docker /etc/apt -type f | xargs sha256sum"
VARIABLES = {
    "ddp_no_proxy": [f".internal.{DOMAIN}"],
    "ddp_mirror_url": f"https://mirror.{DOMAIN}",
    "python_env_index_url": f"https://pypi.{DOMAIN}/simple",
    "python_env_pip_config": {"cert": "/etc/ssl/certs/ca-certificates.crt"},
    "python_env_packages": ["standin==1.0"],
    "python_env_verify_imports": ["standin"],
}
REPLACES = {"docker_engine_replace": True}
ENGINE = f"mirror.{DOMAIN}/{engine_mirror.REPOSITORY}"


@dataclass(frozen=True)
class Behind:
    """The lab behind the proxy, what was asked, what a site writes, and what h2 was before."""

    lab: Lab
    servers: Servers
    inventories: tuple[str, ...]
    before: str

    def play(self, verb: str, *words: str) -> tuple[CompletedProcess[str], dict[str, dict[str, Any]]]:
        """A verb with its report's cells, by host and role."""
        tags = ("--tags", "docker_engine,python_env")
        done = self.lab.play(verb, *self.inventories, *tags, "--json", *words, timeout_s=600)
        return done, {f"{cell['host']} {cell['role']}": cell for cell in json.loads(done.stdout)["cells"]}


@pytest.fixture(scope="module")
def behind(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """Two hosts without a default route: one that gets the vendor's engine, one that keeps its own."""
    folder = tmp_path_factory.mktemp("behind")
    certificate = folder / "server.pem"
    write_certificate(certificate, *(f"{name}.{DOMAIN}" for name in ("mirror", "pypi", "registry")))
    trusts = engine_mirror.write(folder)
    write_index(folder, "standin")
    write_registry(folder, "tool")
    with lab_of(lab_home, "proxy", "--hosts", "2") as lab:
        gateway = lab.on("h1", "ip -4 route show default | cut -d' ' -f3")
        for host, history in (("h1", engine_mirror.KEEP_PROGRAMS), ("h2", f"{SET_THEIRS} && {RESTARTED}")):
            lab.put(host, folder / "server.pem.crt", f"/usr/local/share/ca-certificates/{DOMAIN}.crt")
            lab.on(host, f"{TRUST} && {history} && {IMAGE} && {CUT_OFF}", user="root")
        with serving(gateway, folder, certificate) as servers:
            groups = {"python_env": {"hosts": {"h1": None}}}
            variables = {**VARIABLES, **trusts, "ddp_proxy": servers.proxy}
            site = {"vars": variables, "hosts": {"h1": REPLACES}, "children": groups}
            path = folder / "site.json"
            path.write_text(json.dumps({"all": site}))
            inventories = ("-i", str(lab.inventory), "-i", str(path))
            yield Behind(lab, servers, inventories, lab.on("h2", LISTING, user="root"))


@pytest.fixture(scope="module")
def first(behind: Behind) -> dict[str, dict[str, Any]]:
    """The cells of the first provisioning."""
    assert behind.lab.on("h1", "ip route get 192.0.2.1 2>&1 || true") == "RTNETLINK answers: Network is unreachable"
    done, cells = behind.play("provision")
    assert done.returncode == 0, done.stderr + done.stdout
    assert {name: cell["status"] for name, cell in cells.items() if "skipped" not in cell["status"]} == {
        "h1 docker_engine": "changed", "h1 python_env": "changed", "h2 docker_engine": "changed",
    }  # fmt: skip
    return cells


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("server", ["mirror", "pypi"])
def test_the_proxy_is_asked_for_the_mirror_and_the_index(behind: Behind, server: str) -> None:
    assert f"CONNECT {server}.{DOMAIN}:443" in behind.servers.asked_proxy


@pytest.mark.usefixtures("first")
def test_packages_of_the_distribution_come_through_it_too(behind: Behind) -> None:
    """Debian's real servers, for python3-venv."""
    assert [row for row in behind.servers.asked_proxy if "/python3" in row and row.endswith(".deb")]


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(
    "asked",
    [
        f"GET {ENGINE}/gpg",
        f"GET {ENGINE}/dists/bookworm/InRelease",
        f"GET {ENGINE}/dists/bookworm/stable/binary-amd64/Packages",
        f"GET {ENGINE}/pool/docker-ce_5",
        f"GET pypi.{DOMAIN}/simple/standin/standin-1.0-py3-none-any.whl",
    ],
)
def test_the_tunnels_were_for_keys_lists_and_packages(behind: Behind, asked: str) -> None:
    assert [row for row in behind.servers.asked_servers if row.startswith(asked)]


@pytest.mark.usefixtures("first")
def test_the_engine_pulls_through_it(behind: Behind) -> None:
    assert behind.lab.on("h1", INFO) == f"{behind.servers.proxy} {behind.servers.proxy}"
    assert f"registry.{DOMAIN}/tool:1" in behind.lab.on("h1", f"docker pull --quiet registry.{DOMAIN}/tool:1")
    assert f"CONNECT registry.{DOMAIN}:443" in behind.servers.asked_proxy


@pytest.mark.usefixtures("first")
def test_a_proxy_that_the_host_had_keeps_precedence(behind: Behind) -> None:
    assert behind.lab.on("h2", INFO) == f"http://theirs.{DOMAIN}:1 {behind.servers.proxy}"


@pytest.mark.usefixtures("first")
def test_a_second_time_changes_nothing_and_asks_nobody(behind: Behind) -> None:
    asked = list(behind.servers.asked_proxy)
    done, cells = behind.play("provision")
    assert done.returncode == 0, done.stderr
    assert [name for name, cell in cells.items() if cell["num_changed"]] == []
    assert behind.servers.asked_proxy == asked
    assert behind.play("verify")[0].returncode == 0


@pytest.mark.usefixtures("first")
def test_a_busy_engine_keeps_its_proxy_until_nothing_runs(behind: Behind) -> None:
    behind.lab.on("h1", "docker run --detach --name db --net host guest:1 /bin/sleep 100000")
    without = ("--limit", "h1", "-e", "docker_engine_proxy=")
    _, cells = behind.play("provision", *without)
    assert cells["h1 docker_engine"]["status"] == "skipped"
    assert f"Pending there: {OURS}." in cells["h1 docker_engine"]["reason"]
    assert behind.lab.on("h1", INFO).startswith(behind.servers.proxy)
    behind.lab.on("h1", "docker rm --force db")
    _, cells = behind.play("provision", *without)
    assert cells["h1 docker_engine"]["status"] == "changed"
    assert behind.lab.on("h1", INFO) == ""


@pytest.mark.usefixtures("first")
def test_deprovision_gives_an_adopted_engine_back(behind: Behind) -> None:
    done, _ = behind.play("deprovision", "--limit", "h2", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    assert behind.lab.on("h2", LISTING, user="root") == behind.before
    assert behind.lab.on("h2", INFO) == f"http://theirs.{DOMAIN}:1"
