"""Checks of the machine: CPUs, memory, quotas, processes, GPUs, versions, kernel log. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Compared, Fleet, NotRun, counted, each, ok, same_everywhere
from ddp_play.checks.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WARN, FAIL = Status.WARN, Status.FAIL
SAME_MEMORY, SAME_CLOCK = (1 - thresholds().relative(name).least_share for name in ("memory", "cpu clock limit"))
# Rules of other operators: reference in docs/checks.md.
STUCK_S, ZOMBIE_S = 60, 10
WATCHED_S = 4  # how long the host looks at them (guard/machine_readings.py)
SLOWEST = "the slowest rank decides the speed of all"
SERIOUS = {
    "gpu": FAIL, "disk": FAIL, "machine": FAIL, "memory": WARN, "nfs": WARN, "network": WARN, "gpu_program": WARN,
}  # fmt: skip
KIND_TEXTS = {
    "gpu": "errors of a GPU (Xid)",
    "disk": "errors of a disk",
    "machine": "errors of the hardware, or a processor that hangs",
    "memory": "processes ended because memory was full",
    "nfs": "an NFS server that does not answer",
    "network": "trouble of a NIC",
    "gpu_program": "programs that a GPU has ended (Xid)",
}
# Why a kind matters and what helps, where it is not the host that is to be looked at first.
OF_PROGRAMS = (
    "in most cases such a program is at fault, not the GPU",
    "look for the run that failed then; if programs that run well elsewhere end so here: ddp-play check --level full",
)
# Different versions of these end a job or make its numbers wrong; of others they may explain a difference.
GRAVE_VERSIONS = ("torch", "nvidia driver", "architecture")


def machine(fleet: Fleet) -> Iterable[Finding]:
    """CPUs, memory and what limits them."""
    yield from same_everywhere(fleet, CPU, _cpu)
    yield from each(fleet, "cpu quota", _quota)
    yield from each(fleet, "memory limit", _memory_limit)
    yield from same_everywhere(fleet, MEMORY, lambda host: int(host.read("memory")["total_mib"]))
    yield from same_everywhere(fleet, GOVERNOR, _governor)
    yield from same_everywhere(fleet, CLOCK_LIMIT, lambda host: host.read("governor").get("max_mhz") or None)
    yield from same_everywhere(fleet, CLOCKSOURCE, lambda host: host.read("governor")["clocksource"] or None)
    yield from each(fleet, "memory errors", _memory_errors)
    yield from each(fleet, "kernel log", _kernel_log)
    yield from each(fleet, "processes", _processes)
    yield from each(fleet, "leftovers", _leftovers)
    yield from each(fleet, "reboot", _reboot)
    yield from each(fleet, "engine", _silent_engine)


CPU = Compared(
    "cpu", SLOWEST, FAIL, "lscpu; nproc", "give the host the CPUs of the others (cpuset, BIOS), or leave it out",
    shown=lambda value: f"{value[4]} of {value[3]} CPUs ({value[0]}, {value[1]} sockets, {value[2]} cores)",
    is_harmless=lambda value, usual: value[4] >= usual[4],
)  # fmt: skip
MEMORY = Compared(
    "memory", "ranks of equal size need equal memory", FAIL, "free -m; dmidecode -t memory",
    "look for a module that is not recognized, or leave the host out", shown=lambda value: f"{value} MiB",
    alike=lambda one, other: abs(one - other) <= SAME_MEMORY * max(one, other),
    is_harmless=lambda value, usual: value > usual,
)  # fmt: skip
GOVERNOR = Compared(
    "cpu governor", SLOWEST, WARN, "cpupower frequency-info", "cpupower frequency-set -g performance",
    shown=", ".join,
)  # fmt: skip
CLOCK_LIMIT = Compared(
    "cpu clock limit", SLOWEST, WARN, "cpupower frequency-info", "cpupower frequency-set -u MAX; BIOS: power and turbo",
    shown=lambda value: f"{value} MHz", alike=lambda one, other: abs(one - other) <= SAME_CLOCK * max(one, other),
)  # fmt: skip
CLOCKSOURCE = Compared(
    "clock source", "reading another clock source takes several times as long", WARN,
    "cat /sys/devices/system/clocksource/clocksource0/current_clocksource", "dmesg | grep -i clocksource tells why",
)  # fmt: skip


def _cpu(host: CheckedHost) -> tuple[Any, ...]:
    row = host.read("cpu")
    return (str(row["model"]), *(int(row[name]) for name in ("sockets", "cores", "threads", "usable")))


def _quota(host: CheckedHost) -> Finding:
    row, usable = host.read("cpu_quota"), int(host.read("cpu")["usable"])
    allowed = row["cpus"]
    if allowed is None or allowed >= usable:
        return ok("none")
    held = f", and has held processes back {row['times_throttled']} times" if row["times_throttled"] else ""
    return Finding(
        "", FAIL, f"{allowed:g} of {usable} CPUs{held}", SLOWEST, "remove the quota: docker update --cpus, CPUQuota=",
        limit=f"{usable} CPUs", source="the CPUs that the host has",
        look="cat /sys/fs/cgroup/cpu.max /proc/self/cgroup",
    )  # fmt: skip


def _memory_limit(host: CheckedHost) -> Finding:
    row = host.read("memory")
    if row["limit_mib"] is None:
        return ok("none")
    return Finding(
        "", FAIL, f"{row['limit_mib']} of {row['total_mib']} MiB", "the kernel ends ranks that need more",
        "raise the limit of the control group: docker update --memory, MemoryMax=", limit=f"{row['total_mib']} MiB",
        source="the memory that the host has", look="cat /sys/fs/cgroup/memory.max /proc/self/cgroup",
    )  # fmt: skip


def _governor(host: CheckedHost) -> tuple[str, ...] | None:
    return tuple(host.read("governor")["governors"]) or None


def _memory_errors(host: CheckedHost) -> Finding:
    row = host.read("memory_errors")
    if not row["ue"]:
        return ok("none that was not corrected")
    return Finding(
        "", FAIL, f"{row['ue']} uncorrected since boot", "ranks get wrong numbers, or the machine stops",
        "have the module replaced", limit="0", source="any uncorrected error", look="edac-util -v; ras-mc-ctl --errors",
    )  # fmt: skip


def _kernel_log(host: CheckedHost) -> Finding:
    found = {kind: row for kind, row in host.read("kernel_log").items() if kind in SERIOUS}
    if not found:
        return ok("nothing of the last day")
    kinds = sorted(found, key=lambda kind: (SERIOUS[kind] is not FAIL, list(SERIOUS).index(kind)))
    text = "; ".join(f"{KIND_TEXTS[kind]}: {found[kind]['lines']}" for kind in kinds)
    why, command = "it comes back under load", "read the lines before this host gets a job"
    if kinds == ["gpu_program"]:
        why, command = OF_PROGRAMS
    return Finding(
        "", SERIOUS[kinds[0]], f"{text}; last: {found[kinds[0]]['last'][-1]}", why, command,
        limit="no such line in a day", source="ddp-play's list of lines", look="dmesg -T | less",
    )  # fmt: skip


def _processes(host: CheckedHost) -> Finding:
    rows = [row for row in host.read("processes") if row["age_s"] >= (STUCK_S if row["state"] == "D" else ZOMBIE_S)]
    if not rows:
        return ok("none hangs in the kernel, none waits to be reaped")
    stuck = [row for row in rows if row["state"] == "D"]
    texts = [
        f"{row['pid']} {row['name']}" + ("" if row["state"] == "D" else f" (of {row['parent']})") for row in rows[:4]
    ]
    what = f"{len(stuck)} hang in the kernel" if stuck else f"{len(rows)} ended and are not reaped"
    return Finding(
        "", WARN, f"{what}: {', '.join(texts)}", "a disk or mount does not answer, or a program leaks processes",
        "look at what they wait for; end the parent of those that are not reaped",
        limit=f"none older than {STUCK_S if stuck else ZOMBIE_S} s for {WATCHED_S} s", source="ddp-play",
        look="ps -eo pid,ppid,stat,wchan,args",
    )  # fmt: skip


def _leftovers(host: CheckedHost) -> Finding:
    rows = [row for row in host.known.runs if not row.get("guard_alive") and not row.get("attended")]
    rows = [row for row in rows if not row.get("elsewhere") and not row.get("uncollected")]
    if not rows:
        return ok("none of ended runs")
    runs = ", ".join(sorted({str(row.get("run")) for row in rows})[:3])
    return Finding(
        "", WARN, f"{len(rows)} of ended runs: {runs}", "they take space, and their ranks may still run",
        "ddp-play gc -i INVENTORY lists them, with --yes it removes them", limit="none", source="ddp-play",
        look="ddp-play ps -i INVENTORY",
    )  # fmt: skip


def _reboot(host: CheckedHost) -> Finding:
    packages = host.read("reboot_pending")
    if not packages:
        return ok("none pending")
    return Finding(
        "", WARN, f"pending for {', '.join(map(str, packages[:3]))}", "after a crash the host starts with other code",
        "ddp-play reboot -i INVENTORY --limit HOSTS", limit="none pending", source="/run/reboot-required",
        look="cat /run/reboot-required.pkgs",
    )  # fmt: skip


def _silent_engine(host: CheckedHost) -> Finding | None:
    """An engine that is there and does not answer; a job's own check says who may not use one that does."""
    engine = host.known.engine
    if engine is None or not engine.cli or engine.permission:
        return None
    if not engine.problem:
        return ok(engine.version)
    return Finding(
        "", WARN, engine.problem[:400], "runs in containers are refused there; ranks that are processes do not need it",
        "ddp-play verify -i INVENTORY --limit HOSTS --tags docker_engine has the reason", limit="it answers",
        source="ddp-play", look="systemctl status docker; journalctl -u docker -n 50",
    )  # fmt: skip


