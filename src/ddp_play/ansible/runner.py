"""Execution of a playbook: request, events, outcome. The only module that imports ansible_runner."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.ansible.command_file import CommandFileRedactor
from ddp_play.ansible.default_settings import default_settings
from ddp_play.ansible.error_output import error_text, refused_values, start_remedy
from ddp_play.ansible.limit_refusal import refuse_left_out_names
from ddp_play.ansible.own_signals import own_signal_handlers
from ddp_play.ansible.password_files import password_files
from ddp_play.bundle.paths import make_directory
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


# ansible-runner looks this often whether the playbook is to be canceled.
CANCEL_ASKED_S = 1


@dataclass(frozen=True, slots=True)
class Passwords:
    """Passwords that the user typed. They are never stored, nor in command lines or environment variables."""

    connection: str = ""
    become: str = ""
    vault: str = ""


@dataclass(frozen=True, slots=True)
class PlaybookRequest:
    """Request to run a playbook on an inventory; `options` reach Ansible unchanged."""

    playbook: str
    inventory: tuple[str, ...]
    cwd: str
    options: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Document for run.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PlaybookRequest:
        """Request from the document in run.json."""
        lists = {name: tuple(data[name]) for name in ("inventory", "options", "tags", "skip_tags")}
        return cls(**{**data, **lists})

    def command_line(self) -> list[str]:
        """Arguments of ansible-playbook after the playbook's name."""
        arguments = [word for source in self.inventory for word in ("-i", source)]
        arguments += self.options
        if self.tags:
            arguments += ["--tags", ",".join(self.tags)]
        if self.skip_tags:
            arguments += ["--skip-tags", ",".join(self.skip_tags)]
        return arguments


class PlaybookStatus(StrEnum):
    """How ansible-playbook ended."""

    OK = "ok"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    NOT_STARTED = "not_started"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """One failed or unreachable task."""

    host: str
    task: str
    message: str
    unreachable: bool = False
    bad_arguments: bool = False
    usage: tuple[str, str] = ("", "")  # message and remedy of a mistake of the command line


@dataclass(frozen=True, slots=True)
class PlaybookOutcome:
    """How a playbook ended, with the failures of its tasks and the counts by host."""

    status: PlaybookStatus
    rc: int
    failures: tuple[TaskFailure, ...]
    stdout_tail: str
    stats: dict[str, dict[str, int]] = field(default_factory=dict)

    def error(self, log: str = "", *, remedy: str = "") -> DdpPlayError | None:
        """Error for this outcome; None if the playbook succeeded. Its hint: `remedy`, and the path of the log."""
        if self.status is PlaybookStatus.OK:
            return None
        if refused := next((row.usage for row in self.failures if row.usage[0]), None) or refused_values(
            (row.host, row.message, row.bad_arguments) for row in self.failures
        ):
            return UsageError(refused[0], hint=refused[1])
        rows = "\n".join(f"{row.host}: {row.task}: {row.message}" for row in self.failures[:20])
        more = "; ".join(part for part in (remedy, f"whole output: {log}" if log else "") if part)
        if self.status is PlaybookStatus.CANCELED:
            return Interrupted("the playbook was interrupted")
        if self.status is PlaybookStatus.NOT_STARTED:
            hint = start_remedy(self.stdout_tail) or more
            return UsageError(self.stdout_tail or f"ansible-playbook ended with {self.rc}", hint=hint)
        error = HostNotReady if self.status is PlaybookStatus.UNREACHABLE else CheckFailed
        return error(rows or f"the playbook failed (exit code {self.rc})", hint=more)


class PlaybookRunner(Protocol):
    """Interface to ansible-playbook. Its fake for tests is `ddp_play.testing.FakePlaybookRunner`."""

    def run(
        self,
        request: PlaybookRequest,
        *,
        private_dir: Path,
        passwords: Passwords,
        on_event: Callable[[dict[str, Any]], None],
        cancel: Callable[[], bool] | None = None,
    ) -> PlaybookOutcome:
        """Run the playbook to its end, and call `on_event` with every event at once.

        `cancel`: called about once a second; when it is true, the playbook is killed; `end_workers` ends its workers.
        """


