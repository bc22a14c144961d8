"""Commands in remedies, with the inventory, the login and the run of the failed command in the place of words. Pure."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE = re.compile(r" -i INVENTORY\b")
RUN = re.compile(r"(ddp-play [a-z]+\b[^;,|\n]*?) RUN\b")
VERB = re.compile(r"(ddp-play [a-z]+|ansible-inventory)\b")
# Without them a command that is copied may not read the inventory, or not log in.
OF_LOGIN = ("--user", "--private-key", "--vault-password-file", "--vault-id")
WITHOUT_LOGIN = ("image", "session")
OF_VAULT = ("ansible-inventory", "ddp-play inventory")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the failed command was about. `inventory`: None if it is not known, empty if ansible.cfg names it."""

    inventory: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()  # of ansible-playbook, as a request has them
    run: str = ""

    @classmethod
    def from_run(cls, document: Mapping[str, Any]) -> Asked:
        """From a run.json; ansible-playbook leaves no request there."""
        request = document.get("request") or {}
        inventory = tuple(request["inventory"]) if "inventory" in request else None
        return cls(inventory, tuple(request.get("options") or ()), str(document.get("id") or ""))


def complete(text: str, asked: Asked) -> str:
    """The text with commands that can be copied: `-i INVENTORY` and RUN become what `asked` has."""
    if asked.run:
        text = RUN.sub(lambda match: f"{match[1]} {asked.run}", text)
    if asked.inventory is None:
        return text
    sources = "".join(f" -i {shlex.quote(source)}" for source in asked.inventory)

    def options(match: re.Match[str]) -> str:
        verbs = VERB.findall(text, 0, match.start())
        return sources + _login(asked.options, verbs[-1] if verbs else "")

    return PLACE.sub(options, text)


def _login(options: tuple[str, ...], verb: str) -> str:
    if verb.removeprefix("ddp-play ") in WITHOUT_LOGIN:
        return ""
    kept = [name for name in OF_LOGIN if verb not in OF_VAULT or name.startswith("--vault")]
    pairs = [pair for pair in itertools.pairwise(options) if pair[0] in kept]
    return "".join(f" {name} {shlex.quote(value)}" for name, value in pairs)
