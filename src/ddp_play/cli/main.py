"""The `ddp-play` command, assembled from its verbs. A verb's modules are imported when it is called or listed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ddp_play import VERSION_LINE
from ddp_play.cli import console
from ddp_play.cli.error_boundary import error_boundary

HOSTS, JOBS, RUNS = "Hosts", "Jobs", "Runs"
MEASURE, REHEARSAL = "Measurements", "Rehearsal"
# Verb -> its panel in the help, the module in this package, and the function or application there.
VERBS = {
    "init": (HOSTS, "init", "init"),
    "doctor": (HOSTS, "doctor", "doctor"),
    "provision": (HOSTS, "provision", "provision"),
    "verify": (HOSTS, "provision", "verify"),
    "deprovision": (HOSTS, "provision", "deprovision"),
    "reboot": (HOSTS, "reboot", "reboot"),
    "run": (JOBS, "run", "run"),
    "plan": (JOBS, "plan", "plan"),
    "session": (JOBS, "session", "session"),
    "collectives": (MEASURE, "collectives", "collectives"),
    "bench": (MEASURE, "bench", "bench"),
    "ps": (RUNS, "ps", "ps"),
    "logs": (RUNS, "logs", "logs"),
    "attach": (RUNS, "attach", "attach"),
    "exec": (RUNS, "execute", "execute"),
    "stop": (RUNS, "stop", "stop"),
    "results": (RUNS, "results", "results"),
    "rm": (RUNS, "rm", "rm"),
    "prune": (RUNS, "prune", "prune"),
    "gc": (RUNS, "gc", "gc"),
    "inventory": (HOSTS, "inventory", "app"),
    "lab": (REHEARSAL, "lab", "app"),
    "image": (REHEARSAL, "image", "app"),
}


class _Verbs(MutableMapping[str, Any]):
    """The verbs by name. To import the modules of all of them takes several times as long as those of one."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = _verb(name, *VERBS[name])
        return self._known[name]

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("VERBS has the verbs")

    def __delitem__(self, name: str) -> None:
        raise TypeError("VERBS has the verbs")

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _verb(name: str, panel: str, module: str, attribute: str) -> Any:
    found = getattr(import_module(f"ddp_play.cli.{module}"), attribute)
    holder = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name, rich_help_panel=panel)
    else:
        holder.command(name, rich_help_panel=panel)(found)
    return typer.main.get_group(holder).commands[name]


class _Group(TyperGroup):
    """A group whose verbs are imported when needed. What typer itself refuses passes the error boundary too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Verbs()

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **settings: Any) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        own = words[: words.index("--")] if "--" in words else words
        with console.answering(as_json="--json" in own):
            return super().main(words, *arguments, **settings)

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        with error_boundary():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        with error_boundary():
            return super().invoke(ctx)


app = typer.Typer(cls=_Group, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _show_version(value: bool) -> None:
    if value:
        console.line(VERSION_LINE)
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """From bare Linux hosts to a finished PyTorch DDP run, from one Ansible inventory.

    Exit codes: 0 done, after launch the first failing rank's own code (128+N for signals),
    1 a check or a playbook failed, 64 usage, 69 a host is unreachable or not ready, 70 ddp-play
    itself failed, 75 busy, 124 a time limit ended the job, 130 interrupted.
    --json names the class of the error.
    """


def main() -> None:
    """Parse the command line and run its verb."""
    app()
