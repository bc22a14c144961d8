"""Values of the proxy's variables: which are refused, and that no message has a password."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import proxy

from ddp_play.provisioning import proxy_rules

URL = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ddp_proxy", ""),
        ("ddp_proxy", URL),
        ("base_os_proxy", "http://10.0.0.1:3128/"),
        ("ddp_proxy", "http://[fd00::1]:3128"),
        ("ddp_no_proxy", []),
        ("ddp_no_proxy", "localhost, .example.com"),
        ("ddp_no_proxy", ["10.0.0.0/8", "[fd00::1]:5000", "{{ mirror }}"]),
    ],
)
def test_values_that_fit(name: str, value: Any) -> None:
    assert list(proxy_rules.proxy_problems(name, value)) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ddp_proxy", "proxy.example.com:3128", "the form http://HOST:PORT"),
        ("ddp_proxy", "http://proxy.example.com", "the form http://HOST:PORT"),
        ("ddp_proxy", "https://proxy.example.com:443", "the form http://HOST:PORT"),
        ("ddp_proxy", "http://p:1; id", "the form http://HOST:PORT"),
        ("docker_engine_proxy", "http://ops:hunter2@p:1", "docker_engine_proxy has a user name or a password"),
        ("ddp_proxy", "http://ops@p:1", "a user name or a password"),
        ("ddp_proxy", "ops:hunter2@p:1", "a user name or a password"),
        ("ddp_no_proxy", ["a b"], "ddp_no_proxy has 'a b'"),
        ("ddp_no_proxy", ['x" "http_proxy=y'], "no host, domain or network"),
        ("ddp_no_proxy", ["http://ops:hunter2@mirror/"], "no host, domain or network"),
    ],
)
def test_values_that_do_not(name: str, value: Any, words: str) -> None:
    (found,) = proxy_rules.proxy_problems(name, value)
    assert words in found
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (URL, URL),
        ('["http://ops:hunter2@p:1", "x"]', '["http://***@p:1", "x"]'),
        ("mail ops@example.com about http://p:1", "mail ops@example.com about http://p:1"),
    ],
)
def test_masked(text: str, shown: str) -> None:
    assert proxy_rules.masked(text) == shown


def test_roles_refuse_the_same_values() -> None:
    """The filter works without this package, so it has the patterns too."""
    assert proxy.URL.pattern == proxy_rules.URL.pattern
    assert proxy.WORD.pattern == proxy_rules.WORD.pattern
