"""`ddp-play check` with records, a time, a page and a bundle, on hosts: made, compared, expired, packed."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

from tests import schemas

from .check_runs import defect_named, seeded

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab


def check(lab: Lab, home: Path, *options: str) -> tuple[int, dict[str, Any]]:
    environment = {**lab.environment, "DDP_PLAY_HOME": str(home)}
    done = lab.play("check", "-i", str(lab.inventory), "--json", *options, environment=environment)
    document: dict[str, Any] = json.loads(done.stdout)
    schemas.check("check", document)
    return done.returncode, document


def test_records_page_and_bundle_from_acceptance_to_a_defect(check_lab: Lab, tmp_path: Path) -> None:
    code, made = check(check_lab, tmp_path / "home", "--record")
    assert (code, made["records"]["recorded"]) == (0, ["h1", "h2", "h3"])
    code, same = check(check_lab, tmp_path / "home")
    assert {(row["host"], row["state"]) for row in same["records"]["hosts"]} == {
        (host, "compared") for host in ("h1", "h2", "h3")
    }
    assert not any(figure["worse"] for row in same["records"]["hosts"] for figure in row["figures"])

    fewer = defect_named("fewer cpus")
    page, bundle = tmp_path / "check.html", tmp_path / "ticket.tar.gz"
    with seeded(check_lab, fewer):
        files = ("--html", str(page), "--bundle", str(bundle), "--level", "full")
        code, worse = check(check_lab, tmp_path / "home", *files)
    warned = [row for row in worse["findings"] if row["check"] == "own record" and row["result"] == "warn"]
    assert [(row["where"], row["value"].split()[0]) for row in warned] == [(list(fewer.where), "cpus")]
    assert "cpus" in page.read_text()
    with tarfile.open(bundle) as archive:
        texts = {
            name.partition("/")[2]: handle.read().decode()
            for name in archive.getnames()
            if (handle := archive.extractfile(name)) is not None
        }
    (host,) = fewer.where
    assert "own record: cpus" in texts[f"{host}/findings.txt"]
    assert "$ uname -srvm    # exit code 0" in texts[f"{host}/outputs.txt"]
    assert "rx_bytes" in texts[f"{host}/counters.txt"]
    assert json.loads(texts[f"{host}/network.json"])["directions"]
    assert "PRIVATE KEY" not in "".join(texts.values())


def test_a_check_keeps_to_its_time_and_says_what_it_left_out(check_lab: Lab, tmp_path: Path) -> None:
    # three rounds of two seconds, a login and the readings do not fit
    code, found = check(check_lab, tmp_path / "home", "--level", "full", "--within", "8s")
    unreached = [row for row in found["findings"] if row["check"] == "host reached" and row["result"] == "fail"]
    missing = unreached + [row for row in found["findings"] if row["broken"]]
    assert code == 69
    assert missing
    assert all("within" in row["value"] for row in missing), missing
