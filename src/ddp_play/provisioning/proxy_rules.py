"""Rules for the values of the HTTP proxy's variables: ddp_proxy, ROLE_proxy and ddp_no_proxy. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# plugins/filter/proxy.py has the same two patterns for roles without this package; a unit test compares them.
URL = re.compile(r"http://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}/?")
WORD = re.compile(r"[A-Za-z0-9._:/*\[\]-]+")
USERINFO = re.compile(r"(?<=://)[^\s/\"'@]*@")
NO_PROXY = "ddp_no_proxy"


def masked(text: str) -> str:
    """The text without user names and passwords of URLs."""
    return USERINFO.sub("***@", text)


def proxy_problems(name: str, value: Any) -> Iterator[str]:
    """Reasons why the roles would refuse the value of a proxy variable. No text contains a password."""
    if name == NO_PROXY:
        rows = value.split(",") if isinstance(value, str) else value
        bad = [row for row in rows if "{{" not in str(row) and not WORD.fullmatch(str(row).strip())]
        yield from (f"{name} has {masked(str(row))!r}, which is no host, domain or network" for row in bad)
    elif "@" in str(value):
        yield (
            f"{name} has a user name or a password, which would be visible in the process lists of the hosts: "
            "give a proxy that needs none, such as a forwarder that logs in"
        )
    elif str(value) and not URL.fullmatch(str(value)):
        yield f"{name} is {value!r}, but has to be of the form http://HOST:PORT"
