"""Decisions of role docker_engine: which engine a host gets, and what its daemon.json becomes. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible.errors import AnsibleFilterError

# Packages that contain dockerd, from any source.
ENGINES = ("docker-ce", "docker.io", "moby-engine")
# In these lists the host's own entries are kept in addition to the role's; other lists are replaced.
UNITED = ("registry-mirrors", "insecure-registries")
# dockerd does not start with options of another log driver.
LOG_DRIVER = "log-driver"
LOG_OPTIONS = "log-opts"
MISSING = object()


def upstream_version(text: str) -> str:
    """5:29.1.3-1~debian.12~bookworm, 20.10.24+dfsg1-1+deb12u1, 3:29.1.3-1.el9 -> 29.1.3 and 20.10.24."""
    found = re.match(r"(?:\d+:)?(\d[0-9.]*)", text)
    return found[1].rstrip(".") if found else ""


def version_key(text: str) -> Tuple[int, ...]:
    """29.1.3 as (29, 1, 3), to compare versions. ValueError where a part is not a number."""
    return tuple(int(part) for part in text.split("."))


def engine_there(state: Mapping[str, Any]) -> Dict[str, str]:
    """Package and version of the host's engine, running or stopped; an empty version where there is none."""
    package = next((name for name in ENGINES if state["packages"].get(name)), "")
    installed = upstream_version(state["packages"].get(package, ""))
    info = state["commands"]["info"]
    running = ""
    if info["rc"] == 0:
        try:
            running = upstream_version(json.loads(info["stdout"]).get("ServerVersion") or "")
        except ValueError:
            running = ""
    return {"package": package, "version": running or installed}


def decide(state: Mapping[str, Any], wanted: Mapping[str, Any]) -> Dict[str, Any]:
    """Decision on the host's engine: install, keep, adopt, replace or refuse.

    `wanted` has packages (the first is the engine), conflicts, version, floor, replace and owned (this role installed
    the engine). The action is install, replace, keep (nothing to do), adopt (use an engine that the role did not
    install) or refuse; `why` is the text for messages. `remove` is empty unless `replace` is set.
    """
    there = engine_there(state)
    packages, conflicts = list(wanted["packages"]), list(wanted["conflicts"])
    present = [name for name, version in state["packages"].items() if version]
    clash = [name for name in conflicts if name in present]
    choice = {"engine": there, "install": [], "remove": [], "why": "", "held": [n for n in packages if n in present]}
    if not there["version"]:
        return _without_engine(choice, packages, clash, replace=wanted["replace"])
    same = packages[0] in present
    other_version = bool(wanted["version"]) and there["version"] != wanted["version"]
    if wanted["replace"] and (clash or not same):
        return _replaced(choice, packages, clash, same=same)
    if wanted["owned"] and not same and not clash:  # an installation that was cut off
        return {**choice, "action": "install", "install": packages, "held": packages}
    if same and (wanted["owned"] or (other_version and wanted["replace"])):
        missing = packages if other_version else [name for name in packages if name not in present]
        return {**choice, "action": "install" if missing else "keep", "install": missing, "held": packages}
    refusal = _unfit(there, wanted, other_version=other_version, unit=state["units"]["docker.service"]["load"])
    held = [name for name in dict.fromkeys([there["package"], *packages]) if name in present]
    return {**choice, "action": "refuse" if refusal else "adopt", "why": refusal or named(there), "held": held}


def named(engine: Mapping[str, str]) -> str:
    """Package and version of an engine, for messages."""
    return "%s %s" % (engine["package"] or "an engine without a package,", engine["version"])


def _without_engine(choice: Dict[str, Any], packages: List[str], clash: List[str], *, replace: bool) -> Dict[str, Any]:
    if clash and not replace:
        why = "%s would have to be removed for %s" % (", ".join(clash), packages[0])
        return {**choice, "action": "refuse", "why": why}
    return {**choice, "action": "install", "install": packages, "remove": clash, "held": packages}


def _replaced(choice: Dict[str, Any], packages: List[str], clash: List[str], *, same: bool) -> Dict[str, Any]:
    engine = choice["engine"]
    if not same and engine["package"] not in clash:
        why = "%s cannot be replaced: the package manager would not remove it with the new packages" % named(engine)
        return {**choice, "action": "refuse", "why": why}
    missing = [name for name in packages if name not in choice["held"]]
    return {**choice, "action": "replace", "install": missing, "remove": clash, "held": packages, "why": named(engine)}


