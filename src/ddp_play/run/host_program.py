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
# Stores the zip under its hash in the state directory, which a module of the zip chooses, and executes it. w adds the
# byte code of this Python, a .pyc beside each .py, marked as valid without a look at the source (PEP 552): else every
# process of the program, several per run, compiles all sources anew.
_LOADER = """
import importlib.util,io,marshal,os,sys,zipfile
def r(n):
    b=b''
    while len(b)<n:
        c=os.read(0,n-len(b))
        if not c: sys.exit(71)
        b+=c
    return b
h=r(84).split()
b=r(int(h[0]))
z=zipfile.ZipFile(io.BytesIO(b))
def w(o):
    with zipfile.ZipFile(o,'w') as y:
        for i in z.namelist():
            s=z.read(i)
            y.writestr(zipfile.ZipInfo(i),s)
            if i=='__main__.py': continue
            c=marshal.dumps(compile(s,p+'/'+i,'exec',0,True))
            y.writestr(zipfile.ZipInfo(i+'c'),m+b'\\1'+bytes(11)+c)
if GIVEN: os.environ['DDP_PLAY_STATE_DIR']=GIVEN
n={'__name__':'state_directory'}
m=importlib.util.MAGIC_NUMBER
exec(z.read('guard/state_directory.py'),n)
try:
    d=n['create']()
    p=os.path.join(d,'guard-'+h[1].decode()[:16]+m[:2].hex()+'.pyz')
    if not os.path.exists(p):
        a=io.BytesIO()
        w(a)
        t=p+'.%d'%os.getpid()
        f=os.open(t,os.O_WRONLY|os.O_CREAT|os.O_EXCL,0o600)
        with os.fdopen(f,'wb') as o: o.write(a.getvalue())
        os.replace(t,p)
except n['UnusableError'] as e: sys.exit(str(e))
except OSError as e: sys.exit(n['problem'](d,e))
os.execv(sys.executable,[sys.executable,'-I','-S',p]+ARGUMENTS)
"""
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


def shell_command(python: str, *arguments: str, state_dir: str = "") -> str:
    """The command line for a POSIX shell on the host. `python` empty: the first python3 there is.

    `state_dir`: the host variable ddp_state_dir; empty: the program chooses a directory.

    sshd gives the line to the user's login shell, whatever that is. csh and tcsh allow no line break between quotes and
    replace `!`, fish reads backslashes between quotes: the line has none of these, as the loader and the arguments
    are in base64.
    """
    loader = _LOADER.strip().replace("GIVEN", ascii(state_dir)).replace("ARGUMENTS", ascii(list(arguments)))
    packed = base64.b64encode(zlib.compress(loader.encode(), 9)).decode()
    words = shlex.join(["-I", "-S", "-c", _UNPACK, packed])
    if python:
        return f"exec {shlex.quote(python)} {words}"
    return f'exec "$(command -v python3 || echo /usr/libexec/platform-python)" {words}'
