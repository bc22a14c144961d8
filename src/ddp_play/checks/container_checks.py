"""Checks of the environment of a job's ranks, as a container on each host had it: limits, names, directories. Pure.

The rules are those of the hosts, for what a program in the container has read. What they say of the host itself already
is not said again of the container.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks import identity_checks, limit_checks
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Compared, Fleet, NotRun, attempt, each, guarded, ok, same_everywhere
from ddp_play.checks.host_findings import merged, with_names
from ddp_play.checks.shared_checks import own_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.planning.remedy_text import Asked

STARTED, LEFT = "rank container", "files of the container"
IMAGE = "the image has no Python: limits, names and versions in it were not read"
SWEEP = "ddp-play gc -i INVENTORY --limit HOSTS --yes"
# Checks of limits, and what helps where a container has too little.
LIMITS = {
    "open files": ("raise nofile of the login in /etc/security/limits.d: a rank gets as many", "ulimit -Hn"),
    "processes limit": ("raise nproc in default-ulimits of /etc/docker/daemon.json, then restart the engine",
                        "ulimit -Hu"),
    "pids limit": ("raise TasksMax of docker.service and its slice", "cat /sys/fs/cgroup/pids.max"),
    "locked memory": ("let the engine give containers unlimited memlock", "ulimit -l"),
    "shared memory": ("raise ddp_job_shm_size, or unset it: then ranks have that of the host", "df -m /dev/shm"),
}  # fmt: skip
OF_CONTAINER = "limit of a container as that of a rank"
TORCH = Compared(
    "rank version: torch", "ranks with different torch hang or compute wrong numbers", Status.FAIL,
    "docker run --rm IMAGE python3 -m pip list", "mount the same directory everywhere, or use the torch of the image",
)  # fmt: skip
PYTHON = Compared("rank version: python", "ranks on different software give different results, or none",
                  look="docker run --rm IMAGE python3 --version")  # fmt: skip


def judge_containers(fleet: Fleet, asked: Asked) -> tuple[Finding, ...]:
    """All findings about the containers of a job; hosts of which the same was found share one.

    They are about the job: a host is not put into quarantine for them.
    """
    return tuple(with_names(found, asked) for found in merged(guarded(ranks, fleet)))


def ranks(fleet: Fleet) -> Iterator[Finding]:
    """All findings about the containers of a job; none about ranks that are processes."""
    if not fleet.terms.in_containers or not fleet.terms.image:
        return
    for found in _all(fleet):
        yield replace(found, look=found.look.replace("IMAGE", fleet.terms.image))


def _all(fleet: Fleet) -> Iterator[Finding]:
    yield from each(fleet, STARTED, _container)
    yield from each(fleet, LEFT, _left)
    within = replace(fleet, hosts=tuple(host for host in fleet.reached if _has_started(host)))
    if not within.hosts:
        return
    yield from _limits(within)
    yield from _names(fleet, within)
    for check, rule in (("work directory", _work), ("shared directory", _shared), ("gpus", _gpus), ("rdma", _rdma)):
        yield from each(within, f"rank {check}", lambda host, rule=rule: rule(host, within))  # type: ignore[misc]
    yield from same_everywhere(within, PYTHON, lambda host: host.in_rank("versions")["python"])
    yield from _torch(within)


def _container(host: CheckedHost) -> Finding:
    """Whether it was started and ended as its program does. A run would be refused what it was refused."""
    answer = host.in_container()
    if answer.get("refused"):
        if _is_about_shared(host, str(answer["problem"])):
            raise NotRun("its directory cannot be made: see `shared directory`", broken=False)
        why = "a run is refused in the same way"
        return Finding("", Status.FAIL, str(answer["problem"])[:400], why, str(answer.get("hint", "")),
                       limit="it starts", source="a container as that of a rank",
                       look="docker ps -a; journalctl -u docker -n 50")  # fmt: skip
    if any(row.get("part") == "no python" for row in answer["parts"]):
        raise NotRun(IMAGE, broken=False)
    start, problem = host.in_rank("start") if _has_started(host) else {}, str(answer.get("problem", ""))[:400]
    if start:
        return ok(f"starts, as user {start['uid']}:{start['gid']}")
    if problem.startswith("exit code"):
        return Finding("", Status.FAIL, f"it ends before its program starts: {problem}", "so does every rank",
                       "look at the image's entry point", limit="its program starts",
                       source="a container as that of a rank", look="docker run --rm IMAGE true; echo $?")  # fmt: skip
    raise NotRun(problem or "it printed nothing", broken=not answer.get("missing"))


def _is_about_shared(host: CheckedHost, problem: str) -> bool:
    """Whether the host itself cannot write to its shared directory, which is a finding of its own."""
    if host.known.shared is None or host.known.shared.path not in problem:
        return False
    return attempt("", host, own_token).status is Status.FAIL


def _has_started(host: CheckedHost) -> bool:
    found = attempt("", host, lambda host: host.in_rank("start"))
    return not isinstance(found, Finding)


def _left(host: CheckedHost) -> Finding | None:
    """What the host could not remove, of the container that was read and of those with a load. None: nothing."""
    row, end = host.container.get("left") or {"value": []}, host.container.get("end", {"left": []})
    left = [str(row["problem"])] if "problem" in row else [str(text) for text in row["value"]]
    if end is not None:
        left += [str(text) for text in end["left"] if str(text) not in left]
    elif not left:
        raise NotRun(host.lost or "it did not say at the end what is left", broken=True)
    if not left:
        return None
    return Finding("", Status.WARN, "; ".join(left[:3])[:400], "nobody else removes it", SWEEP, limit="removed",
                   source="its removal", look="docker ps -a --filter label=ddp-play.run")  # fmt: skip


def _seen_from_within(host: CheckedHost) -> CheckedHost:
    """The host with the readings of its container in place of its own."""
    rows: dict[str, Any] = {}
    for reading, part in (("limits", "limits"), ("space_shm", "memory"), ("names", "names")):
        found = attempt("", host, lambda host, part=part: host.in_rank(part))  # type: ignore[misc]
        problem = {"problem": found.value} if isinstance(found, Finding) else None
        rows[reading] = problem or {"value": found["found"] if part == "names" else found}  # type: ignore[index]
    return replace(host, readings=rows)


def _limits(within: Fleet) -> Iterator[Finding]:
    """Limits, and shared memory of a size of its own: that of the host is a finding about the host."""
    terms = replace(within.terms, in_containers=False, own_shm=not within.terms.own_shm)
    seen = replace(within, hosts=tuple(_seen_from_within(host) for host in within.hosts), terms=terms)
    for found in limit_checks.of_ranks(seen):
        if found.check not in LIMITS:
            continue
        if found.status in (Status.OK, Status.UNCHECKED):
            yield replace(found, check=f"rank {found.check}")
            continue
        command, look = LIMITS[found.check]
        yield replace(found, check=f"rank {found.check}", command=command, source=OF_CONTAINER,
                      look=f"docker run --rm --network host IMAGE sh -c '{look}'")  # fmt: skip


def _names(fleet: Fleet, within: Fleet) -> Iterator[Finding]:
    """Names of this and the other hosts, where the container has another answer than its host."""
    if len(fleet.reached) < 2:
        return
    seen = replace(within, hosts=tuple(_seen_from_within(host) for host in within.hosts))
    known = {(row.check, row.status, row.value, row.where) for row in identity_checks.names_of_hosts(fleet)}
    for found in identity_checks.names_of_hosts(seen):
        if found.status is not Status.OK and (found.check, found.status, found.value, found.where) in known:
            continue
        yield replace(
            found, check=f"rank {found.check}", look=found.look and f"docker run --rm --network host IMAGE {found.look}"
        )


def _work(host: CheckedHost, within: Fleet) -> Finding | None:
    return _directory(host, within, "work directory", "its user cannot write where the job's source is")


def _shared(host: CheckedHost, within: Fleet) -> Finding | None:
    """The shared directory, unless the host itself cannot write there."""
    token = attempt("", host, own_token)
    if token.status is Status.FAIL:
        return None
    return _directory(host, within, "shared directory", "checkpoints are kept there")


def _directory(host: CheckedHost, within: Fleet, name: str, why: str) -> Finding | None:
    row = host.in_rank("directories")["found"].get(name)
    if row is None:
        return None
    if not row["problem"]:
        return ok(f"{row['path']} can be written")
    user = host.in_rank("start")["uid"]
    return Finding(
        "", Status.FAIL, f"{row['path']} in the container: {row['problem']}", why,
        f"let user {user} write there (chown, chmod, export without root_squash), or set ddp_job_user",
        limit="a file can be written", source=f"a file written by user {user} in {within.terms.image}",
        look=f"ls -ldn {row['path']}; findmnt -T {row['path']}",
    )  # fmt: skip


def _gpus(host: CheckedHost, within: Fleet) -> Finding | None:
    if not within.terms.uses_gpus or not host.known.gpus:
        return None
    there, wanted = host.in_rank("devices")["gpus"], len(host.known.gpus)
    if there >= wanted:
        return ok(f"{there}")
    return Finding(
        "", Status.FAIL, f"{there} of {wanted} GPUs", "ranks without a GPU fail",
        "nvidia-ctk runtime configure --runtime=docker; systemctl restart docker", limit=f"{wanted}",
        source="GPUs of the host", look="docker run --rm --gpus all IMAGE sh -c 'ls /dev/nvidia*'",
    )  # fmt: skip


def _rdma(host: CheckedHost, within: Fleet) -> Finding | None:
    if not within.terms.may_use_rdma or not host.known.rdma:
        return None
    if any(name.startswith("uverbs") for name in host.in_rank("devices")["rdma"]):
        return ok("its devices are there")
    return Finding(
        "", Status.FAIL, "no /dev/infiniband/uverbs*", "NCCL falls back to sockets, or fails", "modprobe ib_uverbs",
        limit="a device file", source="RDMA devices of the host", look="ls -l /dev/infiniband",
    )  # fmt: skip


def _torch(within: Fleet) -> Iterator[Finding]:
    """One version on all hosts, and any at all."""
    having = [host.name for host in within.hosts if _version(host)]
    if having:
        yield from same_everywhere(within, TORCH, lambda host: host.in_rank("versions")["torch"] or "none")
        return
    for host in within.hosts:
        found = attempt(TORCH.check, host, lambda host: host.in_rank("versions"))
        if isinstance(found, Finding):
            yield found
            continue
        yield Finding(TORCH.check, Status.WARN, "none", "ranks that import it fail",
                      "use an image with torch, or mount it and name it in PYTHONPATH (ddp_job_env)", (host.name,),
                      limit="any", source="metadata of packages in the container", look=TORCH.look)  # fmt: skip


def _version(host: CheckedHost) -> str:
    found = attempt("", host, lambda host: str(host.in_rank("versions")["torch"]))
    return "" if isinstance(found, Finding) else found


def torch_in(host: CheckedHost) -> str:
    """Version of torch in the container of a host. Raises NotRun without one."""
    if version := str(host.in_rank("versions")["torch"]):
        return version
    raise NotRun("no torch in the image", broken=False)
