"""One job on one cluster, on Slurm and over SSH: bare hosts are provisioned and train, and the bundles are compared."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until

from .conftest import Lab, lab_of
from .rank_jobs import ROOT, SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("h1", "h2", "h3")
# As docs/how-to/slurm.md has it: an environment, a state directory, and a job, on the directory that all hosts have.
PLAY, HOME, JOB = f"{SHARED}/play", f"{SHARED}/state", f"{SHARED}/my-job"
LOGIN = f"umask 077; cd {JOB} && export PATH={PLAY}/bin:$PATH DDP_PLAY_HOME={HOME} DDP_PLAY_REPORT=no; "
VARIABLES = {
    "ddp_job_hosts": 3,
    "ddp_job_ranks_per_host": 1,
    "ddp_job_env": {"OMP_NUM_THREADS": "1"},
    "ddp_shared_dir": SHARED,
}
OPTIONS = ("-e", json.dumps(VARIABLES), "--name", "digits")
# Where the run was started: the login node has a copy of the source.
OF_THE_PLACE = ("source",)
OF_THE_TIME = ("seconds", "samples_per_s")
NO_REPORT = {"DDP_PLAY_REPORT": "no"}  # its page is given some seconds only when a Slurm job ends
TIMEOUT_S = 600
pytestmark = pytest.mark.timeout(2400)


@pytest.fixture(scope="module")
def lab(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three bare hosts that have become a Slurm cluster, with ddp-play and torch on their shared directory."""
    with lab_of(lab_home, "trains", "--hosts", "3", "--no-docker", "--engine", "slurm") as found:
        code, cells = provision(found)
        assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "changed")), cells
        install(found, tmp_path_factory.mktemp("play"))
        yield found


def provision(lab: Lab) -> tuple[int, list[dict[str, Any]]]:
    done = lab.play("provision", "-i", str(lab.inventory), "--json", "--tags", "slurm", timeout_s=TIMEOUT_S)
    return done.returncode, json.loads(done.stdout)["cells"]


def statuses(cells: list[dict[str, Any]]) -> dict[str, str]:
    return {cell["host"]: cell["status"] for cell in cells}


def install(lab: Lab, directory: Path) -> None:
    """ddp-play and the job on the shared directory; the hosts reach no index of packages."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    wheel = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(ROOT))
    subprocess.run([*pip, *wheel], check=True, timeout=TIMEOUT_S)
    site, (built,) = directory / "site", directory.glob("ddp_play-*.whl")
    more = ("--no-compile", "--only-binary=:all:", "--constraint", str(ROOT / "constraints.txt"))
    subprocess.run([*pip, "install", "--target", str(site), *more, f"{built}[trainer]"], check=True, timeout=TIMEOUT_S)
    lab.on("h1", f"python3 -m venv --without-pip {PLAY} && mkdir -m 700 {HOME} {JOB}")
    send(lab, site, f"{PLAY}/lib/python3.11/site-packages")
    lab.on("h1", f"mv {PLAY}/lib/python3.11/site-packages/bin/* {PLAY}/bin")
    lab.on("h1", f"grep -lI '^#!.*python' {PLAY}/bin/* | xargs sed -i '1s|.*|#!{PLAY}/bin/python|'")
    job = directory / "job"
    (job / "playbooks").mkdir(parents=True)
    (job / "playbooks" / "train.yml").write_text((ROOT / "playbooks" / "train.yml").read_text())
    (job / "trainer").symlink_to(ROOT / "trainer")
    send(lab, job, JOB)


def send(lab: Lab, source: Path, target: str) -> None:
    """Copy what is in a directory, links as what they lead to, for the user of the hosts."""
    host = f"ddp-play-{lab.name}-h1"
    unpack = ["docker", "exec", "-i", "--user", "ops", host, "tar", "-C", target, "-xf", "-"]
    without = [f"--exclude={name}" for name in ("torch/include", "torch/test", "__pycache__")]
    pack = ["tar", "-C", str(source), "--dereference", *without, "-cf", "-", *(path.name for path in source.iterdir())]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as child:
        subprocess.run(unpack, stdin=child.stdout, check=True, timeout=TIMEOUT_S)
    assert child.returncode == 0


def on_login(lab: Lab, words: str) -> subprocess.CompletedProcess[str]:
    """A user's command on the login node, h1."""
    return lab.play("lab", "ssh", "--name", lab.name, "--user", "ops", "h1", LOGIN + words, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def bundles(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle of the job on Slurm, and that of the same job over SSH."""
    done = on_login(lab, f"ddp-play run playbooks/train.yml --on slurm {shlex.join(OPTIONS)}")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: not lab.on("h1", "squeue --noheader"), timeout_s=120, what="the end of the Slurm job", every_s=2)
    of_slurm = tmp_path_factory.mktemp("slurm")
    source = f"ddp-play-{lab.name}-h1:{HOME}/runs/digits"
    subprocess.run(["docker", "cp", source, str(of_slurm)], check=True, capture_output=True)
    train = (str(ROOT / "playbooks" / "train.yml"), "-i", str(lab.inventory), *OPTIONS)
    python = ("-e", f"ddp_python={PLAY}/bin/python")
    done = lab.play("run", *train, *python, environment={**lab.environment, **NO_REPORT}, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return of_slurm / "digits", lab.home / "runs" / "digits"


def documents(bundles: tuple[Path, Path], name: str, *, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """A file of both bundles, without fields that differ by nature."""
    both = [json.loads((bundle / name).read_text()) for bundle in bundles]
    return [{key: value for key, value in one.items() if key not in without} for one in both]


def test_both_train_to_the_same_result(bundles: tuple[Path, Path]) -> None:
    of_slurm, of_ssh = documents(bundles, "results/rank-0.json", without=OF_THE_TIME)
    assert of_slurm["accuracy"] >= 0.97
    assert of_slurm == of_ssh


def files(bundle: Path) -> set[str]:
    return {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()}


def fields(value: Any, name: str = "") -> set[str]:
    """Names of all fields, those in others after these."""
    rows: list[tuple[str, Any]] = list(value.items()) if isinstance(value, dict) else []
    rows += [("[]", one) for one in value] if isinstance(value, list) else []
    return {name}.union(*(fields(one, f"{name}.{key}") for key, one in rows))


def test_both_bundles_have_the_same_files_and_fields_but_for_the_engines(bundles: tuple[Path, Path]) -> None:
    of_slurm, of_ssh = map(files, bundles)
    assert {name.partition("/")[0] for name in of_slurm ^ of_ssh} == {"engine"}
    assert of_ssh < of_slurm
    for name in sorted(name for name in of_ssh if name.endswith(".json")):
        mine, theirs = (json.loads((bundle / name).read_text()) for bundle in bundles)
        assert fields(mine) == fields(theirs), name
    of_slurm_plan, of_ssh_plan = documents(bundles, "plan.json", without=OF_THE_PLACE)
    assert of_slurm_plan == of_ssh_plan


@pytest.mark.usefixtures("bundles")
def test_a_second_time_changes_nothing_after_the_job(lab: Lab) -> None:
    code, cells = provision(lab)
    assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "ok"))
    assert [cell for cell in cells if cell["num_changed"]] == []
