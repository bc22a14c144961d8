"""Logins that need a job: nodes of a Slurm cluster refuse and adopt them, and one that would lock us out recovers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.waiting import wait_until

from .conftest import Lab, lab_of
from .test_brownfield import differences, listing
from .test_slurm import STAYS, statuses

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("h1", "h2", "h3")
# Hosts of a lab are containers, for which role slurm chooses linuxproc by itself; control groups work in them, too.
CGROUP = ("-e", "slurm_process_tracking=cgroup")
SETTINGS = {"slurm_login_groups": ["admins"], "slurm_extra": {"PrologFlags": "Alloc"}}
WANTED = ("-e", "slurm_login_needs_job=true", "-e", json.dumps(SETTINGS))
PAM = "/etc/pam.d/sshd"
# Carl is a user, dora an administrator, as ops is, but by her group.
USERS = """
groupadd admins
for user in carl dora; do
  useradd --create-home --shell /bin/bash $user
  install -d -m 700 -o $user -g $user /home/$user/.ssh
  install -m 600 -o $user -g $user /home/ops/.ssh/authorized_keys /home/$user/.ssh/
done
usermod --append --groups admins dora
echo "dora ALL=(ALL) NOPASSWD: ALL" > /etc/sudoers.d/dora
"""
REFUSED = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
SUCCEED_IF = "/lib/x86_64-linux-gnu/security/pam_succeed_if.so"
RESTORED_S = 150  # 120 after the change, on a loaded machine


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine, with two users, in the groups of role slurm."""
    with lab_of(lab_home, "login", "--hosts", "3", "--no-docker", "--engine", "slurm") as found:
        for host in HOSTS:
            found.put(host, Path(__file__).parent / "host_listing.py", "/opt")
            found.on(host, USERS, user="root")
        yield found


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[str, dict[str, str]]:
    """What there was on each host."""
    return {host: listing(lab, host) for host in HOSTS}


@pytest.fixture(scope="module")
def cluster(lab: Lab, before: dict[str, dict[str, str]]) -> dict[str, dict[str, Any]]:
    """The cells of the first provisioning with logins that need a job."""
    assert set(before) == set(HOSTS)
    code, cells = play(lab, "provision", *WANTED)
    assert code == 0, cells
    return cells


