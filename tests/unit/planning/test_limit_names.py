"""Names of --limit that an inventory does not have, in all forms of Ansible's patterns."""

from __future__ import annotations

import pytest
from ansible.inventory.manager import split_host_pattern

from ddp_play.errors import UsageError
from ddp_play.planning.limit_names import limit_terms, refuse_unknown_names, unknown_names

GROUPS = ("all", "ungrouped", "ranks", "gpu", "empty")
HOSTS = ("gpu01", "gpu02", "gpu03", "node.example", "fe80::1", "2001:db8::7")
FILES = {"limit.txt": ["gpu01", "", "  gpu02 "], "wrong.txt": ["gpu01", "gpu1"]}


@pytest.mark.parametrize(
    "limit",
    [
        *("a", "a,b , c", "a:b", "a:&b:!c", "a:b:c:d", "gpu[0:3]", "gpu[0:3]:b", "gpu[0-3]:&b[1]", "a,gpu[0:3]"),
        *("~gpu0[1-3]", "~gpu0[1-3]:b", "~(a|b).*:!c", "gpu*", "gpu0?:b*", "@hosts.txt", "@a:@b", "@a,b"),
        *("fe80::1", "[fe80::1]", "[fe80::1]:22", "fe80::1,a", "2001:db8::7,!a", "::1", "a:22", "10.0.0.1:22", "1:2:3"),
        *("fe80::1:a", " a : b ", ",", "a,,b", "a::b"),
    ],
)
def test_terms_are_those_of_ansible(limit: str) -> None:
    assert limit_terms(limit) == [term for term in split_host_pattern(limit) if term]


@pytest.mark.parametrize(
    ("limit", "unknown"),
    [
        ("gpu01", []),
        ("ranks:&gpu:!gpu02", []),
        ("gpu01:gpu02:gpu03", []),
        ("gpu[0:3]", []),
        ("gpu[-1]", []),
        ("gpu*", []),
        ("~gpu0[12]", []),
        ("~(", []),
        ("fe80::1", []),
        ("2001:db8::7,!gpu01", []),
        ("all:!gpu01", []),
        ("empty", []),
        ("localhost", []),
        ("ranks:spares", []),
        ("@limit.txt", []),
        ("@missing.txt", []),
        ("gpu1", ["gpu1"]),
        ("gpu01:gpu1:gpu2", ["gpu1", "gpu2"]),
        ("gpu01:&rank", ["rank"]),
        ("ranks:!gpu1", ["gpu1"]),
        ("gpus[0:3]", ["gpus[0:3]"]),
        ("gpu0[12]", ["gpu0[12]"]),  # the thirteenth host of a group gpu0
        ("cpu*", ["cpu*"]),
        ("~cpu.*", ["~cpu.*"]),
        ("fe80::2", ["fe80::2"]),
        ("gpu01:22", ["gpu01:22"]),
        ("@wrong.txt,gpu1", ["gpu1"]),
    ],
)
def test_names_that_the_inventory_does_not_have(limit: str, unknown: list[str]) -> None:
    assert unknown_names(limit, GROUPS, HOSTS, lambda name: FILES.get(name, [])) == unknown


@pytest.mark.parametrize(
    ("limit", "message", "hint"),
    [
        ("GPU01", "--limit: 'GPU01' is no host and no group of the inventory", "did you mean gpu01"),
        ("gpu01:rnks", "--limit: 'rnks' is no host and no group of the inventory", "did you mean ranks?"),
        ("xx:yy", "'xx', 'yy' are no hosts and no groups", "groups: ranks, gpu, empty; hosts: gpu01, gpu02, gpu03"),
    ],
)
def test_the_refusal_names_what_is_near(limit: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as found:
        refuse_unknown_names(limit, GROUPS, HOSTS, lambda _name: [])
    assert message in found.value.message
    assert hint in found.value.hint


def test_a_limit_of_known_names_is_not_refused() -> None:
    refuse_unknown_names("ranks:&gpu0*", GROUPS, HOSTS, lambda _name: [])
