"""First code on a host: finds the program there, or stores the one that was sent, and runs it in this process.

It travels on the command line, with what it imports of `state_directory` (`host_program.loader`), and reads stdin: size
and hash of a zip file in 84 bytes, then the zip. The program is kept as one file of byte code: a zip of sources would
be compiled anew by every process, and several per run and host start.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
import zlib

from .state_directory import GIVEN, OF_ROOT, named, usual

# Names for annotations only: `typing` would cost every process its import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Dict, Optional, Tuple

FIRST_BYTES = 84  # on stdin; versions before this one read the same
HEADER_BYTES, CHECKSUM_BYTES = 16, 4  # of a .pyc file


def start() -> None:
    """Receive the program and run it with the verb and the arguments of the command line."""
    size, digest = receive(FIRST_BYTES).split()
    sent = receive(int(size))
    arguments = sys.argv[3:4]  # the word before the verb names this program in a list of processes
    if len(sys.argv) > 4:
        import json

        given, *more = json.loads(zlib.decompress(bytes.fromhex(sys.argv[4])))
        arguments += more
        if given:
            os.environ[GIVEN] = given
    name = file_name(digest.decode())
    path = os.path.join(usual(), name)
    code = stored(path) if is_own_place() else None
    if code is None:
        path, code = provide(name, sent)
    sys.argv = [path, *arguments]
    exec(code, {"__name__": "__main__"})  # noqa: S102 - the controller's own program


def is_own_place() -> bool:
    """Whether the usual directory is used and is below this user's own: then its files need no look at who made it."""
    if named()[0]:
        return False
    state = os.environ.get("XDG_STATE_HOME", "")
    own = state if os.path.isabs(state) else os.path.expanduser("~")
    above = os.path.dirname(OF_ROOT) if os.geteuid() == 0 else own
    try:
        return os.stat(above).st_uid == os.geteuid()
    except OSError:
        return False


def provide(name: str, sent: bytes) -> Tuple[str, CodeType]:
    """Path and code of the program in a directory that the sent module has chosen, created and checked.

    SystemExit if none can be used.
    """
    place: Dict[str, Any] = {"__name__": "state_directory"}
    exec(member(sent, b"guard/state_directory.py"), place)  # noqa: S102
    try:
        directory = place["create"]()
    except place["UnusableError"] as error:
        sys.exit(str(error))
    path = os.path.join(directory, name)
    code = stored(path)
    if code is None:
        built = build(sent)
        try:
            write(path, built)
        except OSError as error:
            sys.exit(place["problem"](directory, error))
        code = marshal.loads(built[HEADER_BYTES:])  # noqa: S302
    return path, code


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


def member(sent: bytes, name: bytes) -> bytes:
    """A file in a zip file, without the import of zipfile, which costs 6 ms."""
    import struct

    at, size, found = 0, 0, b""
    while found != name:
        at += size
        method, size, *lengths = struct.unpack_from("<8xH8xI4x2H", sent, at)  # APPNOTE.TXT 4.3.7: local file header
        found, at = sent[at + 30 : at + 30 + lengths[0]], at + 30 + sum(lengths)
    return zlib.decompress(sent[at : at + size], -15) if method else sent[at : at + size]


def build(sent: bytes) -> bytes:
    """A .pyc file for this Python: byte code and sources of all modules, and then the start of the program."""
    import importlib.util
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(sent)) as archive:
        sources = {name: archive.read(name) for name in archive.namelist()}
    modules = {module_of(name): (name, text) for name, text in sources.items() if name != "__main__.py"}
    code = {module: marshal.dumps(compile(text, name, "exec", 0, True)) for module, (name, text) in modules.items()}
    # No zip file: Python would take a file that ends with one for a program of its own.
    packed = zlib.compress(marshal.dumps({module: text for module, (_, text) in modules.items()}))
    text = sources["guard/stored_modules.py"].decode()
    text += "sys.meta_path.insert(0, StoredModules(%r, %r))\n" % (code, packed) + sources["__main__.py"].decode()
    unchecked = b"\1" + bytes(11)  # PEP 552: never compared with a source
    file = importlib.util.MAGIC_NUMBER + unchecked + marshal.dumps(compile(text, "guard", "exec", 0, True))
    return file + zlib.crc32(file).to_bytes(CHECKSUM_BYTES, "big")


def module_of(name: str) -> str:
    """Name of the module in a file of the zip: guard for guard/__init__.py, guard.main for guard/main.py."""
    module = name[: -len(".py")].replace("/", ".")
    return module[: -len(".__init__")] if module.endswith(".__init__") else module


def write(path: str, built: bytes) -> None:
    """Write the program's file in one step. Raises OSError."""
    temporary = "%s.%s" % (path, os.urandom(8).hex())
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(built)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
