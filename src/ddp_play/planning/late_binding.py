"""What a plan leaves open until launch: the run's id, the attempt, the leased port, the directory on the host."""

from __future__ import annotations

RUN_ID = "<run_id>"
RUN_KEY = "<run_key>"  # the id and the token: what hosts know the run by
OWNER = "<owner>"
ATTEMPT = "<attempt>"
HEAD_PORT = "<head_port>"
HOST_DIR = "<host_dir>"
RANK_DIR = "<host_dir>/rank-"
SECRETS_DIR = "<secrets_dir>"
MASKED = "<secret>"  # for a secret value: the host has it in memory, and nothing on the controller binds it
AGENT_LOG = "torchrun.log"  # beside the ranks' logs: what a host's torchrun itself printed


def bind(text: str, values: dict[str, str]) -> str:
    """Replace every token by its value; only ever applied to text that the plan itself wrote."""
    for token, value in values.items():
        text = text.replace(token, value)
    return text
