"""Secret values in the variables of a job: recognized, moved to `ddp_job_secrets`, refused elsewhere. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ddp_play.errors import UsageError
from ddp_play.planning.job_values import ENV_NAME, PREFIX, env_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# TOKENIZERS_PARALLELISM, PWD, OLDPWD, PATH and BYPASS are not secrets.
SECRET_NAME = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY|PRIVATE_KEY|AUTHORIZATION|SSHPASS|"
    r"_(KEY|PWD|AUTH)\Z|(?<![A-Z0-9])(PAT|PASS)(?![A-Z0-9])",
    re.IGNORECASE,
)
# A connection string: scheme://user:password@host
URL_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@:]*:[^\s/?#@]+@", re.IGNORECASE)
# Shorter secrets occur in other values by chance, so only whole values are compared with them.
PART_LENGTH = 8
# Shorter secrets are not looked for among the words of a command, such as `no` or `22`.
WORD_LENGTH = 4
WORD_END = re.compile(r"[\s'\"=:,@]+")
# Variables that may hold a secret; the action plugins keep it out of plan and bundle.
ALLOWED = ("env", "secrets", "registry_username", "registry_password", "webhook")
HINT = "give it to the ranks by ddp_job_secrets or ddp_job_env: a file in memory or a variable that only they see"


def names_a_secret(name: str) -> bool:
    """Does the name suggest that the variable holds a secret?"""
    return bool(SECRET_NAME.search(name))


@dataclass(frozen=True, slots=True)
class Known:
    """How secret values are recognized: values that Ansible decrypted, strings known to be secret, and names."""

    is_vaulted: Callable[[object], bool] = lambda _: False
    texts: frozenset[str] = field(default=frozenset(), repr=False)
    names: tuple[str, ...] = ()  # globs, besides SECRET_NAME

    def tells(self, name: str, text: object) -> bool:
        """Does the name or the value of a variable say that it is a secret?"""
        named = names_a_secret(name) or any(fnmatchcase(name.upper(), glob.upper()) for glob in self.names)
        return named or (isinstance(text, str) and bool(URL_WITH_PASSWORD.search(text)))

    def equals(self, text: object) -> bool:
        """Is the value one of the known strings, of any length?"""
        return isinstance(text, str) and text in self.texts

    def holds(self, value: object) -> bool:
        """Is the value a secret, or does it contain one?"""
        if self.is_vaulted(value):
            return True
        return isinstance(value, str) and any(len(text) >= PART_LENGTH and text in value for text in self.texts)

    def in_arguments(self, words: Iterable[str]) -> bool:
        """Is a secret among these arguments of a command, in a part of one, or in a word of a command in one?"""
        return any(self.holds(word) or any(map(self._is_word, WORD_END.split(word))) for word in words)

    def _is_word(self, word: str) -> bool:
        return len(word) >= WORD_LENGTH and self.equals(word)


@dataclass(frozen=True, slots=True)
class JobSecrets:
    """Environment of a job without its secrets, and the secrets."""

    env: Any
    values: dict[str, str] = field(default_factory=dict, repr=False)
    file_names: tuple[str, ...] = ()  # of ddp_job_secrets: NAME_FILE holds the path
    env_names: tuple[str, ...] = ()  # of ddp_job_env: NAME holds the value


def check_secrets(value: Any) -> dict[str, str]:
    """Names and values of ddp_job_secrets. UsageError never contains a value."""
    if not value:
        return {}
    if not isinstance(value, dict):
        raise UsageError("ddp_job_secrets is not a mapping of names to values")
    for name, secret in value.items():
        if not ENV_NAME.fullmatch(str(name)):
            raise UsageError(f"ddp_job_secrets has {name!r}, which is not a valid name of an environment variable")
        if not isinstance(secret, str) or not secret:
            raise UsageError(f"ddp_job_secrets: {name} has no value")
    return {str(name): str(secret) for name, secret in value.items()}


def secret_name_globs(value: Any) -> tuple[str, ...]:
    """Globs of ddp_job_secret_names."""
    if value in (None, "", [], ()):
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(glob, str) and glob for glob in value):
        raise UsageError(
            "ddp_job_secret_names is not a list of names",
            hint='for example ddp_job_secret_names: [SITE_CODE, "LICENSE_*"]',
        )
    return tuple(str(glob) for glob in value)


def separate(env: Any, given: Any, known: Known, caller_env: Mapping[str, str]) -> JobSecrets:
    """Move secret values from `ddp_job_env` to the secrets."""
    secrets = check_secrets(given)
    if env in (None, ""):
        return JobSecrets(env, secrets, tuple(secrets))
    if not isinstance(env, dict):
        raise UsageError("ddp_job_env is not a mapping of names to values")
    known = replace(known, texts=known.texts | frozenset(secrets.values()))
    rest, moved = {}, {}
    for name, value in env.items():
        text = caller_env.get(str(name)) if value is None else env_text(value)
        is_secret = known.tells(str(name), text) or known.equals(text) or any(map(known.holds, _items(value)))
        if is_secret and text not in (None, ""):
            moved[str(name)] = _checked(str(name), text, secrets)
        else:
            rest[name] = value
    return JobSecrets(rest, {**secrets, **moved}, tuple(secrets), tuple(sorted(moved)))


def _checked(name: str, text: Any, secrets: Mapping[str, str]) -> str:
    """Value as the rank receives it. UsageError never contains it."""
    if not ENV_NAME.fullmatch(name):
        raise UsageError(f"ddp_job_env has {name!r}, which is not a valid name of an environment variable")
    if not isinstance(text, str):
        raise UsageError(f"ddp_job_env: the value of {name} is not a string")
    if "\0" in text:
        raise UsageError(f"ddp_job_env: {name} holds a NUL byte, which no variable can hold")
    if secrets.get(name, text) != text:
        raise UsageError(
            f"{name} is in ddp_job_env and in ddp_job_secrets, with two values",
            hint="remove it from one of them: ddp_job_env sets NAME, ddp_job_secrets sets NAME_FILE",
        )
    return str(text)


def refuse_elsewhere(values: Mapping[str, Any], known: Known, secrets: JobSecrets) -> None:
    """UsageError for a secret in a variable that appears in the plan, the bundle or a command line.

    Not for values that only their name or form marks as secret: a command may contain the value of
    `SPLIT_KEY: validation`.
    """
    known = replace(known, texts=known.texts | {secrets.values[name] for name in secrets.file_names})
    for name, value in values.items():
        if name not in ALLOWED and any(isinstance(item, str) and known.holds(item) for item in _items(value)):
            raise UsageError(
                f"{PREFIX}{name} holds a value from a vault or from ddp_job_secrets, and would show it to everybody "
                "who sees the plan, the bundle or the processes of a host",
                hint=HINT,
            )


def _items(value: object) -> Iterator[object]:
    """Strings and numbers in a value, at any depth."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _items(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _items(item)
    else:
        yield value
