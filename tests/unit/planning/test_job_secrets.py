"""Which values of a job are secret, where they go, and where they may not be."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.job_secrets import (
    JobSecrets,
    Known,
    check_secrets,
    names_a_secret,
    refuse_elsewhere,
    secret_name_globs,
    separate,
)

VALUE = "hunter-2-of-9"


class Vaulted(str):
    """Stands for a value that Ansible decrypted."""

    __slots__ = ()


URL = "postgresql+psycopg://train:s3cret@db.example.com:5432/runs"
KNOWN = Known(lambda value: isinstance(value, Vaulted), frozenset({VALUE, "ab"}), ("SITE_CODE", "my_*_code"))
GIVEN = separate({}, {"GIVEN": "given-secret"}, KNOWN, {})


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("TOKEN", True),
        ("github_token_2", True),
        ("CLIENT_SECRET_ID", True),
        ("DB_PASSWORD", True),
        ("PASSWD", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("WANDB_API_KEY", True),
        ("aws_secret_access_key", True),
        ("MYSQL_PWD", True),
        ("mysql_pwd", True),
        ("GITHUB_PAT", True),
        ("PAT", True),
        ("PAT_OF_CI", True),
        ("SSH_PASSPHRASE", True),
        ("DB_PASS", True),
        ("SSHPASS", True),
        ("OPENAI_APIKEY", True),
        ("REDISCLI_AUTH", True),
        ("PROXY_AUTHORIZATION", True),
        ("DEPLOY_PRIVATE_KEY_PEM", True),
        ("PWD", False),
        ("OLDPWD", False),
        ("PATH", False),
        ("PATTERN", False),
        ("DATA_PATH", False),
        ("BYPASS", False),
        ("COMPASS", False),
        ("PASSES", False),
        ("AUTHOR", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("KEYBOARD", False),
        ("API_KEY_FILE", False),
        ("NCCL_DEBUG", False),
        ("LR", False),
    ],
)
def test_names_that_say_so(name: str, secret: bool) -> None:
    assert names_a_secret(name) is secret


@pytest.mark.parametrize(
    ("env", "rest", "moved"),
    [
        ({}, {}, {}),
        ({"LR": 0.1, "A": "b"}, {"LR": 0.1, "A": "b"}, {}),
        ({"A": Vaulted("x"), "B": "x"}, {"B": "x"}, {"A": "x"}),
        ({"A": f"Bearer {VALUE}"}, {}, {"A": f"Bearer {VALUE}"}),
        ({"A": "ab", "B": "abc"}, {"B": "abc"}, {"A": "ab"}),  # a short one counts alone, not as a part
        ({"A_KEY": 4711, "B_TOKEN": True}, {}, {"A_KEY": "4711", "B_TOKEN": "1"}),
        ({"DATABASE_URL": URL, "A": "b"}, {"A": "b"}, {"DATABASE_URL": URL}),
        ({"A": "http://h:80/a@b"}, {"A": "http://h:80/a@b"}, {}),
        ({"A": "redis://:pw@h/0"}, {}, {"A": "redis://:pw@h/0"}),
        ({"A": "ssh://git@h/x:y"}, {"A": "ssh://git@h/x:y"}, {}),
        (
            {"SITE_CODE": "4711", "my_site_code": 1, "OTHER": 1},
            {"OTHER": 1},
            {"SITE_CODE": "4711", "my_site_code": "1"},
        ),
        ({"A_KEY": ""}, {"A_KEY": ""}, {}),
        ({"A_KEY": None, "B_KEY": None, "C": None}, {"B_KEY": None, "C": None}, {"A_KEY": "from outside"}),
        ({"A_KEY": "two\nlines\n"}, {}, {"A_KEY": "two\nlines\n"}),
        ({"A": "uses given-secret"}, {}, {"A": "uses given-secret"}),
        ({"GIVEN": "given-secret"}, {}, {"GIVEN": "given-secret"}),
    ],
)
def test_secrets_leave_the_environment(env: dict[str, Any], rest: dict[str, Any], moved: dict[str, str]) -> None:
    found = separate(env, {"GIVEN": "given-secret"}, KNOWN, {"A_KEY": "from outside", "C": "plain"})
    assert (found.env, found.values) == (rest, {"GIVEN": "given-secret", **moved})
    assert (found.file_names, found.env_names) == (("GIVEN",), tuple(sorted(moved)))


@pytest.mark.parametrize("env", [None, ""])
def test_an_environment_that_is_not_there(env: Any) -> None:
    assert separate(env, {}, KNOWN, {}) == JobSecrets(env)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (f"A={VALUE}", "ddp_job_env is not a mapping"),
        ([VALUE], "ddp_job_env is not a mapping"),
        ({"A KEY": Vaulted(VALUE)}, "'A KEY', which is not a valid name"),
        ({"A_KEY": [VALUE]}, "the value of A_KEY is not a string"),
        ({"A": {"b": Vaulted(VALUE)}}, "the value of A is not a string"),
        ({"A_KEY": f"{VALUE}\0"}, "A_KEY holds a NUL byte"),
        ({"GIVEN": VALUE}, "GIVEN is in ddp_job_env and in ddp_job_secrets, with two values"),
    ],
)
def test_a_secret_that_cannot_arrive_is_refused_without_its_value(env: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        separate(env, {"GIVEN": "given-secret"}, KNOWN, {})
    assert "hunter" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("command", ["python", "train.py", Vaulted("x")]),
        ("command", f"python train.py --token={VALUE}"),
        ("command", ["echo", "given-secret"]),
        ("mounts", [{"source": f"/data/{VALUE}", "target": "/data"}]),
        ("name", Vaulted("night")),
    ],
)
def test_a_secret_elsewhere_is_refused_without_its_value(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"ddp_job_{name} holds a value from a vault") as caught:
        refuse_elsewhere({"restarts": 1, name: value}, KNOWN, GIVEN)
    assert "hunter" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"command": ["python", "abc"], "restarts": 3, "source": None},
        {"env": {"A": Vaulted("x")}, "secrets": {"A": Vaulted("x")}, "registry_password": Vaulted("x")},
    ],
)
def test_nothing_else_is_refused(values: dict[str, Any]) -> None:
    refuse_elsewhere(values, KNOWN, GIVEN)


def test_nothing_shows_a_value() -> None:
    assert VALUE not in repr((KNOWN, separate({"A": VALUE}, {}, KNOWN, {})))


@pytest.mark.parametrize("value", [None, {}, "", {"TOKEN": "x"}])
def test_secrets(value: Any) -> None:
    assert check_secrets(value) == (value or {})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["x"], "not a mapping"),
        ({"A-B": "x"}, "'A-B'"),
        ({"TOKEN": ""}, "TOKEN has no value"),
        ({"TOKEN": None}, "TOKEN"),
    ],
)
def test_bad_secrets(value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_secrets(value)


def test_a_secret_is_never_in_the_message() -> None:
    with pytest.raises(UsageError) as caught:
        check_secrets({"GOOD": "hunter2", "BAD NAME": "hunter3", "NUMBER": 4711})
    assert "hunter" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        check_secrets({"NUMBER": 4711})
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("ProxyCommand=sshpass -p swordfish ssh -W %h:%p jump", True),
        ("ProxyCommand=sshpass -ppin1 ssh -W %h:%p jump", False),  # too short to be looked for inside a word
        ("ProxyCommand=sshpass -p 'pin1' ssh -W %h:%p jump", True),
        ("User=pin1", True),
        ("StrictHostKeyChecking=no", False),
        ("-p22", False),
        ("Port=22", False),
        ("", False),
    ],
)
def test_secrets_in_the_arguments_of_a_command(word: str, found: bool) -> None:
    known = Known(texts=frozenset({"swordfish", "pin1", "no", "22"}))
    assert known.in_arguments(["ssh", "-C", word]) is found
    assert Known().in_arguments([word]) is False


@pytest.mark.parametrize("given", [None, "", [], ()])
def test_no_further_names(given: Any) -> None:
    assert secret_name_globs(given) == ()


def test_further_names_are_a_list_of_globs() -> None:
    assert secret_name_globs(["SITE_*", "PIN"]) == ("SITE_*", "PIN")
    for wrong in ("SITE_*", {"a": "b"}, [1], [""], 7):
        with pytest.raises(UsageError, match="ddp_job_secret_names is not a list of names"):
            secret_name_globs(wrong)
