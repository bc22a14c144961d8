"""Findings of load in the ranks' own torch: how fast hosts multiply, what held them back, their collectives. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.checks.container_checks import torch_in
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import ANY_JOB, CheckedHost, Fleet, NotRun, attempt, each, names, not_run, ok
from ddp_play.checks.group_search import Blamed
from ddp_play.checks.host_users import used_by
from ddp_play.checks.relative_rule import LEAST_TO_COMPARE, too_low
from ddp_play.checks.torch_load import best

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPEED, TIME, COLLECTIVES = "speed under load", "time on processors", "collectives"
RIGHT, ALIKE = "results under load", "gpus under load"
SLOWEST = "the slowest rank decides the speed of all"
STOLEN = 0.1  # of the seconds of the load


def load(fleet: Fleet) -> Iterator[Finding]:
    """Matrix multiplications of all hosts at once, and what kept them from it."""
    yield from each(fleet, RIGHT, lambda host: _right(host, fleet))
    on_gpus = any(part["device"] != "cpu" for host in fleet.reached for part in _parts_or_none(fleet, host.name))
    yield from _compared(fleet, SPEED, "speed of gpus" if on_gpus else "speed of processors")
    if on_gpus:
        yield from each(fleet, ALIKE, lambda host: _gpus_alike(_parts(fleet, host.name)))
    else:
        yield from _compared(fleet, TIME, "time on processors")


def torch_problem(fleet: Fleet, host: CheckedHost) -> str:
    """Why the ranks of a host have no torch; empty if they have it."""
    found = attempt("", host, lambda host: _needs_torch(fleet, host))
    return found.value if isinstance(found, Finding) else ""


def _needs_torch(fleet: Fleet, host: CheckedHost) -> str:
    """Raises NotRun without torch for the ranks."""
    if fleet.terms.in_containers:
        return torch_in(host)
    if not host.known.rank_torch:
        raise NotRun(f"no torch in {host.known.rank_python or 'the Python of ranks'}", broken=False)
    return host.known.rank_torch


def _answers(fleet: Fleet, host: str) -> list[Mapping[str, Any]]:
    """What the program on a host answered, each time that it was asked. Raises NotRun."""
    found = next(row for row in fleet.hosts if row.name == host)
    _needs_torch(fleet, found)
    document = fleet.torch or {}
    rows = document.get("hosts", {}).get(host)
    if not rows:
        why = found.lost or used_by(found.known, found.readings) or str(document.get("reason") or fleet.late)
        raise NotRun(why or "it was not run", broken=True)
    return list(rows)


def _parts(fleet: Fleet, host: str) -> list[Mapping[str, Any]]:
    """The multiplications on a host at the last time, one for each GPU. Raises NotRun."""
    answer = _answers(fleet, host)[-1]
    parts = [row for row in answer["parts"] if row.get("part") == "multiply"]
    problems = [str(row["problem"]) for row in parts if "problem" in row]
    if problems or not parts:
        raise NotRun((problems or [str(answer.get("problem", "it printed nothing"))])[0][:300], broken=True)
    wanted = num_gpus(fleet, next(row for row in fleet.hosts if row.name == host))
    if (seen := sum(part["device"] != "cpu" for part in parts)) < wanted:
        raise NotRun(str(answer.get("problem") or few_gpus(seen, wanted))[:300], broken=True)
    return parts


def num_gpus(fleet: Fleet, host: CheckedHost) -> int:
    """GPUs of a host that the load must use: none where the job uses none, and of divided ones nobody knows."""
    if fleet.terms != ANY_JOB and (not fleet.terms.uses_gpus or fleet.terms.chooses_gpus):
        return 0
    found = attempt("", host, lambda host: dict(host.read("gpu_states")))
    states = {} if isinstance(found, Finding) else found
    if any(row.get("mig.mode.current") == "Enabled" for row in states.values()):
        return 0
    return len(host.known.gpus)


def few_gpus(seen: int, wanted: int) -> str:
    """What is said of a host whose torch leaves GPUs out."""
    return f"torch has used {seen} of the host's {wanted} GPUs: nvidia-smi; python -m torch.utils.collect_env"


def _parts_or_none(fleet: Fleet, host: str) -> list[Mapping[str, Any]]:
    try:
        return _parts(fleet, host)
    except NotRun:
        return []


def _right(host: CheckedHost, fleet: Fleet) -> Finding:
    wrong = [part["device"] for part in _parts(fleet, host.name) if not part["right"]]
    if not wrong:
        return ok("as calculated")
    return Finding(
        "", Status.FAIL, f"wrong on {', '.join(wrong)}", "ranks compute wrong gradients without any error",
        "have the part replaced, after the same again", limit="exact", source="the product of constant matrices",
        look="nvidia-smi -q -d ECC,PAGE_RETIREMENT; dmesg",
    )  # fmt: skip


def _value(fleet: Fleet, host: CheckedHost, figure: str) -> float:
    _parts(fleet, host.name)
    value = best(_answers(fleet, host.name), figure)
    if value is None:
        raise NotRun("it multiplies on other devices than the others", broken=True)
    return value


def _compared(fleet: Fleet, check: str, figure: str) -> Iterator[Finding]:
    """Findings about hosts below what the others have."""
    answers = {host.name: attempt(check, host, lambda host: _value(fleet, host, figure)) for host in fleet.reached}
    yield from (found for found in answers.values() if isinstance(found, Finding))
    values = {name: value for name, value in answers.items() if not isinstance(value, Finding)}
    if not values:
        return
    found = too_low(values, figure)

    def shown(value: float) -> str:
        return f"{value:.0%}" if check == TIME else f"{value:,.1f} {found.unit}"

    for host in found.low:
        text = "; ".join([shown(values[host]), *_held(_answers(fleet, host))])
        yield Finding(
            check, Status.WARN, text, SLOWEST, REMEDIES[check], (host,), limit=shown(found.least),
            source=found.source, others=shown(found.others), look=LOOKS[check],
        )  # fmt: skip
    if well := tuple(host for host in values if host not in found.low):
        yield Finding(check, Status.OK, f"median {shown(found.usual)}", where=well)


def _gpus_alike(parts: list[Mapping[str, Any]]) -> Finding | None:
    """GPUs of one host that are slower than its others."""
    values = {str(part["device"]): float(part["gflops"]) for part in parts}
    if len(values) < LEAST_TO_COMPARE:
        return None
    found = too_low(values, "speed of gpus of one host")
    if not found.low:
        return ok(f"median {found.usual:,.0f} {found.unit}")
    text = ", ".join(f"{device} {values[device]:,.0f} {found.unit}" for device in found.low)
    return Finding(
        "", Status.WARN, text, SLOWEST, REMEDIES[SPEED], limit=f"{found.least:,.0f} {found.unit}",
        source=found.source, others=f"{found.others:,.0f} {found.unit}", look=LOOKS[SPEED],
    )  # fmt: skip


LOOKS = {
    SPEED: "nvidia-smi -q -d CLOCK,PERFORMANCE; cpupower monitor; lscpu",
    TIME: "top -b -n 1 | head -20; cat /proc/stat",
}
REMEDIES = {
    SPEED: "look for throttling (cooling, power limits), another governor, memory in fewer channels",
    TIME: "end what else runs there, or remove the quota; ask the owner of the hypervisor for the CPUs",
}


def _held(answers: list[Mapping[str, Any]]) -> list[str]:
    """What the counters of the host say about the time of the load."""
    rise: dict[str, float] = {}
    for answer in answers:
        after = answer.get("after") or {}
        for name, value in (answer.get("before") or {}).items():
            rise[name] = rise.get(name, 0.0) + float(after.get(name, value)) - float(value)
    seconds = sum(float(answer.get("seconds") or 0.0) for answer in answers)
    texts = []
    if rise.get("times_held_back", 0.0) > 0:
        texts.append(f"a CPU quota held it back {rise['times_held_back']:.0f} times")
    if rise.get("times_too_hot", 0.0) > 0:
        texts.append(f"processors were too hot {rise['times_too_hot']:.0f} times")
    if rise.get("stolen_s", 0.0) > STOLEN * seconds:
        texts.append(f"the hypervisor took {rise['stolen_s']:.1f} s of CPU time")
    return texts


def collectives(fleet: Fleet) -> Iterator[Finding]:
    """all_reduce of all hosts in the ranks' own torch, and who spoils it."""
    asked = {host.name: attempt(COLLECTIVES, host, lambda host: _has_started(fleet, host)) for host in fleet.reached}
    yield from (found for found in asked.values() if isinstance(found, Finding))
    document = fleet.torch or {}
    able = tuple(name for name, found in asked.items() if not isinstance(found, Finding))
    if not able or not document:
        return
    blamed, hosts = str(document["blamed"]), tuple(document["blamed_hosts"])
    if blamed == Blamed.NOT_RUN:
        why = str(document["reason"]) or "it was not run"
        yield from (not_run(COLLECTIVES, host, why, broken=len(able) > 1) for host in able)
        return
    groups = document["groups"]
    whole = next((row for row in groups if not row["problem"]), groups[0])
    if blamed == Blamed.NOBODY:
        yield Finding(COLLECTIVES, Status.OK, _rates(whole), where=able)
        return
    yield _spoiled(blamed, hosts, groups, float(document["least_busbw"]))
    if well := tuple(host for host in able if host not in hosts):
        yield Finding(COLLECTIVES, Status.OK, "well in a group without the others", where=well)


