"""The vendors' apt repositories, from vendor_packages.yml: signed, with the layouts and addresses of the vendors."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.roles_gpu import rpms, stub_repo, vendor_data
from tests.roles_gpu.debs import File, Package, deb, gpg, kernel_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.roles_gpu.vendor_data import Published

USER = "right@example.invalid"
FIELDS = {"requires": "Depends", "provides": "Provides", "conflicts": "Conflicts", "obsoletes": "Replaces"}
PINNING = "nvidia-driver-pinning-"
STOP = '#!/bin/sh\n[ "$1" = remove ] && systemctl disable --now docker || true\n'


def upstream(version: str) -> str:
    """5:29.1.3-1~ubuntu.22.04~jammy as 29.1.3."""
    return rpms.upstream(version)


def relation(text: str) -> str:
    """`name = 1.0-1` as Debian writes it."""
    name, _, version = text.partition(" = ")
    return f"{name} (= {version})" if version else name


def contents(package: Published) -> dict[str, File]:
    """Files of a stub, by path: what roles run or read; most packages need none."""
    name, version = package.name, upstream(package.version)
    if name.startswith("nvidia-dkms"):
        licence = "Dual MIT/GPL" if name.endswith("-open") else "NVIDIA"
        module = kernel_module({"version": version, "license": licence, "name": "nvidia"})
        return {f"/usr/src/nvidia-{version}/nvidia.ko": File(module)}
    if name.startswith("linux-headers-") and name[14].isdigit():
        return {f"/lib/modules/{name.removeprefix('linux-headers-')}/build/Makefile": File(b"# stub\n")}
    if name.startswith("nvidia-utils"):
        return stub_repo.smi(version)
    if _is_ubuntus_daemon(name):
        return rpms.contents(dataclasses.replace(package, name="nvidia-persistenced"))
    return rpms.contents(package)


def _is_ubuntus_daemon(name: str) -> bool:
    """Whether the package is the one of Ubuntu's archive that has nvidia-persistenced and its unit."""
    return name.startswith("nvidia-compute-utils-") and name.endswith("-server")


def scripts(package: Published) -> dict[str, str]:
    """Maintainer scripts by name."""
    version = upstream(package.version)
    if package.name.startswith("nvidia-dkms"):
        post, gone = stub_repo.MODULE_POSTINST, stub_repo.MODULE_PRERM
        return {"postinst": post.replace("@VERSION@", version), "prerm": gone.replace("@VERSION@", version)}
    if package.name == "docker-ce":
        return {"postinst": stub_repo.RELOAD, "prerm": STOP}
    if package.name == "nvidia-persistenced" or _is_ubuntus_daemon(package.name):
        return {"postinst": stub_repo.RELOAD, "prerm": STOP.replace("docker", "nvidia-persistenced")}
    if package.name == "prometheus-node-exporter":
        return {"postinst": stub_repo.RELOAD, "prerm": STOP.replace("docker", package.name)}
    if package.name in ("nvidia-fabricmanager", "nvidia-container-toolkit-base"):
        return {"postinst": stub_repo.RELOAD}
    return {}


def package_of(row: Published) -> Package:
    """The stub of one published version."""
    if row.name.startswith(PINNING):
        wanted = row.name.removeprefix(PINNING)
        pinning = stub_repo.pinning(upstream(row.version), wanted if "." in wanted else f"{wanted}.")
        return dataclasses.replace(pinning, name=row.name, version=row.version)
    fields = {FIELDS[key]: ", ".join(map(relation, texts)) for key, texts in row.relations.items() if texts}
    return Package(row.name, row.version, fields=fields, files=contents(row), scripts=scripts(row))


@contextlib.contextmanager
def signing_key() -> Iterator[Path]:
    """gpg's home with one throwaway key, below a short path: the socket of gpg-agent must fit in 108 bytes."""
    home = Path(tempfile.mkdtemp(prefix="stub-gpg-"))
    try:
        gpg(home, "--quick-gen-key", USER, "ed25519", "sign", "never")
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)


def write_repository(root: Path, packages: list[Package], home: Path, *, origin: str, suite: str = "") -> None:
    """A repository at `root`: flat, or with `suite` as dists/SUITE/stable and a pool."""
    index_name = "stable/binary-amd64/Packages" if suite else "Packages"
    lists, pool = (root / "dists" / suite, "pool/") if suite else (root, "./")
    (lists / index_name).parent.mkdir(parents=True, exist_ok=True)
    (root / pool).mkdir(parents=True, exist_ok=True)
    index = ""
    for package in packages:
        data = deb(package)
        (root / pool / package.filename).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        index += f"{package.control()}Filename: {pool}{package.filename}\nSize: {len(data)}\nSHA256: {digest}\n\n"
    (lists / index_name).write_text(index, encoding="utf-8")
    head = f"Origin: {origin}\nLabel: {origin}\nSuite: {suite or 'stub'}\nCodename: {suite or 'stub'}\n"
    row = f" {hashlib.sha256(index.encode()).hexdigest()} {len(index.encode())} {index_name}\n"
    release = f"{head}Components: stable\nArchitectures: amd64\nSHA256:\n{row}"
    (lists / "InRelease").write_bytes(gpg(home, "--local-user", USER, "--clearsign", stdin=release.encode()))


def write(target: Path, repositories: Iterator[tuple[str, dict[str, Any]]], suite: str) -> None:
    """Every repository and key below TARGET, by host name and path as in the address; key.asc is the public key."""
    with signing_key() as home:
        public = gpg(home, "--armor", "--export", USER)
        for _, row in repositories:
            packages = [package_of(found) for found in vendor_data.published(*row["sets"])]
            origin = row.get("origin", "stub")
            dists = suite if row.get("dists") else ""
            write_repository(folder_of(target, row["url"]), packages, home, origin=origin, suite=dists)
        for row in vendor_data.load()["keys"]:
            path = folder_of(target, row["url"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(public)
        (target / "key.asc").write_bytes(public)


def folder_of(target: Path, url: str) -> Path:
    """Place of an address below the folder that the stand-in server has as its root."""
    parts = urlsplit(url)
    return target / parts.netloc / parts.path.strip("/")
