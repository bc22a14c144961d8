"""Wheels for an image: what pip would install, found out on the controller, and their download."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import requests
from packaging.utils import canonicalize_name

from ddp_play.bundle.paths import make_directory
from ddp_play.errors import HostNotReady
from ddp_play.images.recipe import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddp_play.lab.progress_listener import ProgressListener

_SIZE_TIMEOUT_S = 5
_SIZE_WORKERS = 8
# Distributions that only builds of torch for CUDA need.
_CUDA_NAMES = re.compile(r"nvidia-|cuda-|triton$")
_RAW_PROGRESS = (24, 1)  # first pip with machine-readable progress
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_FILE = re.compile(r"\s*(?:Downloading|Processing|Using cached) (\S+)")
_BROKEN = re.compile(r"after connection broken by '(.*)': \S+$")


@dataclass(frozen=True)
class Wheel:
    """A distribution that pip would install. `direct`: its URL, if a requirement names one; `size`: bytes, if known."""

    name: str
    version: str
    url: str
    direct: str = ""
    size: int | None = None

    @property
    def pin(self) -> str:
        """Requirement of exactly this distribution."""
        return f"{self.name} @ {self.direct}" if self.direct else f"{self.name}=={self.version}"

    @property
    def filename(self) -> str:
        """Name of the file that pip downloads."""
        return unquote(urlsplit(self.url).path.rpartition("/")[2])


@dataclass(frozen=True)
class PipSource:
    """Where wheels come from: pip's configured index or a directory; `python`: version that they are for."""

    python: str
    wheelhouse: str = ""

    @property
    def same_python(self) -> bool:
        """Whether the controller has this version, so that it can also build wheels from sources."""
        return self.python == f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def options(self) -> list[str]:
        """Options of pip."""
        found = ["--disable-pip-version-check", "--no-input"]
        if self.wheelhouse:
            found += ["--no-index", "--find-links", str(Path(self.wheelhouse).absolute())]
        if not self.same_python:
            found += ["--only-binary=:all:", "--python-version", self.python]
        return found


