"""`ddp-play init DIR`: files of a new site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddp_play.cli import console
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.provisioning.site_scaffold import write_site


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty directory.")],
) -> None:
    """Write a new site: an inventory with commented settings, a first job, a vault example, the next commands.

    [bold]Examples[/]

      ddp-play init cluster; cd cluster
    """
    with error_boundary():
        for path in write_site(directory):
            console.line(str(directory / path))
        console.note(f"next: put your hosts into {directory / 'inventory' / 'hosts.yml'}, then:")
        console.note(f"  cd {directory}; ddp-play inventory check -i inventory")
