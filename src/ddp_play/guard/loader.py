"""First code on a host: finds the program there, or stores the one that was sent, and runs it in this process.

The controller sends this file before the program, so it imports no other module of it. The program is kept as one file
of byte code: a zip of sources would be compiled anew by every process, and several per run and host start.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
import zlib

# Names for annotations only: `typing` would cost every process its import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import List, Optional, Tuple

OF_ROOT = "/var/lib/ddp-play"
GIVEN = "DDP_PLAY_STATE_DIR"  # from the host variable ddp_state_dir
OF_HOST = "DDP_PLAY_HOST_DIR"  # for tests: a directory that also stands for a host of its own
HINT = "set ddp_state_dir for the host to a directory on a local disk, for example /scratch/USER/ddp-play"
PROBLEM = "uid %d cannot keep the files of ddp-play in %s: %s. Run with become (-b), which keeps them in %s, or %s"
HEADER_BYTES, CHECKSUM_BYTES = 16, 4
# Ends the file's text.
START = """
sys.meta_path.insert(0, StoredModules(CODE, SOURCES))
from guard.main import main
main()
"""


def named() -> Tuple[str, str]:
    """(name of the variable, value) that names the state directory; empty if none does."""
    for variable, name in ((GIVEN, "ddp_state_dir"), (OF_HOST, OF_HOST)):
        if value := os.environ.get(variable):
            return name, os.path.expanduser(value)
    return "", ""


def usual() -> str:
    """Where the state is unless that is not local: it survives a reboot, so that `gc` finds leftovers."""
    if os.geteuid() == 0:
        return OF_ROOT
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "ddp-play", "host")


def start(header: List[bytes]) -> None:
    """Receive the program and run it with the arguments of the command line. `header`: `host_program.framed`."""
    sent = receive(int(header[1]))
    arguments = sys.argv[2:3]  # the word before it names this program in a list of processes
    if len(sys.argv) > 3:
        import json

        given, *more = json.loads(zlib.decompress(bytes.fromhex(sys.argv[3])))
        arguments += more
        if given:
            os.environ[GIVEN] = given
    name = file_name(header[2].decode())
    path = os.path.join(usual(), name)
    code = stored(path) if is_own_place() else None
    if code is None:
        path = os.path.join(checked_directory(sent), name)
        code = stored(path) or marshal.loads(store(path, sent)[HEADER_BYTES:])  # noqa: S302
    sys.argv = [path, *arguments]
    exec(code, {"__name__": "__main__"})  # noqa: S102 - the controller's own program


def is_own_place() -> bool:
    """Whether the usual directory is used and is below this user's own: then its files need no look at who made it."""
    if named()[0]:
        return False
    above = (
        os.path.dirname(OF_ROOT) if os.geteuid() == 0 else os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~")
    )
    try:
        return os.stat(above).st_uid == os.geteuid()
    except OSError:
        return False


def checked_directory(sent: bytes) -> str:
    """The state directory, chosen, created and checked by the module that was sent. SystemExit if none can be used."""
    import io
    import types
    import zipfile

    names = ("guard", "guard.loader", "guard.state_directory")
    with zipfile.ZipFile(io.BytesIO(sent)) as archive:
        for name in names:
            module = sys.modules[name] = types.ModuleType(name)
            module.__package__ = "guard"
            module.__path__ = []
            file = "guard/__init__.py" if name == "guard" else name.replace(".", "/") + ".py"
            exec(compile(archive.read(file), file, "exec", 0, True), module.__dict__)  # noqa: S102
    try:
        return str(module.__dict__["create"]())
    except module.__dict__["UnusableError"] as error:
        sys.exit(str(error))
    finally:
        for name in names:
            del sys.modules[name]


def file_name(digest: str) -> str:
    """Name of the stored program: by the hash of the zip file and the version of Python that compiled it."""
    return "guard-%s-%s-%x.pyc" % (digest[:16], sys.implementation.cache_tag, sys.hexversion)


def receive(size: int) -> bytes:
    """The next bytes of stdin and no more. SystemExit 71 if it ends before."""
    parts = []
    while size:
        parts.append(os.read(0, size) or sys.exit(71))
        size -= len(parts[-1])
    return b"".join(parts)


def stored(path: str) -> Optional[CodeType]:
    """The program in a file that only this user can have written; None if there is none, or it is not whole."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o177:
                return None
            data = file.read()
    except OSError:
        return None
    if (
        len(data) <= HEADER_BYTES + CHECKSUM_BYTES
        or zlib.crc32(data[:-CHECKSUM_BYTES]).to_bytes(CHECKSUM_BYTES, "big") != data[-CHECKSUM_BYTES:]
    ):
        return None
    return marshal.loads(data[HEADER_BYTES:])  # type: ignore[no-any-return] # noqa: S302 - this user's own file


def build(sent: bytes) -> bytes:
    """A .pyc file for this Python with the byte code and the sources of all modules in a zip file."""
    import importlib.util
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(sent)) as archive:
        sources = {name: archive.read(name) for name in archive.namelist()}
    code = {module_of(name): marshal.dumps(compile(text, name, "exec", 0, True)) for name, text in sources.items()}
    # No zip file: Python would take a file that ends with one for a program of its own.
    packed = zlib.compress(marshal.dumps({module_of(name): text for name, text in sources.items()}))
    text = sources["guard/stored_modules.py"].decode() + "CODE = %r\nSOURCES = %r\n" % (code, packed) + START
    unchecked = b"\1" + bytes(11)  # PEP 552: never compared with a source
    file = importlib.util.MAGIC_NUMBER + unchecked + marshal.dumps(compile(text, "guard", "exec", 0, True))
    return file + zlib.crc32(file).to_bytes(CHECKSUM_BYTES, "big")


def module_of(name: str) -> str:
    """Name of the module in a file of the zip: guard for guard/__init__.py, guard.main for guard/main.py."""
    module = name[: -len(".py")].replace("/", ".")
    return module[: -len(".__init__")] if module.endswith(".__init__") else module


def store(path: str, sent: bytes) -> bytes:
    """Write the program's file, and return its content. SystemExit with the reason if that cannot be."""
    built, temporary = build(sent), "%s.%s" % (path, os.urandom(8).hex())
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(built)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        sys.exit(PROBLEM % (os.geteuid(), os.path.dirname(path), error.strerror, OF_ROOT, HINT))
    return built
