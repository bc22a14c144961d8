"""`python -m tests.content.house`: sizes, docstrings and tests of the code, as a table. `--all` lists every case."""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is measured, and where the tests of its modules are.
TREES = {
    "src/ddp_play": ("tests/unit",),
    "plugins": ("tests/unit/modules", "tests/unit/module_utils", "tests/unit/filters", "tests/unit/plugin_utils"),
    "trainer": ("tests/unit/trainer",),
}
FUNCTION_LINES, FILE_LINES, TEST_FILE_LINES = 40, 300, 350
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Size:
    """Something with a length in lines, and where it begins."""

    lines: int
    where: str


@dataclass
class Tree:
    """What was measured of one tree."""

    name: str
    files: list[Size] = field(default_factory=list)
    functions: list[Size] = field(default_factory=list)
    documented: int = 0
    undocumented: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)

    @property
    def percent_documented(self) -> float:
        """Public functions and methods with a docstring; 100 where there are none."""
        num_public = self.documented + len(self.undocumented)
        return 100.0 * self.documented / num_public if num_public else 100.0

    def long_functions(self) -> list[Size]:
        """Functions over the budget, longest first."""
        return over(self.functions, FUNCTION_LINES)

    def long_files(self) -> list[Size]:
        """Files over the budget, longest first."""
        return over(self.files, TEST_FILE_LINES if self.name == "tests" else FILE_LINES)


def over(sizes: list[Size], budget: int) -> list[Size]:
    """Those over a budget, longest first."""
    return sorted((size for size in sizes if size.lines > budget), key=lambda size: (-size.lines, size.where))


def functions(tree: ast.Module) -> Iterator[tuple[Function, bool]]:
    """Every function with whether it is public: at the top or in a public class, without an underscore."""

    def below(node: ast.AST, *, public: bool) -> Iterator[tuple[Function, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield child, public and not child.name.startswith("_")
                yield from below(child, public=False)
            elif isinstance(child, ast.ClassDef):
                yield from below(child, public=public and not child.name.startswith("_"))
            else:
                yield from below(child, public=public)

    return below(tree, public=True)


def measure(name: str, *tests: str, root: Path = ROOT) -> Tree:
    """Measure all Python files of a tree."""
    found = Tree(name)
    for path in sorted((root / name).rglob("*.py")):
        if "__pycache__" in path.parts:
            continue
        text, where = path.read_text(encoding="utf-8"), str(path.relative_to(root))
        found.files.append(Size(text.count("\n"), where))
        for function, public in functions(ast.parse(text)):
            size = (function.end_lineno or function.lineno) - function.lineno + 1
            found.functions.append(Size(size, f"{where}:{function.lineno} {function.name}"))
            if public and ast.get_docstring(function):
                found.documented += 1
            elif public:
                found.undocumented.append(f"{where}:{function.lineno} {function.name}")
        if (
            tests
            and not path.name.startswith("__")
            and not any(has_test(path, root / name, root / folder) for folder in tests)
        ):
            found.untested.append(where)
    return found


def has_test(module: Path, tree: Path, tests: Path) -> bool:
    """Is there a test of the module's name? Plugins and the trainer have no folders of their own there."""
    folder = tests / module.parent.relative_to(tree) if tests.name == "unit" else tests
    return any((folder / f"test_{name}.py").exists() for name in (module.stem, f"{tests.name}_{module.stem}"))


def same_names(trees: list[Tree]) -> dict[str, list[str]]:
    """Names that several files have."""
    places = defaultdict(list)
    for tree in trees:
        for size in tree.files:
            places[Path(size.where).stem].append(size.where)
    return {name: rows for name, rows in sorted(places.items()) if len(rows) > 1 and not name.startswith("__")}


def table(trees: list[Tree], root: Path = ROOT) -> list[str]:
    """A line per tree: longest function, longest file, docstrings, modules without a test."""
    package = root / "src" / "ddp_play"
    flat = sorted(path.stem for path in package.glob("*.py"))
    rows = [f"modules directly in src/ddp_play: {len(flat)} ({', '.join(flat)})", ""]
    rows.append(
        f"{'':14}{'files':>6}{'over':>6}{'longest':>9}{'functions':>11}{'over':>6}{'longest':>9}{'docstrings':>12}{'untested':>10}"
    )
    for tree in trees:
        longest_file = max((size.lines for size in tree.files), default=0)
        longest = max((size.lines for size in tree.functions), default=0)
        rows.append(
            f"{tree.name:14}{len(tree.files):6}{len(tree.long_files()):6}{longest_file:9}{len(tree.functions):11}"
            f"{len(tree.long_functions()):6}{longest:9}{tree.percent_documented:10.0f} %{len(tree.untested):10}"
        )
    return rows


def cases(trees: list[Tree]) -> list[str]:
    """Every case behind the table's numbers."""
    rows = []
    for title, of in (("functions", Tree.long_functions), ("files", Tree.long_files)):
        rows += ["", f"{title} over the budget:"]
        rows += [f"  {size.lines:4}  {size.where}" for tree in trees for size in of(tree)]
    rows += ["", "public functions without a docstring:"]
    rows += [f"  {where}" for tree in trees if tree.name != "tests" for where in tree.undocumented]
    rows += ["", "modules without a test of their name:"]
    rows += [f"  {where}" for tree in trees for where in tree.untested]
    rows += ["", "names that several files have:"]
    shared = same_names([tree for tree in trees if tree.name != "tests"])
    rows += [f"  {name}: {', '.join(places)}" for name, places in shared.items()]
    return rows


def main() -> None:
    """Print the table, with `--all` also the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="list every case")
    trees = [measure(name, *tests) for name, tests in TREES.items()] + [measure("tests")]
    lines = table(trees) + (cases(trees) if parser.parse_args().all else [])
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