def resolve(wanted: Sequence[str], source: PipSource, *, constraints: Iterable[str] = ()) -> tuple[Wheel, ...]:
    """What pip would install for these arguments into an empty environment. Raises HostNotReady with pip's reason."""
    if not wanted:
        return ()
    with tempfile.TemporaryDirectory(prefix="ddp-play-pip-") as scratch:
        report, pins = Path(scratch, "report.json"), Path(scratch, "constraints.txt")
        pins.write_text("".join(f"{pin}\n" for pin in constraints), encoding="utf-8")
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        argv += ["--report", str(report), "--target", str(Path(scratch, "none")), "--constraint", str(pins)]
        done = subprocess.run(
            [*argv, *source.options, *wanted],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise _pip_error(wanted, source, done.stderr)
        return with_sizes(read_report(json.loads(report.read_text(encoding="utf-8"))))


def read_report(report: dict[str, Any]) -> tuple[Wheel, ...]:
    """Distributions in the document of `pip install --report`."""
    found = []
    for row in report["install"]:
        info = row["download_info"]
        vcs = info.get("vcs_info")
        url = f"{vcs['vcs']}+{info['url']}@{vcs['commit_id']}" if vcs else info["url"]
        direct = url if row.get("is_direct") else ""
        found.append(Wheel(row["metadata"]["name"], row["metadata"]["version"], info["url"], direct))
    return tuple(found)


def with_sizes(wheels: Sequence[Wheel]) -> tuple[Wheel, ...]:
    """The wheels with the sizes of their files, as far as they can be found out without downloading them."""
    with ThreadPoolExecutor(_SIZE_WORKERS) as pool:
        sizes = list(pool.map(_size, (wheel.url for wheel in wheels)))
    return tuple(
        Wheel(wheel.name, wheel.version, wheel.url, wheel.direct, size)
        for wheel, size in zip(wheels, sizes, strict=True)
    )


def device_of(wheels: Iterable[Wheel]) -> Device:
    """Kind of the torch among the wheels; ANY if there is none."""
    named: dict[str, str] = {canonicalize_name(wheel.name): wheel.version for wheel in wheels}
    if "torch" not in named:
        return Device.ANY
    cuda = "+cu" in named["torch"] or any(_CUDA_NAMES.match(name) for name in named)
    return Device.CUDA if cuda else Device.CPU


def download(wheels: Sequence[Wheel], source: PipSource, target: Path, *, progress: ProgressListener) -> list[Path]:
    """Files of the wheels in `target`, downloaded or built as far as they are not there. Raises HostNotReady."""
    make_directory(target)
    missing = missing_from(target, wheels)
    if missing:
        _run_pip(missing, source, target, progress=progress)
    return [_file_of(wheel, target) for wheel in wheels]


def missing_from(target: Path, wheels: Iterable[Wheel]) -> list[Wheel]:
    """Wheels whose files are not in `target`."""
    return [wheel for wheel in wheels if wheel.direct or not (target / wheel.filename).is_file()]


def _run_pip(wheels: Sequence[Wheel], source: PipSource, target: Path, *, progress: ProgressListener) -> None:
    argv = [sys.executable, "-m", "pip"]
    # `pip wheel` also builds wheels from sources; it cannot do so for another Python.
    argv += ["wheel", "--wheel-dir", str(target)] if source.same_python else ["download", "--dest", str(target)]
    pip_version = tuple(int(part) for part in version("pip").split(".")[:2] if part.isdigit())
    argv += ["--no-deps", "--progress-bar", "raw" if pip_version >= _RAW_PROGRESS else "off"]
    names = [wheel.pin for wheel in wheels]
    errors: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        [*argv, *source.options, *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        shown = ""
        for line in process.stdout or ():
            errors.append(line.rstrip())
            if found := _FILE.match(line):
                shown = found[1].rpartition("/")[2]
                progress.detail(shown)
            elif moved := _PROGRESS.match(line):
                progress.detail(f"{shown} {int(moved[1]) / 1e6:.0f} of {int(moved[2]) / 1e6:.0f} MB")
    if process.returncode != 0:
        raise _pip_error(names, source, "\n".join(errors))


def _file_of(wheel: Wheel, target: Path) -> Path:
    exact = target / wheel.filename
    if wheel.filename.endswith(".whl") and exact.is_file():
        return exact
    # built from sources: names of files have underscores for every other separator
    stem = canonicalize_name(wheel.name).replace("-", "_")
    built = [path for path in target.glob("*.whl") if path.name.lower().startswith(f"{stem}-{wheel.version}-")]
    if not built:
        raise HostNotReady(f"pip made no wheel of {wheel.pin} in {target}")
    return max(built, key=lambda path: path.stat().st_mtime)


def _size(url: str) -> int | None:
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(unquote(parts.path)).stat().st_size
        certificates = os.environ.get("PIP_CERT") or True
        answer = requests.head(url, allow_redirects=True, timeout=_SIZE_TIMEOUT_S, verify=certificates)
        return int(answer.headers["Content-Length"]) if answer.ok else None
    except (OSError, KeyError, ValueError):
        return None


def reason_of(output: str) -> str:
    """pip's own reason in its output, without what it prints of its retries."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reasons = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    broken = next((found[1] for line in reversed(lines) if (found := _BROKEN.search(line))), "")
    if broken:
        reasons = [f"its index cannot be reached: {broken}"]
    return "\n".join(f"  {reason}" for reason in dict.fromkeys(reasons or lines[-4:]))


def _pip_error(wanted: Sequence[str], source: PipSource, output: str) -> HostNotReady:
    names = " ".join(wanted)
    where = f"in {source.wheelhouse}" if source.wheelhouse else "in its index"
    hint = "correct the name or the version"
    reason = reason_of(output)
    if "cannot be reached" in reason:
        hint = (
            "set PIP_INDEX_URL to an index that this machine reaches, and repeat the command; a directory of wheels:"
            " ddp-play image build --wheelhouse DIR"
        )
    return HostNotReady(f"pip does not find {names} for Python {source.python} {where}:\n{reason}", hint=hint)
