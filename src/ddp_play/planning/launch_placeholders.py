"""Placeholders of a plan.

For values that are known only at launch: run id, attempt, leased port, directory on the host. And, in the templates of
equal hosts, for values that differ among their ranks.
"""

from __future__ import annotations

RUN_ID = "<run_id>"
RUN_KEY = "<run_key>"  # run id and token: name of the run on its hosts
OWNER = "<owner>"
ATTEMPT = "<attempt>"
HEAD_PORT = "<head_port>"
HOST_DIR = "<host_dir>"
SECRETS_DIR = "<secrets_dir>"
MASKED = "<secret>"  # stands for a secret value: only the host has it, in memory; the controller never binds it

THIS_RANK = "<this_rank>"
THIS_LOCAL_RANK = "<this_local_rank>"
THIS_NODE = "<this_node>"
THIS_HOST = "<this_host>"
THIS_ADDRESS = "<this_address>"  # on the fabric
THIS_CPUS = "<this_cpus>"  # of its NUMA binding
THIS_MEMORY_NODES = "<this_memory_nodes>"


def rank_of_local(local_rank: int) -> str:
    """Placeholder, in the template of a torchrun, for the rank with this number on its host."""
    return f"<rank_of_local_{local_rank}>"


def bind(text: str, values: dict[str, str]) -> str:
    """Replace every placeholder by its value. Only for text that the plan itself wrote."""
    for token, value in values.items():
        text = text.replace(token, value)
    return text
