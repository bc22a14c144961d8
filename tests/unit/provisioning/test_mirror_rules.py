"""Values of the mirror's variables: which are refused, and that no message has a password."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.filter import mirror

from ddp_play.provisioning import mirror_rules


@pytest.mark.parametrize(
    "value", ["", "https://mirror.site.example", "http://10.1.0.5:8080/all/", "http://[fd00::5]", "file:///srv/mirror"]
)
def test_values_that_fit(value: str) -> None:
    assert list(mirror_rules.mirror_problems("ddp_mirror_url", value)) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("https://ops:hunter2@mirror.site.example", "ddp_mirror_url has a user name or a password"),
        ("ops:hunter2@mirror", "a user name or a password"),
        ("mirror.site.example", "ddp_mirror_url is 'mirror.site.example', but has to be of the form https://HOST/PATH"),
        ("/srv/mirror", "file:///PATH"),
        ("ftp://mirror", "the form"),
        ("https://mirror [trusted=yes]", "the form"),
    ],
)
def test_values_that_do_not(value: str, words: str) -> None:
    (found,) = mirror_rules.mirror_problems("ddp_mirror_url", value)
    assert words in found
    assert "hunter2" not in found


def test_roles_refuse_the_same_values() -> None:
    """The filter works without this package, so it has the pattern too."""
    assert mirror.URL.pattern == mirror_rules.URL.pattern
