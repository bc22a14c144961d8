"""A mirror with Docker's repository at the vendor's address, whose engine is the host's own under the vendor's names.

The packages hold wrappers around programs that the test has put into /opt/engine on the host: the real dockerd answers
after the replacement, and nothing of Docker's is downloaded.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.ddp.play.plugins.module_utils import openpgp

from tests.roles_gpu.debs import File, Package, deb, gpg

VERSION = "5:29.1.3-1~debian.12~bookworm"
PROGRAMS = "/opt/engine"
# Run on the host before its engine is replaced.
KEEP_PROGRAMS = (
    f"mkdir -p {PROGRAMS} && cd /usr/bin && cp docker containerd containerd-shim-runc-v2 {PROGRAMS}"
    f" && cp $(command -v dockerd) $(command -v runc) $(command -v docker-proxy) {PROGRAMS}"
)
SERVICE = f"""[Unit]
Description=Docker Engine under the vendor's names
After=network.target
[Service]
Type=notify
Environment=PATH={PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/usr/bin/dockerd -H unix:///var/run/docker.sock
KillMode=process
Delegate=yes
[Install]
WantedBy=multi-user.target
"""
POSTINST = "#!/bin/sh\nsystemctl daemon-reload; systemctl enable docker.service; systemctl restart docker.service\n"
PRERM = "#!/bin/sh\nsystemctl stop docker.service || true\n"


# The host's dockerd may be older than 23, which came with --validate; one of this name would know it.
VALIDATES = '[ "$1" != --validate ] || exit 0\n'


def wrapper(program: str) -> dict[str, File]:
    text = f'#!/bin/sh\n{VALIDATES if program == "dockerd" else ""}exec {PROGRAMS}/{program} "$@"\n'
    return {f"/usr/bin/{program}": File(text.encode(), 0o755)}


def packages() -> list[Package]:
    """The vendor's five, with the conflicts that it declares."""
    rivals = {"Conflicts": "containerd, runc", "Replaces": "containerd, runc", "Provides": "containerd, runc"}
    return [
        Package("containerd.io", "2.1.5-1~debian.12~bookworm", fields=rivals, files=wrapper("containerd")),
        Package("docker-ce-cli", VERSION, fields={"Conflicts": "docker.io"}, files=wrapper("docker")),
        Package("docker-buildx-plugin", "0.30.0-1~debian.12~bookworm"),
        Package("docker-compose-plugin", "2.40.0-1~debian.12~bookworm"),
        Package(
            "docker-ce",
            VERSION,
            fields={"Depends": "docker-ce-cli, containerd.io", "Conflicts": "docker.io", "Replaces": "docker.io"},
            files={**wrapper("dockerd"), "/lib/systemd/system/docker.service": File(SERVICE.encode())},
            scripts={"postinst": POSTINST, "prerm": PRERM},
        ),
    ]


# Below a mirror.
REPOSITORY = "download.docker.com/linux/debian"


def write(target: Path, suite: str = "bookworm") -> dict[str, Any]:
    """TARGET/REPOSITORY with gpg (the key), dists/SUITE and pool; variables with which docker_engine trusts the key."""
    root = target / REPOSITORY
    dist, pool = root / "dists" / suite, root / "pool"
    folder = dist / "stable" / "binary-amd64"
    for path in (folder, pool):
        path.mkdir(parents=True)
    index = ""
    for package in packages():
        data = deb(package)
        (pool / package.filename).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        index += f"{package.control()}Filename: pool/{package.filename}\nSize: {len(data)}\nSHA256: {digest}\n\n"
    (folder / "Packages").write_text(index)
    row = f" {hashlib.sha256(index.encode()).hexdigest()} {len(index)} stable/binary-amd64/Packages\n"
    release = (
        f"Origin: stub\nSuite: {suite}\nCodename: {suite}\nComponents: stable\nArchitectures: amd64\nSHA256:\n{row}"
    )
    home = Path(tempfile.mkdtemp(prefix="stub-gpg-"))
    try:
        gpg(home, "--quick-gen-key", "engine@example.invalid", "ed25519", "sign", "never")
        (dist / "InRelease").write_bytes(gpg(home, "--clearsign", stdin=release.encode()))
        key = gpg(home, "--armor", "--export", "engine@example.invalid")
        (root / "gpg").write_bytes(key)
        return {"docker_engine_repo_key_fingerprints": openpgp.fingerprints(key)}
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)
