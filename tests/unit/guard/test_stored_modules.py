"""Import from the stored file."""

from __future__ import annotations

import marshal
import sys
import traceback
import zlib

import pytest

from ddp_play.guard.stored_modules import StoredModules

SOURCES = {
    "guard": b"'the package'\n",
    "guard.part": b"from . import other\n\n\ndef fail():\n    raise ValueError(other.X)\n",
}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> StoredModules:
    """A package `guard` of two modules that can be imported; forgotten after the test."""
    sources = {**SOURCES, "guard.other": b"X = 7\n"}
    code = {name: marshal.dumps(compile(text, name, "exec")) for name, text in sources.items()}
    finder = StoredModules(code, zlib.compress(marshal.dumps(sources)))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(sys, "modules", {name: value for name, value in sys.modules.items() if "guard" not in name})
    return finder


def test_the_package_and_its_modules_are_found_and_no_others(modules: StoredModules) -> None:
    spec = modules.find_spec("guard")
    assert spec is not None
    assert spec.submodule_search_locations == []
    assert modules.find_spec("guard.part") is not None
    assert modules.find_spec("json") is None


def test_a_module_is_executed_with_its_package(modules: StoredModules) -> None:
    namespace: dict[str, object] = {}
    exec("from guard import part", namespace)
    part = sys.modules["guard.part"]
    assert (part.__package__, part.other.X) == ("guard", 7)


def test_a_traceback_shows_lines_of_the_source(modules: StoredModules) -> None:
    namespace: dict[str, object] = {}
    with pytest.raises(ValueError, match="7") as caught:
        exec("from guard import part; part.fail()", namespace)
    assert "raise ValueError(other.X)" in "".join(traceback.format_exception(caught.value))
