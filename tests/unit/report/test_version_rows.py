"""Versions of the controller, the hosts and the ranks."""

from __future__ import annotations

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.run_lookup import load
from ddp_play.report.run_attempts import read_story
from ddp_play.report.version_rows import versions

from .bundles import ended_bundle


def test_hosts_that_differ_are_found() -> None:
    paths = ended_bundle(host_versions={"h1": {"python": "3.11", "gpus": ["H100", "H100"]}, "h2": {"python": "3.9"}})
    facts = {"h1": {"kernel": "6.1", "rank_python": {"torch": "2.9"}}, "h2": {"kernel": "6.1", "rank_python": None}}
    write_json(paths.fleet, {"facts": facts})
    found = versions(read_story(load(paths)))
    assert found["hosts"]["h1"] == {"python": "3.11", "gpus": "H100, H100", "kernel": "6.1", "torch": "2.9"}
    assert found["differing"] == ["gpus", "python", "torch"]
    assert found["controller"] == {"ddp-play": "0.1.0"}


def test_the_ranks_tell_their_torch_where_no_host_did() -> None:
    paths = ended_bundle()
    write_json(paths.result(0), {"torch": "2.13.0"})
    assert {values["torch"] for values in versions(read_story(load(paths)))["hosts"].values()} == {"2.13.0"}


def test_nothing_known_is_nothing() -> None:
    paths = ended_bundle(host_versions={}, versions={})
    assert versions(read_story(load(paths))) == {"controller": {}, "hosts": {}, "differing": []}


def test_apptainer_is_told_with_its_version() -> None:
    paths = ended_bundle(host_versions={"h1": {}, "h2": {}})
    facts = {"h1": {"apptainer": {"name": "apptainer", "version": "1.4.5"}}, "h2": {"apptainer": None}}
    write_json(paths.fleet, {"facts": facts})
    assert versions(read_story(load(paths)))["hosts"]["h1"]["apptainer"] == "apptainer 1.4.5"