def play(lab: Lab, verb: str, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status of a verb with role slurm, and the role's cell of each host."""
    done = lab.play(verb, "-i", str(lab.inventory), "--json", "--tags", "slurm", *CGROUP, *words, timeout_s=600)
    return done.returncode, {cell["host"]: cell for cell in json.loads(done.stdout)["cells"]}


def argv(lab: Lab, user: str, host: str, command: str) -> list[str]:
    """A login of a user over a connection of its own, with what sshd says."""
    hosts = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["ranks"]["hosts"]
    key = lab.inventory.parents[1] / "id_ed25519"
    options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ControlPath=none")
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-i", str(key), *words, f"{user}@{hosts[host]['ansible_host']}", command]


def login(lab: Lab, user: str, host: str, command: str = "id --user --name") -> tuple[bool, str]:
    """Whether a user gets in, and what the session prints, or sshd."""
    done = subprocess.run(
        argv(lab, user, host, command),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode == 0, (done.stdout if done.returncode == 0 else done.stderr).strip()


def pam(lab: Lab, host: str) -> str:
    return lab.on(host, f"cat {PAM}", user="root")


def submit(lab: Lab, node: str) -> str:
    """A job of carl that runs on a node, by its number."""
    job = lab.on(
        "h1", f"cd /tmp && runuser -u carl -- sbatch --parsable --nodelist={node} --wrap='sleep 600'", user="root"
    )
    wait_until(lambda: lab.on("h1", f"squeue --noheader --job={job} --format=%T") == "RUNNING", timeout_s=60)
    return job


def end(lab: Lab, job: str) -> None:
    lab.on("h1", f"scancel {job}", user="root")
    wait_until(lambda: lab.on("h1", "squeue --noheader") == "", timeout_s=90)


def test_hosts_that_cannot_keep_the_promise_are_refused_before_any_change(
    lab: Lab, before: dict[str, dict[str, str]]
) -> None:
    lab.on("h2", "echo UsePAM no > /etc/ssh/sshd_config.d/0.conf", user="root")
    groups = json.dumps({"slurm_login_groups": ["admins", "nobody-there"]})
    code, cells = play(lab, "provision", *WANTED, "-e", "slurm_process_tracking=linuxproc", "-e", groups)
    lab.on("h2", "rm /etc/ssh/sshd_config.d/0.conf", user="root")
    assert code == 1
    assert "slurm_process_tracking has to be cgroup" in cells["h1"]["message"]
    assert "the host has no group nobody-there" in cells["h3"]["message"]
    assert ("set UsePAM yes" in cells["h2"]["message"], "set UsePAM yes" in cells["h3"]["message"]) == (True, False)
    rows = differences(before["h2"], listing(lab, "h2"))
    assert [row for row in rows if not row.startswith(STAYS)] == []


def test_a_check_lists_the_change_and_makes_none(lab: Lab, before: dict[str, dict[str, str]]) -> None:
    done = lab.play(
        "provision", "-i", str(lab.inventory), "--tags", "slurm", "--check", *CGROUP, *WANTED, timeout_s=600
    )
    assert f"lines of ddp-play in {PAM}" in done.stdout, done.stdout + done.stderr
    rows = differences(before["h1"], listing(lab, "h1"))
    assert [row for row in rows if not row.startswith(STAYS)] == []


def test_only_those_without_need_of_a_job_log_in(lab: Lab, cluster: dict[str, dict[str, Any]]) -> None:
    assert statuses(cluster) == dict.fromkeys(HOSTS, "changed")
    assert "pam_systemd in /etc/pam.d/common-session" in cluster["h2"]["reason"]
    for host in HOSTS:
        entered, said = login(lab, "carl", host)
        assert (entered, REFUSED in said) == (False, True), said
    for user in ("root", "ops", "dora"):
        assert login(lab, user, "h2") == (True, user)
    assert lab.on("h2", "grep PrologFlags /etc/slurm/slurm.conf") == "PrologFlags=Contain,Alloc"


@pytest.mark.usefixtures("cluster")
def test_a_login_joins_the_job_and_ends_with_it(lab: Lab) -> None:
    job = submit(lab, "h2")
    try:
        entered, groups = login(lab, "carl", "h2", "cat /proc/self/cgroup")
        assert (entered, f"/job_{job}/step_extern" in groups) == (True, True), groups
        assert login(lab, "carl", "h3")[0] is False
        with subprocess.Popen(argv(lab, "carl", "h2", "echo in; sleep 600"), stdout=subprocess.PIPE) as session:
            assert session.stdout is not None
            assert session.stdout.readline() == b"in\n"
            lab.on("h1", f"scancel {job}", user="root")
            assert session.wait(timeout=150) != 0
    finally:
        end(lab, job)
    wait_until(lambda: not login(lab, "carl", "h2")[0], timeout_s=60)


@pytest.mark.usefixtures("cluster")
def test_without_pam_systemd_the_whole_session_is_in_the_control_groups_of_the_job(lab: Lab) -> None:
    lab.on("h2", "pam-auth-update --disable systemd </dev/null", user="root")
    job = submit(lab, "h2")
    try:
        entered, groups = login(lab, "carl", "h2", "cat /proc/self/cgroup")
        memory = next(line for line in groups.splitlines() if ":memory:" in line or line.startswith("0::/system"))
        assert (entered, f"/job_{job}/step_extern" in memory) == (True, True), groups
    finally:
        end(lab, job)
        lab.on("h2", "pam-auth-update --enable systemd </dev/null", user="root")


@pytest.mark.usefixtures("cluster")
def test_a_second_time_changes_nothing(lab: Lab) -> None:
    code, cells = play(lab, "provision", *WANTED)
    assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "ok"))
    assert [cell for cell in cells.values() if cell["num_changed"]] == []
    code, cells = play(lab, "verify", *WANTED)
    assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "ok"))


@pytest.mark.usefixtures("cluster")
def test_another_administrator_changes_nothing_and_locks_out_nobody(lab: Lab) -> None:
    code, cells = play(lab, "provision", *WANTED, "-e", "ansible_user=dora")
    assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "ok"))
    assert login(lab, "ops", "h2") == (True, "ops")


