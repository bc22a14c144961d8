"""The `ddp-play` command, assembled from its verbs. A verb's modules are imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ddp_play import VERSION_LINE
from ddp_play.cli import console
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.verbs import VERBS, Verb


class _Verbs(MutableMapping[str, Any]):
    """The verbs by name. To import the modules of all of them takes several times as long as those of one."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = _command(name, VERBS[name])
        return self._known[name]

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("VERBS has the verbs")

    def __delitem__(self, name: str) -> None:
        raise TypeError("VERBS has the verbs")

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _command(name: str, verb: Verb) -> Any:
    found = getattr(import_module(f"ddp_play.cli.{verb.module}"), verb.attribute)
    holder = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name, rich_help_panel=verb.panel)
    else:
        holder.command(name, rich_help_panel=verb.panel)(found)
    command = typer.main.get_group(holder).commands[name]
    for one in (command, *getattr(command, "commands", {}).values()):
        one.help = flowing(one.help or "")
        one.format_help = partial(_print_help, one.format_help)
    return command


def _print_help(print_it: Callable[[Any, Any], None], ctx: Any, formatter: Any) -> None:
    """Print help through rich, which ends the process with 1 if the reader has ended; that is no failure."""
    try:
        print_it(ctx, formatter)
    except SystemExit:
        raise BrokenPipeError from None


def flowing(text: str) -> str:
    """The help with each paragraph on one line, which a terminal folds at its own width; indented lines as they are."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(part if "\n " in f"\n{part}" else part.replace("\n", " ") for part in paragraphs)


class _Group(TyperGroup):
    """A group whose verbs are imported when needed. What typer itself refuses passes the error boundary too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "help": flowing(settings.get("help") or "")})
        self.commands = _Verbs()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _print_help(super().format_help, ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer dictates the signatures
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The verb for a list of verbs, in the help and in completion; `resolve_command` has the one that runs."""
        verb = VERBS.get(cmd_name)
        return verb and TyperCommand(cmd_name, help=verb.summary(), rich_help_panel=verb.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, name and command and self.commands[name], rest

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


# For a flag without a value typer imports pydantic, which takes 0.06 s; `VERB --help` needs it for nothing else.
FLAGS = dict.fromkeys(("help", "install_completion", "show_completion"), False)
app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"default_map": FLAGS},
)


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
    console.escape_unknown_characters()
    app()
