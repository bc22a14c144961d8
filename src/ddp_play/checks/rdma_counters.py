"""What RDMA ports counted while the network was measured, against limits per event and per second. Pure.

Counters: Documentation/ABI/stable/sysfs-class-infiniband of the kernel, and hw_counters of the drivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet, NotRun, each, ok

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHECK = "rdma counters"
SOURCE = "NVIDIA/NVSentinel, nic-health-monitor"
# Not one during the test; and, with events per second at most.
NEVER = ("link_downed", "excessive_buffer_overrun_errors", "local_link_integrity_errors", "rnr_nak_retry_err")
RATES = {
    "symbol_error": 10.0, "link_error_recovery": 5 / 60, "port_rcv_errors": 10.0, "local_ack_timeout_err": 1.0,
    "port_xmit_discards": 100.0, "roce_slow_restart": 10.0,
}  # fmt: skip


def counters_of_rdma(fleet: Fleet) -> Iterator[Finding]:
    """What the ports of each host with RDMA devices have counted between the two readings."""
    having = tuple(host for host in fleet.reached if host.known.rdma)
    yield from each(Fleet(having), CHECK, lambda host: _counted(host, fleet.counted_s))


def _counted(host: CheckedHost, seconds: float) -> Finding:
    if "counters" not in host.counters or seconds <= 0:
        raise NotRun(host.lost or host.late or "they were not read again", broken=True)
    before, after = host.read("counters"), host.counted("counters")
    ports = [port for port in sorted({*before, *after}) if " port " in port]
    hard, soft = [f"{port} is gone" for port in ports if port not in after], []
    for port in (port for port in ports if port in after):
        rises = _rises(before.get(port, {}), after[port])
        hard += [f"{port}: {name} {rises[name]} more" for name in NEVER if rises.get(name, 0) > 0]
        rates = {name: rises.get(name, 0) / seconds for name in RATES}
        soft += [f"{port}: {name} {rate:.3g} a second" for name, rate in rates.items() if rate > RATES[name]]
    fell = [f"{port}: {name}" for port in ports for name in _fell(before.get(port, {}), after.get(port, {}))]
    if fell and not hard:
        raise NotRun(f"counters were reset meanwhile: {', '.join(fell[:4])}", broken=True)
    if not hard and not soft:
        return ok(f"no error that counts in {seconds:.0f} s")
    return Finding(
        "", Status.FAIL if hard else Status.WARN, "; ".join((*hard, *soft)[:6]),
        "a link that loses or repeats data slows all ranks, or ends them",
        "change cable or transceiver, clean the optics; look at the switch's port", limit=_limits(), source=SOURCE,
        look="grep . /sys/class/infiniband/*/ports/*/{counters,hw_counters}/*; mlxlink -d DEVICE -c -m",
    )  # fmt: skip


def _rises(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By counter how much it rose; a counter that is not there was zero."""
    return {name: int(value) - int(before.get(name, 0)) for name, value in after.items()}


def _fell(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Counters with a limit that are less than before, so that nobody knows how much they rose."""
    return [name for name in (*NEVER, *RATES) if int(before.get(name, 0)) > int(after.get(name, 0))]


def _limits() -> str:
    rates = ", ".join(f"{name} {rate:.2g}" for name, rate in RATES.items())
    return f"none of {', '.join(NEVER)}; a second at most {rates}"
