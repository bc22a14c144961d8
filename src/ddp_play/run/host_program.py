"""Zip file of `ddp_play.guard` that is sent to the hosts, and the line of Python that starts it."""

from __future__ import annotations

import hashlib
import io
import shlex
import zipfile
from functools import cache
from importlib.resources import files
from pathlib import Path

GUARD = Path(str(files("ddp_play.guard")))

# Reads "<size> <sha256>\n" and then the zip from stdin, byte by byte exact, so that what follows stays unread;
# keeps it by its hash in the user's own directory, where nobody else may write, and becomes it.
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
os.makedirs(d,mode=0o700,exist_ok=True)
s=os.stat(d)
if s.st_uid!=os.geteuid() or s.st_mode&18: sys.exit('ddp-play runs nothing from %s: others may write there (owner: uid %d, mode %04o); make it ours alone or remove it'%(d,s.st_uid,s.st_mode&4095))
p=os.path.join(d,'guard-'+h[1].decode()[:16]+'.pyz')
b=r(int(h[0]))
if not os.path.exists(p):
    t=p+'.%d'%os.getpid()
    f=os.open(t,os.O_WRONLY|os.O_CREAT|os.O_EXCL,0o600)
    with os.fdopen(f,'wb') as o: o.write(b)
    os.replace(t,p)
os.execv(sys.executable,[sys.executable,'-I','-S',p]+sys.argv[1:])
"""  # noqa: E501 - two statements of the loader


@cache
def program() -> bytes:
    """The zip, the same bytes for the same sources."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(GUARD.glob("*.py")):
            _add(archive, f"guard/{path.name}", path.read_bytes())
        _add(archive, "__main__.py", b"from guard.main import main\nmain()\n")
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


@cache
def preamble() -> bytes:
    """What the loader reads from its stdin before anything else: 84 bytes of header and the zip."""
    zipped = program()
    header = f"{len(zipped)} {hashlib.sha256(zipped).hexdigest()}".ljust(83).encode() + b"\n"
    return header + zipped


def shell_command(python: str, *arguments: str) -> str:
    """The command line for a POSIX shell on the host. `python` empty: the first python3 there is."""
    words = shlex.join(["-I", "-S", "-c", _LOADER.strip(), *arguments])
    if python:
        return f"exec {shlex.quote(python)} {words}"
    return f'exec "$(command -v python3 || echo /usr/libexec/platform-python)" {words}'
