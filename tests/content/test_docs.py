"""The documents name nothing that does not exist: files, links, verbs, options, make targets, variables."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from ddp_play.cli.main import app
from ddp_play.errors import Busy, CheckFailed, DdpPlayError, HostNotReady, InternalError, Interrupted, UsageError
from ddp_play.planning.job import variable_names
from ddp_play.planning.job_values import HOST_VARIABLES, PREFIX

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("roles/*/README.md"),
        *ROOT.glob("trainer/**/*.md"),
        *ROOT.glob("inventory/**/*.md"),
    ]
)
TOP = ("src", "tests", "roles", "plugins", "playbooks", "inventory", "templates", "trainer", "docs", "molecule", ".ci")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def rel(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(params=DOCS, ids=rel)
def doc(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_is_something_to_check() -> None:
    names = {rel(path) for path in DOCS}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"} <= names


def test_the_readme_has_some_of_everything_that_is_checked() -> None:
    """The tests below pass on a document in which their patterns find nothing."""
    readme = ROOT / "README.md"
    assert [target for target in LINK.findall(readme.read_text(encoding="utf-8")) if ":" not in target]
    architecture = ROOT / "docs" / "architecture.md"
    assert [word for word in code_words(architecture) if word.startswith(tuple(f"{top}/" for top in TOP))]
    assert [word for words in command_lines(readme, "ddp-play") for word in words if word.startswith("-")]
    assert command_lines(readme, "make")
    assert job_variables_in(readme)


def test_relative_links_lead_somewhere(doc: Path) -> None:
    for target in LINK.findall(doc.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        where = (doc.parent / name) if name else doc
        assert where.exists(), target
        assert not anchor or anchor in anchors(where), target


def anchors(path: Path) -> set[str]:
    """Headings as the usual renderers name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def code_words(doc: Path) -> list[str]:
    """Every word in code, from spans and blocks."""
    text = doc.read_text(encoding="utf-8")
    spans = CODE.findall(BLOCK.sub("", text))
    return [word.strip("\"',;:()") for part in [*spans, *BLOCK.findall(text)] for word in part.split()]


def test_files_that_are_named_exist(doc: Path) -> None:
    missing = []
    for word in code_words(doc):
        name = word.split("#")[0].rstrip("/.").split(":")[0]
        if name.startswith(tuple(f"{top}/" for top in TOP)) and not re.search(r"[*<>{}$]", name):
            places = (ROOT, doc.parent)
            missing += [] if any((place / name).exists() for place in places) else [word]
    assert missing == []


def command_lines(doc: Path, program: str) -> list[list[str]]:
    """Commands of a program: lines of blocks, and spans that begin with it."""
    text = doc.read_text(encoding="utf-8")
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    lines += [span for span in CODE.findall(BLOCK.sub("", text)) if span.startswith(program + " ")]
    found = []
    for line in lines:
        for part in re.split(r"&&|;|\|", line.split(" #")[0]):
            words = part.strip().removeprefix("$ ").removeprefix(".venv/bin/").split()
            if words[:1] == [program]:
                found.append(words[1:])
    return found


@pytest.fixture(scope="module")
def ddp_play() -> object:
    """The command with all its verbs."""
    return typer.main.get_command(app)


def test_verbs_and_options_that_are_named_exist(doc: Path, ddp_play: object) -> None:
    for words in command_lines(doc, "ddp-play"):
        command = ddp_play
        for word in words:
            if word == "--":
                break
            if isinstance(command, TyperGroup) and not word.startswith("-"):
                assert word.isupper() or word in command.commands, words
                command = command.commands.get(word, command)
            elif word.startswith("-") and len(word) > 1:
                known = {
                    opt for param in getattr(command, "params", ()) for opt in (*param.opts, *param.secondary_opts)
                }
                assert word.split("=")[0] in known | {"--help"}, words


def test_make_targets_that_are_named_exist(doc: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {word for words in command_lines(doc, "make") for word in words if re.fullmatch(r"[a-z-]+", word)}
    assert named <= targets


def test_job_variables_that_are_named_exist(doc: Path) -> None:
    known = {PREFIX + name for name in variable_names()} | set(HOST_VARIABLES) | {"ddp_job_result", "ddp_job"}
    assert job_variables_in(doc) <= known


def job_variables_in(doc: Path) -> set[str]:
    pattern = re.compile(r"\bddp_(?:job_[a-z_]+|slots|interface)\b")
    return {word for text in code_words(doc) for word in pattern.findall(text)}


def test_the_readme_tells_every_verb() -> None:
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in command.commands if f"`{name}" not in text] == []


def test_the_readme_tells_each_verb_in_two_lines() -> None:
    """The page that a row links to has the rest."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `[a-z]+` \| .*$", text.partition("## Verbs")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if len(row) > 240] == []


def test_the_readme_tells_every_exit_code() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    errors: tuple[type[DdpPlayError], ...] = (Busy, CheckFailed, HostNotReady, InternalError, Interrupted, UsageError)
    for error in errors:
        assert re.search(rf"^\| {error.exit_code} \|", text, re.MULTILINE), error


@pytest.mark.parametrize("words", [("/", "work"), ("/tmp/", "wt"), ("age", "nt session"), ("TO", "DO")])
def test_nothing_of_the_makers_machine_is_in_the_documents(words: tuple[str, str]) -> None:
    """The words are written in two parts so that this file does not hold them."""
    word = re.compile(re.escape("".join(words)) + r"\b")
    assert [rel(path) for path in DOCS if word.search(path.read_text(encoding="utf-8").replace("/workspace", ""))] == []


# -- inventories ---------------------------------------------------------------------------------------

INVENTORIES = sorted(path for path in (ROOT / "inventory").iterdir() if path.is_dir())


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_inventories_load_and_have_ranks(inventory: Path) -> None:
    program = Path(sys.executable).parent / "ansible-inventory"
    done = subprocess.run([program, "-i", inventory, "--list"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    loaded = json.loads(done.stdout)
    assert loaded["ranks"]