@pytest.mark.usefixtures("cluster")
def test_a_change_by_hand_is_found_and_mended_and_others_lines_stay(lab: Lab) -> None:
    lab.on("h2", f"sed -i 's/required pam_slurm/optional pam_slurm/' {PAM}; echo '# theirs' >> {PAM}", user="root")
    assert login(lab, "carl", "h2") == (True, "carl")
    code, cells = play(lab, "verify", *WANTED)
    assert (code, statuses(cells)) == (1, {"h1": "ok", "h2": "failed", "h3": "ok"})
    assert f"files that differ: {PAM}" in cells["h2"]["message"]
    code, cells = play(lab, "provision", *WANTED)
    assert (code, statuses(cells)) == (0, {"h1": "ok", "h2": "changed", "h3": "ok"})
    assert login(lab, "carl", "h2")[0] is False
    assert "# theirs" in pam(lab, "h2")
    lab.on("h2", f"sed -i '/# theirs/d' {PAM}", user="root")


@pytest.mark.usefixtures("cluster")
def test_a_line_of_the_site_stays_alone(lab: Lab) -> None:
    ours = pam(lab, "h3")
    lab.on("h3", f"sed -i '/BEGIN ddp-play/d; /END ddp-play/d' {PAM}", user="root")
    theirs = pam(lab, "h3")
    code, cells = play(lab, "provision", *WANTED)
    assert (code, cells["h3"]["num_changed"]) == (0, 0)
    assert "the site has its own line, which stays" in cells["h3"]["reason"]
    assert pam(lab, "h3") == theirs
    lab.on("h3", f"cat > {PAM} <<'EOF'\n{ours}\nEOF", user="root")


@pytest.mark.usefixtures("cluster")
def test_a_node_that_would_lock_us_out_restores_itself(lab: Lab) -> None:
    """Without the module of the exemptions every login but root's needs a job, that of Ansible too."""
    lab.on("h3", f"sed -i '/BEGIN ddp-play/,/END ddp-play/d' {PAM}; mv {SUCCEED_IF} /root", user="root")
    site = pam(lab, "h3")
    code, cells = play(lab, "provision", *WANTED)
    assert (code, statuses(cells)) == (1, {"h1": "ok", "h2": "ok", "h3": "failed"})
    assert REFUSED in cells["h3"]["message"]
    assert "The host restores the file that was there before, within two minutes" in cells["h3"]["message"]
    assert login(lab, "ops", "h3")[0] is False
    wait_until(lambda: login(lab, "ops", "h3")[0], timeout_s=RESTORED_S)
    assert pam(lab, "h3") == site
    assert lab.on("h3", "ls /etc/pam.d | grep ddp; systemctl --quiet is-failed 'ddp-play-*' && echo failed; true") == ""
    lab.on("h3", f"mv /root/pam_succeed_if.so {SUCCEED_IF}", user="root")
    code, cells = play(lab, "provision", *WANTED)
    assert (code, statuses(cells)) == (0, {"h1": "ok", "h2": "ok", "h3": "changed"})
    assert (login(lab, "carl", "h3")[0], login(lab, "ops", "h3")[0]) == (False, True)


@pytest.mark.usefixtures("cluster")
def test_turned_off_everybody_logs_in_again(lab: Lab, before: dict[str, dict[str, str]]) -> None:
    code, cells = play(lab, "provision")
    assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "changed"))
    assert login(lab, "carl", "h2") == (True, "carl")
    rows = differences(before["h1"], listing(lab, "h1"))
    assert [row for row in rows if PAM in row] == []


@pytest.mark.usefixtures("cluster")
def test_deprovision_leaves_the_hosts_as_they_were(lab: Lab, before: dict[str, dict[str, str]]) -> None:
    code, cells = play(lab, "provision", *WANTED)
    assert code == 0, cells
    assert login(lab, "carl", "h2")[0] is False
    lab.on("h2", f"sed -i '1i # theirs' {PAM}", user="root")
    code, cells = play(lab, "deprovision", "--limit", "all", "--yes", *WANTED)
    assert code == 0, cells
    assert pam(lab, "h2").startswith("# theirs\n")
    lab.on("h2", f"sed -i 1d {PAM}", user="root")
    for host in HOSTS:
        rows = differences(before[host], listing(lab, host))
        assert [row for row in rows if not row.startswith(STAYS)] == []
        assert login(lab, "carl", host) == (True, "carl")
