"""Frame of all pages: one HTML file that needs nothing from a network, escapes everything, has one script at most."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ddp_play.report.shown_text import printable

FILES = Path(__file__).with_name("files")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def environment(*folders: Path) -> Environment:
    """Templates of the folders, which extend `page.html.j2`. All values are escaped."""
    return Environment(
        loader=FileSystemLoader([*folders, FILES]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=printable,
    )  # fmt: skip


def rendered(made: Environment, template: str, /, *, script: str = "", **values: Any) -> str:
    """The page. `script`: the name of a file next to the frame; the page's policy allows no other script."""
    text = (FILES / script).read_text(encoding="utf-8") if script else ""
    policy = f"{POLICY}; script-src '{_hash(text)}'" if text else POLICY
    # the hash is of the very bytes between the tags, so that the script may not be escaped; it is ours
    own = Markup(text)  # noqa: S704
    return made.get_template(template).render(policy=Markup(policy), script=own, **values)  # noqa: S704


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