def _unfit(there: Mapping[str, str], wanted: Mapping[str, Any], *, other_version: bool, unit: str) -> str:
    """Why an engine that the role did not install cannot be adopted; empty if it can."""
    if version_key(there["version"]) < version_key(wanted["floor"]):
        return "%s is older than %s, the oldest supported version" % (named(there), wanted["floor"])
    if other_version:
        return "%s is not the version %s of docker_engine_version" % (named(there), wanted["version"])
    if unit != "loaded":
        return "%s runs without a docker.service that could be configured and restarted" % named(there)
    return ""


def daemon_problem(text: str) -> str:
    """Why this daemon.json cannot be merged; empty if it can."""
    if not text.strip():
        return ""
    try:
        found = json.loads(text)
    except ValueError as error:
        return "is not valid JSON (%s)" % error
    return "" if isinstance(found, dict) else "is valid JSON, but not an object"


def _parsed(text: str) -> Dict[str, Any]:
    return json.loads(text) if text.strip() and not daemon_problem(text) else {}


def merge(current: Any, wanted: Any, last: Any = MISSING, key: str = "") -> Any:
    """Merge `wanted` over `current`. Keys that only `last` (the role's previous keys) has are removed, others stay."""
    if isinstance(current, dict) and isinstance(wanted, dict):
        return _merged_objects(current, wanted, last if isinstance(last, dict) else {})
    if key in UNITED and isinstance(current, list) and isinstance(wanted, list):
        ours = wanted + (last if isinstance(last, list) else [])
        return wanted + [item for item in current if item not in ours]
    return wanted


def _merged_objects(current: Dict[str, Any], wanted: Dict[str, Any], last: Dict[str, Any]) -> Dict[str, Any]:
    found = {}
    for key, value in current.items():
        kept = (
            merge(value, wanted[key], last.get(key, MISSING), key)
            if key in wanted
            else _without(value, last.get(key, MISSING))
        )
        if kept is not MISSING:
            found[key] = kept
    return {**found, **{key: value for key, value in wanted.items() if key not in current}}


def _without(value: Any, last: Any) -> Any:
    """The host's own part of a value that the role no longer sets; MISSING if all of it was the role's."""
    if value == last:
        return MISSING
    if isinstance(value, dict) and isinstance(last, dict):
        return _merged_objects(value, {}, last) or MISSING
    if isinstance(value, list) and isinstance(last, list):
        return [item for item in value if item not in last] or MISSING
    return value


def merged_daemon(text: str, wanted: Mapping[str, Any], record: str = "") -> Dict[str, Any]:
    """The new daemon.json as an object, from its text, the wanted keys, and the record of the keys wanted last time."""
    current, plain = _parsed(text), json.loads(json.dumps(wanted))
    driver = current.get(LOG_DRIVER, "json-file")
    if LOG_DRIVER in plain and plain[LOG_DRIVER] != driver:
        current.pop(LOG_OPTIONS, None)
    return dict(merge(current, plain, _parsed(record).get("daemon", {})))


def changed_keys(text: str, wanted: Mapping[str, Any]) -> List[str]:
    """Keys of daemon.json that would change, compared with the existing text."""
    current = _parsed(text)
    return sorted(key for key in {*current, *wanted} if current.get(key, MISSING) != wanted.get(key, MISSING))


def daemon_text(text: str, daemon: Mapping[str, Any]) -> str:
    """The new text of daemon.json: the old text if it has the same content in any format."""
    if text.strip() and not changed_keys(text, daemon):
        return text
    return json.dumps(daemon, indent=2, sort_keys=True) + "\n"


def record(text: str, daemon: Optional[Mapping[str, Any]] = None, installed: Sequence[str] = ()) -> str:
    """The record of this role's changes to the host: its keys in daemon.json, and the packages that it installed."""
    found = _parsed(text)
    found["packages"] = sorted({*found.get("packages", []), *installed})
    if daemon is not None:
        found["daemon"] = dict(daemon)
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def recorded(text: str) -> Dict[str, Any]:
    """The record as an object: `packages`, and `daemon`, which is None until this role has written daemon.json."""
    found = _parsed(text)
    return {"packages": list(found.get("packages", [])), "daemon": found.get("daemon")}


def attributes(found: Mapping[str, Any]) -> Dict[str, str]:
    """Mode, owner and group of an existing file, as ddp.play.files takes them."""
    return {"mode": found["mode"], "owner": str(found["uid"]), "group": str(found["gid"])}


