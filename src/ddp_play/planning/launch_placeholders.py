"""Placeholders for values that are known only at launch: run id, attempt, leased port, directory on the host."""

from __future__ import annotations

RUN_ID = "<run_id>"
RUN_KEY = "<run_key>"  # run id and token: name of the run on its hosts
OWNER = "<owner>"
ATTEMPT = "<attempt>"
HEAD_PORT = "<head_port>"
HOST_DIR = "<host_dir>"
SECRETS_DIR = "<secrets_dir>"
MASKED = "<secret>"  # stands for a secret value: only the host has it, in memory; the controller never binds it


def bind(text: str, values: dict[str, str]) -> str:
    """Replace every placeholder by its value. Only for text that the plan itself wrote."""
    for token, value in values.items():
        text = text.replace(token, value)
    return text
