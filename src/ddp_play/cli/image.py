"""`ddp-play image`: build of the rank image, its distribution to hosts, and the list of the hosts' images."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.progress_display import progress
from ddp_play.images.archive import HostImage, query_hosts
from ddp_play.images.archive import load as load_archive
from ddp_play.images.build import build_image
from ddp_play.images.recipe import DEFAULT_TAG, ImageRequest
from ddp_play.images.registry import RegistryRequest, distribute_by_registry
from ddp_play.images.ssh_access import resolve
from ddp_play.lab.spec import Distro

app = typer.Typer(no_args_is_help=True, help="The image of the ranks: build it and distribute it to the hosts.")

Inventory = Annotated[str, typer.Option("--inventory", "-i", help="Inventory of the hosts.")]
Limit = Annotated[str, typer.Option("--limit", "-l", help="Only these hosts.")]
Image = Annotated[str, typer.Option("--image", help="Name and tag of the image.")]


class Method(StrEnum):
    """How an image is transferred to the hosts."""

    ARCHIVE = "archive"
    REGISTRY = "registry"


@app.command()
def build(
    *,
    base: Annotated[str, typer.Option("--base", help="Image with torch to start from (PyTorch's, NGC's).")] = "",
    offline: Annotated[bool, typer.Option("--offline", help="No registry: Debian plus wheels from pip.")] = False,
    slim: Annotated[bool, typer.Option("--slim", help="Python without torch, for a shared environment.")] = False,
    tag: Annotated[str, typer.Option("--tag", help="Name and tag of the new image.")] = "",
    distro: Annotated[Distro, typer.Option("--distro", help="Debian of --offline and --slim.")] = Distro.BOOKWORM,
    torch: Annotated[
        str, typer.Option("--torch", help="torch version for --offline; by default the controller's.")
    ] = "",
) -> None:
    """Build the rank image on the controller and print its tag."""
    with error_boundary():
        request = ImageRequest(tag=tag, base=base, offline=offline, slim=slim, distro=distro, torch=torch)
        with progress("rank image") as listener:
            built = build_image(request, progress=listener)
        console.line(built)
        console.note(f"next: ddp-play image load --image {built} -i INVENTORY")


@app.command()
def load(
    inventory: Inventory,
    *,
    image: Image = DEFAULT_TAG,
    limit: Limit = "",
    method: Annotated[Method, typer.Option("--method", help="How to transfer the image.")] = Method.ARCHIVE,
    tls: Annotated[bool, typer.Option("--tls/--no-tls", help="Whether the registry uses TLS.")] = True,
    ask_become_pass: options.AskBecomePass = False,
) -> None:
    """Copy the controller's image to every host that does not have the same content.

    archive: send the whole image to each host over SSH. registry: send it once to a registry on
    one host, from which the other hosts pull the layers that they lack; this needs sudo on the
    hosts (docs/images.md).

    [bold]Examples[/]

      ddp-play image load -i inventory --image train:1.0

      ddp-play image load -i inventory --image train:1.0 --method registry
    """
    with error_boundary():
        hosts = resolve(inventory, limit)
        if method is Method.ARCHIVE:
            with progress(f"image {image}") as listener:
                result = load_archive(image, hosts, progress=listener)
            counts = _counts("sent to", len(result.sent), len(result.present))
            console.line(f"{image} ({result.content}): {counts}")
            return
        request = options.Ansible().request(str(collection_root() / "playbooks" / "provision.yml"), [inventory])
        passwords = options.ask_passwords(connection=False, become=ask_become_pass)
        with progress(f"image {image}") as listener:
            served = distribute_by_registry(
                RegistryRequest(image, request, limit, tls), hosts, passwords, AnsibleRunner(), progress=listener
            )
        counts = _counts("pulled by", len(served.pulled), len(served.present))
        console.line(f"{image} ({served.content}): {counts}")
        console.line(f"{served.reference} on all of them, from the registry on {served.registry.host}")
        if tls:
            console.note(f"in a job: ddp_job_image: {served.reference}")


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
        if len({answer.content for answer in answers}) > 1 or not all(answer.content for answer in answers):
            raise typer.Exit(1)


def _counts(how: str, num_new: int, num_present: int) -> str:
    return f"{how} {counted(num_new, 'host')}, {counted(num_present, 'host')} already had it"


def _print_table(answers: list[HostImage]) -> None:
    table = Table("host", "content", "MiB", "in registries", box=None)
    for answer in answers:
        content = answer.error or answer.content or "absent"
        table.add_row(
            answer.host,
            content,
            str(answer.size_mib or ""),
            "\n".join(_short_reference(name) for name in answer.digests),
        )
    console.out.print(table)


def _short_reference(reference: str) -> str:
    """registry/name@sha256:... shortened to the first 12 digits of the digest."""
    name, _, digest = reference.partition("@")
    return f"{name}@{digest[:19]}"
