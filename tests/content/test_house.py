"""The measuring of the code's sizes counts what it says."""

from __future__ import annotations

from pathlib import Path

from tests.content import house

LONG = "def f():\n" + "    x = 1\n" * house.FUNCTION_LINES
SOURCE = f'''
def documented():
    """Yes."""

def bare():
    def inner():
        pass

class Public:
    def method(self):
        pass
    def _private(self):
        pass

class _Private:
    def method(self):
        pass

{LONG}'''


def test_what_is_counted(tmp_path: Path) -> None:
    (tmp_path / "src" / "part").mkdir(parents=True)
    (tmp_path / "src" / "part" / "one.py").write_text(SOURCE)
    (tmp_path / "src" / "part" / "two.py").write_text("")
    (tmp_path / "tests" / "unit" / "part").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "part" / "test_two.py").write_text("")
    tree = house.measure("src", "tests/unit", root=tmp_path)
    assert [where.split()[-1] for where in tree.undocumented] == ["bare", "method", "f"]
    assert tree.percent_documented == 25.0
    assert [size.lines for size in tree.long_functions()] == [house.FUNCTION_LINES + 1]
    assert tree.untested == ["src/part/one.py"]
    assert tree.long_files() == []


def test_every_function_and_file_has_a_size_that_one_can_hold_in_the_head() -> None:
    trees = [house.measure(name) for name in (*house.TREES, "tests")]
    assert all(tree.files for tree in trees)
    assert [row for tree in trees for row in (*tree.long_functions(), *tree.long_files())] == []


def test_an_empty_tree_has_no_cases(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    tree = house.measure("src", "tests/unit", root=tmp_path)
    assert (tree.files, tree.undocumented, tree.percent_documented) == ([], [], 100.0)


def test_names_that_several_files_have() -> None:
    trees = [house.Tree("a", files=[house.Size(1, "a/plan.py"), house.Size(1, "a/run.py")])]
    trees.append(house.Tree("b", files=[house.Size(1, "b/plan.py")]))
    assert house.same_names(trees) == {"plan": ["a/plan.py", "b/plan.py"]}
