"""Computations of role slurm for logins that need a job: lines of PAM, what speaks against them, and what differs."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence

from ansible_collections.ddp.play.plugins.module_utils import pam_block

SSHD = "/etc/pam.d/sshd"
UNPROVED = SSHD + pam_block.BEFORE  # there while a change of the file waits for a login that proves it
# SSHD includes them on Debian, where no other file of its own has lines of type account or session.
STACKS = (SSHD, "/etc/pam.d/common-account")
SESSIONS = (SSHD, "/etc/pam.d/common-session")
# PAM separates words by blanks, and a bracket would be read as one of its own.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")
USER = re.compile(r"account \[success=\d+ default=ignore\] pam_succeed_if\.so quiet user = (\S+)")
# Its defaults would let everybody in who cannot be adopted, or while slurmd does not answer.
ADOPT = "account required pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny"
ENDS_EARLY = re.compile(r"-?account\s+(?:sufficient|\[[^\]]*\bsuccess=done\b[^\]]*\])\s")
SESSION = re.compile(r"-?session\s.*\bpam_systemd\.so\b")
SSH = frozenset(["ssh", "smart"])


def users(logins: Mapping[str, Sequence[str]], groups: Sequence[str], state: Mapping[str, Any]) -> List[str]:
    """Users who get an exemption of their own: those of `logins` (groups by user) who are in none of the exempt groups.

    Those who have one keep it, or an administrator who provisions would lock out the one who did it before.
    """
    there = pam_block.lines_of_blocks(state["files"][SSHD]["content"])
    kept = (match[1] for match in map(USER.fullmatch, there) if match)
    return sorted({*kept, *(name for name, member_of in logins.items() if not set(member_of) & set(groups))})


def written(state: Mapping[str, Any]) -> List[str]:
    """Lines of the block on the host; none without one."""
    return pam_block.block_lines(state["files"][SSHD]["content"]) or []


def lines(settings: Mapping[str, Any]) -> List[str]:
    """Lines of the block: who may always log in, and the module that asks for a job.

    settings: `users` and `groups`. Each exemption jumps over the rest of the block, so that an exempt login passes the
    lines that it passed before; `sufficient` would also skip lines that a site adds below.
    """
    exempt = ["uid eq 0"]
    exempt += [f"user = {name}" for name in settings["users"]]
    exempt += [f"user ingroup {name}" for name in settings["groups"]]
    rows = [
        f"account [success={len(exempt) - number} default=ignore] pam_succeed_if.so quiet {condition}"
        for number, condition in enumerate(exempt)
    ]
    return ["# A login needs a running job on this node, but for these users and groups.", *rows, ADOPT]


def foreign(state: Mapping[str, Any]) -> str:
    """The line by which the site itself asks Slurm at a login; empty without one."""
    return next((f"{path}: {line}" for path, line in _lines_of(state, STACKS) if "pam_slurm" in line), "")


def drifted(state: Mapping[str, Any], wanted: Sequence[str]) -> List[str]:
    """The path of sshd's file if its block is not that of the wanted lines (none: no block), or not proved yet."""
    text = state["files"][SSHD]["content"]
    right = pam_block.block_lines(text) == list(wanted) if wanted else pam_block.without_block(text) == text
    return [] if right and state["files"][UNPROVED]["type"] == "absent" else [SSHD]


def problems(state: Mapping[str, Any], settings: Mapping[str, Any]) -> List[str]:
    """Why logins cannot depend on a job, a sentence each.

    settings: `users`, `groups`, `cgroup` (whether Slurm tracks processes by control groups), `connection` (Ansible's).
    """
    return [*_settings_problems(settings), *_group_problems(state, settings), *_sshd_problems(state)]


def _settings_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    if not settings["cgroup"]:
        yield (
            "Slurm finds the processes of a job by its process table (linuxproc) and has no step that could adopt a "
            "login: slurm_process_tracking has to be cgroup, which all nodes have to be able to use"
        )
    if settings["connection"].rpartition(".")[2] not in SSH:
        yield f"a new login cannot be proved over connection {settings['connection']}: provision the host over SSH"
    for name in (*settings["users"], *settings["groups"]):
        if not NAME.fullmatch(name):
            yield f"'{name}' cannot be written into a file of PAM: exempt a user or group of another name"


def _group_problems(state: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    there = [line.partition(":")[0] for line in state["commands"]["login_groups"]["stdout"].splitlines()]
    missing = [name for name in settings["groups"] if name not in there]
    if missing and not settings["check"]:  # in check mode cluster_users has not made it yet
        yield f"the host has no group {', '.join(missing)}: correct slurm_login_groups, or make the group first"


def _sshd_problems(state: Mapping[str, Any]) -> Iterator[str]:
    if state["files"][SSHD]["type"] != "file":
        yield f"{SSHD} is not a file: only OpenSSH's server with PAM is supported"
    options = dict(line.partition(" ")[::2] for line in state["commands"]["sshd"]["stdout"].splitlines())
    if options.get("usepam") != "yes":
        yield "sshd does not use PAM (sshd -T): set UsePAM yes in /etc/ssh/sshd_config and restart ssh"
    service = options.get("pamservicename", "sshd")  # OpenSSH 9.8 and later
    if service != "sshd":
        yield f"sshd asks /etc/pam.d/{service} instead of {SSHD}: take PAMServiceName out of /etc/ssh/sshd_config"
    if pam_block.is_damaged(state["files"][SSHD]["content"]):
        yield f"{SSHD} has a BEGIN or END of ddp-play without the other: remove the lines of ddp-play by hand"
    for path, line in _lines_of(state, STACKS):
        if ENDS_EARLY.match(line):
            yield f"{path} lets some users in before Slurm is asked ({' '.join(line.split())}): take this line out"


def leaving_sessions(state: Mapping[str, Any]) -> str:
    """The file by which logind moves an adopted session out of the job's control groups; empty without one."""
    return next((path for path, line in _lines_of(state, SESSIONS) if SESSION.match(line)), "")


def _lines_of(state: Mapping[str, Any], paths: Sequence[str]) -> Iterator[Any]:
    for path in paths:
        for line in pam_block.active_lines(state["files"][path]["content"]):
            yield path, line


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "slurm_login_users": users,
            "slurm_login_lines": lines,
            "slurm_login_written": written,
            "slurm_login_foreign": foreign,
            "slurm_login_drifted": drifted,
            "slurm_login_problems": problems,
            "slurm_login_leaving_sessions": leaving_sessions,
        }
