"""Provisioning in batches of hosts: the order, one playbook run per batch, and the stop at the first failure."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.errors import DdpPlayError, Interrupted
from ddp_play.planning.job_secrets import names_a_secret
from ddp_play.provisioning.extra_vars import extra_variables

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.provisioning.playbook_run import PlaybookPlan, Report


@dataclass(frozen=True, slots=True)
class Rolling:
    """How hosts are divided: `serial` hosts at a time (0: all), with `canary` the first host alone before them.

    `verb`: words of the command that does it; `own`: options of ansible-playbook that these words stand for.
    `providers_first`: hosts that others need come first, else last and one at a time, because the others have their
    file systems mounted.
    """

    serial: int = 0
    canary: bool = False
    verb: tuple[str, ...] = ("provision",)
    own: tuple[str, ...] = ()
    providers_first: bool = True

    @property
    def wanted(self) -> bool:
        """Whether there is more than one batch."""
        return bool(self.serial or self.canary)

    def batches(self, planned: PlaybookPlan) -> tuple[tuple[str, ...], ...]:
        """Hosts of each batch, in the inventory's order but for those that others need."""
        needed = [host for host in planned.providers if host in planned.hosts]
        others = [host for host in planned.hosts if host not in needed]
        hosts = tuple(dict.fromkeys((*needed, *others) if self.providers_first else others))
        start = 1 if self.canary else 0
        size = self.serial or len(hosts)
        rest = [hosts[number : number + size] for number in range(start, len(hosts), size)]
        rest += [] if self.providers_first else [(host,) for host in needed]
        return (*((hosts[:1],) if self.canary else ()), *rest)

    def command(self, request: PlaybookRequest, hosts: tuple[str, ...], passwords: Passwords) -> str:
        """Command line that does the same on these hosts."""
        words = ["ddp-play", *self.verb, *(word for source in request.inventory for word in ("-i", source))]
        options = without_limit(request.options)
        if self.own and options[: len(self.own)] == self.own:
            options = options[len(self.own) :]
        words += [*without_secrets(options, request.cwd), "--limit", ",".join(hosts)]
        words += ["--tags", ",".join(request.tags)] if request.tags else []
        words += ["--serial", str(self.serial)] if self.serial else []
        words += ["--canary"] if self.canary else []
        asked = {"-k": passwords.connection, "-K": passwords.become, "-J": passwords.vault}
        return shlex.join([*words, *(flag for flag, value in asked.items() if value)])


@dataclass(frozen=True, slots=True)
class Roll:
    """Reports of the batches that ran, and the hosts that were not touched, because a batch before theirs failed."""

    reports: tuple[Report, ...]
    not_reached: tuple[str, ...] = ()
    command: str = ""  # goes on with the failed batch

    def error(self) -> DdpPlayError | None:
        """None if every batch succeeded; else the failed batch's error, with the hosts that were not reached."""
        error = self.reports[-1].error()
        if error is None:
            return None
        text = f"{error.message}\nnot touched: {', '.join(self.not_reached) or 'no host is left'}"
        hint = f"{error.hint}\nto continue: {self.command}" if error.hint else f"to continue: {self.command}"
        return type(error)(text, hint=hint, hosts=self.not_reached)

    def to_json(self) -> dict[str, Any]:
        """Document for `--json`: the last report, with the cells and changes of all batches."""
        error, documents = self.error(), [report.to_json() for report in self.reports]
        joined = {name: [row for one in documents for row in one[name]] for name in ("cells", "changes")}
        sums = {name: sum(one[name] for one in documents) for name in ("num_tasks", "num_changed", "wall_s")}
        message = error.message if error else documents[-1]["message"]
        batches = [list(dict.fromkeys(cell["host"] for cell in one["cells"])) for one in documents]
        rest = {"message": message, "batches": batches, "not_reached": list(self.not_reached), "command": self.command}
        return {**documents[-1], **joined, **sums, **rest}


def without_limit(options: tuple[str, ...]) -> tuple[str, ...]:
    """Options of ansible-playbook without --limit and its value."""
    if "--limit" not in options:
        return options
    place = options.index("--limit")
    return options[:place] + options[place + 2 :]


def without_secrets(options: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    """Options with `...` in place of every --extra-vars that sets a secret on the command line."""
    shown = list(options)
    for place, (option, value) in enumerate(itertools.pairwise(options)):
        if option == "--extra-vars" and not value.startswith("@"):
            names = extra_variables((option, value), cwd)
            if names_a_secret(value) or any(names_a_secret(name) for name in names):
                shown[place + 1] = "..."
    return tuple(shown)


def restricted(planned: PlaybookPlan, hosts: tuple[str, ...]) -> PlaybookPlan:
    """The plan for these hosts only. Other hosts of the inventory keep their variables, but nobody connects to them."""
    options = (*without_limit(planned.request.options), "--limit", ",".join(hosts))
    phases = tuple(
        dataclasses.replace(phase, hosts=tuple(host for host in phase.hosts if host in hosts))
        for phase in planned.phases
    )
    return dataclasses.replace(planned, request=dataclasses.replace(planned.request, options=options), phases=phases)


def run_batches(
    planned: PlaybookPlan, rolling: Rolling, passwords: Passwords, run: Callable[[PlaybookPlan], Report]
) -> Roll:
    """Call `run` with the plan of each batch until one has an error. A batch that has begun goes to its end."""
    batches, reports = rolling.batches(planned), []
    for number, hosts in enumerate(batches):
        reports.append(run(restricted(planned, hosts)))
        if reports[-1].error() is not None:
            rest = tuple(host for batch in batches[number + 1 :] for host in batch)
            again = (*unfinished(reports[-1], hosts), *rest)
            after = dataclasses.replace(rolling, canary=rolling.canary and number == 0)
            return Roll(tuple(reports), rest, after.command(planned.request, again, passwords))
    return Roll(tuple(reports))


def unfinished(report: Report, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Hosts of the batch on which a role failed or did not run; all of them if that is unknown."""
    bad = {cell.host for cell in report.cells if cell.status.bad or cell.status == "not_run"}
    chosen = tuple(host for host in hosts if host in bad)
    return hosts if isinstance(report.error(), Interrupted) or not chosen else chosen
