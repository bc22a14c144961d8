"""`ddp-play image`: build of the rank image, its distribution to hosts, and the list of the hosts' images."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.next_commands import ddp_play
from ddp_play.cli.password_prompt import ask_passwords
from ddp_play.cli.progress_display import progress
from ddp_play.errors import UsageError
from ddp_play.images.archive import HostImage, has_local_image, local_image, query_hosts
from ddp_play.images.archive import load as load_archive
from ddp_play.images.build import BuiltImage, build_image
from ddp_play.images.recipe import DEFAULT_TAG, Device, ImageRequest, Kind, build_words, parse_extra, request_of
from ddp_play.images.registry import RegistryRequest, RegistryResult, distribute_by_registry
from ddp_play.images.ssh_access import HostAccess, resolve
from ddp_play.lab.spec import Distro
from ddp_play.planning.refused_hosts import Refused, joined
from ddp_play.planning.remedy_text import Asked, complete

app = typer.Typer(no_args_is_help=True, help="The image of the ranks: build it and distribute it to the hosts.")

Inventory = Annotated[str, typer.Option("--inventory", "-i", help="Inventory of the hosts.")]
Limit = Annotated[str, typer.Option("--limit", "-l", help="Only these hosts.")]
Extra = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="REQUIREMENT", help="Package to add, as pip names it, or -r FILE. Can be repeated."),
]
Wheelhouse = Annotated[
    str, typer.Option("--wheelhouse", metavar="DIR", help="Take wheels from there, not from pip's index.")
]
BuildKind = Annotated[Kind | None, typer.Option("--build", help="Build the image if the controller does not have it.")]
Image = Annotated[str, typer.Option("--image", help="Name and tag of the image.")]
KINDS = {
    Kind.CPU: "torch for CPUs, from pip, on Debian (1.1 GB, some minutes)",
    Kind.CUDA: "torch for GPUs, PyTorch's image from its registry (several GB)",
    Kind.SLIM: "Python without torch, for an environment on a shared directory (0.13 GB)",
}


class Method(StrEnum):
    """How an image is transferred to the hosts."""

    ARCHIVE = "archive"
    REGISTRY = "registry"


@app.command()
def build(
    files: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    cpu: Annotated[bool, typer.Option("--cpu", help="torch for CPUs, from pip, on Debian: no registry.")] = False,
    cuda: Annotated[bool, typer.Option("--cuda", help="torch for GPUs (default): PyTorch's image.")] = False,
    base: Annotated[str, typer.Option("--base", help="Image with torch to start from (PyTorch's, NGC's).")] = "",
    offline: Annotated[bool, typer.Option("--offline", help="No registry: torch from pip, on Debian.")] = False,
    slim: Annotated[bool, typer.Option("--slim", help="Python without torch, for a shared environment.")] = False,
    with_: Extra = None,
    wheelhouse: Wheelhouse = "",
    tag: Annotated[str, typer.Option("--tag", help="Name and tag of the new image.")] = "",
    distro: Annotated[Distro, typer.Option("--distro", help="Debian of --cpu, --offline, --slim.")] = Distro.BOOKWORM,
    torch: Annotated[
        str, typer.Option("--torch", help="Version of torch from pip; by default the controller's, or the tested one.")
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Build the rank image on the controller and print its tag and size.

    What pip does not find is said before anything is built.

    [bold]Examples[/]

      ddp-play image build --cpu

      ddp-play image build --cpu --with mpi4py --with mpich --tag train:1.0

      ddp-play image build --with -r requirements.txt
    """
    with error_boundary():
        extra, device = parse_extra(with_ or [], files or []), _device(cpu=cpu, cuda=cuda)
        _build(ImageRequest(tag, base, offline, slim, distro, torch, device, extra, wheelhouse), as_json=as_json)


@app.command()
def load(
    inventory: Inventory,
    *,
    image: Image = DEFAULT_TAG,
    limit: Limit = "",
    method: Annotated[Method, typer.Option("--method", help="How to transfer the image.")] = Method.ARCHIVE,
    tls: Annotated[bool, typer.Option("--tls/--no-tls", help="Whether the registry uses TLS.")] = True,
    build_kind: BuildKind = None,
    ask_become_pass: options.AskBecomePass = False,
    as_json: options.Json = False,
) -> None:
    """Copy the controller's image to every host that does not have the same content.

    archive: send the whole image to each host over SSH. registry: send it once to a registry on one host, from which
    the other hosts pull the layers that they lack; this needs sudo on the hosts (docs/images.md). If the controller
    does not have the image, it is built with --build, or after a question on a terminal.

    [bold]Examples[/]

      ddp-play image load -i inventory --image train:1.0

      ddp-play image load -i inventory --build cpu

      ddp-play image load -i inventory --image train:1.0 --method registry
    """
    with error_boundary():
        hosts = resolve(inventory, limit)
        _build_if_missing(image, build_kind, may_ask=not as_json)
        if method is Method.ARCHIVE:
            _load_archive(image, hosts, as_json=as_json)
            return
        request = options.Ansible().request(str(collection_root() / "playbooks" / "provision.yml"), [inventory])
        passwords = ask_passwords(connection=False, become=ask_become_pass)
        with progress(f"image {image}") as listener:
            served = distribute_by_registry(
                RegistryRequest(image, request, limit, tls), hosts, passwords, AnsibleRunner(), progress=listener
            )
        _report_served(image, served, tls=tls, as_json=as_json)


