"""Specs of stub rpm packages: what a set publishes, with what the roles run or read inside."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.roles_gpu import stub_repo
from tests.roles_gpu.debs import File, kernel_module
from tests.roles_gpu.vendor_data import Published, published

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TAGS = {"requires": "Requires", "provides": "Provides", "conflicts": "Conflicts", "obsoletes": "Obsoletes"}
PLUGIN = (
    "/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py",
    "%config(noreplace) /etc/dnf/plugins/versionlock.conf",
    "%config(noreplace) /etc/dnf/plugins/versionlock.list",
)
# Answers what the role reads of the engine, from daemon.json and the running unit.
DOCKER = """#!/usr/bin/python3
import json, pathlib, subprocess, sys
if sys.argv[1] == "ps":
    sys.exit(0)
if subprocess.run(["systemctl", "is-active", "-q", "docker"]).returncode:
    sys.exit("Cannot connect to the Docker daemon. Is the docker daemon running?")
path = pathlib.Path("/etc/docker/daemon.json")
daemon = json.loads(path.read_text()) if path.exists() else {}
print(json.dumps({"ServerVersion": "@VERSION@", "LoggingDriver": daemon.get("log-driver", "json-file"),
    "LiveRestoreEnabled": daemon.get("live-restore", False), "DockerRootDir": "/var/lib/docker",
    "ContainersRunning": 0, "Runtimes": daemon.get("runtimes", {}) | {"runc": {}}, "DefaultRuntime": "runc"}))
