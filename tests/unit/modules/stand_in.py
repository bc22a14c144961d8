"""A stand-in for AnsibleModule, with which a module of this collection runs in the process of its test."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

Answer = tuple[int, str, str]
OPTION = ("type", "elements", "choices", "default", "required")


class EndedError(Exception):
    """The module has answered."""

    def __init__(self, answer: dict[str, Any], *, failed: bool = False) -> None:
        super().__init__(str(answer))
        self.answer = answer
        self.failed = failed


class StandIn:
    """Parameters with the defaults of the argument spec, and commands that `answer` answers; `asked` keeps them."""

    def __init__(self, answer: Callable[[list[str]], Answer] | None = None, **params: Any) -> None:
        self.check_mode = False
        self.params = params
        self.spec: dict[str, Any] = {}
        self.asked: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self._answer = answer or (lambda _argv: (0, "", ""))

    def __call__(self, argument_spec: dict[str, Any], *, supports_check_mode: bool = False) -> StandIn:
        """What the module calls in place of AnsibleModule."""
        assert supports_check_mode, "Ansible would skip the module in check mode"
        self.spec = argument_spec
        missing = [name for name, row in argument_spec.items() if row.get("required") and name not in self.params]
        assert missing == []
        self.params = {**{name: row.get("default") for name, row in argument_spec.items()}, **self.params}
        return self

    def run_command(
        self, argv: list[str], *, environ_update: dict[str, str] | None = None, check_rc: bool = False
    ) -> Answer:
        """The answer to a command; with `check_rc` one that fails ends the module."""
        self.asked.append(argv)
        self.environments.append(environ_update or {})
        rc, out, err = self._answer(argv)
        if check_rc and rc != 0:
            self.fail_json(msg=err)
        return rc, out, err

    def get_bin_path(self, name: str) -> str | None:
        """No program is there but `sh`."""
        return "/bin/sh" if name == "sh" else None

    def atomic_move(self, source: str, target: str) -> None:
        """Rename a file."""
        Path(source).replace(target)

    def exit_json(self, **answer: Any) -> NoReturn:
        raise EndedError(answer)

    def fail_json(self, **answer: Any) -> NoReturn:
        raise EndedError(answer, failed=True)


def play(monkeypatch: pytest.MonkeyPatch, module: ModuleType, stand_in: Any) -> dict[str, Any]:
    """The answer of a module's `main`; `failed` is True or False."""
    monkeypatch.setattr(module, "AnsibleModule", stand_in)
    try:
        module.main()
    except EndedError as ended:
        return {"failed": ended.failed, **ended.answer}
    raise AssertionError("the module did not answer")


def documented(module: ModuleType) -> dict[str, Any]:
    """Options as DOCUMENTATION has them, in the form of an argument spec."""
    return _plain(yaml.safe_load(module.DOCUMENTATION)["options"])


def accepted(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> dict[str, Any]:
    """Options as the argument spec has them, in the same form."""
    found: dict[str, Any] = {}

    def keep(argument_spec: dict[str, Any], **_more: Any) -> NoReturn:
        found.update(argument_spec)
        raise EndedError({})

    play(monkeypatch, module, keep)
    return _plain(found)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    rows = {name: {key: row[key] for key in OPTION if key in row} for name, row in options.items()}
    below = {name: row.get("options") or row.get("suboptions") for name, row in options.items()}
    nested = {name: {"options": _plain(rows)} for name, rows in below.items() if rows}
    return {name: {**row, **nested.get(name, {})} for name, row in rows.items()}
