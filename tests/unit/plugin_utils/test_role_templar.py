"""A templar that compiles each text once, and computes each value anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible_collections.ddp.play.plugins.plugin_utils.role_templar import role_templar

if TYPE_CHECKING:
    from ansible.template import Templar

SYSTEM = trust_as_template("{{ facts.system }}")
PACKAGES = trust_as_template("{{ table[system] + [system] }}")
CONDITION = trust_as_template("packages == ['a', system]")


def variables(system: str) -> dict[str, Any]:
    return {"facts": {"system": system}, "system": SYSTEM, "table": {"Debian": ["a"]}, "packages": PACKAGES}


@pytest.fixture
def templar() -> Templar:
    return role_templar(DataLoader())


def test_each_text_is_compiled_once(templar: Templar, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    compile_it = jinja2.Environment.compile

    def counted(self: jinja2.Environment, source: Any, *args: Any, **options: Any) -> Any:
        compiled.append(source)
        return compile_it(self, source, *args, **options)

    monkeypatch.setattr(jinja2.Environment, "compile", counted)
    templar.available_variables = variables("Debian")
    assert [templar.evaluate_conditional(CONDITION) for _ in range(3)] == [True] * 3
    assert templar.template({"system": SYSTEM, "packages": PACKAGES}) == {
        "system": "Debian",
        "packages": ["a", "Debian"],
    }
    assert len(compiled) == 3


def test_without_these_names_it_is_ansibles_own_templar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.ddp.play.plugins.plugin_utils.role_templar.COMPILES", ("_no_such_name",))
    found = role_templar(DataLoader())
    found.available_variables = variables("Debian")
    assert found.evaluate_conditional(CONDITION) is True


def test_a_value_is_that_of_the_variables(templar: Templar) -> None:
    templar.available_variables = variables("Debian")
    assert templar.template(SYSTEM) == "Debian"
    templar.available_variables = variables("RedHat 9")
    assert templar.template(SYSTEM) == "RedHat 9"
    with pytest.raises(AnsibleError, match="RedHat 9"):
        templar.evaluate_conditional(CONDITION)
    templar.available_variables = {**variables("Debian"), "table": {"Debian": ["b"]}}
    assert templar.evaluate_conditional(CONDITION) is False


def test_a_text_that_is_no_expression_fails_each_time(templar: Templar) -> None:
    for _ in range(2):
        with pytest.raises(AnsibleError, match="yntax error"):
            templar.template(trust_as_template("{{ ( }}"))


def test_a_text_with_delimiters_of_its_own_has_no_effect_on_others(templar: Templar) -> None:
    templar.available_variables = {"a": 1}
    own = trust_as_template("#jinja2: variable_start_string:'[[', variable_end_string:']]'\n[[ a ]]{{ a }}")
    for _ in range(2):
        assert templar.template(own) == "1{{ a }}"
        assert templar.template(trust_as_template("[[ a ]]{{ a }}")) == "[[ a ]]1"


def test_a_text_that_is_not_trusted_stays_as_it_is(templar: Templar) -> None:
    templar.available_variables = {"a": 1}
    assert [templar.template(trust_as_template("{{ a }}")), templar.template("{{ a }}")] == [1, "{{ a }}"]
