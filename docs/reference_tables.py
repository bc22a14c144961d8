"""Tables of the reference, in Markdown, from the code: verbs, variables of roles, exit codes, environment, messages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml
from typer.core import TyperGroup

from ddp_play import errors
from ddp_play.cli.main import app
from ddp_play.cli.options import ANSIBLE
from ddp_play.run import verdict
from tests.remedies.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
PLANS = ROOT / "tests" / "unit" / "golden"


def cell(text: str) -> str:
    """Text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    """Code for one cell of a table; a span of code cannot be empty."""
    return f"`{text}`".replace("|", "\\|") if text else '`""`'


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# -- verbs ---------------------------------------------------------------------------------------------


def commands(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below `group`, with the words that call it."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, TyperGroup):
            yield from commands(command, (*words, name))


def help_markdown(text: str) -> str:
    """A help text as Markdown: rich's headings become bold, indented lines code."""
    prose, _, examples = text.partition("[bold]Examples[/]")
    shown = [line.strip() for line in examples.splitlines() if line.strip()]
    block = "\n```sh\n" + "\n".join(shown) + "\n```\n" if shown else ""
    return re.sub(r"\[/?bold\]|\[/\]", "", prose).replace("<", "\\<").replace("*", "\\*").strip() + "\n" + block


def option_rows(command: Any, *, of_ansible: bool = False) -> list[tuple[str, str, str]]:
    """Name, default and help of each option; Ansible's own are in a panel."""
    rows: list[tuple[str, str, str]] = []
    for param in command.params:
        panel = getattr(param, "rich_help_panel", None)
        if getattr(param, "hidden", False) or (panel == ANSIBLE) != of_ansible or param.name == "help":
            continue
        names = param.opts + param.secondary_opts if param.param_type_name == "option" else [param.name.upper()]
        default = param.default if isinstance(param.default, str | int) and param.default not in {"", False} else None
        rows.append((", ".join(map(code, names)), code(str(default)) if default else "", cell(param.help or "")))
    return rows


def verbs() -> str:
    """All verbs, each with its options; those that pass to Ansible once, at the end."""
    group = typer.main.get_command(app)
    if not isinstance(group, TyperGroup):
        raise TypeError("the command has no verbs")
    parts = []
    for words, command in commands(group):
        shown = command.params if not isinstance(command, TyperGroup) else []
        rows = option_rows(command) if shown else []
        ansible = [param for param in shown if getattr(param, "rich_help_panel", None) == ANSIBLE]
        parts += [f"{'#' * (1 + len(words))} {' '.join(words)}\n", help_markdown(command.help or "")]
        parts += [table(("argument or option", "default", "meaning"), rows)] if rows else []
        parts += ["and [Ansible's options](#ansible-s-options): " + _names(ansible) + ".\n"] if ansible else []
    run = group.commands["run"]
    passed_on = [(name, text) for name, _, text in option_rows(run, of_ansible=True)]
    parts += ["## Ansible's options\n", "They reach Ansible unchanged.\n", table(("option", "meaning"), passed_on)]
    return "\n".join(parts)


def _names(params: list[Any]) -> str:
    return ", ".join(code(param.opts[0]) for param in params)


# -- roles ---------------------------------------------------------------------------------------------


def role_names() -> list[str]:
    return sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))


def role_spec(name: str) -> dict[str, Any]:
    """The spec of a role's first entry point; the others have the same variables."""
    path = ROOT / "roles" / name / "meta" / "argument_specs.yml"
    specs: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
    first: dict[str, Any] = next(iter(specs.values()))
    return first


def variables(name: str) -> str:
    """Every variable of a role: type and choices from its spec, the default from its defaults."""
    defaults = yaml.safe_load((ROOT / "roles" / name / "defaults" / "main.yml").read_text(encoding="utf-8")) or {}
    rows = []
    for key, option in (role_spec(name).get("options") or {}).items():
        kind = option.get("type", "str")
        kind += f" of {option['elements']}" if "elements" in option else ""
        kind += ": " + ", ".join(code(_yaml(choice)) for choice in option["choices"]) if "choices" in option else ""
        default = code(_yaml(defaults[key])) if key in defaults else "required" if option.get("required") else ""
        rows.append((code(key), kind, default, cell(_text(option.get("description", "")))))
    return table(("variable", "type", "default", "meaning"), rows)


