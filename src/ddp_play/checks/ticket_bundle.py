"""Bundle of a check for the ticket at a vendor: per host its findings, readings, counters and commands; no secrets.

It has what the hosts answered to the check: no environment, no inventory variable but `slots` and `interface`, no key.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import write_bytes
from ddp_play.checks.fleet import NOT_OURS
from ddp_play.checks.host_users import READING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ddp_play.checks.fleet import CheckedHost, Fleet

ENDINGS = (".tar.gz", ".tgz")
# Facts about the machine; the others are about people, their runs and their directories.
FACTS = ("hostname", "machine", "python_version", "cpus", "memory_mib", "numa_nodes", "interfaces", "rdma", "gpus",
         "gpu_problem", "nccl_conf", "ephemeral_ports", "clock_offset_s")  # fmt: skip
README = """\
Bundle of `ddp-play check`: {command}
{made}, {hosts} hosts, {took_s} s, level {level}

summary.json           all findings, the network between the hosts, comparison with their own records
HOST/findings.txt      findings about this host: value, limit, source of the limit, commands to look with
HOST/findings.json     the same for programs
HOST/facts.json        hardware, software and network of the host
HOST/readings.json     raw readings, each with its value and duration, or why it has none
HOST/outputs.txt       diagnostic programs of the host: command, exit code, output as it is
HOST/counters.txt      counters of NICs and RDMA ports before and after the measurements, those that changed first
HOST/network.json      what was measured between this host and each other one, each measurement
HOST/record.json       the host's figures against its own record

Serial numbers: GPUs (uuid), MAC addresses and RDMA GUIDs in facts.json and readings.json.
"""
UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def is_archive(path: Path) -> bool:
    """Is this name that of an archive? Else it is a directory."""
    return path.name.endswith(ENDINGS)


def write_bundle(path: Path, fleet: Fleet, answer: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write the bundle: an archive by its ending, else a directory. Only its owner can read it."""
    files = bundle_files(fleet, answer, about)
    if not is_archive(path):
        for name, text in files.items():
            write_bytes(path / name, _bytes(text))
        return
    root = path.name.removesuffix(next(end for end in ENDINGS if path.name.endswith(end)))
    write_bytes(path, _archive(root, files))


def _archive(root: str, files: Mapping[str, str]) -> bytes:
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb") as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            content = _bytes(text)
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def bundle_files(fleet: Fleet, answer: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, str]:
    """Texts of all files by their path in the bundle."""
    readme = README.format(hosts=len(fleet.hosts), level=answer["level"], **about)
    files = {"README.txt": readme, "summary.json": _json({**answer, "about": dict(about)})}
    folders: dict[str, str] = {}
    for host in fleet.hosts:
        folder = UNSAFE.sub("_", host.name).lstrip(".") or "_"
        while folder in folders.values():
            folder += "_"
        folders[host.name] = folder
        files |= {f"{folder}/{name}": text for name, text in _host_files(host, fleet, answer).items()}
    return files


def _host_files(host: CheckedHost, fleet: Fleet, answer: Mapping[str, Any]) -> dict[str, str]:
    findings = [row for row in answer["findings"] if host.name in row["where"]]
    known = asdict(host.facts) if host.facts else {}
    facts = {name: known[name] for name in FACTS if name in known}
    told = {name: row for name, row in host.readings.items() if name != READING}  # that is about people's runs
    readings = {"readings": told, "seen of peers": host.reached, "clock": host.clock, "dcgmi diag": host.dcgm}
    files = {
        "findings.txt": "\n".join(_lines(findings)) + "\n",
        "findings.json": _json(findings),
        "facts.json": _json({**facts, "problem": host.problem, "stopped answering": host.lost}),
        "readings.json": _json(readings),
        "counters.txt": _text(host, _counters),
        "outputs.txt": _text(host, _outputs),
    }
    if fleet.matrix:
        rows = {name: [row for row in fleet.matrix[name] if host.name in (row["source"], row["target"])]
                for name in ("directions", "repeated")}  # fmt: skip
        files["network.json"] = _json({"end": fleet.matrix["hosts"].get(host.name), **rows})
    record = next((row for row in answer["records"]["hosts"] if row["host"] == host.name), None)
    return {**files, "record.json": _json(record)} if record else files


def _lines(findings: list[dict[str, Any]]) -> Iterator[str]:
    """The worst first; of a check that passed one line."""
    order = ("fail", "not run", "warn", "pass")
    for row in sorted(findings, key=lambda row: order.index(row["result"])):
        yield f"{row['result'].upper():<9}{row['check']}: {row['value']}"
        if row["result"] == "pass":
            continue
        ways = ", ".join(f"{way['from']} -> {way['to']}" for way in row.get("directions", ()))
        limit = f"{row.get('limit', '')} ({row.get('source', '')})" if row.get("limit") else ""
        details = {"direction": ways, "limit": limit, "others": row.get("others", ""), "why": row["why"],
                   "look": row.get("look", ""), "remedy": row["command"]}  # fmt: skip
        yield from (f"{'':<9}{name}: {text}" for name, text in details.items() if text)


def _text(host: CheckedHost, lines: Callable[[CheckedHost], Iterator[str]]) -> str:
    try:
        return "\n".join(lines(host)) + "\n"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return f"{NOT_OURS} ({type(error).__name__}: {error})\n"


def _outputs(host: CheckedHost) -> Iterator[str]:
    """Each command with its output; last, the commands that gave none."""
    if not host.outputs:
        yield "not asked: " + _why(host)
    missing = {}
    for command, row in host.outputs.items():
        answer = row.get("value")
        if not isinstance(answer, dict):
            missing[command] = str(row.get("problem", ""))
            continue
        left_out = answer.get("left_out_bytes")
        yield f"$ {command}    # exit code {answer.get('exit_code')}, {row.get('took_s')} s"
        yield str(answer.get("output", "")) + (f"\n({left_out} more bytes are left out)" if left_out else "")
    yield from (f"$ {command}    # not run: {why}" for command, why in missing.items())


def _why(host: CheckedHost) -> str:
    """Why a host told nothing."""
    return host.lost or host.late or host.problem or "it gave no answer in time"


def _counters(host: CheckedHost) -> Iterator[str]:
    before, after = (rows.get("counters", {}).get("value") or {} for rows in (host.readings, host.counters))
    if not before and not after:
        yield "not read: " + str(host.readings.get("counters", {}).get("problem") or _why(host))
        return
    rows = sorted({(port, name) for part in (before, after) for port in part for name in part[port]})
    values = [(port, name, before.get(port, {}).get(name, 0), after.get(port, {}).get(name, 0)) for port, name in rows]
    yield f"{'port':<24}{'counter':<34}{'before':>20}{'after':>20}{'change':>20}"
    for port, name, old, new in sorted(values, key=lambda row: (row[2] == row[3], row[:2])):
        end, change = (str(new), f"{new - old:+d}") if after else ("not read", "")
        yield f"{port:<24}{name:<34}{old:>20}{end:>20}{change:>20}"


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str) + "\n"
