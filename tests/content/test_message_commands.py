"""Commands of ddp-play in messages exist, with their options, and name an inventory where they need one."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.core import TyperGroup

from ddp_play.cli.main import app
from ddp_play.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
# Without -i they are refused, list less, or take the demo's inventory.
NEED_INVENTORY = (
    *("provision", "verify", "deprovision", "reboot", "gc", "bench", "collectives", "session", "top"),
    *("inventory check", "image load", "image list"),
)
COMMAND = re.compile(r"ddp-play ((?:inventory |image |lab )?[a-z]+)\b([^;]*?)(?=ddp-play|;|$)")
OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def texts() -> Iterator[tuple[str, str]]:
    """(place, text) of everything that the code may print: no docstrings, no comments."""
    for folder in ("src/ddp_play", "plugins"):
        for path, source in sources(folder, "*.py"):
            for line, text in strings(ast.parse(source)):
                yield f"{path.relative_to(ROOT)}:{line}", text
    for path, source in sources("roles", "*.yml"):
        lines = [line for line in source.splitlines() if not line.lstrip().startswith("#")]
        yield str(path.relative_to(ROOT)), JINJA.sub("VALUE", " ".join(line.strip() for line in lines))


def sources(folder: str, pattern: str) -> Iterator[tuple[Path, str]]:
    """Files that name the command. Every process of the tests reads them, so the others are not parsed."""
    for path in sorted((ROOT / folder).rglob(pattern)):
        source = path.read_text(encoding="utf-8")
        if "ddp-play" in source:
            yield path, source


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    skipped: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            skipped.add(id(body[0].value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


@functools.cache
def commands() -> list[tuple[str, str, str]]:
    """(place, verb, what follows it) of every command in a text."""
    return [
        (place, " ".join(match[1].split()), match[2])
        for place, text in texts()
        for match in COMMAND.finditer(" ".join(text.split()))
        if match[1].split()[0] in VERBS
    ]


def options_of(verb: str) -> set[str]:
    command: Any = typer.main.get_command(app)
    for word in verb.split():
        command = command.commands[word]
        if not isinstance(command, TyperGroup):
            break
    return {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}


def test_there_are_commands() -> None:
    assert len(commands()) > 40


@pytest.mark.parametrize(("place", "verb", "rest"), commands(), ids=lambda value: value[:60])
def test_a_command_can_be_given_as_it_is(place: str, verb: str, rest: str) -> None:
    known = options_of(verb)
    assert [name for name in OPTION.findall(rest) if name not in known] == [], place
    named = re.search(r" -i (?:INVENTORY|VALUE|inventory)\b", rest)
    assert named or not needs_inventory(verb, place), f"{place}: ddp-play {verb}{rest}"
    assert named or " -i" not in rest, f"{place}: -i without a value"


def needs_inventory(verb: str, place: str) -> bool:
    return verb in NEED_INVENTORY and not place.endswith(("meta/argument_specs.yml", "defaults/main.yml"))
