"""HTTP proxy of a host: the environment of tasks that download, and the variables of the Docker engine."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Union

from ansible.errors import AnsibleError, AnsibleFilterError
from ansible_collections.ddp.play.plugins.module_utils.package_manager import UNDISTURBED
from jinja2 import TemplateError

# A port is required, because programs disagree on the default: 80, 1080 or 3128.
URL = re.compile(r"http://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}/?")
WORD = re.compile(r"[A-Za-z0-9._:/*\[\]-]+")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Of engines only, which compare addresses with networks; apt and curl compare texts.
PRIVATE_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")

Words = Union[str, Sequence[Any]]


def url_problem(url: Any) -> str:
    """Why this URL is refused; empty if it is not. The text never contains the URL, which may hold a password."""
    text = str(url)
    if not text or URL.fullmatch(text):
        return ""
    if "@" in text:
        return (
            "has a user name or a password, which would be visible in the process lists of the hosts: "
            "give a proxy that needs none, such as a forwarder that logs in"
        )
    return "is not of the form http://HOST:PORT"


def words(value: Words) -> List[str]:
    """Entries of a list, or of a text with commas."""
    rows = value.split(",") if isinstance(value, str) else value
    return [str(row).strip() for row in rows if str(row).strip()]


def _checked(url: Any, exceptions: Words) -> str:
    """The URL without a slash at its end. AnsibleFilterError if the URL or an exception is refused."""
    problem = url_problem(url)
    if problem:
        raise AnsibleFilterError("the URL of the HTTP proxy (ddp_proxy) %s" % problem)
    bad = [word for word in words(exceptions) if not WORD.fullmatch(word)]
    if bad:
        raise AnsibleFilterError("ddp_no_proxy has %r, which is no host, domain or network" % bad[0])
    return str(url).rstrip("/")


def _variables(url: str, exceptions: Sequence[str]) -> Dict[str, str]:
    """Names in lower case, because curl reads http_proxy in no other."""
    return {"http_proxy": url, "https_proxy": url, "no_proxy": ",".join(dict.fromkeys(exceptions))}


def environment(url: Any, exceptions: Words, hosts: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """Environment of a task that downloads; empty without a proxy.

    `exceptions`: ddp_no_proxy. `hosts`: hostvars of the whole inventory. Its hosts, NFS servers and the registry are
    reached without the proxy.
    """
    if not url:
        return {}
    proxy = _checked(url, exceptions)
    names = [word for host in hosts for word in _names_of(host, hosts[host]) if WORD.fullmatch(word)]
    return _variables(proxy, [*LOOPBACK, *words(exceptions), *names])


def package_environment(url: Any, exceptions: Words, hosts: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """Environment of a task that runs apt: that of a task that downloads, without restarts by needrestart."""
    return {**UNDISTURBED, **environment(url, exceptions, hosts)}


def _names_of(host: str, variables: Mapping[str, Any]) -> Iterator[str]:
    """Names and addresses of a host of the inventory and of the servers that it uses.

    Without those whose template cannot be evaluated for this host, which may be none of the play's.
    """
    yield host
    for read in (_address, _registry, _servers):
        try:
            found = [str(name) for name in read(variables) if name]
        except (AnsibleError, TemplateError):
            continue
        yield from found


def _address(variables: Mapping[str, Any]) -> List[Any]:
    return [variables.get("ansible_host")]


def _registry(variables: Mapping[str, Any]) -> List[Any]:
    return [variables.get("image_distribution_registry_address")]


def _servers(variables: Mapping[str, Any]) -> List[Any]:
    mounts = variables.get("nfs_client_mounts") or []
    return [mount.get("server") for mount in mounts if isinstance(mount, Mapping)]


def engine_variables(url: Any, exceptions: Words, registries: Words) -> Dict[str, str]:
    """Environment of the Docker engine; empty without a proxy.

    It does not depend on the other hosts of the inventory: otherwise every new host would restart all engines.
    """
    if not url:
        return {}
    proxy = _checked(url, exceptions)
    return _variables(proxy, [*LOOPBACK, *PRIVATE_NETWORKS, *words(exceptions), *words(registries)])


class FilterModule:
    """The filters by the names that the roles use."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name; Ansible adds the collection's name."""
        return {
            "proxy_environment": environment,
            "package_environment": package_environment,
            "proxy_engine_variables": engine_variables,
        }
