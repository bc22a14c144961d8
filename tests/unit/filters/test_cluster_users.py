"""Decision of role cluster_users: what is missing, what is refused, what deprovision takes back."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import cluster_users

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8sVw+xQw0 trainer@laptop"
OTHER_KEY = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 somebody"
TRAINER = {"name": "trainer", "uid": 2001, "groups": ["vision"], "keys": [KEY]}
VISION = {"name": "vision", "gid": 3000}
PASSWD = "trainer:x:2001:2001:Trainer:/home/trainer:/bin/bash\n"
GROUP = "trainer:x:2001:\nvision:x:3000:alice,trainer\n"
NOTHING: dict[str, Any] = {
    "problems": [], "groups": [], "accounts": [], "members": [], "keys": [], "homeless": [], "changes": [],
    "notes": {"groups": [], "accounts": [], "members": [], "keys": []},
}  # fmt: skip


def state(passwd: str = PASSWD, group: str = GROUP, *, keys: str = KEY, home: bool = True) -> dict[str, Any]:
    answers = {"passwd": passwd, "group": group, "keys trainer": keys}
    commands = {name: {"rc": 0 if text else 2, "stdout": text, "stderr": ""} for name, text in answers.items()}
    return {"commands": {**commands, "home trainer": {"rc": 0 if home else 1, "stdout": "", "stderr": ""}}}


def decide(found: dict[str, Any], **account: Any) -> dict[str, Any]:
    return dict(cluster_users.decide(found, [{**TRAINER, **account}], [VISION]))


def test_a_host_that_has_everything_lacks_nothing() -> None:
    assert decide(state()) == NOTHING


def test_a_bare_host_gets_groups_first_then_the_account_and_its_key() -> None:
    found = decide(state("", "", keys="", home=False))
    assert found["groups"] == [VISION, {"name": "trainer", "gid": 2001}]
    (account,) = found["accounts"]
    assert (account["group"], account["home"], account["shell"]) == ("trainer", "/home/trainer", "/bin/bash")
    assert found["members"] == [{"user": "trainer", "group": "vision"}]
    assert found["keys"] == [{"user": "trainer", "key": KEY}]
    assert found["changes"] == [
        "group vision (gid 3000)",
        "group trainer (gid 2001)",
        "account trainer (uid 2001)",
        "group vision: new member trainer",
        "SSH keys of trainer",
    ]
    assert found["notes"] == {"groups": ["vision", "trainer"], "accounts": ["trainer"], "members": [], "keys": []}


def test_what_an_existing_account_gets_is_recorded_for_deprovision() -> None:
    found = decide(state(group="trainer:x:2001:\nvision:x:3000:alice\n", keys=OTHER_KEY))
    assert found["notes"]["members"] == ["trainer vision"]
    assert found["notes"]["keys"] == [f"trainer {KEY}"]
    assert found["notes"]["accounts"] == []


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        (f'from="10.0.0.0/8" {KEY}', False),  # options before it are the user's
        (KEY.replace("trainer@laptop", "other comment"), False),
        (f"# {KEY}", True),
        (OTHER_KEY, True),
        (KEY.replace("IJ8sVw", "IJ8sVv"), True),
    ],
)
def test_a_key_is_there_whatever_its_options_and_comment(there: str, missing: bool) -> None:
    assert bool(decide(state(keys=there))["keys"]) is missing


def test_a_home_that_is_not_there_gets_no_keys_and_is_named() -> None:
    found = decide(state(keys="", home=False), create_home=False)
    assert (found["keys"], found["homeless"], found["changes"]) == ([], ["trainer"], [])


@pytest.mark.parametrize(
    ("passwd", "group", "account", "problem"),
    [
        (PASSWD.replace("2001:2001", "1003:2001"), GROUP, {}, "account trainer has uid 1003 here, wanted 2001"),
        (PASSWD.replace("trainer", "alice"), GROUP, {}, "uid 2001 of trainer belongs to alice here"),
        (PASSWD, GROUP.replace("3000", "3001"), {}, "group vision has gid 3001 here, wanted 3000"),
        (PASSWD, GROUP.replace("vision", "games"), {}, "gid 3000 of vision belongs to games here"),
        (PASSWD.replace("2001:2001", "2001:100"), GROUP, {}, "account trainer has primary group 100 here, wanted 2001"),
        (PASSWD, GROUP, {"home": "/data/trainer"}, "account trainer has its home in /home/trainer here"),
        (PASSWD, GROUP, {"groups": ["audio"]}, "group audio of trainer does not exist"),
    ],
)
def test_numbers_and_homes_that_differ_need_a_person(
    passwd: str, group: str, account: dict[str, Any], problem: str
) -> None:
    (found,) = decide(state(passwd, group), **account)["problems"]
    assert problem in found


@pytest.mark.parametrize(
    ("account", "problem"),
    [
        ({"name": "Trainer"}, "'Trainer' is not a name"),
        ({"name": "a:b"}, "'a:b' is not a name"),
        ({"uid": 0}, "uid 0 of trainer is not possible"),
        ({"keys": ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk="]}, "is a private key"),
        ({"keys": ["~/.ssh/id_ed25519.pub"]}, "is not one line of a .pub file"),
        ({"keys": [f"{KEY}\n{OTHER_KEY}"]}, "is not one line of a .pub file"),
    ],
)
def test_variables_that_no_host_can_have_are_refused(account: dict[str, Any], problem: str) -> None:
    (found,) = cluster_users.invalid_accounts([{**TRAINER, **account}], [VISION])
    assert problem in found
    assert "b3BlbnNzaC1rZXk" not in found


def test_names_and_numbers_are_given_once() -> None:
    assert cluster_users.invalid_accounts([TRAINER], [VISION]) == []
    other = {"name": "evaluator", "uid": 2001, "gid": 3000, "group": "evaluator"}
    found = cluster_users.invalid_accounts([TRAINER, other, TRAINER], [VISION])
    assert found == ["account trainer is given twice", "uid 2001 is given twice", "gid 3000 is given twice"]


def test_the_commands_ask_for_names_and_numbers_and_read_keys_as_the_user() -> None:
    commands = cluster_users.account_commands([TRAINER], [VISION])
    assert commands["passwd"] == ["getent", "passwd", "trainer", "2001"]
    assert commands["group"] == ["getent", "group", "vision", "3000", "trainer", "2001", "vision"]
    assert commands["keys trainer"][:4] == ["runuser", "-u", "trainer", "--"]
    assert set(commands) == set(state()["commands"])


def undone(passwd: str = PASSWD, group: str = GROUP, *, processes: bool = False, **notes: list[str]) -> dict[str, Any]:
    names = notes.get("accounts", [])
    busy = {f"processes {name}": {"rc": 0 if processes else 1, "stdout": ""} for name in names}
    answers = {"passwd": {"rc": 0, "stdout": passwd}, "group": {"rc": 0, "stdout": group}, **busy}
    assert set(cluster_users.undo_commands(notes)) == set(answers)
    return dict(cluster_users.undone({"commands": answers}, notes))


def test_deprovision_takes_back_what_the_role_added() -> None:
    found = undone(
        group="trainer:x:2001:\nvision:x:3000:trainer\n", accounts=["trainer"], groups=["trainer", "vision", "gone"]
    )
    assert (found["accounts"], found["groups"]) == (["trainer"], ["trainer", "vision"])
    assert (found["busy"], found["needed"]) == ([], [])
    assert found["homes"] == ["/home/trainer"]
    assert found["changes"] == ["account trainer (its home stays)", "group trainer", "group vision"]


def test_a_group_whose_last_members_the_role_added_goes_too() -> None:
    groups = "trainer:x:2001:\nops:x:1000:\nvision:x:3000:trainer,ops\n"
    found = undone(group=groups, accounts=["trainer"], groups=["trainer", "vision"], members=["ops vision"])
    assert (found["groups"], found["needed"]) == (["trainer", "vision"], [])


def test_accounts_with_processes_and_groups_of_others_stay() -> None:
    found = undone(processes=True, accounts=["trainer"], groups=["trainer", "vision"])
    assert (found["accounts"], found["groups"]) == ([], [])
    assert (found["busy"], found["needed"]) == (["trainer"], ["trainer", "vision"])
    assert found["homes"] == []


def test_a_group_of_the_site_with_the_name_of_an_account_is_spared() -> None:
    """userdel takes it along; one of the role goes anyway, and that of an account that stays is not in danger."""
    found = undone(accounts=["trainer"], groups=["vision"])
    assert found["spared"] == [{"name": "trainer", "gid": "2001"}]
    assert undone(accounts=["trainer"], groups=["trainer"])["spared"] == []
    assert undone(processes=True, accounts=["trainer"])["spared"] == []
    assert undone(group="vision:x:3000:\n", accounts=["trainer"])["spared"] == []


def test_members_and_keys_of_accounts_that_were_there_before_are_taken_back() -> None:
    found = undone(members=["trainer vision", "trainer games"], keys=[f"trainer {KEY}", f"gone {KEY}"])
    assert found["members"] == [{"user": "trainer", "group": "vision"}]
    assert found["keys"] == [{"user": "trainer", "key": KEY}]
    assert found["changes"] == ["group vision: member trainer", "SSH keys of trainer"]
