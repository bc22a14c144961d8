"""Zip file of `ddp_play.guard` for the hosts, and the Python loader that receives and starts it."""

from __future__ import annotations

import base64
import hashlib
import io
import shlex
import zipfile
import zlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GUARD = Path(str(files("ddp_play.guard")))

# Reads "<size> <sha256>\n" and then the zip from stdin, and no more: what follows is for the program in the zip.
# Stores the zip under its hash in a directory that only this user may write to, and executes it.
_LOADER = """
import os,sys
def r(n):
    b=b''
    while len(b)<n:
        c=os.read(0,n-len(b))
        if not c: sys.exit(71)
        b+=c
    return b
h=r(84).split()
d=os.environ.get('DDP_PLAY_HOST_DIR') or ('/var/lib/ddp-play' if os.geteuid()==0 else os.path.join(os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state'),'ddp-play','host'))
p=os.path.join(d,'guard-'+h[1].decode()[:16]+'.pyz')
b=r(int(h[0]))
try:
    os.makedirs(d,mode=0o700,exist_ok=True)
    s=os.stat(d)
    if s.st_uid!=os.geteuid() or s.st_mode&18: sys.exit('ddp-play does not use %s: others may write to it (owner: uid %d, mode %04o); chown it to this user and chmod 700 it'%(d,s.st_uid,s.st_mode&4095))
    if not os.path.exists(p):
        t=p+'.%d'%os.getpid()
        f=os.open(t,os.O_WRONLY|os.O_CREAT|os.O_EXCL,0o600)
        with os.fdopen(f,'wb') as o: o.write(b)
        os.replace(t,p)
except OSError as e:
    sys.exit('uid %d cannot keep the files of ddp-play in %s: %s. Run with become (-b), which keeps them in /var/lib/ddp-play, or set DDP_PLAY_HOST_DIR to another directory in the environment of this login (/etc/environment on the host)'%(os.geteuid(),d,e.strerror))
os.execv(sys.executable,[sys.executable,'-I','-S',p]+ARGUMENTS)
"""  # noqa: E501 - three statements of the loader
# What the host's python3 gets as its program. The loader is its argument, in base64.
_UNPACK = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.argv[1])))"


@cache
def program() -> bytes:
    """The zip file. The same sources give the same bytes."""
    return zipped({})


def zipped(replaced: Mapping[str, bytes]) -> bytes:
    """The zip file with other sources for some modules (`protocol.py`), as tests of mixed versions need it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(GUARD.glob("*.py")):
            _add(archive, f"guard/{path.name}", replaced.get(path.name) or path.read_bytes())
        _add(archive, "__main__.py", b"from guard.main import main\nmain()\n")
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


@cache
def preamble() -> bytes:
    """First bytes on the loader's stdin: a header of 84 bytes, then the zip."""
    zipped = program()
    header = f"{len(zipped)} {hashlib.sha256(zipped).hexdigest()}".ljust(83).encode() + b"\n"
    return header + zipped


def shell_command(python: str, *arguments: str) -> str:
    """The command line for a POSIX shell on the host. `python` empty: the first python3 there is.

    sshd gives the line to the user's login shell, whatever that is. csh and tcsh allow no line break between quotes and
    replace `!`, fish reads backslashes between quotes: the line has none of these, as the loader and the arguments
    are in base64.
    """
    loader = _LOADER.strip().replace("ARGUMENTS", ascii(list(arguments)))
    packed = base64.b64encode(zlib.compress(loader.encode(), 9)).decode()
    words = shlex.join(["-I", "-S", "-c", _UNPACK, packed])
    if python:
        return f"exec {shlex.quote(python)} {words}"
    return f'exec "$(command -v python3 || echo /usr/libexec/platform-python)" {words}'
