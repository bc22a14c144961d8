"""Environment of downloads through an HTTP proxy, and that of the Docker engine."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible_collections.ddp.play.plugins.filter import proxy
from jinja2 import UndefinedError

URL = "http://proxy.example.com:3128"
LOOPBACK = "localhost,127.0.0.1,::1"


class Broken(dict[str, Any]):
    """Variables of a host of which one has a template that fails, as Ansible evaluates it when it is used."""

    def __init__(self, error: Exception, **variables: Any) -> None:
        super().__init__(variables)
        self.error = error

    def get(self, key: str, default: Any = None) -> Any:
        if key == "ansible_host":
            raise self.error
        return super().get(key, default)


@pytest.mark.parametrize("url", ["", None])
def test_without_a_proxy_nothing_is_set_and_no_host_is_read(url: str | None) -> None:
    assert proxy.environment(url, ["x"], None) == {}
    assert proxy.engine_variables(url, ["x"], []) == {}


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ({}, ""),
        ({"gpu1": {"ansible_host": "10.1.0.1"}, "gpu2": {}}, ",gpu1,10.1.0.1,gpu2"),
        ({"10.1.0.1": {"ansible_host": "10.1.0.1"}}, ",10.1.0.1"),
        ({"a": {"nfs_client_mounts": [{"server": "nas"}, {"server": "fd00::5"}]}}, ",a,nas,fd00::5"),
        ({"a": {"image_distribution_registry_address": "10.1.0.9"}}, ",a,10.1.0.9"),
        ({"a": Broken(AnsibleError("a lookup failed"), nfs_client_mounts=[{"server": "nas"}])}, ",a,nas"),
        ({"a": Broken(UndefinedError("'x' is undefined")), "b": {}}, ",a,b"),
        ({"a host": {"ansible_host": "{{ x }}"}, "b": {}}, ",b"),
        ({"a": {"nfs_client_mounts": ["wrong"]}}, ",a"),
    ],
)
def test_hosts_of_the_inventory_and_their_servers_are_reached_without_it(hosts: Any, names: str) -> None:
    found = proxy.environment(URL, [], hosts)
    assert found == {"http_proxy": URL, "https_proxy": URL, "no_proxy": LOOPBACK + names}


@pytest.mark.parametrize("exceptions", [[".example.com", "10.0.0.0/8"], ".example.com, 10.0.0.0/8,"])
def test_exceptions_come_before_the_hosts(exceptions: Any) -> None:
    found = proxy.environment(f"{URL}/", exceptions, {"h1": {}})
    assert found["no_proxy"] == f"{LOOPBACK},.example.com,10.0.0.0/8,h1"
    assert found["https_proxy"] == URL


def test_the_engine_reaches_registries_and_private_addresses_without_it() -> None:
    found = proxy.engine_variables(URL, [".example.com"], ["r1:5000", ""])
    assert found["no_proxy"] == (f"{LOOPBACK},10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7,.example.com,r1:5000")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://ops:hunter2@proxy:3128", "user name or a password"),
        ("https://proxy:3128", "the form http://HOST:PORT"),
        ("http://proxy", "the form http://HOST:PORT"),
        ('http://proxy:1"', "the form http://HOST:PORT"),
    ],
)
def test_urls_that_are_refused(url: str, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words) as of_tasks:
        proxy.environment(url, [], {})
    with pytest.raises(AnsibleFilterError, match=words) as of_the_engine:
        proxy.engine_variables(url, [], [])
    assert "hunter2" not in str(of_tasks.value) + str(of_the_engine.value)


def test_an_exception_that_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="ddp_no_proxy has 'a b'"):
        proxy.environment(URL, ["a b"], {})


def test_tasks_that_run_apt_start_no_restarts_of_needrestart() -> None:
    found = proxy.package_environment("http://proxy:3128", [], {})
    quiet = {"NEEDRESTART_SUSPEND": "1", "NEEDRESTART_MODE": "l"}
    assert found == proxy.environment("http://proxy:3128", [], {}) | quiet
    assert proxy.package_environment("", [], {}) == quiet