def _has_started(fleet: Fleet, host: CheckedHost) -> bool:
    """Whether torch was loaded there. Raises NotRun."""
    answer = _answers(fleet, host.name)[0]
    if not any(row.get("part") == "start" for row in answer["parts"]):
        raise NotRun(str(answer.get("problem", "it printed nothing"))[:300], broken=True)
    return True


def _spoiled(blamed: str, hosts: tuple[str, ...], groups: list[Mapping[str, Any]], least: float) -> Finding:
    is_named = blamed == Blamed.HOSTS
    said = {
        Blamed.HOSTS: "every group with it is not well",
        Blamed.UNCLEAR: f"it cannot be told which of {names(hosts)} is at fault",
        Blamed.TOGETHER: "each part of these hosts is well, all together are not: no single host is at fault",
        Blamed.ALL: "no group is well: the test or the network is at fault, no single host",
    }[Blamed(blamed)]
    problem = next((row["problem"] for row in groups if row["problem"] and set(hosts) & set(row["hosts"])), "")
    source = "half of the median that the network carries" if least else "it ends, with right values"
    return Finding(
        COLLECTIVES, Status.FAIL if is_named else Status.WARN, f"{said}; {problem}", "a job waits for its slowest rank",
        "look at the network's findings first; then ddp-play bench -i INVENTORY --limit HOSTS", hosts,
        limit=f"{least:.3g} GB/s" if least else "all_reduce", source=f"{source}; n={len(groups)} groups",
        look="ddp-play collectives -i INVENTORY --limit HOSTS",
    )  # fmt: skip


def _rates(group: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{row['bytes'] >> 20} MiB {row['busbw_gb_s']:.3g}" for row in group["sizes"])
    return f"all_reduce with {group['backend']} on {len(group['hosts'])} hosts, busbw in GB/s: {sizes}"
