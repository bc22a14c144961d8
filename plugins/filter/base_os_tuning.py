"""CPU governor, transparent huge pages and tuned profile of role base_os: wanted, differing and earlier values."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping

CPUFREQ = "/sys/devices/system/cpu/cpufreq"
GOVERNORS = f"{CPUFREQ}/policy0/scaling_available_governors"
HUGEPAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
FILE = "/etc/tmpfiles.d/ddp-play-tuning.conf"
UNIT = "tuned.service"
HEADER = "# Managed by ddp-play (role base_os)\n"
Wanted = Mapping[str, str]  # profile, governor, hugepages; empty: untouched
State = Mapping[str, Any]  # as ddp.play.host_state returns it


def decide(state: State, wanted: Wanted, container: bool) -> Dict[str, Any]:
    """Decision on tuning. In a container nothing is wanted, because it shares the kernel of its host.

    `problems` cannot be done on this host. `files` are entries for ddp.play.files, `unwanted` paths of files that are
    no longer wanted. `wrong` names the values that differ, `profile` is the profile of tuned to select, if that is not
    active. `packages` and `units` are those of tuned if it is wanted. `record` has the values before the change.
    """
    wanted = {key: "" if container else value for key, value in wanted.items()}
    text = _text(state, wanted)
    profile = wanted["profile"] if wanted["profile"] != _profile(state) else ""
    return {
        "problems": [] if container else _problems(state, wanted),
        "files": [{"path": FILE, "content": HEADER + text}] if text else [],
        "unwanted": [] if text else [FILE],
        "wrong": _wrong(state, wanted),
        "profile": profile,
        "packages": ["tuned"] if wanted["profile"] else [],
        "units": [UNIT] if wanted["profile"] else [],
        "record": _record(state, wanted),
    }


def restoration(state: State, record: Mapping[str, str]) -> Dict[str, Any]:
    """What gives the recorded values back: `lines` for systemd-tmpfiles, and the arguments of `tuned-adm`.

    `changes` names all of it.
    """
    values = {**_rows(record.get("governors", "")), **_rows(record.get("hugepages", ""))}
    now = {**_rows(_governor_text(state)), HUGEPAGES: _hugepages(state)}
    back = {path: value for path, value in values.items() if now.get(path, value) != value}
    lines = [f"w {path} - - - - {value}" for path, value in back.items()]
    was, mode = record.get("tuned_profile", _profile(state)), record.get("tuned_mode", "")
    select: List[str] = [] if was == _profile(state) else ["profile", was] if was else ["off"]
    names = [f"{path} (as before)" for path in back] + (["profile of tuned (as before)"] if select else [])
    return {"lines": lines, "tuned": ["auto_profile"] if select and mode == "auto" else select, "changes": names}


def _problems(state: State, wanted: Wanted) -> List[str]:
    direct = [
        name
        for name, key in (("base_os_cpu_governor", "governor"), ("base_os_transparent_hugepages", "hugepages"))
        if wanted[key]
    ]
    found = []
    if direct and wanted["profile"]:
        found.append(
            f"base_os_tuned_profile and {' and '.join(direct)} are set, and a profile of tuned sets the same values"
        )
    elif direct and state["units"][UNIT]["active"] == "active":
        found.append(
            f"{' and '.join(direct)} set, but tuned is active (profile {_profile(state) or 'none'}) and would "
            "overwrite the value: set base_os_tuned_profile instead, or disable tuned.service"
        )
    known = state["files"][GOVERNORS].get("content", "").split()
    if wanted["governor"] and known and wanted["governor"] not in known:
        found.append(f"the kernel has no governor {wanted['governor']} (it has {' '.join(known)})")
    return found


def _wrong(state: State, wanted: Wanted) -> List[str]:
    found = []
    others = sorted({value for value in _governors(state).values() if value != wanted["governor"]})
    if wanted["governor"] and others:
        found.append(f"CPU governor {' '.join(others)} (wanted: {wanted['governor']})")
    now = _hugepages(state)
    if wanted["hugepages"] and now and now != wanted["hugepages"]:
        found.append(f"transparent huge pages {now} (wanted: {wanted['hugepages']})")
    if wanted["profile"] and wanted["profile"] != _profile(state):
        found.append(f"tuned profile {_profile(state) or 'none'} (wanted: {wanted['profile']})")
    return found


def _text(state: State, wanted: Wanted) -> str:
    """Lines for systemd-tmpfiles; a host without frequency scaling or huge pages needs none."""
    lines = []
    if wanted["governor"] and _governors(state):
        lines.append(f"w {CPUFREQ}/policy*/scaling_governor - - - - {wanted['governor']}\n")
    if wanted["hugepages"] and _hugepages(state):
        lines.append(f"w {HUGEPAGES} - - - - {wanted['hugepages']}\n")
    return "".join(lines)


def _record(state: State, wanted: Wanted) -> Dict[str, str]:
    found = {}
    if wanted["governor"]:
        found["governors"] = _governor_text(state)
    if wanted["hugepages"] and _hugepages(state):
        found["hugepages"] = f"{HUGEPAGES}:{_hugepages(state)}"
    if wanted["profile"]:
        found["tuned_profile"] = _profile(state)
        found["tuned_mode"] = state["commands"]["tuned_mode"]["stdout"].strip()
    return found


def _governor_text(state: State) -> str:
    return str(state["commands"]["governors"]["stdout"]).strip()


def _governors(state: State) -> Dict[str, str]:
    """Governor of each policy, by its file."""
    return _rows(_governor_text(state))


def _rows(text: str) -> Dict[str, str]:
    """PATH:VALUE lines, as grep prints them."""
    return {path: value for path, _, value in (line.partition(":") for line in text.splitlines()) if value}


def _hugepages(state: State) -> str:
    """The value in brackets of `always [madvise] never`; empty where the kernel has no such pages."""
    found = re.search(r"\[(\w+)\]", state["files"][HUGEPAGES].get("content", ""))
    return found.group(1) if found else ""


def _profile(state: State) -> str:
    """The active profile; empty if tuned is absent or has none."""
    found = re.search(r"^Current active profile: (.+)$", state["commands"]["tuned"]["stdout"], re.MULTILINE)
    return found.group(1).strip() if found else ""


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"base_os_tuning": decide, "base_os_tuning_restoration": restoration}
