"""Parsers of the files of the NVIDIA driver and of its programs' output; no I/O here."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from fnmatch import fnmatch
from typing import Any, Dict, List, Optional

DKMS_LINE = re.compile(
    r"^(?P<module>[^/,\s]+)(?:/|,\s*)(?P<version>[^,:\s]+)"
    r"(?:,\s*(?P<kernel>[^,:\s]+)(?:,\s*(?P<arch>[^,:\s]+))?)?:\s*(?P<state>\w+)"
)
NVRM = re.compile(r"NVRM version: NVIDIA UNIX (?P<open>Open )?.*?Kernel Module.*?\s(?P<version>\d+\.\d+(\.\d+)?)\s")


def licence_flavour(licence: str) -> str:
    """`modinfo -F license nvidia`: "Dual MIT/GPL" is the open module, "NVIDIA" the proprietary one."""
    if not licence:
        return ""
    return "open" if "MIT" in licence or "GPL" in licence else "proprietary"


def parse_nvrm(text: str) -> Dict[str, str]:
    """/proc/driver/nvidia/version: the version and flavour of the LOADED module."""
    match = NVRM.search(text)
    if not match:
        return {"version": "", "flavour": ""}
    return {"version": match["version"], "flavour": "open" if match["open"] else "proprietary"}


def parse_dkms(text: str) -> List[Dict[str, str]]:
    """`dkms status`, both the 2.x (commas) and the 3.x (slash) form."""
    matches = (DKMS_LINE.match(line.strip()) for line in text.splitlines())
    return [{k: v or "" for k, v in m.groupdict().items()} for m in matches if m]


def parse_modinfo(text: str) -> Dict[str, str]:
    """`modinfo NAME`: first occurrence of each field."""
    fields: Dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() not in fields:
            fields[key.strip()] = value.strip()
    return fields


def _text(node: ET.Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def parse_smi(xml: str) -> Dict[str, Any]:
    """`nvidia-smi -q -x`: the driver and, per GPU, the fields that decide whether it can be used."""
    root = ET.fromstring(xml)  # noqa: S314 - the program's own output, run by root on its host
    gpus = [
        {
            "slot": gpu.get("id", "").lower(),
            "name": _text(gpu, "product_name"),
            "mig": _text(gpu, "mig_mode/current_mig"),
            "mig_pending": _text(gpu, "mig_mode/pending_mig"),
            "persistence": _text(gpu, "persistence_mode"),
            "fabric_state": _text(gpu, "fabric/state"),
            "fabric_status": _text(gpu, "fabric/status"),
        }
        for gpu in root.findall("gpu")
    ]
    return {
        "driver_version": _text(root, "driver_version"),
        "cuda_version": _text(root, "cuda_version"),
        "gpus": gpus,
    }


def parse_secure_boot(efivar: Optional[bytes]) -> str:
    """The SecureBoot EFI variable: four bytes of attributes, then 0 or 1. None without EFI."""
    if efivar is None:
        return "unsupported"
    return "enabled" if len(efivar) >= 5 and efivar[4] == 1 else "disabled"


def parse_dpkg(text: str) -> Dict[str, Dict[str, Any]]:
    """`dpkg-query -W` with package, version, abbreviated status, tab separated."""
    packages: Dict[str, Dict[str, Any]] = {}
    for line in text.splitlines():
        name, version, status = [*line.split("\t"), "", ""][:3]
        if len(status) >= 2 and status[1] == "i":
            packages[name.split(":")[0]] = {"version": version, "held": status[0] == "h"}
    return packages


def parse_rpm(text: str, versionlock: str) -> Dict[str, Dict[str, Any]]:
    """`rpm -qa` with name and epoch:version-release, and dnf's versionlock.list."""
    locks = {re.sub(r"-\d+:", "-", line.strip()).rstrip("*") for line in versionlock.splitlines()}
    packages: Dict[str, Dict[str, Any]] = {}
    for line in text.splitlines():
        name, _, version = line.partition("\t")
        plain = version.split(":")[-1]
        held = any(lock and f"{name}-{plain}.".startswith(lock) for lock in locks)
        packages[name] = {"version": plain, "held": held}
    return packages


def without(packages: Dict[str, Any], patterns: List[str]) -> Dict[str, Any]:
    """The packages whose name matches none of the glob patterns."""
    return {n: p for n, p in packages.items() if not any(fnmatch(n, pattern) for pattern in patterns)}


def upstream(version: str) -> str:
    """The version 580.178.04 in 3:580.178.04-1 or 580.178.04-0ubuntu0.24.04.1."""
    return version.rsplit(":", maxsplit=1)[-1].split("-", maxsplit=1)[0]


def reboot_reasons(loaded: Dict[str, str], disk: Dict[str, str], nouveau: bool) -> List[str]:
    """Why the driver on disk needs a reboot to be used, from the state of the host and never from "changed"."""
    if not disk["version"]:
        return []
    reasons = []
    if nouveau:
        reasons.append("nouveau is loaded and uses the GPU")
    if loaded["version"] and loaded["version"] != disk["version"]:
        reasons.append(f"module {loaded['version']} is loaded, {disk['version']} is on disk")
    elif loaded["flavour"] and disk["flavour"] and loaded["flavour"] != disk["flavour"]:
        reasons.append(f"the {loaded['flavour']} module is loaded, the {disk['flavour']} one is on disk")
    return reasons
