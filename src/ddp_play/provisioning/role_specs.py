"""Argument specs of the roles, and validation of a value against them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.provisioning.mirror_rules import mirror_problems
from ddp_play.provisioning.proxy_rules import masked, proxy_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

Option: TypeAlias = Mapping[str, Any]
Specs: TypeAlias = Mapping[str, Mapping[str, Option]]  # role -> variable -> option

# libyaml's loader reads all roles in 0.02 s, the one in Python in 0.15 s.
LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
# Host variable that the defaults of ROLE_touch_busy_hosts and similar variables read.
DISRUPT = "ddp_disrupt"
# Entry point of a role, and that of ddp_job (docs/decisions/0018-one-channel-per-host.md).
MAIN, JOB_ENTRY = "main", "run"
# Variable of the playbook reboot: how many hosts it reboots at the same time. In an inventory it has no effect.
REBOOT_SERIAL = "ddp_reboot_serial"
# Variables that the defaults of roles read: the HTTP proxy, what is reached without it, and the mirror of the vendors.
SITE_OPTIONS: dict[str, Option] = {
    "ddp_proxy": {"type": "str"},
    "ddp_no_proxy": {"type": "list", "elements": "str"},
    "ddp_mirror_url": {"type": "str"},
}
# Rules beyond the type, by the end of a variable's name.
MORE_RULES: Mapping[str, Callable[[str, Any], Iterator[str]]] = {
    "_proxy": proxy_problems,
    "_mirror_url": mirror_problems,
}
TRUE = ("true", "yes", "on", "y", "t", "1", "1.0")
FALSE = ("false", "no", "off", "n", "f", "0", "0.0")


def read_specs() -> dict[str, dict[str, Option]]:
    """Argument specs of all roles of the collection, of their main entry point."""
    found = {}
    for path in sorted((collection_root() / "roles").glob("*/meta/argument_specs.yml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)  # noqa: S506 - one of the two safe ones
        entries = document["argument_specs"]
        found[path.parents[1].name] = entries.get(MAIN, entries.get(JOB_ENTRY, {})).get("options", {})
    return found


def value_problems(name: str, option: Option, value: Any) -> tuple[str, ...]:
    """Reasons why Ansible or the role would reject the value; none for templates and vaulted values."""
    found = tuple(_problems(name, option, value))
    if found or _is_unresolved(value):
        return found
    return tuple(text for suffix, rule in MORE_RULES.items() if name.endswith(suffix) for text in rule(name, value))


def _problems(name: str, option: Option, value: Any) -> Iterator[str]:
    if _is_unresolved(value):
        return
    if value is None:
        yield f"{name} has no value; leave the line out, or write {_empty_value(option)}"
        return
    wanted = option.get("type", "str")
    if not TYPE_CHECKS[wanted](value):
        yield f"{name} is {_shown(value)}, but has to be {TYPE_NAMES[wanted]}"
        return
    yield from _choice_problems(name, option, value)
    if wanted == "list" and isinstance(value, list):
        element = {"type": option.get("elements", "raw"), "options": option.get("options")}
        for number, item in enumerate(value):
            yield from _problems(f"{name}[{number}]", element, item)
    elif wanted == "dict" and isinstance(value, dict) and option.get("options"):
        yield from _dict_problems(name, option["options"], value)


def _dict_problems(name: str, options: Mapping[str, Option], value: Mapping[str, Any]) -> Iterator[str]:
    for key in value:
        if key not in options:
            yield f"{name} has no {key}; its keys are {', '.join(sorted(options))}"
    for key, option in options.items():
        if key in value:
            yield from _problems(f"{name}.{key}", option, value[key])
        elif option.get("required"):
            yield f"{name} lacks {key}"


def _choice_problems(name: str, option: Option, value: Any) -> Iterator[str]:
    choices = [str(choice) for choice in option.get("choices") or ()]
    for item in value if isinstance(value, list) else [value]:
        if choices and not _is_unresolved(item) and str(item) not in choices and str(item).lower() not in choices:
            yield f"{name} is {_shown(item)}, but has to be one of {', '.join(choices)}"


def _is_unresolved(value: Any) -> bool:
    """Whether the value is known only after templating or decryption."""
    if isinstance(value, dict):
        return "__ansible_vault" in value
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def _empty_value(option: Option) -> str:
    return {"list": "[]", "dict": "{}", "str": '""', "path": '""'}.get(option.get("type", "str"), "a value")


def _shown(value: Any) -> str:
    text = masked(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_number(kind: type[int] | type[float]) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        if isinstance(value, bool) or (kind is int and isinstance(value, float) and not value.is_integer()):
            return False
        try:
            kind(value)
        except (TypeError, ValueError):
            return False
        return True

    return fits


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float)


TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "str": _is_text,
    "path": _is_text,
    "raw": lambda _: True,
    "bool": lambda value: isinstance(value, bool) or str(value).lower() in (*TRUE, *FALSE),
    "int": _is_number(int),
    "float": _is_number(float),
    "list": lambda value: isinstance(value, list | str | int | float),
    "dict": lambda value: (
        isinstance(value, dict) or (isinstance(value, str) and ("=" in value or value.startswith("{")))
    ),
}
TYPE_NAMES = {
    "str": "a text",
    "path": "a path",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "a mapping of names to values",
}
