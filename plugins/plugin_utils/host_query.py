"""How a host is asked for its facts: the query, and the route of its channel, from Ansible's approach to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible_collections.ddp.play.plugins.plugin_utils.ssh_connections import share_jump_host, ssh_argv
from ansible_collections.ddp.play.plugins.plugin_utils.vaulted import argument_texts, decrypted_texts

from ddp_play.ansible.discover_action import refuse_secret_arguments
from ddp_play.ansible.host_problems import problem_from_text, ssh_words
from ddp_play.engines.route import Route
from ddp_play.errors import DdpPlayError, HostNotReady
from ddp_play.planning.job_secrets import Known
from ddp_play.planning.job_values import slot_count
from ddp_play.run.discovery import Query
from ddp_play.run.host_program import shell_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.ddp.play.plugins.plugin_utils.host_approach import Approach, Approaches

    from ddp_play.planning.job import Job
    from ddp_play.run.discovery import Discovery

# Settings that a vaulted file of a host often has with its password, and that the bundle may show.
SHOWN = tuple(
    f"ansible_{name}"
    for name in (
        *("host", "port", "user", "private_key_file", "become_user", "become_method"),
        *("ssh_host", "ssh_port", "ssh_user", "ssh_private_key_file", "ssh_executable"),
    )
)
# Connection to a node of a Slurm job.
STEP = "ddp.play.slurm_step"
# The prompt of a become plugin that knows it in many languages (su).
ANY_PROMPT = "assword:"


def ask(discovery: Discovery, approaches: Approaches, host: str, query: Callable[[Approach], Query]) -> None:
    """Open the host's channel with this query. A host that cannot be reached in a way that a run can use is refused."""
    address = host
    try:
        approach = approaches.to(host)
        address = approach.address
        discovery.ask(query(approach))
    except (AnsibleError, DdpPlayError) as error:
        refuse(discovery, host, error, address)


def refuse(discovery: Discovery, host: str, error: AnsibleError | DdpPlayError, address: str) -> None:
    """Give the host the error's problem instead of facts."""
    text, hint = getattr(error, "message", None) or str(error), getattr(error, "hint", "")
    discovery.refuse(host, problem_from_text(host, text, address, reached=True, hint=hint))


def query_of(approach: Approach, job: Job) -> Query:
    """The query for a host of a job. Raises as `query_for` does."""
    runtime, image = job.chosen_runtime, job.image or None
    apptainer = image if runtime == "apptainer" else None
    wanted = {"image": image, "apptainer": apptainer, "user": job.user or None, "packages": not job.in_image}
    return query_for(approach, engine=runtime == "docker", **wanted)


def query_for(approach: Approach, *, engine: bool, **wanted: Any) -> Query:
    """The query for a host; `wanted`: what else its program is to find out.

    Raises AnsibleError or HostNotReady if the host cannot be reached in a way that a run can use.
    """
    share_jump_host(approach.connection, approach.address)
    argv = _argv(approach)
    _refuse_secrets(approach, argv)
    return Query(
        _route(approach, argv),
        login_words(approach),
        wanted={**wanted_facts(approach, engine=engine), **wanted},
        inventory=inventory_facts(approach),
        become_password=approach.become_password(),
        ssh_password=approach.ssh_password(),
        tries=1 + _retries(approach),
    )


def login_words(approach: Approach) -> str:
    """What follows `ssh` to log in to the host by hand."""
    if approach.connection.transport != "ssh":
        return str(approach.address)
    option = approach.connection.get_option
    words: str = ssh_words(
        option("host") or approach.address,
        port=option("port"),
        user=option("remote_user"),
        key=option("private_key_file"),
        args=f"{option('ssh_common_args') or ''} {option('ssh_extra_args') or ''}",
    )
    return words


def wanted_facts(approach: Approach, *, engine: bool) -> dict[str, Any]:
    """What the program is to find out about a host, whatever the job."""
    return {
        "engine": engine,
        "image": None,
        "shared_dir": approach.value("ddp_shared_dir") or None,
        "python": approach.value("ddp_python") or None,
        "user": None,
    }


def inventory_facts(approach: Approach) -> dict[str, Any]:
    """The host's variables that belong to its facts. HostNotReady if ddp_slots is no number."""
    return {"slots": _slots(approach), "interface": approach.value("ddp_interface") or None}


def program_command(approach: Approach, verb: str, *arguments: str) -> str:
    """The command of the host program, before privilege escalation."""
    python = str(approach.value("ansible_python_interpreter") or "")
    command = shell_command(
        "" if python.startswith("auto") else python, verb, *arguments, state_dir=str(approach.value("ddp_state_dir"))
    )
    override = os.environ.get("DDP_PLAY_HOST_DIR")  # of a test: another directory for the host's state
    local = approach.connection.transport == "local"
    return f"export DDP_PLAY_HOST_DIR='{override}'; {command}" if override and local else command


def _route(approach: Approach, argv: list[str]) -> Route:
    """Data from which a channel is opened, now and after a broken connection; contains no secret."""
    connection = approach.connection
    command = program_command(approach, "channel")
    prompt = success = ""
    become = connection.become
    if become:
        command = become.build_become_command(command, connection._shell)
        prompt = become.prompt if isinstance(become.prompt, str) else ANY_PROMPT
        success = become.success or ""
    command = f"/bin/sh -c {connection._shell.quote(command)}"
    if connection.transport == STEP:
        command = f"exec {command}"  # Slurm's signals end a shell in between, and the step with it
    return Route(approach.host, tuple(argv), command, prompt, success, asks_password=bool(approach.ssh_password()))


def _argv(approach: Approach) -> list[str]:
    """Command line of Ansible's connection plugin, up to the place of the remote command."""
    transport = approach.connection.transport
    if transport == "local":
        return ["/bin/sh", "-c"]
    if transport == STEP:
        found: list[str] = approach.connection.step_argv()
        return found
    if transport != "ssh":
        raise AnsibleError(f"connection {transport} is not supported; use ssh or local")
    words: list[str] = ssh_argv(approach.connection, approach.address)
    return words


def _refuse_secrets(approach: Approach, argv: list[str]) -> None:
    """HostNotReady if an argument of ssh or become is from a vault. An address or a user's name may be."""
    become = approach.connection.become
    if become:
        argv = [*argv, *(str(become.get_option(name) or "") for name in ("become_exe", "become_flags"))]
    shown = {str(approach.value(name)) for name in SHOWN if name in approach.variables}
    texts = (decrypted_texts(approach.variables) - shown) | argument_texts(approach.variables)
    refuse_secret_arguments(argv, Known(texts=texts))


def _retries(approach: Approach) -> int:
    connection = approach.connection
    return int(connection.get_option("reconnection_retries") or 0) if connection.transport == "ssh" else 0


def _slots(approach: Approach) -> int | None:
    """A slot count as a number; the plan refuses numbers that are too small."""
    given: Any = approach.value("ddp_slots")
    if given in (None, ""):
        return None
    try:
        return int(slot_count(given))
    except ValueError:
        raise HostNotReady(
            f"ddp_slots is {given!r}; it must be a whole number from 1 up",
            hint=f"correct ddp_slots of {approach.host} in the inventory",
        ) from None
