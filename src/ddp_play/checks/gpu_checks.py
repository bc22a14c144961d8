"""Checks of GPUs without load: errors, links and modes as nvidia-smi tells them. Pure.

Limits are those of published acceptance tests (docs/checks.md names them); what has none is compared over the fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Compared, Fleet, NotRun, counted, each, ok, same_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Problem = Callable[[Mapping[str, Any]], str]  # what is wrong with a GPU; empty if nothing is

WARN, FAIL = Status.WARN, Status.FAIL
MOST_ROWS = 512  # remapped for uncorrectable errors
SLOWDOWNS = {
    "clocks_event_reasons.hw_slowdown": "hardware slowdown",
    "clocks_event_reasons.hw_thermal_slowdown": "thermal slowdown",
    "clocks_event_reasons.hw_power_brake_slowdown": "power brake",
}
ECC = "ecc.errors.uncorrected.volatile.total"
REMAPPED = ("remapped_rows.failure", "remapped_rows.pending", "remapped_rows.uncorrectable")
WIDTHS = ("pcie.link.width.current", "pcie.link.width.max")
NUMBERS = (ECC, REMAPPED[2], *WIDTHS)
SLOWEST = "the slowest rank decides the speed of all"
LEFT_OUT = "leave the host out until it is mended"
RESET = "nvidia-smi --gpu-reset -i INDEX, or reboot the host; have the GPU replaced if it comes back"


def gpu_states(fleet: Fleet) -> Iterator[Finding]:
    """GPUs of all hosts that have some."""
    having = tuple(host for host in fleet.reached if host.known.gpus)
    if not having:
        return
    hosts = Fleet(having)
    for check, rule in RULES.items():
        yield from each(hosts, check, rule)
    for compared, name in MODES:
        yield from same_everywhere(hosts, compared, lambda host, name=name: _mode(host, name))  # type: ignore[misc]


def _rows(host: CheckedHost) -> Mapping[str, Mapping[str, Any]]:
    """By its index, what nvidia-smi tells of each GPU. Raises NotRun where it does not tell of all."""
    found: Mapping[str, Mapping[str, Any]] = host.read("gpu_states")
    if not found:
        raise NotRun("nvidia-smi tells of no GPU", broken=True)
    missing = [gpu for gpu in host.known.gpus if gpu.uuid.startswith("GPU-") and gpu.uuid not in found]
    if missing:
        which = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in missing[:4])
        raise NotRun(f"nvidia-smi tells nothing of GPU {which}", broken=True)
    return {str(row.get("index", uuid)): row for uuid, row in sorted(found.items())}


def _rule(
    problem: Problem, fields: tuple[str, ...], texts: tuple[str, ...], *, status: Status = FAIL
) -> Callable[[CheckedHost], Finding | None]:
    """A rule about GPUs that have some of these fields. `texts`: fine, why, command, limit, source, look."""
    fine, why, command, limit, source, look = texts

    def judge(host: CheckedHost) -> Finding | None:
        rows = _rows(host)
        found = {index: text for index, row in rows.items() if (text := problem(_without_errors(row)))}
        if found:
            value = "; ".join(f"GPU {index}: {text}" for index, text in list(found.items())[:8])
            return Finding("", status, value, why, command, limit=limit, source=source, look=look)
        _refuse_errors(rows, fields)
        return ok(fine) if any(name in row for row in rows.values() for name in fields) else None

    return judge


def _refuse_errors(rows: Mapping[str, Mapping[str, Any]], fields: tuple[str, ...]) -> None:
    """Raises NotRun where nvidia-smi has no value for one of the fields that a GPU has. `rows`: by its index."""
    odd = [
        f"GPU {index}: {name} {row[name]}" for index, row in rows.items() for name in fields
        if name in row and _is_error(name, str(row[name]))
    ]  # fmt: skip
    if odd:
        raise NotRun("; ".join(odd[:4]), broken=True)


def _without_errors(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not _is_error(name, str(value))}


def _is_error(name: str, text: str) -> bool:
    """`[GPU is lost]` and the like; what a GPU does not have is no field of its row."""
    return text.startswith(("[", "ERR")) or (name in NUMBERS and not text.isdigit())


def _ecc(row: Mapping[str, Any]) -> str:
    number = str(row.get(ECC, "0"))
    return f"{number} uncorrected since the driver was loaded" if number.isdigit() and int(number) else ""


def _remapped(row: Mapping[str, Any]) -> str:
    if _is_yes(row.get("remapped_rows.failure")):
        return "a row could not be remapped"
    if _is_yes(row.get("remapped_rows.pending")):
        return "a remapped row waits for a reset"
    rows = str(row.get("remapped_rows.uncorrectable", "0"))
    return f"{rows} rows remapped" if rows.isdigit() and int(rows) > MOST_ROWS else ""


def _is_yes(value: object) -> bool:
    return str(value).strip().lower() in ("yes", "1")


def _recovery(row: Mapping[str, Any]) -> str:
    action = str(row.get("gpu_recovery_action", "None"))
    return "" if action == "None" else action


def _width(row: Mapping[str, Any]) -> str:
    now, most = (str(row.get(name, "")) for name in WIDTHS)
    if now.isdigit() and most.isdigit() and int(now) < int(most):
        return f"x{now} of x{most}"
    return ""


def _slowdown(row: Mapping[str, Any]) -> str:
    return ", ".join(text for name, text in SLOWDOWNS.items() if row.get(name) == "Active")


def _fabric(row: Mapping[str, Any]) -> str:
    state, status = str(row.get("fabric.state", "Completed")), str(row.get("fabric.status", "Success"))
    return "" if (state, status) == ("Completed", "Success") else f"{state}, {status}"


def _nvlinks(row: Mapping[str, Any]) -> str:
    links = row.get("nvlinks") or {"active": 0, "inactive": 0}
    active, inactive = int(links["active"]), int(links["inactive"])
    return f"{inactive} of {active + inactive} links inactive" if active and inactive else ""


# Sources: acceptance tests that are public, each with what it refuses.
RULES: dict[str, Callable[[CheckedHost], Finding | None]] = {
    "gpu memory errors": _rule(_ecc, (ECC,), (
        "none uncorrected", "ranks get wrong numbers, or end with an Xid", RESET, "0",
        "facebookresearch/gcm refuses any", "nvidia-smi -q -d ECC")),
    "gpu row remapping": _rule(_remapped, REMAPPED, (
        "nothing pending, nothing failed", "the next error ends a rank", RESET,
        f"no failure, nothing pending, at most {MOST_ROWS} rows",
        "Azure/azurehpc-health-checks and oracle-quickstart/oci-hpc", "nvidia-smi -q -d ROW_REMAPPER")),
    "gpu recovery action": _rule(_recovery, ("gpu_recovery_action",), (
        "none", "the driver wants this before the GPU is used again", RESET, "None",
        "gpu_recovery_action of the driver", "nvidia-smi -q | grep -i 'recovery action'")),
    "gpu pcie width": _rule(_width, WIDTHS, (
        "all lanes", SLOWEST, "reseat the GPU or its riser; " + LEFT_OUT, "all lanes that GPU and slot have",
        "imbue-ai/cluster-health refuses fewer", "nvidia-smi -q -d PCIE; lspci -vv -d 10de: | grep LnkSta")),
    "gpu slowdown": _rule(_slowdown, tuple(SLOWDOWNS), (
        "none", SLOWEST, "look at fans, inlet temperature, and power supplies", "none without load",
        "Azure/azurehpc-health-checks refuses it", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"), status=WARN),
    "gpu fabric": _rule(_fabric, ("fabric.state", "fabric.status"), (
        "completed, or not there", "NCCL hangs or fails on GPUs that have not joined their NVLink fabric",
        "systemctl status nvidia-fabricmanager; then restart it, with no rank running", "Completed, Success",
        "fabric state of the driver", "nvidia-smi -q | grep -A4 -i fabric")),
    "gpu nvlinks": _rule(_nvlinks, ("nvlinks",), (
        "all active, or none there", "NCCL goes around the link, or fails", "reboot the host; " + LEFT_OUT,
        "no inactive one next to active ones", "stas00/ml-engineering", "nvidia-smi nvlink --status")),
}  # fmt: skip


def _compared(check: str, why: str, command: str, look: str, status: Status = WARN) -> Compared:
    return Compared(check, why, status, look, command)


MODES = (
    (_compared("gpu ecc mode", "memory errors are corrected on some hosts alone, and memory sizes differ",
               "nvidia-smi -e 1 on HOSTS, then reset or reboot", "nvidia-smi -q -d ECC", FAIL), "ecc.mode.current"),
    (_compared("gpu mig mode", "divided GPUs have parts of the memory and speed", "nvidia-smi -mig 0 on HOSTS",
               "nvidia-smi -q | grep -A2 -i 'mig mode'", FAIL), "mig.mode.current"),
    (_compared("gpu persistence", "the driver initializes GPUs again for each process",
               "systemctl enable --now nvidia-persistenced",
               "nvidia-smi -q | grep -i persistence"), "persistence_mode"),
    (_compared("gpu power limit", SLOWEST, "nvidia-smi -pl WATTS on HOSTS, as on the others",
               "nvidia-smi -q -d POWER"), "power.limit"),
    (_compared("gpu clock limit", SLOWEST, "nvidia-smi -rgc on HOSTS", "nvidia-smi -q -d CLOCK"), "clocks.max.sm"),
    (_compared("version: gpu vbios", "GPUs behave differently", "have the vendor's firmware installed",
               "nvidia-smi -q | grep -i vbios"), "vbios_version"),
    (_compared("version: gpu inforom", "GPUs behave differently", "have the vendor's firmware installed",
               "nvidia-smi -q | grep -i -A3 inforom"), "inforom.img"),
    (_compared("gpu nvlinks in use", SLOWEST, "look at bridges and nvidia-fabricmanager; reboot the host; " + LEFT_OUT,
               "nvidia-smi nvlink --status; nvidia-smi topo -m"), "nvlinks"),
)  # fmt: skip


def _mode(host: CheckedHost, name: str) -> str | None:
    """Values of all GPUs of a host; None if they have no such field."""
    rows = _rows(host)
    if name == "nvlinks":
        return counted(f"{_links(row)} links" for row in rows.values())
    _refuse_errors(rows, (name,))
    values = [str(row[name]) for row in rows.values() if name in row]
    return counted(values) if values else None


def _links(row: Mapping[str, Any]) -> int:
    """Links of a GPU that has an active one; another rule is about the inactive ones next to it."""
    links = row.get("nvlinks") or {"active": 0, "inactive": 0}
    return int(links["active"]) + int(links["inactive"]) if links["active"] else 0
