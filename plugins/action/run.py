"""Once for all hosts of a play: facts, plan, the run to its end, over one channel per host. Runs on the controller."""

from __future__ import annotations

import contextlib
import os
import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible import (
        bounded_execution,
        discover_action,
        installed_collection,
        plan_action,
        registry_server,
    )
    from ddp_play.ansible.error_output import vault_remedy
    from ddp_play.ansible.plugin_variables import PLAN_TAG
    from ddp_play.bundle.disk_space import is_full
    from ddp_play.bundle.outcome import RunStatus
    from ddp_play.errors import DdpPlayError, DiskFull, HostNotReady, InternalError, UsageError
    from ddp_play.planning.job import Job
    from ddp_play.planning.job_secrets import JobSecrets, Known, refuse_elsewhere, secret_name_globs, separate
    from ddp_play.planning.job_values import PREFIX
    from ddp_play.run.discovery import Discovery, Query
    from ddp_play.run.report_start import reported
    from ddp_play.run.stop_requests import StopRequests
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.host_approach import Approach, Approaches
from ansible_collections.ddp.play.plugins.plugin_utils.host_query import ask, query_of, refuse
from ansible_collections.ddp.play.plugins.plugin_utils.limit import refuse_unknown_limit
from ansible_collections.ddp.play.plugins.plugin_utils.variable_places import variable_places
from ansible_collections.ddp.play.plugins.plugin_utils.vaulted import decrypted_texts, is_vaulted

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

# Imported when they are needed: planning alone needs neither.
SUPERVISION, JOB_CHECK = "ddp_play.run.supervise_action", "ddp_play.checks.job_check"
HOOKS = "ddp_play.run.run_hooks"


