"""Ansible's options of the verbs, which reach Ansible unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ddp_play.ansible.installed_collection import demo_inventory
from ddp_play.cli import options
from ddp_play.cli.main import app
from ddp_play.errors import UsageError


def tried(*words: str, only: tuple[str, ...] = ()) -> options.Ansible:
    """What a verb with these options gets."""
    got: list[options.Ansible] = []
    app = typer.Typer()
    decorate = options.with_some_of_ansible(*only) if only else options.with_ansible

    @app.command()
    @decorate
    def verb(*, name: str = "", ansible: options.Ansible, last: bool = False) -> None:
        assert (name, last) == ("x", True)
        got.append(ansible)

    done = CliRunner().invoke(app, [*words, "--name", "x", "--last"])
    assert done.exit_code == 0, done.output
    return got[0]


def test_without_options_nothing_is_passed_on() -> None:
    assert tried() == options.Ansible()


def test_every_option_reaches_ansible(tmp_path: Path) -> None:
    playbook = tmp_path / "train.yml"
    playbook.touch()
    words = "-l gpu03 -e a=1 -e @f -u me --private-key k -b --vault-password-file v --vault-id x@y -vvv"
    request = tried(*words.split()).request(str(playbook), ["h1,h2,"])
    assert request.inventory == ("h1,h2,",)
    expected = (
        "--limit gpu03 --user me --private-key k --extra-vars a=1 --extra-vars @f "
        "--vault-password-file v --vault-id x@y --become -vvv"
    )
    assert request.options == tuple(expected.split())


def test_a_verb_may_take_only_some() -> None:
    assert tried("-l", "gpu03", only=("limit",)) == options.Ansible(limit="gpu03")
    app = typer.Typer()

    @app.command()
    @options.with_some_of_ansible("limit")
    def verb(*, ansible: options.Ansible) -> None:
        raise AssertionError(ansible)

    assert CliRunner().invoke(app, ["-u", "me"]).exit_code == 2


def test_passwords_are_prompted_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt: prompt.split()[0])
    monkeypatch.setattr("ddp_play.cli.password_prompt.TERMINAL", "/dev/null")
    found = tried("-k", "-J").passwords()
    assert (found.connection, found.become, found.vault) == ("SSH", "", "Vault")


def test_a_playbook_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"no playbook nowhere\.yml"):
        options.Ansible().request("nowhere.yml", ["h1,"])


def test_only_the_demo_has_an_inventory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs about hosts asked the demo's localhost although ansible.cfg named an inventory."""
    monkeypatch.chdir(tmp_path)
    assert options.Ansible().request(None, None).inventory == (str(demo_inventory()),)
    with pytest.raises(UsageError, match="no inventory: -i was not given"):
        options.Ansible().request_for_hosts(None)
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = hosts\n")
    assert options.Ansible().request_for_hosts(None).inventory == ()
    assert options.Ansible().request_for_hosts(["h1,h2,"]).inventory == ("h1,h2,",)


@pytest.mark.parametrize(
    "words", [["gc"], ["gc", "--yes"], ["top", "--once"], ["usage"], ["check"], ["bench"], ["collectives"]]
)
def test_a_verb_about_hosts_asks_nobody_without_an_inventory(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 64, done.output
    assert "no inventory: -i was not given\n  -> give -i INVENTORY, or set an inventory in ansible.cfg" in done.stderr
