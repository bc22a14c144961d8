"""Env-file of a rank: a record of its environment that `docker run --env-file` can read."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ddp_play.ansible.installed_collection import collection_root

if TYPE_CHECKING:
    from pathlib import Path

    from jinja2 import Environment

    from ddp_play.planning.rank_environment import EnvVar

TEMPLATE = "rank.env.j2"


@cache
def _environment(root: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - most readers of a plan write none

    # no HTML escaping: it would change values
    return Environment(  # noqa: S701
        loader=FileSystemLoader(root / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )


def render_env_file(env: tuple[EnvVar, ...], *, rank: int, host: str, run_id: str) -> str:
    """One line per variable. Docker's env-files have no quoting: a value with a newline becomes a comment."""
    template = _environment(collection_root()).get_template(TEMPLATE)
    return template.render(env=env, rank=rank, host=host, run_id=run_id)
