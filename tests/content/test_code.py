"""What no linter knows about this code: who prints, who imports whom, and that the guard runs on old Pythons."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from ddp_play import __version__

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "ddp_play"
GUARD = sorted((SOURCES / "guard").glob("*.py"))
MODULES = sorted(path for folder in ("modules", "module_utils") for path in (ROOT / "plugins" / folder).glob("*.py"))
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module; many tests search the same ones and none changes them."""
    return tuple(ast.walk(parsed(path)))


def test_the_version_is_the_same_in_package_project_and_collection() -> None:
    collection = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    assert CONFIG["project"]["version"] == __version__ == collection


def test_only_the_console_prints() -> None:
    """T20 finds print(); the linter knows no exception here, and neither does this."""
    printers = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "pprint")
    }
    assert printers == set()
    assert "T20" in CONFIG["tool"]["ruff"]["lint"]["select"]


def test_own_processes_import_nothing_from_the_working_directory() -> None:
    """`python -m` looks there first without -P: a json.py of anybody in /tmp would run as the user."""
    starts = [
        (str(path.relative_to(SOURCES)), before.value if isinstance(before, ast.Constant) else "")
        for path in SOURCES.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.List)
        for before, option, module in zip(node.elts, node.elts[1:], node.elts[2:], strict=False)
        if isinstance(option, ast.Constant) and option.value == "-m"
        if isinstance(before, ast.Constant) or ast.unparse(before) == "sys.executable"
        if isinstance(module, ast.Name) or str(getattr(module, "value", "")).startswith("ddp_play")
    ]
    assert len(starts) >= 7
    assert [name for name, option in starts if option != "-P"] == []


def test_only_the_console_makes_a_console() -> None:
    makers = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Console")
    }
    assert makers == {"cli/console.py"}


# -- imports -------------------------------------------------------------------------------------------


def test_make_check_holds_the_import_contracts() -> None:
    """The linter needs two seconds of CPU, and ran here a second time."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    part = makefile.partition("\nlint-python:")[2].partition("\n\n")[0]
    assert "\t@$(BIN)/lint-imports\n" in part + "\n"
    assert re.search(r"^check:.*\n\t.* lint-python ", makefile, re.MULTILINE)


def imported(path: Path) -> set[str]:
    """Absolute names a module imports, and `.` for its own package."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level if node.level else str(node.module).split(".")[0])
    return names


@pytest.mark.parametrize("path", GUARD, ids=lambda path: path.name)
def test_the_guard_needs_the_standard_library_only(path: Path) -> None:
    assert {name for name in imported(path) if name not in sys.stdlib_module_names} <= {"."}


@pytest.mark.parametrize("name", ["ansible_runner", "docker"])
def test_who_imports(name: str) -> None:
    allowed = {"ansible_runner": ("ansible/runner.py",), "docker": ("lab/", "images/")}[name]
    importers = [str(p.relative_to(SOURCES)) for p in SOURCES.rglob("*.py") if name in imported(p)]
    assert importers
    assert [path for path in importers if not path.startswith(allowed)] == []


# -- Python 3.9 on the hosts ---------------------------------------------------------------------------

# Added to the standard library after 3.9; attribute names that mean nothing else here.
SINCE = {
    "3.10": ("aclosing", "pairwise", "orig_argv", "stdlib_module_names", "EncodingWarning", "NoneType", "bit_count"),
    "3.10, too": ("EllipsisType", "hardlink_to", "aiter", "anext"),
    "3.11": ("StrEnum", "ExceptionGroup", "BaseExceptionGroup", "tomllib", "file_digest", "UTC", "add_note"),
    "3.11, too": ("getLevelNamesMapping", "Self", "Never", "LiteralString", "assert_never", "reveal_type", "TaskGroup"),
    "3.12": ("batched", "walk_up", "is_junction"),
}
NEWER = {name for names in SINCE.values() for name in names}
# Keyword arguments that came later: (function name, keyword).
NEWER_KEYWORDS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only"), ("Popen", "process_group")}