def put_back(state: Mapping[str, Any], paths: Sequence[str]) -> List[Dict[str, str]]:
    """Entries for ddp.play.files that restore files to the content in `state`."""
    files = state["files"]
    there = [path for path in paths if files[path]["type"] == "file"]
    rows = [{"path": path, "content": files[path]["content"], **attributes(files[path])} for path in there]
    return rows + [{"path": path, "state": "absent"} for path in paths if files[path]["type"] == "absent"]


def undone(state: Mapping[str, Any], paths: Mapping[str, Sequence[str]], text: str, kept: str) -> List[Dict[str, Any]]:
    """Entries for ddp.play.files that restore the state of the host before this role.

    `paths` has `ours`, which are removed, and `shared`, which are restored from the kept original if there is one.
    If somebody edited daemon.json after this role, only the role's keys are removed.
    """
    rows: List[Dict[str, Any]] = [{"path": path, "state": "absent"} for path in paths["ours"]]
    for path in paths["shared"]:
        if state["files"][path + kept]["type"] != "absent":
            rows.append({"path": path, "state": "restored", "original": path + kept})
    return rows + _daemon_undone(state, paths["daemon"][0], text, kept)


def _daemon_undone(state: Mapping[str, Any], path: str, text: str, kept: str) -> List[Dict[str, Any]]:
    found, ours = state["files"][path], recorded(text)["daemon"]
    if ours is None or found["type"] == "absent":
        return []
    if not _edited(state, path, ours, kept):
        return [{"path": path, "state": "restored", "original": path + kept}]
    rest = merged_daemon(found["content"], {}, text)
    if not rest:
        return [{"path": path, "state": "absent"}]
    return [{"path": path, "content": daemon_text(found["content"], rest), **attributes(found)}]


def _edited(state: Mapping[str, Any], path: str, ours: Mapping[str, Any], kept: str) -> bool:
    """Whether daemon.json was edited after this role wrote it."""
    before = state["files"][path + kept]["content"]
    return merged_daemon(before, ours) != _parsed(state["files"][path]["content"])


def is_restored(rows: Sequence[Mapping[str, Any]], path: str) -> bool:
    """Whether one of the entries of `undone` restores the original of this file."""
    return any(row["path"] == path and "original" in row for row in rows)


def package_specs(names: Sequence[str], versioned: Sequence[str], suffix: str) -> List[str]:
    """Names for the package manager; those in `versioned` get the wanted version as a suffix."""
    return [name + suffix if name in versioned else name for name in names]


def ca_files(certificates: Mapping[str, str], kept: str) -> List[Dict[str, Any]]:
    """Entries for ddp.play.files: the certificate of each registry, where the engine looks for it at every pull.

    The host may have it already, so the record says which ones the role wrote. kept: suffix of the originals, which
    the engine does not read.
    """
    paths = {f"/etc/docker/certs.d/{name}/ca.crt": text for name, text in certificates.items()}
    return [{"path": path, "content": text, "original": path + kept, "recorded": True} for path, text in paths.items()]


def waiting(due: Mapping[str, Any], daemon_path: str) -> List[str]:
    """Changes that wait until a busy host is free. `due`: packages, repository, keys, proxy, unread, stopped."""
    found = ["packages: " + " ".join(due["packages"])] if due["packages"] else []
    found += [due["repository"]] if due["repository"] else []
    found += [daemon_path + ": " + " ".join(due["keys"])] if due["keys"] else []
    found += [due["proxy"]] if due["proxy"] else []
    found += ["restart of docker.service, which has not read its configuration"] if due["unread"] else []
    return found + (["start of docker.service"] if due["stopped"] else [])


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Raise errors of a filter with its name instead of a traceback."""

    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except (KeyError, TypeError, AttributeError) as error:
            raise AnsibleFilterError("docker_engine: %s: %r" % (function.__name__, error)) from error

    return wrapped


class FilterModule:
    """Registers the filters as ddp.play.docker_engine_*."""

    def filters(self) -> Dict[str, Optional[Callable[..., Any]]]:
        """The filters by name; Ansible adds the collection's name."""
        return {
            "docker_engine_decision": _strict(decide),
            "docker_engine_daemon": _strict(merged_daemon),
            "docker_engine_daemon_problem": daemon_problem,
            "docker_engine_daemon_text": _strict(daemon_text),
            "docker_engine_changed_keys": _strict(changed_keys),
            "docker_engine_record": _strict(record),
            "docker_engine_recorded": recorded,
            "docker_engine_undone": _strict(undone),
            "docker_engine_put_back": _strict(put_back),
            "docker_engine_is_restored": is_restored,
            "docker_engine_package_specs": package_specs,
            "docker_engine_ca_files": _strict(ca_files),
            "docker_engine_waiting": waiting,
        }
