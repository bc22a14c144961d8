#!/usr/bin/python
"""Facts of a host for role slurm: hardware as slurmd sees it, GPUs, control groups, keys, configuration, jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_facts
short_description: What a host of a Slurm cluster has and what runs on it
version_added: "0.2.0"
description:
  - Reads hardware (C(slurmd -C)), GPUs, control groups, uids, the configuration, the digest of the MUNGE key and jobs.
  - Changes nothing; what is not installed gives empty facts.
options:
  resolve:
    description: Names and addresses of the cluster's hosts, to be resolved on this host.
    type: list
    elements: str
    default: []
  packages:
    description: Packages of Slurm; the version of an installed one, or else of the one that apt would install.
    type: list
    elements: str
    default: []
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Read what Slurm can use on the host
  ddp.play.slurm_facts:
    resolve: [10.1.0.11, 10.1.0.12]
"""

RETURN = r"""
ansible_facts:
  description: The facts, under C(ddp_slurm).
  returned: always
  type: dict
  contains:
    ddp_slurm:
      description:
        - hostname (without domain), hardware (keys of a NodeName line), gpus (type and minor number), cgroup (whether
          Slurm can use control groups), uids, key (SHA-256 of the MUNGE key), munge_before (whether MUNGE is there and
          no role installed it), release (as 22.05), conf and gres (texts), jobs (of the whole cluster, an id each),
          addresses (by name), logins (groups of who has logged in for this module and as whom it runs, without root),
          pam_adopt_is_ours (whether a role installed pam_slurm_adopt, so that a removal takes it away).
      type: dict
"""

import grp  # noqa: E402
import hashlib  # noqa: E402
import ipaddress  # noqa: E402
import os  # noqa: E402
import pwd  # noqa: E402
import socket  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Dict, List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import host_record, slurm  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils.host import read, read_bytes, run  # noqa: E402

PAM_ADOPT = "libpam-slurm-adopt"
KEY = "etc/munge/munge.key"
CONF, GRES = "etc/slurm/slurm.conf", "etc/slurm/gres.conf"
JOBS = ["squeue", "--noheader", "--states=RUNNING,COMPLETING,SUSPENDED", "--format=%i"]
UNCACHED = ["--option=Dir::Cache::pkgcache=", "--option=Dir::Cache::srcpkgcache="]  # or it would write a cache
ANSWER_S = 15  # squeue tries again and again while no controller answers


def uids(names: List[str]) -> Dict[str, int]:
    """Numbers of those of these users that the host has."""
    found = {}
    for name in names:
        try:
            found[name] = pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return found


def key_digest(root: Path) -> str:
    """SHA-256 of the MUNGE key; empty without one."""
    key = read_bytes(root / KEY)
    return hashlib.sha256(key).hexdigest() if key is not None else ""


def munge_before(root: Path) -> bool:
    """Whether there is a key, and no role of this collection has installed MUNGE."""
    return (root / KEY).exists() and not is_recorded(root, "munge")


def is_recorded(root: Path, package: str) -> bool:
    """Whether a role of this collection has installed the package."""
    try:
        record = host_record.load(str(root / host_record.RECORD.lstrip("/")))
    except (OSError, ValueError):
        return False
    return any(package in row.get(host_record.PACKAGES, []) for row in record.values() if isinstance(row, dict))


def can_use_cgroups(root: Path) -> bool:
    """Whether Slurm can hold a job's processes in control groups."""
    groups = root / "sys/fs/cgroup"
    container = run(["systemd-detect-virt", "--container", "--quiet"])[0] == 0
    v1 = [path.name for path in groups.glob("*") if path.is_dir()]
    found: bool = slurm.controls_processes(read(groups / "cgroup.controllers"), v1, container)
    return found


def release(names: List[str]) -> str:
    """Release of Slurm: of an installed package, or else of the one that apt would install; empty if unknown."""
    installed = run(["dpkg-query", "--show", "--showformat=${Version}\\n", *names])[1].split() if names else []
    found = next((slurm.upstream(version) for version in installed if slurm.upstream(version)), "")
    return found or next((text for text in map(candidate, names) if text), "")


def candidate(name: str) -> str:
    """Release of the package that apt would install; empty if its lists have none."""
    text = run(["apt-cache", *UNCACHED, "policy", name])[1]
    fields = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
    return str(slurm.upstream(fields.get("Candidate", "")))


def logins(root: Path) -> Dict[str, List[str]]:
    """Groups of the users who must be able to log in again: who has logged in for this process, and as whom it runs.

    Without root.
    """
    number = read(root / "proc/self/loginuid")
    session = user_name(int(number)) if number.isdigit() else ""
    of_login = os.environ.get("SUDO_USER") or os.environ.get("DOAS_USER") or session
    return {name: groups_of(name) for name in sorted({of_login, user_name(os.geteuid())} - {"", "root"})}


def groups_of(name: str) -> List[str]:
    """Names of a user's groups; none of a user that the host does not know."""
    try:
        numbers = os.getgrouplist(name, pwd.getpwnam(name).pw_gid)
    except KeyError:
        return []
    return sorted(filter(None, map(group_name, numbers)))


def group_name(gid: int) -> str:
    """Name of a group; empty if the host knows none. A directory of users need not list all of its groups."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def user_name(uid: int) -> str:
    """Name of a user; empty if the host knows none, as for the number of a process without a login."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


def resolved(names: List[str]) -> Dict[str, List[str]]:
    """Addresses of each name as this host knows them; empty for a name that it does not know."""
    return {name: [name] if is_address(name) else lookup(name) for name in names}


def is_address(name: str) -> bool:
    """Whether a name is an address, which needs no look-up."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def lookup(name: str) -> List[str]:
    """Addresses of a name."""
    found: List[str] = slurm.parse_addresses(run(["getent", "ahosts", name])[1])
    return found


def gather(params: Dict[str, Any], root: Path) -> Dict[str, Any]:
    """All facts, as `ddp_slurm` returns them."""
    gpus = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    conf = read(root / CONF)
    return {
        "hostname": socket.gethostname().partition(".")[0],
        "hardware": slurm.parse_hardware(run(["slurmd", "-C"])[1]),
        "gpus": slurm.gpus([read(path) for path in gpus]),
        "cgroup": can_use_cgroups(root),
        "uids": uids(["slurm", "munge"]),
        "key": key_digest(root),
        "munge_before": munge_before(root),
        "release": release(params["packages"]),
        "conf": conf,
        "gres": read(root / GRES),
        "jobs": run(JOBS, ANSWER_S)[1].split() if conf else [],
        "addresses": resolved(params["resolve"]),
        "logins": logins(root),
        "pam_adopt_is_ours": is_recorded(root, PAM_ADOPT),
    }


def main() -> None:
    """Return the facts. Slurm that is missing or does not answer is a fact, not a failure of the module."""
    module = AnsibleModule(
        argument_spec={
            "resolve": {"type": "list", "elements": "str", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, ansible_facts={"ddp_slurm": gather(module.params, Path("/"))})


if __name__ == "__main__":
    main()