@pytest.mark.parametrize("path", [*GUARD, *MODULES], ids=lambda path: path.name)
def test_hosts_may_have_python_3_9(path: Path) -> None:
    tree = tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))))
    assert not [node for node in tree if isinstance(node, ast.Match | ast.TryStar)]
    found = [
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in tree
        if isinstance(node, ast.Attribute | ast.Name)
    ]
    assert [name for name in found if name in NEWER] == []
    calls = [
        (getattr(node.func, "attr", getattr(node.func, "id", "")), keyword.arg)
        for node in tree
        if isinstance(node, ast.Call)
        for keyword in node.keywords
    ]
    assert [call for call in calls if call in NEWER_KEYWORDS] == []


@pytest.mark.parametrize("path", [*GUARD, *MODULES], ids=lambda path: path.name)
def test_annotations_are_never_evaluated(path: Path) -> None:
    """`X | None` is a mistake at run time on 3.9; with this import it is never looked at."""
    future = [node for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    has_annotations = any(isinstance(node, ast.arg) and node.annotation for node in nodes(path))
    assert future or not has_annotations


@pytest.mark.parametrize(
    "source", ["match x:\n case 1: pass", "with (open(a) as b, open(c) as d): pass\nmatch x:\n case _: 0"]
)
def test_newer_syntax_would_be_seen(source: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(source, feature_version=(3, 9))


def test_an_old_python_starts_the_program_where_there_is_one() -> None:
    """Only where a Python 3.9 is installed; elsewhere the grammar above has to do."""
    python = shutil.which("python3.9")
    if not python or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("no python3.9 here")
    done = subprocess.run(
        [python, "-I", "-c", f"import sys; sys.path.insert(0, {str(SOURCES)!r}); import guard.main"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


PATH_MODULES = {"bundle/paths.py", "bundle/verb_paths.py", "guard/run_directory.py", "run/session_place.py"}


def names_below_a_root(path: Path) -> list[str]:
    """Names that `X.root / "name"` spells, with X a bundle or an attempt's directory on a host."""
    return [
        node.right.value
        for node in nodes(path)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if isinstance(node.left, ast.Attribute) and node.left.attr == "root"
        if isinstance(node.right, ast.Constant) and isinstance(node.right.value, str)
    ]


def test_files_of_a_bundle_and_of_an_attempt_are_named_in_one_module_each() -> None:
    names = {str(path.relative_to(SOURCES)): names_below_a_root(path) for path in SOURCES.rglob("*.py")}
    assert names["bundle/paths.py"], "the search finds nothing"
    assert {name: found for name, found in names.items() if found and name not in PATH_MODULES} == {}


# Names in the directory of a rank on its host, and of that directory: the plan and the guard must agree on them.
RANK_FILES = re.compile(
    r"(?<![\w.-])((metrics\.jsonl|result\.json|error\.json|nccl\.log|torchrun\.log|\.started|\.exited)\Z|rank-(%[ds]|\$n)?\Z)"
)
# protocol.py has them. The bundle has names of its own, and their modules may show them in messages.
NAMES_OF_HOST_FILES = "guard/protocol.py"


def names_of_rank_files(path: Path) -> list[str]:
    """String constants, and constant parts of f-strings, that end with such a name; docstrings are left out."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    texts = [node for node in nodes(path) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return [node.value for node in texts if isinstance(node.value, str) and RANK_FILES.search(node.value)]


def test_files_of_a_rank_on_its_host_are_named_in_one_module() -> None:
    names = {path.relative_to(SOURCES).as_posix(): names_of_rank_files(path) for path in SOURCES.rglob("*.py")}
    assert len(names[NAMES_OF_HOST_FILES]) >= 7, "the search finds nothing"
    others = {name: found for name, found in names.items() if found}
    assert set(others) - {NAMES_OF_HOST_FILES, "bundle/paths.py"} == set()