def _text(description: str | list[str]) -> str:
    return description if isinstance(description, str) else " ".join(description)


def _yaml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- exit codes, environment ---------------------------------------------------------------------------


def error_classes(of: type[errors.DdpPlayError] = errors.DdpPlayError) -> Iterator[type[errors.DdpPlayError]]:
    for cls in of.__subclasses__():
        yield cls
        yield from error_classes(cls)


def exit_codes() -> str:
    """The classes of errors, with their exit codes and kinds."""
    rows = [
        (str(cls.exit_code), code(cls.kind), code(cls.__name__), cell((cls.__doc__ or "").replace("`", "")))
        for cls in sorted(error_classes(), key=lambda cls: cls.exit_code)
    ]
    return table(("code", "`exit_class`", "class", "when"), rows)


def ends_of_runs() -> str:
    """How runs end after their start, with the codes that ddp-play chooses."""
    time = str(verdict.EXIT_TIME)
    rows = (
        ("0", "`done`", "all ranks ended with 0"),
        ("N", "`rank_failed`", "the first failing rank's own code; 128+N when signal N ended it"),
        (
            "N",
            "`no_progress`",
            "the code of the last attempt: `ddp_job_progress` names no newer file after two attempts",
        ),
        (
            time,
            "`max_duration`, `idle`, `lease`",
            "`ddp_job_max_duration`, `ddp_job_idle_timeout` or `ddp_job_lease` ended it",
        ),
        (str(verdict.EXIT_HOST_LOST), "`host_lost`", "a host did not answer for `ddp_job_host_timeout`"),
        (str(verdict.EXIT_STOPPED), "`stopped`", "`ddp-play stop`, or Ctrl-C"),
        (str(verdict.EXIT_WRONG_FABRIC), "`wrong_fabric`", "the plan's network is InfiniBand, and NCCL uses sockets"),
    )
    return table(("code", "`exit_class`", "what ended the run"), rows)


def rank_environment() -> str:
    """What ddp-play sets for ranks: the union of the plans that the tests compare, without the job's own values."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in sorted(PLANS.glob("plan-*.json")):
        for kind in json.loads(path.read_text(encoding="utf-8"))["kinds"]:
            for var in kind["rank_template"]["env"]:
                if not var["source"].startswith(("job: ddp_job_env", "caller", "job: secret")):
                    found.setdefault(var["name"], (var["source"], []))[1].append(path.stem.removeprefix("plan-"))
    total = len(list(PLANS.glob("plan-*.json")))
    rows = [
        (code(name), cell(source), "all" if len(set(plans)) == total else ", ".join(sorted(set(plans))))
        for name, (source, plans) in sorted(found.items())
    ]
    return table(("variable", "source", "in these plans of the tests"), rows)


# -- messages ------------------------------------------------------------------------------------------


def remedies() -> str:
    """The messages of the table of remedies, by area: tests produce each of them and do what it says."""
    parts = []
    for area in dict.fromkeys(row.area for row in ROWS):
        rows = [row for row in ROWS if row.area == area]
        shown = [(row.name, code(row.says), str(row.code), _prose(row.remedy)) for row in rows]
        parts += [f"### {area}\n", table(("failure", "message", "exit code", "what helps"), shown)]
    return "\n".join(parts)


def _prose(remedy: str) -> str:
    """A remedy of a message for one cell: commands are code, all other signs are text."""
    parts = remedy.removeprefix("-> ").removeprefix("...").split("`")
    shown = [code(part) if number % 2 else _text_of(part) for number, part in enumerate(parts) if part]
    return "".join(shown)


def _text_of(part: str) -> str:
    """Text between two commands: its signs are no Markdown, and its spaces stay."""
    return re.sub(r"([<*_{}|])", r"\\\1", part)