def software(fleet: Fleet) -> Iterator[Finding]:
    """One set of versions on all hosts."""
    keys: set[str] = {"os", "kernel", "python"}
    for host in fleet.reached:
        keys |= set(host.readings.get("software", {}).get("value", ()))
    for key in sorted(keys):
        rule = Compared(
            f"version: {key}", "ranks on different software give different results, or none",
            FAIL if key in GRAVE_VERSIONS else WARN, LOOKS.get(key, ""),
            "ddp-play provision -i INVENTORY --limit HOSTS; or install the version of the others",
        )  # fmt: skip
        yield from same_everywhere(fleet, rule, lambda host, key=key: host.read("software").get(key) or "none")  # type: ignore[misc]
    yield from same_everywhere(fleet, ENGINE, _engine)
    yield from same_everywhere(fleet, TORCH, _torch)


LOOKS = {"os": "cat /etc/os-release", "kernel": "uname -r", "python": "python3 --version",
         "nvidia driver": "cat /proc/driver/nvidia/version", "libc": "ldd --version"}  # fmt: skip
ENGINE = Compared("version: engine", "images run under another engine", WARN, "docker version")
TORCH = Compared(
    "version: torch", "ranks with different torch hang or compute wrong numbers", FAIL,
    "python3 -m pip list | grep torch", "install one version everywhere, or point ddp_python to it",
)  # fmt: skip