class AnsibleRunner:
    """Runs playbooks with ansible-runner, and removes the environment's values from the files that it writes."""

    def __init__(self, programs: str = "") -> None:
        """`programs`: directory with a program that is started in place of ansible-playbook."""
        self._programs = programs

    def run(
        self,
        request: PlaybookRequest,
        *,
        private_dir: Path,
        passwords: Passwords,
        on_event: Callable[[dict[str, Any]], None],
        cancel: Callable[[], bool] | None = None,
    ) -> PlaybookOutcome:
        if not Path(request.playbook).is_file():
            raise UsageError(f"no playbook {request.playbook}", hint="ddp-play run --help")
        for source in request.inventory:
            if "," not in source and not Path(request.cwd, source).exists():
                raise UsageError(f"no inventory {source}", hint="a file, a directory, or host names with a comma")
        make_directory(private_dir)
        failures: list[TaskFailure] = []
        stats: dict[str, Any] = {}
        redactor = CommandFileRedactor(artifact(private_dir, "command"))

        def handle(event: dict[str, Any]) -> bool:
            redactor.redact()
            if (failure := _failure(event)) is not None:
                failures.append(failure)
            if event.get("event") == "playbook_on_stats":
                stats.update(event.get("event_data") or {})
            on_event(event)
            return False  # no file of its own, of which ansible-runner would read the stats again

        with password_files(**asdict(passwords)) as password_options, own_signal_handlers():
            result = _run(request, private_dir, password_options, handle, self._programs, cancel=cancel)
            redactor.redact(final=True)
            outcome = _outcome(result, tuple(failures), stats)
            options = (*request.options, *password_options)
            refuse_left_out_names(
                outcome.stdout_tail, request.inventory, options, cwd=request.cwd, environment=_environment(request)
            )
        return outcome


def _run(
    request: PlaybookRequest,
    private_dir: Path,
    options: list[str],
    handle: Callable[..., bool],
    programs: str,
    *,
    cancel: Callable[[], bool] | None,
) -> Any:
    import ansible_runner  # noqa: PLC0415 - it takes a tenth of a second, also for verbs that run no playbook

    environment = {**default_settings(request.cwd), **request.environment}
    if programs:
        environment["PATH"] = os.pathsep.join([programs, environment.get("PATH", os.environ.get("PATH", ""))])
    settings = {"suppress_ansible_output": True, "idle_timeout": 0, "job_timeout": 0}
    if cancel is not None:
        settings["pexpect_timeout"] = CANCEL_ASKED_S
    return ansible_runner.run(
        private_data_dir=str(private_dir),
        project_dir=request.cwd,
        playbook=request.playbook,
        ident="1",
        cmdline=shlex.join([*request.command_line(), *options]),
        envvars=environment,
        event_handler=handle,
        quiet=True,
        suppress_env_files=True,
        settings=settings,
        cancel_callback=_or_signalled(cancel),
    )


def _or_signalled(cancel: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """What ansible-runner asks: also whether a signal came, which it looks for itself where it has nobody to ask."""
    if cancel is None:
        return None
    from ansible_runner.utils import signal_handler  # noqa: PLC0415 - as above

    signalled = signal_handler()
    return lambda: (signalled is not None and signalled()) or cancel()


def _environment(request: PlaybookRequest) -> dict[str, str]:
    return {**os.environ, **default_settings(request.cwd), **request.environment}


def import_now() -> None:
    """Import ansible-runner before it is needed, in a process that forks others."""
    import ansible_runner  # noqa: F401, PLC0415


def artifact(private_dir: Path, name: str) -> Path:
    """A file of ansible-runner about its run, such as `stdout`, in its private data directory."""
    return private_dir / "artifacts" / "1" / name


def _failure(event: dict[str, Any]) -> TaskFailure | None:
    kind, data = event.get("event"), event.get("event_data") or {}
    if kind not in ("runner_on_failed", "runner_on_unreachable") or data.get("ignore_errors"):
        return None
    result = data.get("res") or {}
    message = result.get("msg") or result.get("stderr") or result.get("module_stderr") or "failed"
    if validates := str(data.get("task_action", "")).endswith("validate_argument_spec"):
        message = str(message).removeprefix("Validation of arguments failed:\n")
    told = result.get("usage_error") or {}
    usage = str(told.get("message") or ""), str(told.get("hint") or "")
    return TaskFailure(
        data.get("host", "?"), data.get("task", "?"), str(message), kind == "runner_on_unreachable", validates, usage
    )


def _outcome(result: Any, failures: tuple[TaskFailure, ...], stats: dict[str, Any]) -> PlaybookOutcome:
    """Outcome from status, rc and failures: `status` alone does not distinguish them, and rc 254 means canceled."""
    if result.status == "successful":
        status = PlaybookStatus.OK
    elif result.status == "canceled" or result.rc == 254:
        status = PlaybookStatus.CANCELED
    elif not failures:
        status = PlaybookStatus.NOT_STARTED
    elif failures and all(row.unreachable for row in failures):
        status = PlaybookStatus.UNREACHABLE
    else:
        status = PlaybookStatus.FAILED
    tail = ""
    if status is PlaybookStatus.NOT_STARTED:
        with contextlib.suppress(OSError, AttributeError):
            tail = error_text(result.stdout.read())
    return PlaybookOutcome(status, int(result.rc or 0), failures, tail, _stats_by_host(stats))


def _stats_by_host(stats: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Counts by host and result, from Ansible's counts by result and host."""
    found: dict[str, dict[str, int]] = {}
    for result in ("ok", "changed", "failures", "dark", "skipped"):
        for host, count in (stats.get(result) or {}).items():
            found.setdefault(host, {})[result] = count
    return found
