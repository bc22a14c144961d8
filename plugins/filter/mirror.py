"""Addresses of vendors on the site's mirror, which keeps each of them under its own host name."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict

from ansible.errors import AnsibleFilterError

# What it becomes stands on one line of a package source, so nothing else may be in it.
HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?"
PATH = r"/[A-Za-z0-9._~%+/-]"
URL = re.compile(f"https?://{HOST}(?:{PATH}*)?|file://{PATH}+")


def url_problem(url: Any) -> str:
    """Why this URL of a mirror is refused; empty: it is not. The text never has the URL: it may hold a password."""
    text = str(url)
    if URL.fullmatch(text):
        return ""
    if "@" in text:
        return (
            "has a user name or a password, which every user of the hosts could read in the package sources: "
            "give a mirror that needs none"
        )
    return "is not of the form https://HOST/PATH, http://HOST/PATH or file:///PATH"


def mirrored(url: str, mirror: Any) -> str:
    """https://HOST/PATH as MIRROR/HOST/PATH; unchanged if `mirror` is empty."""
    if not mirror:
        return url
    problem = url_problem(mirror)
    if problem:
        raise AnsibleFilterError("the URL of the mirror (ddp_mirror_url) %s" % problem)
    return "%s/%s" % (str(mirror).rstrip("/"), url.split("://", 1)[1])


class FilterModule:
    """The filter by the name that the roles use."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filter by name; Ansible adds the collection's name."""
        return {"mirrored": mirrored}
