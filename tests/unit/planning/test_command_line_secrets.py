"""Secrets in `-e` on the command line are refused; files, templates and other variables are not."""

from __future__ import annotations

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.command_line_secrets import refuse_on_command_line

VALUE = "correct-horse-7531"


def options(value: str) -> tuple[str, ...]:
    return ("--limit", "h1", "--extra-vars", "a=1", "--extra-vars", value, "--become")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (f'{{"ddp_job_secrets": {{"T": "{VALUE}"}}}}', "ddp_job_secrets"),
        (f"{{ddp_job_secrets: {{T: {VALUE}}}}}", "ddp_job_secrets"),
        (f'ddp_job_secrets=\'{{"T": "{VALUE}"}}\'', "ddp_job_secrets"),
        (f"ddp_job_secrets={VALUE}", "ddp_job_secrets"),
        (f"ddp_job_name=a ddp_job_registry_password={VALUE}", "ddp_job_registry_password"),
        (f'{{"ddp_job_env": {{"PLAIN": "1", "HF_TOKEN": "{VALUE}"}}}}', "HF_TOKEN of ddp_job_env"),
        (f"ddp_job_env='{{HF_TOKEN: {VALUE}}}'", "HF_TOKEN of ddp_job_env"),
        ('{"ddp_job_env": {"DB": "mysql://me:pw@db/x"}}', "DB of ddp_job_env"),
        ('{"ddp_job_env": {"API_KEY": 4711}}', "API_KEY of ddp_job_env"),
        (f"ansible_password={VALUE}", "ansible_password"),
        (f'{{"ansible_become_pass": "{VALUE}"}}', "ansible_become_pass"),
        (f"ansible_dzdo_pass={VALUE}", "ansible_dzdo_pass"),
        (f"ansible_ssh_private_key_passphrase={VALUE}", "ansible_ssh_private_key_passphrase"),
    ],
)
def test_a_secret_is_refused_without_its_value(value: str, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_on_command_line(options(value))
    assert caught.value.message.startswith(f"-e sets the secret {name} on the command line")
    assert "-e @FILE" in caught.value.hint
    assert VALUE not in str(caught.value)


def test_the_remedy_for_a_password_of_the_connection_is_the_prompt() -> None:
    with pytest.raises(UsageError) as caught:
        refuse_on_command_line(options(f"ansible_become_password={VALUE}"))
    assert caught.value.hint.startswith("-k and -K ask for passwords; or ")


@pytest.mark.parametrize(
    "value",
    [
        "@secrets.yml",
        "@/no/such/ddp_job_secrets",
        "ddp_job_hosts=2",
        '{"ddp_job_env": {"OMP_NUM_THREADS": "4", "HF_TOKEN": null, "KEY_": ""}}',
        '{"ddp_job_secrets": {"T": "{{ vault_token }}"}, "ddp_job_env": {"HF_TOKEN": "{{ vault_token }}"}}',
        '{"ddp_job_secrets": {}}',
        "ddp_job_registry_password={{ vault_password }}",
        "ddp_job_registry_password='{{ vault_password }}'",
        "ddp_job_env=text",
        "ansible_user=ops ansible_password='{{ vault_password }}' ansible_ssh_private_key_file=/home/kim/.ssh/lab",
        "token=of-somebody-else",
        "ansible_passes=3 my_ansible_pass=4",
        "'unbalanced",
        "{unbalanced",
        "[1, 2]",
        "",
    ],
)
def test_other_variables_pass(value: str) -> None:
    refuse_on_command_line(options(value))
    refuse_on_command_line(())
