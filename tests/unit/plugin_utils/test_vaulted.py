"""Values from a vault, as Ansible's own loader and templates hand them on."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret, VaultSecretsContext
from ansible.template import Templar, trust_as_template
from ansible_collections.ddp.play.plugins.plugin_utils.vaulted import argument_texts, decrypted_texts, is_vaulted

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = '{"text": "of-a-file", "number": 4711, "nested": {"list": ["deep-in-a-file"]}, "template": "{{ plain }}"}'


def encrypted(text: str, password: bytes = b"pw") -> str:
    return str(VaultLib([("default", VaultSecret(password))]).encrypt(text).decode())


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Variables as an action plugin gets them: raw."""
    (tmp_path / "whole.yml").write_text(encrypted(WHOLE))
    clear = "plain: in-clear\nmap: {a: in-clear-too}\nscalar: !vault |\n" + indent(encrypted("a-scalar"), "  ")
    clear += "\nother: !vault |\n" + indent(encrypted("of another vault", b"other"), "  ")
    (tmp_path / "clear.yml").write_text(clear + "\nansible_password: !vault |\n" + indent(encrypted("login"), "  "))
    loader = DataLoader()
    secrets = [("default", VaultSecret(b"pw"))]
    loader.set_vault_secrets(secrets)
    monkeypatch.setattr(VaultSecretsContext, "_current", VaultSecretsContext(secrets))
    return {
        **loader.load_from_file(str(tmp_path / "whole.yml"), trusted_as_template=True),
        **loader.load_from_file(str(tmp_path / "clear.yml"), trusted_as_template=True),
        "hostvars": None,
    }


@pytest.mark.parametrize(
    ("name", "vaulted"), [("text", True), ("number", True), ("scalar", True), ("plain", False), ("map", False)]
)
def test_a_variable(variables: dict[str, Any], name: str, vaulted: bool) -> None:
    assert is_vaulted(variables[name]) is vaulted


@pytest.mark.parametrize(
    ("template", "vaulted"),
    [
        ("{{ scalar }}", True),
        ("{{ scalar | default('x') }}", True),
        ("{{ text }}", True),
        ("{{ number }}", True),
        ("{{ nested.list[0] }}", True),
        ("{{ plain }}", False),
        ("fixed", False),
        # made of one: known only by its text, or not at all
        ("Bearer {{ scalar }}", False),
        ("{{ scalar | b64encode }}", False),
    ],
)
def test_what_a_template_hands_on(variables: dict[str, Any], template: str, vaulted: bool) -> None:
    assert is_vaulted(Templar(variables=variables).template(trust_as_template(template))) is vaulted


def test_texts_that_are_secret_wherever_they_appear(variables: dict[str, Any]) -> None:
    assert decrypted_texts(variables) == {"of-a-file", "deep-in-a-file", "{{ plain }}", "a-scalar"}
    assert decrypted_texts({}) == frozenset()


def test_a_file_that_is_gone_is_no_vault(variables: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "clear.yml").unlink()
    assert not is_vaulted(variables["plain"])


def test_the_words_of_vaulted_connection_arguments(variables: dict[str, Any]) -> None:
    """An argument that is in a vault as a whole is no part of one word of the command line."""
    given = {
        "ansible_ssh_common_args": variables["scalar"],
        "ansible_become_flags": variables["text"],
        "ansible_password": variables["ansible_password"],
        "ansible_ssh_extra_args": "-o A=b",
        "ansible_ssh_args": variables["other"],
        "scalar": variables["scalar"],
    }
    assert argument_texts(given) == {"a-scalar", "of-a-file"}
    assert argument_texts({}) == frozenset()
