"""Directory of this user's state on this host: on a local file system, and safe from other users.

The loader executes this file alone, before the program is stored, so it imports no other module of the guard.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

# Types in /proc/self/mountinfo that are local. Sources: filesystems(5), and what coreutils' stat.c marks as local.
LOCAL = frozenset((
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "fuseblk",
    "tmpfs", "ramfs", "rootfs", "overlay", "aufs", "fuse.fuse-overlayfs",
))  # fmt: skip
# Types that hosts share: others see the same files, locks are emulated or missing, a stalled server blocks the guard.
# Sources: what coreutils' stat.c marks as remote, statfs(2), the vendors' mount commands.
NETWORK = frozenset((
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs", "panfs",
    "wekafs", "dvs", "orangefs", "pvfs2", "gfs2", "ocfs2", "acfs", "snfs", "9p", "virtiofs", "vboxsf", "autofs",
))  # fmt: skip
# Types in statfs(2), for mounts above the root directory of this process, which mountinfo does not list.
MAGIC = {
    0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x2FC12FC1: "zfs", 0xF2F52010: "f2fs",
    0x01021994: "tmpfs", 0x794C7630: "overlay", 0x6969: "nfs", 0x517B: "smbfs", 0xFE534D42: "smb3", 0xFF534D42: "cifs",
    0x00C36400: "ceph", 0x0BD00BD0: "lustre", 0x47504653: "gpfs", 0x19830326: "beegfs", 0xAAD7AAEA: "panfs",
    0x5346414F: "afs", 0x73757245: "coda", 0x01161970: "gfs2", 0x7461636F: "ocfs2", 0x01021997: "9p",
    0x65735546: "fuse",
}  # fmt: skip
MOUNTINFO = "/proc/self/mountinfo"
TEMPORARY = "/var/tmp"
OF_ROOT = "/var/lib/ddp-play"
GIVEN = "DDP_PLAY_STATE_DIR"  # from the host variable ddp_state_dir, by the loader
OF_HOST = "DDP_PLAY_HOST_DIR"  # for tests: a directory that also stands for a host of its own
HINT = "set ddp_state_dir for the host to a directory on a local disk, for example /scratch/USER/ddp-play"
LOCK_S = 5.0


class UnusableError(Exception):
    """No directory can be used; the text says why and what to set."""


class Mount(NamedTuple):
    """File system of a path: its type, and the device or the server's path."""

    kind: str
    source: str

    def __str__(self) -> str:
        return "%s (%s)" % (self.kind, self.source) if self.source else self.kind

    @property
    def local(self) -> bool:
        """Whether this type is known as local."""
        return self.kind in LOCAL

    @property
    def remote(self) -> bool:
        """Whether this type is known as one that hosts share; FUSE is, with the exceptions of LOCAL."""
        return self.kind in NETWORK or (not self.local and self.kind.partition(".")[0] == "fuse")


class Choice(NamedTuple):
    """The state directory. `reason`: why it is not the usual one; empty if it is."""

    path: str
    mount: Mount
    reason: str = ""


def mount_of(path: str) -> Mount:
    """File system of `path`, or of the nearest directory above it that exists."""
    if (fd := _open_nearest(path)) is None:
        return Mount("unknown", "")
    try:
        return _listed(fd) or Mount(_statfs_kind(fd), "")
    finally:
        os.close(fd)


def _open_nearest(path: str) -> Optional[int]:
    while True:
        try:
            return os.open(path + "/.", os.O_PATH | os.O_CLOEXEC)  # through the directory, which mounts an automount
        except (FileNotFoundError, NotADirectoryError):
            if path in ("/", ""):
                return None
            path = os.path.dirname(path)
        except OSError:  # a server that does not know the directory any more
            return None


def _listed(fd: int) -> Optional[Mount]:
    """The mount of an open directory, by the kernel's number of it; None if mountinfo does not list it."""
    with contextlib.suppress(OSError):
        with open("/proc/self/fdinfo/%d" % fd) as info:
            numbers = [line.split()[1] for line in info if line.startswith("mnt_id:")]
        with open(MOUNTINFO, errors="surrogateescape") as mounts:
            for line in mounts:
                if line.split(None, 1)[0] in numbers:
                    words = line.partition(" - ")[2].split()
                    return Mount(words[0], words[1])
    return None


def _statfs_kind(fd: int) -> str:
    import ctypes

    found = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None).fstatfs(fd, found):
        return "unknown"
    magic = int.from_bytes(found.raw[:4], "little")
    return MAGIC.get(magic, "unknown type 0x%x" % magic)


def usual() -> str:
    """Where the state is unless that is not local: it survives a reboot, so that `gc` finds leftovers."""
    if os.geteuid() == 0:
        return OF_ROOT
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # unset, or to be ignored: the XDG Base Directory Specification
        state = os.path.expanduser("~/.local/state")
    return os.path.join(state, "ddp-play", "host")


def earlier() -> str:
    """The usual directory, if versions before the check for network file systems have used it; else empty."""
    return "" if named()[0] or mount_of(usual()).local or not os.path.isdir(usual()) else usual()


