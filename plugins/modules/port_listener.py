#!/usr/bin/python
"""Listen on a free port of a range until one connection has arrived, so that another host can try to connect."""

from __future__ import annotations

DOCUMENTATION = r"""
module: port_listener
short_description: Listen on a free port of a range for one connection
version_added: "0.1.0"
description:
  - Returns at once. A process of its own accepts one connection, closes it and ends; without a connection it ends after
    I(timeout_s).
  - Changes nothing on the host.
options:
  ports:
    description: First and last port, as FIRST-LAST. A random one that is free is taken.
    type: str
    required: true
  timeout_s:
    description: Seconds after which the process ends.
    type: int
    default: 60
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Listen where ranks would
  ddp.play.port_listener:
    ports: 29400-29999
  register: listener

- name: Connect from another host
  ansible.builtin.wait_for:
    host: "{{ listener.addresses[0] }}"
    port: "{{ listener.port }}"
    timeout: 5
  delegate_to: another
"""

RETURN = r"""
port:
  description: The port, on all addresses of the host.
  returned: success
  type: int
addresses:
  description: Global addresses of the host's interfaces that are up.
  returned: success
  type: list
  elements: str
"""

import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import socket  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402


def addresses(text: str) -> List[str]:
    """Addresses in the output of `ip -json address`, without those of interfaces that are down."""
    rows: List[Dict[str, Any]] = [row for row in json.loads(text or "[]") if "UP" in row.get("flags", [])]
    return [found["local"] for row in rows for found in row.get("addr_info", []) if found.get("scope") == "global"]


def listener(port: int) -> Optional[socket.socket]:
    """A socket that listens on the port, for IPv6 too where the kernel has it; None if the port is taken."""
    if not socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port))
        except OSError:
            return None
    try:
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    except OSError:
        return None


def free_listener(ports: str) -> Optional[socket.socket]:
    """A listener on a random free port of FIRST-LAST; None if there is none."""
    first, _, last = ports.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    for port in random.sample(numbers, len(numbers)):
        found = listener(port)
        if found is not None:
            return found
    return None


def serve(server: socket.socket, timeout_s: int) -> None:
    """In a process of its own, without the caller's streams: accept one connection, or end after `timeout_s`."""
    if os.fork():
        return
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        server.settimeout(timeout_s)
        server.accept()
    finally:
        os._exit(0)


def main() -> None:
    """Listen, and answer with the port."""
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "str", "required": True},
            "timeout_s": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    found = addresses(module.run_command(["ip", "-json", "address"])[1])
    server = free_listener(module.params["ports"])
    if server is None:
        module.fail_json(msg="no port of %s is free on this host: ss -tlnp shows who listens" % module.params["ports"])
    else:
        serve(server, module.params["timeout_s"])
        module.exit_json(changed=False, port=server.getsockname()[1], addresses=found)


if __name__ == "__main__":
    main()
