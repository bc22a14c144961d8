"""Image distribution by archive: the controller saves the image once and sends it to hosts that lack it."""

from __future__ import annotations

import difflib
import json
import shlex
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound
from rich.filesize import decimal

from ddp_play.ansible.host_problems import problem_from_text
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.images.content_hash import fingerprint
from ddp_play.lab.base_image import has_image
from ddp_play.lab.docker_client import connect, engine_errors
from ddp_play.planning.refused_hosts import Refused, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from subprocess import CompletedProcess

    from docker.models.images import Image

    from ddp_play.images.ssh_access import HostAccess
    from ddp_play.lab.progress_listener import ProgressListener

_QUERY_WORKERS = 16
# Each transfer needs one core for ssh on the controller and one for unpacking on the host.
_SEND_WORKERS = 8
SSH_FAILED = 255  # exit status of ssh itself: the host was not reached


@dataclass(frozen=True)
class HostImage:
    """Image of one host; `error`: why the host could not be queried, or empty; `remedy`: what helps then.

    `digests`: names of the image in registries, REPOSITORY@sha256:...
    """

    host: str
    content: str = ""
    size_mib: int = 0
    digests: tuple[str, ...] = ()
    error: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class LoadResult:
    """Hosts to which the image was sent, and hosts that already had it."""

    content: str
    sent: tuple[str, ...]
    present: tuple[str, ...]


def load(image: str, hosts: Sequence[HostAccess], *, progress: ProgressListener) -> LoadResult:
    """Send `image` to every host that does not have its content. Raises HostNotReady with the failed hosts.

    A host that has it under another name only gets the name.
    """
    local = local_image(image)
    content = fingerprint(local.attrs)
    answers = query_all_hosts(image, hosts, progress=progress)
    lacking = [host for host, answer in zip(hosts, answers, strict=True) if answer.content != content]
    lacking = _without_named(local, image, lacking, progress=progress) if lacking else lacking
    if lacking:
        with saved(local, image, progress=progress) as archive:
            progress.step(f"sending {decimal(archive.stat().st_size)} to {', '.join(host.name for host in lacking)}")
            raise_failures(image, _send(archive, lacking, progress=progress))
        _verify(image, content, lacking)
    sent = {host.name for host in lacking}
    present = tuple(host.name for host in hosts if host.name not in sent)
    return LoadResult(content, tuple(host.name for host in lacking), present)


def _without_named(
    local: Image, image: str, hosts: Sequence[HostAccess], *, progress: ProgressListener
) -> list[HostAccess]:
    """Name the image on hosts that have its content under another name; return the other hosts.

    It is looked for by its id, so that a host with another image store is not found, and is sent the image.
    """
    work = partial(_name_one, image, str(local.id), fingerprint(local.attrs))
    named = [answer.host for answer in _in_parallel(work, hosts, workers=_QUERY_WORKERS) if answer.content]
    if named:
        progress.step(f"{', '.join(named)} had it under another name")
    return [host for host in hosts if host.name not in named]


def _name_one(image: str, image_id: str, content: str, host: HostAccess) -> HostImage:
    """The image with its content if the host has it by that id, and has given it the name; else without content."""
    if _query_host(image_id, host).content != content:
        return HostImage(host.name)
    done = host.run(remote_docker(f"image tag {shlex.quote(image_id)} {shlex.quote(image)}"))
    return HostImage(host.name, content if done.returncode == 0 else "")


def local_image(image: str, *, build: str = "") -> Image:
    """Image on the controller. Raises UsageError if it does not exist. `build`: the command that would build it."""
    client = connect()
    with engine_errors(f"inspect {image}"):
        try:
            return client.images.get(image)
        except ImageNotFound:
            known = [tag for row in client.api.images() for tag in row["RepoTags"] or ()]
    remedy = f"{build or f'ddp-play image build --tag {image}'}, or docker pull {image}"
    near = difflib.get_close_matches(image, known, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}? Otherwise {remedy}" if near else remedy
    raise UsageError(f"there is no image {image} on this machine", hint=hint)


