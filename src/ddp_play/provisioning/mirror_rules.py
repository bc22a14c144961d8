"""Rules for the values of the mirror's variables: ddp_mirror_url and ROLE_mirror_url. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# plugins/filter/mirror.py has the same pattern for roles without this package; a unit test compares them.
HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?"
PATH = r"/[A-Za-z0-9._~%+/-]"
URL = re.compile(f"https?://{HOST}(?:{PATH}*)?|file://{PATH}+")


def mirror_problems(name: str, value: Any) -> Iterator[str]:
    """Reasons why the roles would refuse the URL of a mirror. No text contains a password."""
    if "@" in str(value):
        yield (
            f"{name} has a user name or a password, which every user of the hosts could read in the package sources: "
            "give a mirror that needs none"
        )
    elif str(value) and not URL.fullmatch(str(value)):
        yield f"{name} is {value!r}, but has to be of the form https://HOST/PATH, http://HOST/PATH or file:///PATH"