class ActionModule(ActionBase):
    """Reads `ddp_job_*` itself: values are templated once, by Ansible, and secrets never become task arguments.

    One process holds all channels: per-host plugins would be separate processes and could not stop one another.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return when the run has ended, or after the plan if only that is wanted (check mode, tag ddp_job_plan)."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        installed_collection.check_same_build(Path(__file__))
        try:
            paths = plan_action.run_paths()
            limit_s, stop_requests = bounded_execution.answer_limit_s(), StopRequests(paths)
            with contextlib.closing(Discovery(limit_s, stop_requests.ends_the_run)) as discovery:
                planned, secrets, registry = self._plan(variables, discovery, paths)
                if self._only_plans(variables):
                    return {**result, "changed": False, **planned}
                with reported(planned["run_dir"]):
                    return {**result, **self._supervise(variables, planned["run_dir"], secrets, registry, discovery)}
        except DdpPlayError as error:
            return {**result, "failed": True, "msg": str(error)}

    def _plan(
        self, variables: dict[str, Any], discovery: Discovery, paths: RunPaths
    ) -> tuple[dict[str, Any], JobSecrets, dict[str, str]]:
        """Write the plan into the run's directory. A job that cannot run fails with the error's message and hint.

        Also returns what the supervisor needs and no file gets: the job's secrets, and its login at a registry.
        """
        try:
            return self._planned(variables, discovery, paths)
        except DdpPlayError as error:
            self._refuse(error, variables, paths)
            raise
        except AnsibleError as error:
            hint = vault_remedy(str(error)) or "correct the variable of the job or of its hosts that is meant"
            mistake = UsageError(str(error), hint=hint)
            self._refuse(mistake, variables, paths)
            raise mistake from error
        except Exception as error:
            told = _told(error, paths)
            self._refuse(told, variables, paths)
            if isinstance(told, DiskFull):
                raise told from error
            raise

    def _planned(
        self, variables: dict[str, Any], discovery: Discovery, paths: RunPaths
    ) -> tuple[dict[str, Any], JobSecrets, dict[str, str]]:
        refuse_unknown_limit(variables)
        values = {name: self._value(variables, name) for name in Job.model_fields if PREFIX + name in variables}
        failed = set(variables["ansible_play_hosts_all"]) - set(variables["ansible_play_hosts"])
        batch = failed | set(variables["ansible_play_batch"])  # with `serial`, each batch is a job of its own
        hosts = [host for host in variables["ansible_play_hosts_all"] if host in batch]
        if values.get("runtime") == "pyxis":
            self._refuse_registry(variables)
        secrets = self._secrets(values, variables)
        self._webhook(variables)  # a mistake in it, or in the login, must not come after the plan
        registry = {} if self._only_plans(variables) else self._registry(variables)
        values["spares"] = values.get("spares") or list((variables.get("groups") or {}).get(plan_action.SPARES) or ())
        # In YAML a key without a value is null and stays null: its value comes from the caller's environment.
        values["env"] = secrets.env or {}
        asking = _Asking(Approaches(self, variables), discovery, failed)
        planned = plan_action.plan_job(
            values,
            hosts,
            asking.rows,
            secrets=secrets,
            places=variable_places(variables, discover_action.our_variables(variables)),
            playbook_dir=str(variables.get("playbook_dir", ".")),
            paths=paths,
        )
        return planned, secrets, registry

    def _refuse(self, error: DdpPlayError, variables: dict[str, Any], paths: RunPaths) -> None:
        """Record why the run cannot start, and tell its end."""
        with contextlib.suppress(OSError):  # the disk may be what is wrong
            plan_action.record_failure(error, paths)
        if self._only_plans(variables):
            return
        import_module(HOOKS).tell_refused(
            self._known(variables, "hook"), self._known(variables, "webhook"), paths, error
        )

    def _value(self, variables: dict[str, Any], name: str) -> Any:
        """A variable of the job; None without it. UsageError that names it if Ansible cannot read it."""
        try:
            return self._templar.template(variables.get(PREFIX + name))
        except AnsibleError as error:
            hint = vault_remedy(str(error)) or "correct this variable of the job"
            raise UsageError(f"{PREFIX}{name}: {error}", hint=hint) from error

    def _known(self, variables: dict[str, Any], name: str) -> Any:
        """A variable of the job; None if Ansible cannot read it."""
        with contextlib.suppress(UsageError):
            return self._value(variables, name)
        return None

    def _only_plans(self, variables: dict[str, Any]) -> bool:
        return bool(self._task.check_mode) or PLAN_TAG in variables.get("ansible_run_tags", ())

    def _secrets(self, values: dict[str, Any], variables: dict[str, Any]) -> JobSecrets:
        """The secret values of the job; a secret in a variable that others can read is refused."""
        known = Known(is_vaulted, decrypted_texts(variables), secret_name_globs(values.get("secret_names")))
        given = self._value(variables, "secrets")
        secrets = separate(values.get("env"), given, known, os.environ)
        refuse_elsewhere(values, known, secrets)
        values.pop("registry_username", None)  # only the supervisor needs it
        return secrets

    def _supervise(
        self,
        variables: dict[str, Any],
        run_dir: str,
        secrets: JobSecrets,
        registry: dict[str, str],
        discovery: Discovery,
    ) -> dict[str, Any]:
        """Carry out the plan. Failed unless the run succeeded; `exit_code` is that of the verdict."""
        become_passwords, ssh_passwords = discovery.passwords()
        outcome = import_module(SUPERVISION).supervise_run(
            run_dir,
            secret_values=secrets.values,
            registry=registry,
            become_passwords=become_passwords,
            ssh_passwords=ssh_passwords,
            channels=discovery.take(),
            judge=import_module(JOB_CHECK).judge_start,
            webhook=self._webhook(variables),
        )
        verdict = outcome.verdict
        return {
            "changed": True,
            "failed": outcome.status is not RunStatus.SUCCEEDED,
            "msg": verdict.message,
            "status": str(outcome.status),
            "exit_code": verdict.exit_code,
            "run_dir": run_dir,
            "rank": verdict.rank,
            "host": verdict.host,
            "log_tail": list(verdict.tail) if outcome.status is RunStatus.FAILED else [],
        }

    def _webhook(self, variables: dict[str, Any]) -> str:
        return str(import_module(HOOKS).checked_url(self._value(variables, "webhook")))

    def _refuse_registry(self, variables: dict[str, Any]) -> None:
        """UsageError for a login at a registry, which pyxis has no place for."""
        given = [name for name in ("registry_username", "registry_password") if self._known(variables, name)]
        if given:
            names = " and ".join(PREFIX + name for name in given)
            raise UsageError(
                f"{names} with ddp_job_runtime pyxis: enroot on the nodes reads the logins of registries from a file",
                hint="write `machine REGISTRY login USER password PASSWORD` into ~/.config/enroot/.credentials, in the "
                f"home that the nodes have, with mode 0600, and unset {names}",
            )

    def _registry(self, variables: dict[str, Any]) -> dict[str, str]:
        username = self._value(variables, "registry_username") or ""
        password = self._value(variables, "registry_password") or ""
        if not (username and password):
            return {}
        image = str(self._value(variables, "image"))
        return {"server": registry_server.registry_of(image), "username": username, "password": password}


def _told(error: Exception, paths: RunPaths) -> DdpPlayError:
    """What is told of an error that nobody expects: this machine's disk is full, or ddp-play itself failed."""
    if isinstance(error, OSError) and is_full(error):
        hint = f"free some space: df -h {shlex.quote(str(paths.root))}"
        return DiskFull(f"this machine has no space left for {paths.root}: nothing was started", hint=hint)
    hint = f"please report it with the playbook's output, which ddp-play run keeps in {paths.ansible}"
    return InternalError(f"ddp-play itself failed ({type(error).__name__})", hint=hint)


class _Asking:
    """Asks hosts for their facts, each over a channel that is opened while Ansible's settings of the next are read."""

    def __init__(self, approaches: Approaches, discovery: Discovery, failed: set[str]) -> None:
        self._approaches, self._discovery, self._failed = approaches, discovery, failed

    def rows(self, job: Job, hosts: list[str]) -> dict[str, dict[str, Any]]:
        """Facts and route, or problem, of each of these hosts, and the places of the ddp_* variables that it has."""
        places = {}
        for host in hosts:
            self._discovery.end_if_stopped()
            places[host] = self._ask(host, job)
        import_module(SUPERVISION)  # what comes next, with the planner, while the hosts answer
        self._discovery.finish()
        return {host: {**self._discovery.rows[host], "variables": places[host]} for host in hosts}

    def _ask(self, host: str, job: Job) -> dict[str, str]:
        if host in self._failed:
            hint = "the playbook's output above has the task and the reason"
            refuse(self._discovery, host, HostNotReady("a task before the job failed on it", hint=hint), host)
            return {}
        places: dict[str, str] = {}

        def query(approach: Approach) -> Query:
            names = discover_action.our_variables(approach.variables)
            places.update(variable_places(approach.variables, names))
            asked: Query = query_of(approach, job)
            return asked

        ask(self._discovery, self._approaches, host, query)
        return places