def has_local_image(image: str) -> bool:
    """Whether the controller has the image. Raises HostNotReady if its engine does not answer."""
    return has_image(connect(), image)


@contextmanager
def saved(local: Image, image: str, *, progress: ProgressListener) -> Iterator[Path]:
    """Temporary archive of the image."""
    with tempfile.TemporaryDirectory(prefix="ddp-play-image-", dir="/var/tmp") as scratch:
        archive = Path(scratch) / "image.tar"
        progress.step(f"saving {image}")
        with engine_errors(f"save {image}"), archive.open("wb") as file:
            for chunk in local.save(named=image):
                file.write(chunk)
        yield archive


def query_all_hosts(image: str, hosts: Sequence[HostAccess], *, progress: ProgressListener) -> list[HostImage]:
    """Like `query_hosts`; raises HostNotReady if a host or its engine does not answer."""
    progress.step(f"querying {len(hosts)} hosts for {image}")
    answers = query_hosts(image, hosts)
    raise_failures(image, [answer for answer in answers if answer.error])
    return answers


def query_hosts(image: str, hosts: Sequence[HostAccess]) -> list[HostImage]:
    """Image of that name on each host, in the order of `hosts`."""
    return _in_parallel(partial(_query_host, image), hosts, workers=_QUERY_WORKERS)


def remote_docker(arguments: str) -> str:
    """Shell command that runs docker as the user, or with sudo if the user may not use the engine."""
    return f"if docker version >/dev/null 2>&1; then exec docker {arguments}; else exec sudo -n docker {arguments}; fi"


def _query_host(image: str, host: HostAccess) -> HostImage:
    result = host.run(remote_docker(f"image inspect {shlex.quote(image)}"))
    if result.returncode == 0:
        inspected: dict[str, Any] = json.loads(result.stdout)[0]
        size_mib = int(inspected.get("Size", 0)) >> 20
        return HostImage(host.name, fingerprint(inspected), size_mib, tuple(inspected.get("RepoDigests") or ()))
    return HostImage(host.name) if b"No such image" in result.stderr else _failed(host, result)


def _failed(host: HostAccess, result: CompletedProcess[bytes]) -> HostImage:
    """The last line of a failed command on the host, and the remedy for its text."""
    said = result.stderr.decode(errors="replace").strip() or f"exit {result.returncode}"
    reached = not host.argv or result.returncode != SSH_FAILED
    problem = problem_from_text(host.name, said, shlex.join(host.argv[1:]), reached=reached)
    return HostImage(host.name, error=said.splitlines()[-1], remedy=problem["hint"])


def _send(archive: Path, hosts: Sequence[HostAccess], *, progress: ProgressListener) -> list[HostImage]:
    answers = _in_parallel(partial(_send_one, archive, progress), hosts, workers=_SEND_WORKERS)
    return [answer for answer in answers if answer.error]


def _send_one(archive: Path, progress: ProgressListener, host: HostAccess) -> HostImage:
    with archive.open("rb") as file:
        result = host.run(remote_docker("load"), stdin=file)
    progress.detail(f"{host.name} has it" if result.returncode == 0 else f"{host.name} failed")
    return _failed(host, result) if result.returncode else HostImage(host.name)


def _verify(image: str, content: str, hosts: Sequence[HostAccess]) -> None:
    wrong = [answer for answer in query_hosts(image, hosts) if answer.content != content]
    raise_failures(image, [replace(w, error=w.error or f"holds {w.content or 'nothing'} after load") for w in wrong])


def raise_failures(image: str, failures: Sequence[HostImage]) -> None:
    """Raise HostNotReady with a line per failed host; do nothing if there is none."""
    if failures:
        lines, remedy = joined(Refused(row.host, row.error, row.remedy) for row in failures)
        message = f"{image} did not reach {len(failures)} hosts\n{textwrap.indent(lines, '  ')}"
        raise HostNotReady(message, hint=remedy, hosts=tuple(row.host for row in failures))


def _in_parallel(
    work: Callable[[HostAccess], HostImage], hosts: Sequence[HostAccess], *, workers: int
) -> list[HostImage]:
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, hosts))
