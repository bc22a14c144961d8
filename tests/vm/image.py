"""The disk of a virtual machine: Debian with a kernel of its own, made once per recipe and kept."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ddp_play.images.build import build_image
from ddp_play.images.recipe import ImageRequest, slim_base_tag
from ddp_play.lab.base_image import build_stream, ensure_root_image
from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.docker_client import connect
from ddp_play.lab.spec import Distro

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

FILES = Path(__file__).parent / "files"
DISTRO = Distro.BOOKWORM
RANK_IMAGE = "ddp-play-rank:slim"
RANK_ARCHIVE = "/srv/images/rank.tar"
TORCH = "/opt/torch"
DISK_SIZE = "8G"  # sparse
OPS_UID = 1000
# What the roles of provision.yml take from the machines' mirror; it also has what these depend on.
ROLE_PACKAGES = (
    "pciutils numactl ethtool chrony docker.io apparmor nfs-kernel-server nfs-common "
    "rdma-core ibverbs-providers ibverbs-utils infiniband-diags rdmacm-utils perftest mstflint"
)
# Unpacking them in an emulated machine is most of the first provisioning: on a busy machine let the roles find them.
INSTALLED = os.environ.get("DDP_PLAY_VM_INSTALLED") == "1"
HOSTS = "127.0.0.1 localhost\n10.77.0.11 vm1\n10.77.0.12 vm2\n10.77.0.13 nfs1\n"
FSTAB = "/dev/vda / ext4 noatime,errors=remount-ro 0 1\n"


@dataclass(frozen=True)
class Image:
    """Where the parts of a finished image lie."""

    directory: Path

    @property
    def disk(self) -> Path:
        return self.directory / "disk.img"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd.img"

    @property
    def key(self) -> Path:
        """Lets ops and root in."""
        return self.directory / "id_ed25519"

    @property
    def host_key(self) -> Path:
        """The host key of every machine made from this image."""
        return self.directory / "host_ed25519"


class Shown:
    """Steps on the terminal; details are for logs."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    def step(self, text: str) -> None:
        self.console.print(f"vm image: {text}", markup=False)

    def detail(self, text: str) -> None:
        """Not shown."""


def ensure_image(cache: Path) -> Image:
    """The image of this recipe, made when the cache has none."""
    target = cache / f"image-{fingerprint()}"
    if target.is_dir():
        return Image(target)
    cache.mkdir(parents=True, exist_ok=True)
    shown = Shown()
    with tempfile.TemporaryDirectory(prefix=".image-", dir=cache) as scratch:
        made = Path(scratch) / "made"
        made.mkdir(mode=0o700)
        _make(Image(made), Path(scratch) / "root", shown)
        made.rename(target)
    return Image(target)


def fingerprint() -> str:
    """Changes with everything the image is made of."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(FILES.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    versions = (version("torch"), version("numpy"))
    digest.update(repr((INSTALLED, root_tag(DISTRO), slim_base_tag(DISTRO), versions)).encode())
    return digest.hexdigest()[:12]


def _make(image: Image, root: Path, shown: Shown) -> None:
    client = connect()
    tag = f"ddp-play-vm:{fingerprint()}"
    ensure_root_image(client, DISTRO, progress=shown)
    shown.step("installing a kernel, filling a package mirror")
    args = {"ROOT": root_tag(DISTRO), "MIRRORED": ROLE_PACKAGES}
    args |= {"INSTALLED": ROLE_PACKAGES if INSTALLED else ""}
    build_stream(client, _context(), tag=tag, buildargs=args, label="vm", progress=shown)
    try:
        _unpack(client, tag, root)
    finally:
        client.images.remove(tag)
    shown.step("adding torch, the rank image and keys")
    _add_torch(root / TORCH.lstrip("/"))
    _add_rank_image(client, root / RANK_ARCHIVE.lstrip("/"), shown)
    _add_identity(image, root)
    shown.step("writing the disk")
    for name, found in (("vmlinuz", image.kernel), ("initrd.img", image.initrd)):
        shutil.copyfile(next((root / "boot").glob(f"{name}-*")), found)
    mkfs = ["mkfs.ext4", "-q", "-F", "-L", "root", "-d", str(root), str(image.disk), DISK_SIZE]
    subprocess.run(mkfs, check=True, stdin=subprocess.DEVNULL)


def _context() -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(FILES.iterdir()):
            tar.add(path, arcname=path.name, filter=_plain)
    buffer.seek(0)
    return buffer


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    member.mode = 0o644
    return member


def _unpack(client: DockerClient, tag: str, root: Path) -> None:
    """The file system of an image as files with their owners."""
    root.mkdir()
    container = client.containers.create(tag, ["true"])
    command = ["tar", "-x", "--numeric-owner", "-C", str(root)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE) as tar:
            assert tar.stdin is not None
            tar.stdin.writelines(_chunks(container.export()))
    finally:
        container.remove()
    if tar.returncode != 0:
        raise RuntimeError(f"unpacking {tag} failed: tar ended with {tar.returncode}")


def _chunks(stream: Any) -> Iterator[bytes]:
    """The engine sends bytes, whatever the SDK's types say."""
    yield from stream


def _add_torch(target: Path) -> None:
    """torch for the Python of the rank image, read-only for all ranks of a host."""
    target.parent.mkdir(parents=True, exist_ok=True)
    wanted = [f"torch=={version('torch').partition('+')[0]}", f"numpy=={version('numpy')}"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target)]
    pip += ["--python-version", "3.11", "--only-binary=:all:"]
    subprocess.run([*pip, *wanted], check=True, stdin=subprocess.DEVNULL)
    for unused in ("include", "test"):
        shutil.rmtree(target / "torch" / unused, ignore_errors=True)


def _add_rank_image(client: DockerClient, archive: Path, shown: Shown) -> None:
    build_image(ImageRequest(tag=RANK_IMAGE, slim=True, distro=DISTRO), progress=shown)
    archive.parent.mkdir(parents=True)
    with archive.open("wb") as file:
        file.writelines(_chunks(client.images.get(RANK_IMAGE).save(named=RANK_IMAGE)))


def _add_identity(image: Image, root: Path) -> None:
    """Keys, names and mounts that are the same on every machine of the image."""
    for key in (image.key, image.host_key):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ddp-play-vm", "-f", str(key)]
        subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
    for name in ("ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"):
        source = image.host_key if not name.endswith("pub") else image.host_key.with_suffix(".pub")
        shutil.copy(source, root / "etc/ssh" / name)
    for home, owner in ((root / "root", 0), (root / "home/ops", OPS_UID)):
        (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        authorized = home / ".ssh" / "authorized_keys"
        shutil.copyfile(image.key.with_suffix(".pub"), authorized)
        for path in (home / ".ssh", authorized):
            os.chown(path, owner, owner)
    (root / "etc/hosts").write_text(HOSTS)
    (root / "etc/fstab").write_text(FSTAB)
    (root / "etc/machine-id").write_text("")
    for name in ("etc/hostname", ".dockerenv"):
        (root / name).unlink(missing_ok=True)
