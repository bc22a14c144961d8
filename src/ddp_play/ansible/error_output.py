"""Error in the output of an Ansible program that ended before it ran anything. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# ansible-core 2.19 and newer, and older ones.
MARKS = ("[ERROR]", "ERROR!")
MAX_LINES = 12
ORIGIN = re.compile(r"^Origin: (/.+?):(\d+):\d+$", re.MULTILINE)
AT = re.compile(r"(/.+?):(\d+):\d+: ")  # as `unparsed_inventory` writes it
NO_HOSTS = (
    "ansible-inventory --graph -i INVENTORY shows the groups: `hosts` of the play and --limit have to match hosts"
)
PING = "ansible all -i INVENTORY -m ping shows what Ansible says of each host"
# Text of an error before any task -> remedy.
START_REMEDIES = (
    ("leaves us with no hosts to target", NO_HOSTS),
    ("vault password file", "correct --vault-password-file: the file has to exist and to hold the vault's password"),
    ("the role 'ddp", "the role of a job is ddp.play.ddp_job: correct its name in the playbook"),
    ("the role '", "correct the role's name, or put the role into roles/ next to the playbook"),
)
# no password was given, or a wrong one
VAULT_FAILURE = re.compile(r"no vault secrets (?:found|were found)|Decryption failed")
# The error of an inventory names its file only; the reason and the line are in a warning of one of the plugins tried.
UNPARSED = ("Completely failed to parse inventory", "Unable to parse ")
YAML_FAILURE = re.compile(r"^(YAML parsing failed: .+)\nOrigin: (/.+:\d+:\d+)$", re.MULTILINE)


def error_text(output: str) -> str:
    """The first error and the lines after it, without the warnings before it; the last lines if none is marked."""
    if broken := unparsed_inventory(output):
        return broken
    lines = output.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith(MARKS)), None)
    if first is None:
        return "\n".join([line for line in lines if not line.startswith("[WARNING]")][-MAX_LINES:])
    return "\n".join(lines[first : first + MAX_LINES])


def unparsed_inventory(output: str) -> str:
    """File, line, column and reason if an inventory is no valid YAML; else empty."""
    found = YAML_FAILURE.search(output) if any(words in output for words in UNPARSED) else None
    return f"{found[2]}: {found[1]}" if found else ""


def refused_values(failures: Iterable[tuple[str, str, bool]]) -> tuple[str, str] | None:
    """(message, remedy) for values that a role's spec refuses, or that cannot be decrypted; None without such failures.

    `failures`: host, message, and whether it is about a role's arguments.
    """
    rows = tuple(failures)
    if bad := [message for _, message, of_arguments in rows if of_arguments]:
        return "\n".join(dict.fromkeys(bad)), "correct these values in the inventory or the playbook"
    vaulted = [(f"{host}: {message}", vault_remedy(message)) for host, message, _ in rows if vault_remedy(message)]
    return vaulted[0] if vaulted else None


def vault_remedy(message: str) -> str:
    """What helps if a vaulted value could not be read; empty for other messages."""
    if not VAULT_FAILURE.search(message):
        return ""
    if "no vault secrets found" in message:
        return "give the vault's password: -J asks for it, --vault-password-file FILE or --vault-id ID@FILE reads it"
    return "the vault's password is another one: correct --vault-password-file or --vault-id, or type it again with -J"


def start_remedy(text: str) -> str:
    """What helps if Ansible could not read an inventory or a playbook; empty if that is not known."""
    known = next((remedy for words, remedy in START_REMEDIES if words in text), "")
    if known:
        return known
    place = ORIGIN.search(text) or AT.match(text)
    return f"correct {place[1]} at line {place[2]}" if place else ""