def named() -> Tuple[str, str]:
    """(name of the variable, value) that names the state directory; empty if none does."""
    for variable, name in ((GIVEN, "ddp_state_dir"), (OF_HOST, OF_HOST)):
        if value := os.environ.get(variable):
            return name, os.path.expanduser(value)
    return "", ""


def choose() -> Choice:
    """The named directory, else the usual one, else one of this user in /var/tmp, which this call creates.

    Raises UnusableError if no local directory is left, and OSError.
    """
    name, path = named()
    if name:
        return _check_named(name, path)
    path = usual()
    mount = mount_of(path)
    if mount.local:
        return Choice(path, mount)
    why = "%s is on %s, which is not local" % (path, mount)
    instead = mount_of(TEMPORARY)
    if not instead.local or not protected(TEMPORARY):
        raise UnusableError(
            "no local directory for the files of ddp-play: %s, and %s cannot be used (%s). To run here, %s"
            % (why, TEMPORARY, instead, HINT)
        )
    return Choice(own_directory(TEMPORARY), instead, why)


def _check_named(name: str, path: str) -> Choice:
    if not os.path.isabs(path):
        raise UnusableError("%s is %s: it must be an absolute path. To run here, %s" % (name, path, HINT))
    mount = mount_of(path)
    if mount.remote:
        raise UnusableError(
            "%s is %s, which is on %s: the files of ddp-play must be on a local file system, because other hosts would "
            "take them for theirs. To run here, %s" % (name, path, mount, HINT)
        )
    return Choice(path, mount)


def create() -> str:
    """Choose the state directory, create it and check who may change it. Raises UnusableError."""
    path = ""
    try:
        path = choose().path
        _check_way(path)
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
    except OSError as error:
        raise UnusableError(problem(path or TEMPORARY, error)) from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UnusableError(
            "ddp-play does not use %s: others may write to it (%s); chown it to this user and chmod 700 it"
            % (path, _whose(found))
        )
    return path


def problem(path: str, error: OSError) -> str:
    """Message that files cannot be written to the state directory."""
    words = "uid %d cannot keep the files of ddp-play in %s: %s. Run with become (-b), which keeps them in %s, or %s"
    return words % (os.geteuid(), path, error.strerror, OF_ROOT, HINT)


def _check_way(path: str) -> None:
    """Refuse a path where another user could replace a directory. Raises UnusableError and OSError."""
    for at in _ancestors(path):
        try:
            found = os.lstat(at)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode):
            if found.st_uid not in (0, os.geteuid()):
                raise UnusableError(
                    "ddp-play does not use %s: %s is a symbolic link of uid %d. To run here, %s"
                    % (path, at, found.st_uid, HINT)
                )
            _check_way(os.path.realpath(at))
        elif at not in ("/", path) and not _keeps(found):
            raise UnusableError(
                "ddp-play does not use %s: others may replace what is in %s (%s). To run here, %s"
                % (path, at, _whose(found), HINT)
            )


def _whose(found: os.stat_result) -> str:
    return "owner: uid %d, mode %04o" % (found.st_uid, stat.S_IMODE(found.st_mode))


def _ancestors(path: str) -> List[str]:
    """The path and the directories above it, the root first."""
    above = os.path.dirname(path)
    return [path] if above == path else [*_ancestors(above), path]


def _keeps(found: os.stat_result) -> bool:
    """Whether only root and this user can rename what this user has in this directory."""
    open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.geteuid()) and not open_to_all


def protected(parent: str) -> bool:
    """Whether users cannot rename each other's entries in this directory."""
    with contextlib.suppress(OSError):
        found = os.stat(parent)
        return bool(found.st_mode & stat.S_ISVTX) or not found.st_mode & 0o022
    return False


def own_directory(parent: str) -> str:
    """Directory of this user in a directory where every user can create names; created if missing. Raises OSError.

    Nobody can redirect it, because its owner is checked without following a link. Nobody can block it: if another user
    has taken its name, it gets one that nobody can guess, and is found again by its owner.
    """
    path = os.path.join(parent, "ddp-play-%d" % os.geteuid())
    with _one_at_a_time(parent):
        if found := find_own(parent):
            return found
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            import tempfile

            return tempfile.mkdtemp(prefix=os.path.basename(path) + ".", dir=parent)
        return path


def find_own(parent: str) -> str:
    """The directory that `own_directory` has created, the same for every process; empty if there is none."""
    return max(all_own(parent), default="")  # one with a secret name first: somebody had taken the other name


def all_own(parent: str) -> List[str]:
    """Every directory that `find_own` may choose from."""
    name, found = "ddp-play-%d" % os.geteuid(), []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name == name or entry.name.startswith(name + "."):
                with contextlib.suppress(FileNotFoundError):  # another user removed it meanwhile
                    found += [entry.path] if is_own(os.lstat(entry.path)) else []
    return found


def is_own(found: os.stat_result) -> bool:
    """Whether this is a directory of this user that no other user may write to."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


@contextlib.contextmanager
def _one_at_a_time(parent: str) -> Iterator[None]:
    """Lock `parent`, so that two processes do not create two directories. Whoever keeps it can only delay."""
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        os.close(fd)
