"""Values that Ansible decrypted: by its tag, by the file they are from, and as texts that may be part of others."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ansible._internal._datatag._tags import Origin
from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString, VaultHelper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEADER = b"$ANSIBLE_VAULT;"
# Other views of the same variables, or variables of other hosts; connection settings are not part of a job.
SKIPPED = ("hostvars", "vars", "groups", "environment")
SKIPPED_PREFIX = "ansible_"
# Connection settings whose words become arguments of ssh and sudo.
ARGUMENTS = re.compile(r"ansible_(ssh_|become_|sudo_)\w*(args|flags)")


def is_vaulted(value: object) -> bool:
    """Whether Ansible decrypted this value: a `!vault` scalar, or one from a file that is encrypted as a whole.

    The scalar has a tag, which stays on a value that a template returns unchanged. A value from an encrypted file is
    known by its origin only. The output of a filter on either has neither tag nor origin.
    """
    if VaultHelper.get_ciphertext(value, with_tags=False) is not None:
        return True
    origin = Origin.get_tag(value)
    return origin is not None and origin.path is not None and _is_encrypted(str(origin.path))


@cache
def _is_encrypted(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(HEADER)) == HEADER
    except OSError:
        return False


def decrypted_texts(variables: Mapping[str, object]) -> frozenset[str]:
    """All decrypted texts from a vault among the variables, except those whose password is missing."""
    found = set()
    for name, value in variables.items():
        if name not in SKIPPED and not name.startswith(SKIPPED_PREFIX):
            found |= set(_texts(value))
    return frozenset(found - {""})


def argument_texts(variables: Mapping[str, object]) -> frozenset[str]:
    """Words of connection arguments (ansible_ssh_common_args) that are from a vault themselves."""
    found: set[str] = set()
    for name, value in variables.items():
        if ARGUMENTS.fullmatch(name):
            found.update(*map(_words, _texts(value)))
    return frozenset(found)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str | EncryptedString) and is_vaulted(value):
        try:
            yield str(value)
        except AnsibleError:  # another vault's, which this run cannot open
            return