def _engine(host: CheckedHost) -> str | None:
    engine = host.known.engine
    return engine.version or None if engine is not None and not engine.problem else None


def _torch(host: CheckedHost) -> str | None:
    if host.known.rank_python_problem:
        raise NotRun(host.known.rank_python_problem, broken=True)
    return host.known.rank_torch or None


def gpus(fleet: Fleet) -> Iterator[Finding]:
    """GPUs as the driver lists them. Nothing is run on them at this level."""
    yield from each(fleet, "gpus", _gpus)
    if any(host.gpus for host in fleet.facts):
        yield from same_everywhere(fleet, GPU_MODELS, _models)
        yield from each(fleet, "gpu users", _users)


GPU_MODELS = Compared(
    "gpu models", SLOWEST, FAIL, "nvidia-smi -L", "look for a GPU that fell off the bus (dmesg), or leave the host out"
)


def _gpus(host: CheckedHost) -> Finding:
    if host.known.gpu_problem:
        return Finding(
            "", FAIL, host.known.gpu_problem, "ranks would train on CPUs, or not at all",
            "ddp-play provision -i INVENTORY --limit HOSTS --tags nvidia_driver; dmesg shows a lost GPU",
            limit="all GPUs of the PCI bus", source="sysfs", look="nvidia-smi; lspci -d 10de:",
        )  # fmt: skip
    return ok(counted(gpu.model for gpu in host.known.gpus) or "none")


def _models(host: CheckedHost) -> str:
    return counted(f"{gpu.model}, {gpu.memory_mib} MiB" for gpu in host.known.gpus) or "none"


def _users(host: CheckedHost) -> Finding:
    users = [f"GPU {gpu.index}: {user}" for gpu in host.known.gpus for user in gpu.users]
    if not users:
        return ok("none")
    return Finding(
        "", WARN, "; ".join(users[:4]), "a rank would share the GPU", "wait for them, or end them", limit="none",
        source="nvidia-smi", look="nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
    )  # fmt: skip
