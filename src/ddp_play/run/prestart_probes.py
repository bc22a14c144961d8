"""Network and lock probes between prepare and go: can the ranks reach each other, does the shared mount lock?"""

from __future__ import annotations

import secrets
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ddp_play.errors import HostNotReady
from ddp_play.planning.launch_placeholders import ATTEMPT, RUN_KEY, bind

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang, Link

PROBE_S = 5.0


def probe_network(gang: Gang, plan: Plan, port: int) -> None:
    """Every host reaches the head and its neighbour, the head every host, with packets of any size; all reach `port`.

    `port` is the one where ranks will meet: a firewall may let others pass and not this one.
    """
    address = {host.name: host.address for host in plan.hosts}
    names = [host.name for host in plan.hosts]
    meets = _meeting_port(plan, port)
    # the process manager of MPI ranks listens there already
    held = meets if plan.backend != "mpi" else 0

    def listen(link: Link) -> dict[str, Any]:
        return {"address": address[link.name], "also": held if link.name == plan.head else 0}

    heard = gang.ask("listen", "listening", deadline_s=20, fields=listen)
    ports = {name: int(answer["port"]) for name, answer in heard.items()}

    def targets(link: Link) -> dict[str, Any]:
        at = names.index(link.name)
        peers = set(names) - {link.name} if at == 0 else {names[0], names[(at + 1) % len(names)]} - {link.name}
        rows = [[address[name], ports[name]] for name in sorted(peers)]
        if meets and link.name != plan.head:
            rows.append([address[plan.head], meets])
        return {"targets": rows, "source": address[link.name], "timeout_s": PROBE_S, "connect_only": [meets]}

    answers = gang.ask("probe", "probed", deadline_s=2 * PROBE_S + 20, fields=targets)
    by_address = {value: name for name, value in address.items()}
    rows = [
        f"{name} ({address[name]}) does not reach {by_address[bad['address']]} ({bad['address']}"
        f"{f', port {meets} where ranks meet' if bad['port'] == meets else ''}): {bad['problem']}"
        for name, answer in answers.items()
        for bad in answer["failed"]
    ]
    if rows:
        raise HostNotReady(
            f"the hosts do not reach each other on {plan.network}:\n" + "\n".join(rows),
            hint="a firewall between them (ranks also use ephemeral ports), or the wrong network: "
            "ddp_job_network, ddp_interface",
        )


def _meeting_port(plan: Plan, port: int) -> int:
    """The leased port where it is used; 0 for ranks that meet in a file."""
    in_file = any(url.startswith("file://") for url in (plan.init_url, plan.store_url))
    return 0 if in_file and plan.launcher == "ranks" else port


def probe_lock(gang: Gang, plan: Plan) -> None:
    """Where ranks meet in a file: one host locks a file beside it, and every other host must see the lock."""
    url = next((url for url in (plan.init_url, plan.store_url) if url.startswith("file://")), "")
    if not url or len(gang.links) < 2 or not plan.hosts[0].shared_dir:
        return
    word = secrets.token_hex(8)
    values = {RUN_KEY: gang.run_key, ATTEMPT: str(gang.attempt)}
    inside = PurePosixPath(bind(url, values).removeprefix("file://")).relative_to(plan.hosts[0].shared_dir)
    where = {host.name: str(PurePosixPath(host.shared_dir) / inside) + ".lock" for host in plan.hosts}
    head = gang.link(plan.head)
    others = [link for link in gang.links if link is not head]

    def fields(link: Link) -> dict[str, Any]:
        return {"path": where[link.name], "word": word}

    gang.ask("hold_lock", "lock_held", links=[head], deadline_s=20, fields=fields)
    answers = gang.ask("see_lock", "lock_seen", links=others, deadline_s=30, fields=fields)
    gang.ask("drop_lock", "lock_dropped", links=[head], deadline_s=20)
    rows = [f"{name}: {answer['problem']}" for name, answer in answers.items() if answer["problem"]]
    if rows:
        raise HostNotReady(
            f"ranks cannot meet in a file on {plan.hosts[0].shared_dir}:\n" + "\n".join(rows),
            hint="mount it with locking (NFSv4, no nolock) on all of them: ranks on the NFS server itself do not share "
            "its clients' locks; or set ddp_job_init_method to env",
        )
