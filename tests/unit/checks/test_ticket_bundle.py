"""The bundle for a ticket: its files, what is left out of it, and names of hosts that are no names of files."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.own_records import OwnRecords
from ddp_play.checks.record_findings import ComparedHost
from ddp_play.checks.ticket_bundle import bundle_files, write_bundle
from ddp_play.cli.check import document

from .fleets import fleet
from .matrices import with_matrix

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = {"made": "2030-01-02 03:04:05 UTC", "took_s": 4.2, "command": "ddp-play check -i inv"}
FAILED = Finding("ports", Status.FAIL, "timeout", "why", "do", ("h1", "h2"), directions=(("h2", "h1"),), limit="all",
                 source="a connection", look="nft list ruleset")  # fmt: skip
PASSED = Finding("cpu", Status.OK, "128 of 128 CPUs", where=("h1", "h2"))
RECORDS = OwnRecords((ComparedHost("h1", "none"),), ())
OUTPUTS = {
    "nvidia-smi -q": {
        "value": {"exit_code": 0, "output": "Driver 580.1\n", "left_out_bytes": 9},
        "took_s": 1,
    },
    "ibstat": {"problem": "no program ibstat", "not_here": True, "took_s": 0.0},
    "lscpu": {"value": ["strange"], "took_s": 0.0},
}


def files(checked: Fleet) -> dict[str, str]:
    return bundle_files(checked, document((PASSED, FAILED), "full", checked, RECORDS), ABOUT)


def with_answers(checked: Fleet) -> Fleet:
    first, *others = checked.hosts
    before = {"counters": {"value": {"eth0": {"rx_crc_errors": 3, "rx_bytes": 5}, "ib0": {"x": 1}}, "took_s": 0.0}}
    after = {"counters": {"value": {"eth0": {"rx_crc_errors": 9, "rx_bytes": 5, "tx_errors": 2}}, "took_s": 0.0}}
    first = replace(first, readings={**first.readings, **before}, counters=after, outputs=OUTPUTS)
    return replace(checked, hosts=(first, *others))


def test_each_host_has_its_findings_readings_counters_outputs_and_measurements() -> None:
    found = files(with_answers(with_matrix(fleet(2))))
    names = ("findings.txt", "findings.json", "facts.json", "readings.json", "counters.txt", "outputs.txt",
             "network.json")  # fmt: skip
    own = {f"{host}/{name}" for host in ("h1", "h2") for name in names}
    assert set(found) == {"README.txt", "summary.json", "h1/record.json", *own}
    assert all(f"HOST/{name}" in found["README.txt"] for name in (*names, "record.json"))
    assert found["h1/findings.txt"].splitlines() == [
        "FAIL     ports: timeout",
        "         direction: h2 -> h1",
        "         limit: all (a connection)",
        "         why: why",
        "         look: nft list ruleset",
        "         remedy: do",
        "PASS     cpu: 128 of 128 CPUs",
    ]
    assert json.loads(found["summary.json"])["about"]["command"] == "ddp-play check -i inv"
    assert json.loads(found["h1/readings.json"])["readings"]["cpu"]["value"]["usable"] == 128
    ways = {(row["source"], row["target"]) for row in json.loads(found["h1/network.json"])["directions"]}
    assert ways == {("h1", "h2"), ("h2", "h1")}


def test_outputs_are_as_they_were_with_their_commands_and_what_is_missing() -> None:
    found = files(with_answers(fleet(2)))
    assert found["h1/outputs.txt"].splitlines() == [
        "$ nvidia-smi -q    # exit code 0, 1 s",
        "Driver 580.1",
        "",
        "(9 more bytes are left out)",
        "$ ibstat    # not run: no program ibstat",
        "$ lscpu    # not run: ",
    ]
    assert found["h2/outputs.txt"] == "not asked: it gave no answer in time\n"


def test_counters_that_changed_are_first() -> None:
    rows = [line.split() for line in files(with_answers(fleet(2)))["h1/counters.txt"].splitlines()]
    assert rows == [
        ["port", "counter", "before", "after", "change"],
        ["eth0", "rx_crc_errors", "3", "9", "+6"],
        ["eth0", "tx_errors", "0", "2", "+2"],
        ["ib0", "x", "1", "0", "-1"],
        ["eth0", "rx_bytes", "5", "5", "+0"],
    ]
    only_before = fleet(1, h1={"cpu.usable": 2})
    assert files(only_before)["h1/counters.txt"].startswith("not read: ")


def test_answers_of_another_form_disturb_no_other_file() -> None:
    checked = with_answers(fleet(2))
    strange: dict[str, Any] = {"outputs": {"lscpu": 3}, "counters": {"counters": {"value": {"eth0": ["x"]}}}}
    found = files(replace(checked, hosts=(replace(checked.hosts[0], **strange), checked.hosts[1])))
    for name in ("outputs.txt", "counters.txt"):
        assert found[f"h1/{name}"].startswith("the answer is not what ddp-play's program sends")
    assert found["h1/findings.txt"].startswith("FAIL")
    assert json.loads(found["h1/readings.json"])["readings"]["cpu"]


def test_a_host_that_could_not_be_asked_says_why() -> None:
    checked = Fleet((*fleet(1).hosts, CheckedHost("h2", problem="Connection refused")))
    found = files(checked)
    assert json.loads(found["h2/facts.json"])["problem"] == "Connection refused"
    assert "Connection refused" in found["h2/counters.txt"] + found["h2/outputs.txt"]


def test_facts_about_people_and_their_runs_stay_out() -> None:
    runs: tuple[dict[str, Any], ...] = ({"id": "secret-run"},)
    living = ["run secret-run of jo"]
    found = files(fleet(1, h1={"facts.runs": runs, "facts.rank_python": "/home/jo/venv", "living_runs": living}))
    facts = json.loads(found["h1/facts.json"])
    assert {"user", "runs", "rank_python", "shared", "state_dir"} & set(facts) == set()
    assert {"gpus", "interfaces", "rdma"} <= set(facts)
    assert "secret-run" not in "".join(found.values())


def test_a_directory_and_an_archive_have_the_same_files_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    checked = with_answers(with_matrix(fleet(2)))
    answer = document((PASSED, FAILED), "full", checked, RECORDS)
    write_bundle(tmp_path / "ticket", checked, answer, ABOUT)
    write_bundle(tmp_path / "ticket.tar.gz", checked, answer, ABOUT)
    with tarfile.open(tmp_path / "ticket.tar.gz") as archive:
        packed = {row.name: row for row in archive.getmembers()}
        contents = {name: file.read() for name, row in packed.items() if (file := archive.extractfile(row))}
    plain = {str(path.relative_to(tmp_path)): path for path in (tmp_path / "ticket").rglob("*") if path.is_file()}
    assert set(packed) == set(plain)
    for name, path in plain.items():
        assert path.read_bytes() == contents[name]
        assert (path.stat().st_mode & 0o777, packed[name].mode) == (0o600, 0o600)
    assert (tmp_path / "ticket.tar.gz").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ticket").stat().st_mode & 0o777 == 0o700


def test_names_of_hosts_are_no_paths_and_two_hosts_share_no_directory() -> None:
    names = ("../../etc/x", "..", "a/b", "a_b", "\ud800", "h\n1")
    checked = Fleet(tuple(CheckedHost(name, problem="refused") for name in names))
    found = files(checked)
    folders = {name.partition("/")[0] for name in found if "/" in name}
    assert len(folders) == len(names)
    assert all(name.count("/") <= 1 and not name.startswith((".", "/")) for name in found)
