"""Addresses of vendors on a mirror: the layout, and which mirrors are refused."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.ddp.play.plugins.filter import mirror

VENDOR = "https://download.example.com/linux/debian"


@pytest.mark.parametrize(
    ("url", "where", "found"),
    [
        (VENDOR, "", VENDOR),
        (VENDOR, None, VENDOR),
        (VENDOR, "https://mirror.site.example", "https://mirror.site.example/download.example.com/linux/debian"),
        (VENDOR, "https://mirror.site.example/", "https://mirror.site.example/download.example.com/linux/debian"),
        (VENDOR, "http://10.1.0.5:8080/all//", "http://10.1.0.5:8080/all/download.example.com/linux/debian"),
        (VENDOR, "http://[fd00::5]:8080", "http://[fd00::5]:8080/download.example.com/linux/debian"),
        (VENDOR, "file:///srv/mirror", "file:///srv/mirror/download.example.com/linux/debian"),
        ("http://a.example.com/x/", "https://m.example.com/v/", "https://m.example.com/v/a.example.com/x/"),
    ],
)
def test_the_address_of_a_vendor_follows_that_of_the_mirror(url: str, where: str | None, found: str) -> None:
    assert mirror.mirrored(url, where) == found


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("https://ops:hunter2@mirror.site.example", "has a user name or a password"),
        ("https://ops@mirror.site.example/x", "has a user name or a password"),
        ("ops:hunter2@mirror.site.example", "has a user name or a password"),
        ("mirror.site.example", "is not of the form https://HOST/PATH"),
        ("ftp://mirror.site.example", "is not of the form"),
        ("file://srv/mirror", "is not of the form"),
        ("file:srv/mirror", "is not of the form"),
        ("file:///", "is not of the form"),
        ("https://mirror~x", "is not of the form"),
        ("/srv/mirror", "is not of the form"),
        ("https://", "is not of the form"),
        ("https:///mirror", "is not of the form"),
        ("https://mirror.site.example/?x=1", "is not of the form"),
        ("https://mirror.site.example/#x", "is not of the form"),
        ("https://mirror.site.example [trusted=yes]", "is not of the form"),
        ("https://mirror.site.example\nTrusted: yes", "is not of the form"),
        ("https://mirror.site.example\n", "is not of the form"),
        (" ", "is not of the form"),
    ],
)
def test_what_is_refused_is_not_shown(where: str, words: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        mirror.mirrored(VENDOR, where)
    assert words in str(caught.value)
    assert "ddp_mirror_url" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_roles_find_the_filter() -> None:
    assert mirror.FilterModule().filters() == {"mirrored": mirror.mirrored}
