#!/usr/bin/python
"""Answer what the roles of a play ask about a host, in one execution."""

from __future__ import annotations

DOCUMENTATION = r"""
module: settled_roles
short_description: Roles that have nothing to do or to say on a host
description:
  - Follows the tasks of the roles that the play imports under the tag C(never), in one process on the controller, and
    reads the host for all of them at once. A role that ends without another task is settled.
  - Changes nothing. A role that finds anything, or whose tasks cannot be followed, is not settled; it has to run.
  - Fails on values that the specs of the roles refuse where the tasks of the roles would not.
options:
  roles:
    description: Pattern of the hosts of each role, as C(hosts) of a play. The controller evaluates it.
    type: dict
    default: {}
  questions:
    description:
      - What the controller asks the host, each with C(module), one of C(ansible.builtin.setup), C(ddp.play.gpu_facts),
        C(ddp.play.rdma_facts), C(ddp.play.host_state), and C(arguments). A playbook does not set it.
    type: list
    elements: dict
    default: []
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Find the roles that have nothing to do or to say
  ddp.play.settled_roles:
    roles:
      base_os: ranks:nfs_server
      docker_engine: ranks:!without_docker
"""

RETURN = r"""
ansible_facts:
  description:
    - C(ddp_settled_roles), by name the settled roles with the reason if one is skipped, C(ddp_unsettled_roles), the
      names of the others that the host has, and the facts of the system.
  returned: success
  type: dict
answers:
  description: The result of each question, in their order.
  returned: from the host
  type: list
  elements: dict
"""

from typing import Any, Callable, Dict, List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import (  # noqa: E402
    gpu_reading,
    rdma_reading,
    state_reading,
)

STATE = "ddp.play.host_state"
ARGUMENTS: Dict[str, Dict[str, Any]] = {
    STATE: state_reading.ARGUMENTS,
    "ddp.play.gpu_facts": gpu_reading.ARGUMENTS,
    "ddp.play.rdma_facts": rdma_reading.ARGUMENTS,
    "ansible.builtin.setup": {"gather_subset": {"type": "list", "elements": "str"}},
}


def validated(question: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a question with their defaults. Raises ValueError for what the module would refuse."""
    result = ArgumentSpecValidator(ARGUMENTS[question["module"]]).validate(question["arguments"])
    if result.error_messages:
        raise ValueError("%s: %s" % (question["module"], "; ".join(result.error_messages)))
    return dict(result.validated_parameters)


def system_facts(module: Any) -> Dict[str, Any]:
    """The facts of the operating system. Only the first of two executions asks for them.

    Their import, of which Ansible's collectors are a large part, takes a third of the module's CPU time.
    """
    from ansible_collections.ddp.play.plugins.module_utils import system_reading  # noqa: PLC0415 - see above

    found: Dict[str, Any] = system_reading.gather(module)
    return found


def answers(module: Any, questions: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The result of each question. States are read at the same moment."""
    wants = [validated(question) for question in questions]
    asked = [question["module"] for question in questions]
    states = iter(state_reading.gather_all([want for name, want in zip(asked, wants) if name == STATE]))  # noqa: B905
    gathered: Dict[str, Callable[[Dict[str, Any]], Dict[str, Any]]] = {
        STATE: lambda _want: next(states),
        "ddp.play.gpu_facts": lambda want: {"ansible_facts": {"ddp_gpu": gpu_reading.gather(want)}},
        "ddp.play.rdma_facts": lambda want: {"ansible_facts": {"ddp_rdma": rdma_reading.gather(want)}},
        "ansible.builtin.setup": lambda _want: {"ansible_facts": system_facts(module)},
    }
    return [gathered[name](want) for name, want in zip(asked, wants)]  # noqa: B905 - strict= needs Python 3.10


def main() -> None:
    """Return the answers; fails for a question that its module would refuse."""
    module = AnsibleModule(
        argument_spec={
            "roles": {"type": "dict", "default": {}},
            "questions": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        found = answers(module, module.params["questions"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, answers=found)


if __name__ == "__main__":
    main()
