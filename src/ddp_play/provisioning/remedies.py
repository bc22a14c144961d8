"""What helps when a provisioning step fails, by what the package manager, the system or the engine said."""

from __future__ import annotations

import re

REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"Could not get lock|Failed to lock apt|lock-frontend|Waiting for cache lock|yum lockfile",
        "another package manager is at work there: wait for it, or raise the role's *_lock_timeout_s",
    ),
    (
        r"No space left on device|enough free space",
        "make room: df -h on the host; docker_engine_data_root moves images",
    ),
    (
        r"runs [\w.]+ [\d.]+\b.*[Kk]nown: |is not supported by \w+\. Supported:",
        "take one of the systems that it lists, or add a row to the role's vars and try it",
    ),
    (
        r"Failed to update apt cache after \d+ retries: *$",
        "apt-get update on the host says which source or key is at fault: a mirror (ROLE_source), its proxy, its clock",
    ),
    (
        r"NO_PUBKEY|EXPKEYSIG|KEYEXPIRED|BADSIG|is not signed|signatures? (?:couldn't|could not) be verified",
        "the repository's key is wrong or has expired: check the role's *_key_url and the host's clock",
    ),
    (
        r"Temporary failure resolving|Could not resolve|Failed to fetch|Unable to connect to|Connection timed out",
        "the host does not reach its package source: a mirror (ROLE_source: mirror or distribution), or its proxy",
    ),
    (
        r"No package matching|Unable to locate package|has no installation candidate|Version .* was not found",
        "the source does not offer it: apt-cache policy on the host shows what it has; choose another ROLE_source",
    ),
    (
        r"dpkg was interrupted|dpkg --configure -a",
        "an earlier installation was cut off: run dpkg --configure -a on the host, then provision again",
    ),
    (
        r"error setting rlimit|RLIMIT|operation not permitted.*ulimit",
        "the engine may not raise that limit here: lower docker_engine_default_ulimits",
    ),
    (r"access denied by server", "the export does not list this host: exportfs -s on the server"),
    (
        r"servers whose name does not resolve there",
        "correct nfs_client_mounts by what it names: an address for the name, an empty mount point, another server",
    ),
    (
        r"gets no answer from .* port",
        "systemctl status nfs-server there; its firewall opens the port with base_os_firewall_extra",
    ),
    (
        r"has no NFS (client|server)",
        "give it its distribution's own kernel, or take it out of the mounts or of group nfs_server",
    ),
    (
        r"Secure boot is on",
        "on Ubuntu nvidia_driver_source: distribution; elsewhere enrol DKMS's key, or switch secure boot off",
    ),
    (
        r"Driver branch \S+ is refused|is too old: torch",
        "set nvidia_driver_branch to one that is offered, or change the torch",
    ),
    (r"fabricmanager is \S+, the driver is", "ddp-play provision --tags nvidia_driver brings both to one version"),
    (r"reboot needed", "ansible-playbook ddp.play.reboot --limit HOST, then provision again"),
    (r"Read-only file system", "the host's disk is read-only: look at dmesg there before anything else"),
)


def remedy_of(text: str) -> str:
    """The line that helps; empty where the message is all we know."""
    return next((remedy for pattern, remedy in REMEDIES if re.search(pattern, text)), "")
