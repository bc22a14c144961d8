"""Write .deb files, a signed flat apt repository and a kernel module that modinfo can read."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import struct
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    arch: str = "amd64"
    fields: dict[str, str] = field(default_factory=dict)  # Depends, Provides, Conflicts, ...
    files: dict[str, File] = field(default_factory=dict)  # absolute path -> file
    scripts: dict[str, str] = field(default_factory=dict)  # postinst, prerm

    @property
    def filename(self) -> str:
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.arch}.deb"

    def control(self) -> str:
        head = {"Package": self.name, "Version": self.version, "Architecture": self.arch}
        tail = {"Maintainer": "stub <stub@example.invalid>", "Description": f"stub of {self.name} for tests"}
        return "".join(f"{key}: {value}\n" for key, value in {**head, **self.fields, **tail}.items())


def _tar(files: dict[str, File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1, format=tarfile.GNU_FORMAT) as tar:
        folders = sorted({parent for path in files for parent in Path(path).parents if parent.name})
        for folder in folders:
            info = tarfile.TarInfo(f"./{str(folder).strip('/')}/")
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for path, file in files.items():
            info = tarfile.TarInfo(f"./{path.lstrip('/')}")
            info.size, info.mode = len(file.content), file.mode
            tar.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()


def deb(package: Package) -> bytes:
    control = {"control": File(package.control().encode())}
    control |= {name: File(text.encode(), 0o755) for name, text in package.scripts.items()}
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar(control),
        "data.tar.gz": _tar(package.files),
    }
    out = b"!<arch>\n"
    for name, data in members.items():
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data
        out += b"\n" * (len(data) % 2)
    return out


def kernel_module(fields: dict[str, str]) -> bytes:
    """The smallest ELF object with a .modinfo section."""
    modinfo = b"".join(f"{key}={value}".encode() + b"\0" for key, value in fields.items())
    names = b"\0.modinfo\0.shstrtab\0"
    start = 64
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 2, 0, start, len(modinfo), 0, 0, 1, 0),
        (10, 3, 0, 0, start + len(modinfo), len(names), 0, 0, 1, 0),
    ]
    table = start + len(modinfo) + len(names)
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = ident + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, len(sections), 2)
    return header + modinfo + names + b"".join(struct.pack("<IIQQQQIIQQ", *section) for section in sections)


def gpg(home: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = [
        "gpg",
        "--homedir",
        str(home),
        "--batch",
        "--quiet",
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
    ]
    return subprocess.run([*command, *arguments], input=stdin, capture_output=True, check=True).stdout


def _write_expired(home: Path, target: Path, release: bytes) -> None:
    """As with a vendor who has made a key last longer, while the host has the key of before."""
    user = "expired@example.invalid"
    gpg(home, "--faked-system-time", "20200101T000000", "--quick-gen-key", user, "ed25519", "sign", "1y")
    (target / "expired.pub").write_bytes(gpg(home, "--armor", "--export", user))
    rows = gpg(home, "--list-keys", "--with-colons", user).decode().splitlines()
    fingerprint = next(row.split(":")[9] for row in rows if row.startswith("fpr:"))
    gpg(home, "--quick-set-expire", fingerprint, "never")
    (target / "InRelease").write_bytes(gpg(home, "--local-user", user, "--clearsign", stdin=release))


def write_repository(target: Path, packages: list[Package], *, key_names: tuple[str, ...]) -> None:
    """A flat repository with a throwaway key under each of `key_names`, and another key as wrong.pub.

    Its folder `expired` is the same repository, signed by a key that expired.pub knows only as good until 2021.
    """
    target.mkdir(parents=True, exist_ok=True)
    index = ""
    for package in packages:
        data = deb(package)
        (target / package.filename).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        index += f"{package.control()}Filename: ./{package.filename}\nSize: {len(data)}\nSHA256: {digest}\n\n"
    contents = {"Packages": index.encode(), "Packages.gz": gzip.compress(index.encode(), mtime=0)}
    release = "Origin: stub\nLabel: stub\nSuite: stub\nArchitectures: amd64 all\nSHA256:\n"
    expired = target / "expired"
    expired.mkdir()
    for name, data in contents.items():
        (target / name).write_bytes(data)
        (expired / name).write_bytes(data)
        release += f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
    # A short path: gpg-agent's socket must fit in 108 bytes.
    home = Path(tempfile.mkdtemp(prefix="stub-gpg-"))
    try:
        for user in ("right@example.invalid", "wrong@example.invalid"):
            gpg(home, "--quick-gen-key", user, "ed25519", "sign", "never")
        signed = gpg(home, "--local-user", "right@example.invalid", "--clearsign", stdin=release.encode())
        (target / "InRelease").write_bytes(signed)
        for name in key_names:
            (target / name).write_bytes(gpg(home, "--armor", "--export", "right@example.invalid"))
        (target / "wrong.pub").write_bytes(gpg(home, "--armor", "--export", "wrong@example.invalid"))
        _write_expired(home, expired, release.encode())
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)