"""
DOCKERD = '#!/bin/sh\n[ "$1" = --validate ] && exit 0\nexec sleep infinity\n'
CRB = """#!/bin/sh
case "$1" in enable) value=1 ;; disable) value=0 ;; *) exit 1 ;; esac
sed -i "s/^enabled=.*/enabled=$value/" /etc/yum.repos.d/*-crb.repo
"""
EPEL = """[epel]
name=Extra Packages for Enterprise Linux
baseurl=file:///srv/vendors/dl.fedoraproject.org/el$releasever/epel/
gpgcheck=1
gpgkey=file:///root/stub.asc
"""


def upstream(version: str) -> str:
    """3:580.105.08-1.el9 as 580.105.08."""
    return re.sub(r"^\d+:|-.*$", "", version)


def contents(package: Published) -> dict[str, File]:
    """Files of a stub, by path; most packages need none."""
    version = upstream(package.version)
    ko = kernel_module({"version": version, "license": "Dual MIT/GPL", "name": "nvidia"})
    build = package.version.partition("-")[2]
    made = {
        "docker-ce": lambda: {
            **stub_repo.unit("docker", "/usr/bin/dockerd"),
            "/usr/bin/dockerd": File(DOCKERD.encode(), 0o755),
        },
        "docker-ce-cli": lambda: {"/usr/bin/docker": File(DOCKER.replace("@VERSION@", version).encode(), 0o755)},
        "nvidia-driver-cuda": lambda: stub_repo.smi(version),
        "nvidia-persistenced": lambda: stub_repo.unit("nvidia-persistenced", "/usr/bin/nvidia-persistenced"),
        "nvidia-fabricmanager": lambda: stub_repo.unit("nvidia-fabricmanager", "/usr/bin/nv-fabricmanager"),
        "kmod-nvidia-open-dkms": lambda: {f"/usr/src/nvidia-{version}/nvidia.ko": File(ko)},
        "dkms": lambda: {"/usr/sbin/dkms": File(stub_repo.DKMS.encode(), 0o755)},
        "kernel-devel": lambda: {
            f"/lib/modules/{version}-{build}.x86_64/build/Makefile": File(b"# stub\n"),
        },
        "epel-release": lambda: {
            "/usr/bin/crb": File(CRB.encode(), 0o755),
            "/etc/yum.repos.d/epel.repo": File(EPEL.encode()),
        },
        "nvidia-container-toolkit-base": lambda: stub_repo.toolkit(version)[2].files,
        "cuda-toolkit-13-0": lambda: {"/usr/local/cuda-13.0/bin/nvcc": File(stub_repo.NVCC.encode(), 0o755)},
        "cuda-toolkit-13-3": lambda: {"/usr/local/cuda-13.3/bin/nvcc": File(stub_repo.NVCC_13_3.encode(), 0o755)},
        "nmstate": lambda: {"/usr/bin/nmstatectl": File(b"#!/bin/sh\nexit 0\n", 0o755)},
    }
    if package.name.endswith("node-exporter"):
        return stub_repo.exporter()
    return made[package.name]() if package.name in made else {}


def scripts(package: Published) -> str:
    if package.name.startswith("kmod-nvidia"):
        version = upstream(package.version)
        post = stub_repo.MODULE_POSTINST.replace("@VERSION@", version).split("\n", 1)[1]
        gone = stub_repo.MODULE_PRERM.replace("@VERSION@", version).split("\n", 1)[1]
        # rpm runs this after the new version's %post: only a removal takes the module away.
        upgrade = f'[ "$1" = 0 ] || {{ rm -rf /var/lib/dkms/nvidia/{version}; exit 0; }}'
        return f"%post -n {package.name}\n{post}\n%preun -n {package.name}\n{upgrade}\n{gone}\n"
    unit = {"docker-ce": "docker", "node-exporter": "prometheus-node-exporter"}.get(package.name)
    if unit:
        reload = "systemctl daemon-reload"
        stop = f'[ "$1" = 0 ] && systemctl disable --now {unit} || true'
        return "".join(
            f"%{when} -n {package.name}\n{command}\n"
            for when, command in {"post": reload, "preun": stop, "postun": reload}.items()
        )
    return ""


def passes(packages: Iterable[Published]) -> list[list[Published]]:
    """Groups in which each name occurs once: what one spec can build."""
    by_name: dict[str, list[Published]] = defaultdict(list)
    for package in packages:
        by_name[package.name].append(package)
    most = max(len(found) for found in by_name.values())
    return [[found[index] for found in by_name.values() if index < len(found)] for index in range(most)]


def section(package: Published) -> tuple[str, dict[str, File]]:
    epoch, _, rest = package.version.rpartition(":")
    version, _, release = rest.partition("-")
    lines = [f"%package -n {package.name}", f"Summary: stub of {package.name} for tests", f"Version: {version}"]
    lines += [f"Release: {release}", "AutoReqProv: no", *([f"Epoch: {epoch}"] if epoch else [])]
    lines += [f"{TAGS[key]}: {text}" for key, texts in package.relations.items() for text in texts]
    lines += [f"%description -n {package.name}", "Stub for tests.", scripts(package), f"%files -n {package.name}"]
    files = contents(package)
    lines += [f"%attr({file.mode:o},root,root) {path}" for path, file in files.items()]
    lines += [*PLUGIN] if package.name == "python3-dnf-plugin-versionlock" else []
    return "\n".join(lines) + "\n", files


def write_specs(target: Path, sets: tuple[str, ...]) -> None:
    """One folder for each pass, with the spec and the tree of files that it packs."""
    for index, group in enumerate(passes(published(*sets))):
        folder = target / f"pass{index}"
        head = (
            "Name: stubs\nVersion: 1\nRelease: 1\nSummary: stubs\nLicense: MIT\nAutoReqProv: no\n%description\nStubs.\n"
        )
        text = "%define debug_package %{nil}\n%global __os_install_post %{nil}\n" + head
        for package in group:
            part, files = section(package)
            text += part
            for path, file in files.items():
                place = folder / "tree" / path.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.content)
        text += "%install\nmkdir -p %{buildroot}\ncp -a %{_topdir}/tree/. %{buildroot}/\n"
        (folder / "tree").mkdir(parents=True, exist_ok=True)
        (folder / "stubs.spec").write_text(text, encoding="utf-8")
