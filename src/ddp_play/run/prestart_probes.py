"""Probes before the start signal: connections between the hosts, and file locks on the shared directory."""

from __future__ import annotations

import secrets
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ddp_play.errors import HostUnfit
from ddp_play.planning.launch_placeholders import ATTEMPT, RUN_KEY, bind
from ddp_play.run.peer_choice import peers_of

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link

PROBE_S = 5.0


def probe_network(gang: Gang, plan: Plan, port: int) -> None:
    """HostUnfit unless each host reaches the head and its neighbors, and the head each host, with large packets too.

    All hosts also connect to `port`, the rendezvous port: a firewall may block it although it lets other ports pass.
    """
    address = {host.name: host.address for host in plan.hosts}
    names = [host.name for host in plan.hosts]
    rendezvous_port = _rendezvous_port(plan, port)
    # with MPI the process manager listens on this port already
    also = rendezvous_port if plan.backend != "mpi" else 0

    def listen(link: Link) -> dict[str, Any]:
        return {"address": address[link.name], "also": also if link.name == plan.head else 0}

    listening = gang.ask("listen", "listening", deadline_s=20, fields=listen)
    ports = {name: int(answer["port"]) for name, answer in listening.items()}

    def targets(link: Link) -> dict[str, Any]:
        rows = [[address[name], ports[name]] for name in peers_of(link.name, names)]
        if rendezvous_port and link.name != plan.head:
            rows.append([address[plan.head], rendezvous_port])
        return {"targets": rows, "source": address[link.name], "timeout_s": PROBE_S, "connect_only": [rendezvous_port]}

    answers = gang.ask("probe", "probed", deadline_s=2 * PROBE_S + 20, fields=targets)
    failed = {name: answer["failed"] for name, answer in answers.items() if answer["failed"]}
    if failed:
        raise _not_reached(plan, failed, rendezvous_port)


def _not_reached(plan: Plan, failed: dict[str, list[dict[str, Any]]], rendezvous_port: int) -> HostUnfit:
    """The error for connections that failed: of each host, rows with address, port and problem."""
    address = {host.name: host.address for host in plan.hosts}
    by_address = {value: name for name, value in address.items()}
    pairs = [(name, by_address.get(bad["address"], name)) for name, rows in failed.items() for bad in rows]
    lines = [
        f"{name} ({address[name]}) does not reach {by_address.get(bad['address'], 'a host')} ({bad['address']}"
        f"{f', rendezvous port {rendezvous_port}' if bad['port'] == rendezvous_port else ''}): {bad['problem']}"
        for name, rows in failed.items()
        for bad in rows
    ]
    return HostUnfit(
        f"the hosts do not reach each other on {plan.network}:\n" + "\n".join(lines),
        hint="check the firewalls between them (ranks also use ephemeral ports) and the network: "
        "ddp_job_network, ddp_interface; ddp-play check -i INVENTORY tries each port and route",
        hosts=_at_fault(pairs),
    )


def _at_fault(pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    """The host that is in each of several pairs that failed; of one pair it cannot be told which end it is."""
    partners = {frozenset(pair) for pair in pairs}
    common = frozenset.intersection(*partners)
    return tuple(common) if len(partners) > 1 and len(common) == 1 else ()


def _rendezvous_port(plan: Plan, port: int) -> int:
    """The leased port if the rendezvous uses it; 0 with a rendezvous file."""
    in_file = any(url.startswith("file://") for url in (plan.init_url, plan.store_url))
    return 0 if in_file and plan.launcher == "ranks" else port


def probe_lock(gang: Gang, plan: Plan) -> None:
    """With a rendezvous file: the head locks a file next to it. HostUnfit unless all other hosts see the lock."""
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
        blind = tuple(name for name, answer in answers.items() if answer["problem"])
        raise HostUnfit(
            f"ranks cannot use a rendezvous file on {plan.hosts[0].shared_dir}:\n" + "\n".join(rows),
            hint="mount it with locking (NFSv4, not nolock) on all hosts; the NFS server itself does not share locks "
            "with its clients; or set ddp_job_init_method to env",
            hosts=blind if len(blind) < len(others) else (),  # all of them: perhaps it is the head
        )