@app.command("list")
def list_images(
    inventory: Inventory,
    *,
    image: Image = DEFAULT_TAG,
    limit: Limit = "",
    as_json: options.Json = False,
) -> None:
    """Show the content of the image on each host; exit 1 if it is missing or differs between hosts."""
    with error_boundary():
        answers = query_hosts(image, resolve(inventory, limit))
        if as_json:
            console.as_json({"image": image, "hosts": [vars(answer) for answer in answers]})
        else:
            _print_table(answers)
            for text in _remedies(answers, inventory):
                console.line(f"-> {text}")
        if len({answer.content for answer in answers}) > 1 or not all(answer.content for answer in answers):
            raise typer.Exit(1)


def _build(request: ImageRequest, *, as_json: bool) -> None:
    with progress("rank image") as listener:
        built = build_image(request, progress=listener)
    if as_json:
        console.as_json(built.as_dict())
        return
    _print_built(built)
    console.note(f"next: {ddp_play('image', 'load', '--image', built.image, '-i')} INVENTORY")


def _load_archive(image: str, hosts: list[HostAccess], *, as_json: bool) -> None:
    with progress(f"image {image}") as listener:
        result = load_archive(image, hosts, progress=listener)
    _report_load(_loaded(image, result.content, result.sent, result.present), as_json=as_json)


def _report_served(image: str, served: RegistryResult, *, tls: bool, as_json: bool) -> None:
    answer = _loaded(image, served.content, served.pulled, served.present)
    _report_load({**answer, "reference": served.reference, "registry": served.registry.host}, as_json=as_json)
    if tls and not as_json:
        console.note(f"in a job: ddp_job_image: {served.reference}")


def _device(*, cpu: bool, cuda: bool) -> Device:
    if cpu and cuda:
        raise UsageError("--cpu and --cuda exclude each other")
    return Device.CPU if cpu else Device.CUDA if cuda else Device.ANY


def _print_built(built: BuiltImage) -> None:
    what = ", ".join(part for part in (built.torch and f"torch {built.torch}", *built.added) if part)
    console.line(built.image)
    console.line(f"{decimal(built.size_bytes)}{f' with {what}' if what else ''}")


def _build_if_missing(image: str, kind: Kind | None, *, may_ask: bool) -> None:
    """Build an image that the controller does not have, if that was requested or a person agrees. Raises UsageError."""
    if has_local_image(image):
        return
    if kind is None:
        kind = _ask_kind(image) if may_ask and console.asks() else None
    if kind is None:
        command = (
            f"{ddp_play(*build_words(Kind.CPU, image))} (or --cuda, --slim; or repeat the command with --build cpu)"
        )
        local_image(image, build=command)
        return
    with progress(f"image {image}") as listener:
        _print_built(build_image(request_of(kind, image), progress=listener))


def _ask_kind(image: str) -> Kind | None:
    """Ask which image to build; None if none is wanted."""
    console.note(f"There is no image {image} on this machine. It can be built now:", style="bold")
    for kind, text in KINDS.items():
        console.note(f"  {kind:5} {text}", style="")
    answer = typer.prompt("cpu, cuda, slim, or no", default="no", err=True).strip().lower()
    return Kind(answer) if answer in set(Kind) else None


def _loaded(image: str, content: str, sent: tuple[str, ...], present: tuple[str, ...]) -> dict[str, object]:
    return {"image": image, "content": content, "sent": list(sent), "present": list(present)}


def _report_load(answer: dict[str, Any], *, as_json: bool) -> None:
    """Print the result of `image load`; `reference` and `registry` are there if a registry was used."""
    if as_json:
        console.as_json({"reference": "", "registry": "", **answer})
        return
    how = "pulled by" if "reference" in answer else "sent to"
    counts = f"{how} {counted(len(answer['sent']), 'host')}, {counted(len(answer['present']), 'host')} already had it"
    console.line(f"{answer['image']} ({answer['content']}): {counts}")
    if "reference" in answer:
        console.line(f"{answer['reference']} on all of them, from the registry on {answer['registry']}")


def _print_table(answers: list[HostImage]) -> None:
    table = Table("host", "content", "MiB", "in registries", box=None)
    for answer in answers:
        content = answer.error or answer.content or "absent"
        references = "\n".join(_short_reference(name) for name in answer.digests)
        table.add_row(*map(escape, (answer.host, content, str(answer.size_mib or ""), references)))
    console.wide_table(table)


def _remedies(answers: list[HostImage], inventory: str) -> list[str]:
    """What helps where hosts could not be asked."""
    _, remedy = joined(Refused(answer.host, answer.error, answer.remedy) for answer in answers if answer.error)
    return complete(remedy, Asked((inventory,))).splitlines()


def _short_reference(reference: str) -> str:
    """registry/name@sha256:... shortened to the first 12 digits of the digest."""
    name, _, digest = reference.partition("@")
    return f"{name}@{digest[:19]}"
