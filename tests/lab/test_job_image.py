"""`ddp-play check PLAYBOOK` of a job with an image: what a container as that of a rank has, sees, and leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests import schemas
from tests.waiting import wait_until

from .conftest import COMMAND
from .rank_jobs import SHARED, SLIM, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab

HOSTS = ("h1", "h2", "h3")
SITE = "/srv/check-site"  # on each host a directory of its own: packages without their content, and /etc/hosts
METADATA = "Metadata-Version: 2.1\\nName: torch\\nVersion: "
NONE_LEFT = "docker ps -aq --filter label=ddp-play.run"
pytestmark = pytest.mark.usefixtures("clean_hosts")


@pytest.fixture(scope="module")
def site(lab3: Lab) -> Iterator[Lab]:
    """Each host names a torch of the same version in a directory that the job mounts."""
    for host in HOSTS:
        set_torch(lab3, host, "2.13.0")
        lab3.on(host, f"sudo cp /etc/hosts {SITE}/hosts")
    yield lab3
    for host in HOSTS:
        lab3.on(host, f"sudo rm -rf {SITE}")


def set_torch(lab: Lab, host: str, version: str) -> None:
    folder = f"{SITE}/python/torch-0.dist-info"
    script = f"sudo mkdir -p {folder} && sudo chmod 1777 {SITE}/python && printf '{METADATA}{version}\\n' "
    lab.on(host, f"{script} | sudo tee {folder}/METADATA")


def playbook(tmp_path: Path, **variables: Any) -> str:
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    (source / "nothing.py").write_text("print('ran')\n")
    mounts = [{"source": f"{SITE}/python", "target": "/opt/site", "read_only": True}]
    wanted = {"env": {"PYTHONPATH": "/opt/site"}, "mounts": mounts, "source": str(source), "hosts": 3,
              "command": ["python3", "nothing.py"]}  # fmt: skip
    return job(tmp_path, {**wanted, **variables})


def checked(lab: Lab, *words: str, code: int) -> list[dict[str, Any]]:
    """The findings about the job and its containers, but for those that the hosts of a lab always have."""
    done = lab.play("check", *words, "-i", str(lab.inventory), "--json")
    assert done.returncode == code, done.stdout + done.stderr
    document = json.loads(done.stdout)
    schemas.check("check", document)
    rows: list[dict[str, Any]] = document["findings"]
    return [row for row in rows if row["check"].startswith(("rank ", "files of the container", "job plan"))]


def bad(rows: list[dict[str, Any]]) -> list[tuple[str, str, list[str]]]:
    return [(row["check"], row["result"], row["where"]) for row in rows if row["result"] != "pass"]


def test_containers_that_are_well(site: Lab, tmp_path: Path) -> None:
    rows = checked(site, playbook(tmp_path), code=0)
    assert bad(rows) == []
    values = {row["check"]: row["value"] for row in rows}
    assert values["rank version: torch"] == "2.13.0"
    assert values["rank container"].startswith("starts, as user ")
    assert values["rank shared directory"] == f"{SHARED} can be written"
    assert "rank work directory" in values
    assert all(row["where"] == list(HOSTS) for row in rows)


def test_small_shared_memory(site: Lab, tmp_path: Path) -> None:
    rows = checked(site, playbook(tmp_path, shm_size="16m"), code=1)
    assert bad(rows) == [("rank shared memory", "fail", list(HOSTS))]
    (row,) = [row for row in rows if row["check"] == "rank shared memory"]
    assert row["value"] == "16 of 16 MiB free"
    assert "ddp_job_shm_size" in row["command"]


def test_another_torch_on_one_host(site: Lab, tmp_path: Path) -> None:
    set_torch(site, "h3", "2.12.1")
    try:
        rows = checked(site, playbook(tmp_path), code=1)
    finally:
        set_torch(site, "h3", "2.13.0")
    assert bad(rows) == [("rank version: torch", "fail", ["h3"])]


def test_another_image_of_the_same_name_on_one_host(site: Lab, tmp_path: Path) -> None:
    tag = "ddp-play-rank:other"
    for host in HOSTS:
        site.on(host, f"docker tag {SLIM} {tag}")
    site.on(
        "h2", f"docker create --name other {SLIM} true && docker commit -c 'ENV WHO=h2' other {tag} && docker rm other"
    )
    try:
        rows = checked(site, playbook(tmp_path, image=tag), code=1)
    finally:
        for host in HOSTS:
            site.on(host, f"docker rmi {tag}")
    assert [(row["check"], row["result"]) for row in rows] == [("job plan", "fail")]
    assert "is not the same on all hosts" in rows[0]["value"]


@pytest.mark.long
def test_a_directory_that_the_ranks_user_cannot_write_to(site: Lab, tmp_path: Path) -> None:
    mode = site.on("h1", f"stat -c %a {SHARED}")
    site.on("h1", f"sudo chmod 755 {SHARED}")
    try:
        rows = checked(site, playbook(tmp_path, user="65534:65534"), "-b", code=1)
    finally:
        site.on("h1", f"sudo chmod {mode} {SHARED}")
    assert bad(rows) == [("rank shared directory", "fail", list(HOSTS))]
    (row,) = [row for row in rows if row["check"] == "rank shared directory"]
    assert row["value"] == f"{SHARED} in the container: Permission denied"


def test_a_name_that_is_loopback_in_the_container_alone(site: Lab, tmp_path: Path) -> None:
    site.on("h2", f"echo 127.0.1.1 h2 | sudo tee {SITE}/hosts")
    mounts = [{"source": f"{SITE}/python", "target": "/opt/site"},
              {"source": f"{SITE}/hosts", "target": "/etc/hosts", "read_only": True}]  # fmt: skip
    try:
        rows = checked(site, playbook(tmp_path, mounts=mounts), code=0)
    finally:
        site.on("h2", f"sudo cp /etc/hosts {SITE}/hosts")
    (found,) = [row for row in rows if row["check"] == "rank own name" and row["result"] != "pass"]
    assert (found["result"], found["where"], found["value"]) == ("warn", ["h2"], "h2 is 127.0.1.1")


def test_an_image_that_is_missing_is_not_run_with_the_remedy(site: Lab, tmp_path: Path) -> None:
    done = site.play("check", playbook(tmp_path, image="ddp-play-rank:none"), "-i", str(site.inventory), "--json")
    assert done.returncode == 0, done.stdout
    rows = [row for row in json.loads(done.stdout)["findings"] if row["check"].startswith(("rank ", "job image"))]
    assert bad(rows) == [("job image", "warn", list(HOSTS)), ("rank container", "not run", list(HOSTS))]
    assert "ddp-play image load -i " in rows[0]["command"]


@pytest.fixture
def hung(site: Lab) -> Iterator[Lab]:
    """Python in the container of h2 hangs when it starts."""
    site.on("h2", f"echo 'import time; time.sleep(600)' | sudo tee {SITE}/python/sitecustomize.py")
    yield site
    site.on("h2", f"sudo rm {SITE}/python/sitecustomize.py")


@pytest.mark.long
def test_a_container_that_hangs_costs_its_own_limit_and_is_not_run(hung: Lab, tmp_path: Path) -> None:
    began = time.monotonic()
    rows = checked(hung, playbook(tmp_path), code=69)
    assert time.monotonic() - began < 60
    assert bad(rows) == [("rank container", "not run", ["h2"])]
    (row,) = [row for row in rows if row["result"] == "not run"]
    assert (row["value"], row["broken"]) == ("no end within 15 s", True)


def test_a_time_budget_is_kept_with_a_container_that_hangs(hung: Lab, tmp_path: Path) -> None:
    began = time.monotonic()
    rows = checked(hung, playbook(tmp_path), "--within", "60s", code=69)
    assert time.monotonic() - began < 60 * 1.1
    assert ("rank container", "not run", ["h2"]) in bad(rows)


@pytest.mark.long
def test_nothing_is_left_where_the_controller_is_killed(hung: Lab, tmp_path: Path) -> None:
    words = [COMMAND, "check", playbook(tmp_path), "-i", str(hung.inventory)]
    process = subprocess.Popen(
        words, env=hung.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: hung.on("h2", NONE_LEFT) != "", timeout_s=60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: hung.on("h2", NONE_LEFT) == "", timeout_s=60)  # `clean_hosts` looks for all else


@pytest.mark.long
def test_the_full_level_loads_the_torch_of_the_containers(torch_on_hosts: Lab, tmp_path: Path) -> None:
    path = job(tmp_path, {"hosts": 3, "command": ["python3", "-c", "pass"]})
    done = torch_on_hosts.play("check", path, "-i", str(torch_on_hosts.inventory), "--json", "--level", "full")
    document = json.loads(done.stdout)
    rows = {row["check"]: row for row in document["findings"] if row["result"] == "pass"}
    assert rows["results under load"]["where"] == list(HOSTS), done.stdout
    assert "all_reduce with gloo on 3 hosts" in rows["collectives"]["value"]
    assert set(document["torch"]["hosts"]) == set(HOSTS)
