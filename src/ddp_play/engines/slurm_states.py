"""What Slurm says about a job: its fields, how far it is, why it waits, and how it ended. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from ddp_play.engines.interface import AllocationState, Ending, Phase

PENDING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD")
LIVING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT", "RESIZING", "SIGNALING")
# ExitCode of a job whose output file could not be opened.
NO_OUTPUT = "53"
_ENDED = re.compile(r"\*\*\* JOB \d+ ON \S+ CANCELLED AT \S+(?: DUE TO ([A-Z ]+?))? \*\*\*")
_CAUSES = {"TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL", "JOB REQUEUE": "REQUEUED"}
# Reasons of a pending job that do not pass: the job, the account or the partition has to be changed.
NEVER = {
    "PartitionNodeLimit": "it wants more nodes than its partition allows or has",
    "PartitionTimeLimit": "its time limit is over that of its partition",
    "PartitionConfig": "its partition has no such nodes",
    "BadConstraints": "no nodes can have what it wants together",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use this partition",
    "QOSNotAllowed": "its QOS may not use this partition",
    "DependencyNeverSatisfied": "a job that it depends on has failed",
    "AssocMaxNodePerJobLimit": "it wants more nodes than its account allows a job",
    "AssocMaxWallDurationPerJobLimit": "its time limit is over that of its account",
    "QOSMaxNodePerJobLimit": "it wants more nodes than its QOS allows a job",
    "QOSMaxWallDurationPerJobLimit": "its time limit is over that of its QOS",
    "QOSMaxGRESPerJob": "it wants more GPUs than its QOS allows a job",
    "QOSMinGRES": "it wants fewer GPUs than its QOS asks for",
}
SHARED_HOME = "set DDP_PLAY_HOME to a directory that all nodes have at the same path, and run it again"
# Reasons that pass, in words.
WAITS = {
    "Resources": "the nodes are in use",
    "Priority": "jobs of a higher priority are before it",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved: sinfo -R says why",
    "BeginTime": "its start time has not come",
    "JobHeldUser": "it is held by its user: scontrol release ID lets it go on",
    "JobHeldAdmin": "it is held by an administrator",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition starts no jobs now",
    "Nodes_required_for_job_are_DOWN": "nodes are down, drained or reserved for a higher priority: sinfo -R says why",
}


ENDINGS = {
    "CANCELLED": Ending("stopped", 130, "was cancelled", stopped=True),
    "TIMEOUT": Ending("max_duration", 124, "reached Slurm's time limit"),
    "DEADLINE": Ending("max_duration", 124, "reached its deadline"),
    "NODE_FAIL": Ending("host_lost", 69, "lost a node"),
    "BOOT_FAIL": Ending("host_not_ready", 69, "had a node that did not boot"),
    "PREEMPTED": Ending("busy", 75, "was preempted by another job"),
    "REQUEUED": Ending("busy", 75, "was requeued"),
    "OUT_OF_MEMORY": Ending("rank_failed", 137, "ran out of memory"),
}


def job_state(fields: dict[str, str], place: str = "") -> AllocationState:
    """State of a job from its fields. `place`: its place in the queue, in words."""
    word = fields.get("JobState", "")
    if word in PENDING:
        reason = fields.get("Reason", "None").split(",")[0]
        return AllocationState(Phase.PENDING, _waiting(fields, reason, place), NEVER.get(reason, ""))
    if word in LIVING:
        return AllocationState(Phase.GRANTED, f"on {fields.get('NodeList', '')}")
    host = fields.get("FailedNode") or fields.get("BatchHost", "")
    return AllocationState(Phase.ENDED, ending=ending(word, fields.get("ExitCode", ""), host))


def accounting_state(row: str) -> AllocationState | None:
    """State of a job from `sacct -nXP -o State,ExitCode`; None without a row."""
    words = row.strip().splitlines()
    if not words or "|" not in words[0]:
        return None
    state, code = words[0].split("|")[:2]
    return job_state({"JobState": state.split(" ")[0], "ExitCode": code})


def _waiting(fields: dict[str, str], reason: str, place: str) -> str:
    words = [reason if reason not in ("None", "") else "not looked at yet"]
    if known := NEVER.get(reason) or WAITS.get(reason):
        words[0] += f" ({known})"
    if place:
        words.append(place)
    start = fields.get("StartTime", "Unknown")
    words.append(
        f"estimated start {start.replace('T', ' ')}" if start not in ("Unknown", "N/A") else "no estimated start"
    )
    return ", ".join(words)


def place_in_queue(rows: str, job_id: str) -> str:
    """Place among the pending jobs of a partition, from `squeue` sorted by priority: `2nd of 5 in main`."""
    jobs = [row.split() for row in rows.splitlines() if row.strip()]
    ids = [job[0] for job in jobs]
    if job_id not in ids:
        return ""
    return f"number {ids.index(job_id) + 1} of {len(ids)} pending in {jobs[0][1]}"


def ending(word: str, exit_code: str, host: str) -> Ending:
    """How a run ended whose Slurm job is over and whose bundle does not say it. `exit_code`: as CODE:SIGNAL."""
    if word == "NODE_FAIL" and host:
        return replace(ENDINGS[word], words=f"lost node {host}")
    if word in ENDINGS:
        return ENDINGS[word]
    code, _, signal = exit_code.partition(":")
    if word == "FAILED" and signal == NO_OUTPUT:
        words = f"could not write to the run's directory on {host}: is it shared?"
        return Ending("host_not_ready", 69, words, hint=SHARED_HOME)
    if word == "FAILED" and code.isdigit() and int(code):
        return Ending("host_not_ready", int(code), f"ended with exit code {code} before its controller could start")
    if word == "FAILED" and signal not in ("", "0"):
        return Ending("internal", 70, f"had its controller killed by signal {signal}")
    return Ending("internal", 70, f"ended ({word or 'Slurm no longer knows it'}), and the bundle does not say why")


def cause_of_signal(output: str, fields: dict[str, str], *, now: float, within_s: float) -> Ending:
    """Why Slurm sent SIGTERM to a script, from what its daemon wrote to the job's output, and from the job's fields.

    Of the warning before the time limit the daemon writes no reason; the job then still runs, and its time ends
    `within_s`. Slurm's times are local.
    """
    if (said := cause_said(output)) is not None:
        return ending("NODE_FAIL", "", fields.get("FailedNode", "")) if said == ENDINGS["NODE_FAIL"] else said
    if fields.get("PreemptTime", "None") not in ("None", "Unknown", "N/A"):
        return ENDINGS["PREEMPTED"]  # it has a grace period
    warned = fields.get("JobState") == "RUNNING" and _left_s(fields, now) < within_s
    return ENDINGS["TIMEOUT" if warned else "CANCELLED"]


def comes_back(cause: Ending, fields: dict[str, str], partition: dict[str, str]) -> bool:
    """Does a job that Slurm ends for this cause get other nodes? `fields`: of the job; `partition`: of its partition.

    Not known, it does. A job that still runs can be requeued by ourselves, also where preemption cancels.
    """
    if cause == ENDINGS["REQUEUED"]:
        return True
    lost = cause.kind == ENDINGS["NODE_FAIL"].kind  # its words may name the node
    if not (lost or cause == ENDINGS["PREEMPTED"]) or fields.get("Requeue") == "0":
        return False
    cancels = not lost and "CANCEL" in partition.get("PreemptMode", "").split(",")
    return fields.get("JobState") == "RUNNING" or not cancels


def is_end_said(output: str) -> bool:
    """Did Slurm's daemon write to the job's output that it ends the job, with a cause or without one?"""
    return _ENDED.search(output) is not None


def cause_said(output: str) -> Ending | None:
    """Why Slurm ended a job, from what its daemon wrote to the job's output; None if it gave no cause."""
    found = _ENDED.findall(output)
    return ENDINGS[_CAUSES.get(found[-1], "CANCELLED")] if found and found[-1] else None


def _left_s(fields: dict[str, str], now: float) -> float:
    try:
        end = datetime.strptime(fields.get("EndTime", ""), "%Y-%m-%dT%H:%M:%S").astimezone()
    except ValueError:
        return float("inf")
    return end.timestamp() - now
