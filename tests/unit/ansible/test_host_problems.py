"""Kinds and remedies of host problems, by the text of the error."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ddp_play.ansible import host_problems
from ddp_play.ansible.known_problems import KNOWN_PROBLEMS

CHANGED_KEY = """Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/ops/.ssh/known_hosts:12
Host key for 10.0.0.5 has changed and you have requested strict checking.
Host key verification failed."""

SAID: list[tuple[str, bool, str, str]] = [
    (
        CHANGED_KEY,
        False,
        "host_key",
        "ssh-keygen -f /home/ops/.ssh/known_hosts -R '10.0.0.5' && ssh-keyscan 10.0.0.5 >> /home/ops/.ssh/known_hosts",
    ),
    ("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", False, "host_key", "ssh 10.0.0.5 names the file"),
    (
        "Failed to connect to the host via ssh: Host key verification failed.",
        False,
        "host_key",
        "ssh-keyscan 10.0.0.5 >> ~/.ssh/known_hosts",
    ),
    ("No ED25519 host key is known for h1 and you have requested strict checking.", False, "host_key", "ssh-keyscan"),
    (
        "Failed to connect to the host via ssh: ops@10.0.0.5: Permission denied (publickey).",
        False,
        "credentials",
        "--private-key",
    ),
    (
        "Failed to connect to the host via ssh: ops@10.0.0.5: Permission denied (publickey,password).",
        False,
        "credentials",
        "-u",
    ),
    ("Invalid/incorrect password: Permission denied, please try again.", False, "credentials", "--private-key"),
    (
        'unix_listener: path "/home/k/.ansible/cp/d0afc7f518.02IWqZNP1CzUoP9x" too long for Unix domain socket',
        False,
        "other",
        "export ANSIBLE_SSH_CONTROL_PATH_DIR=$(mktemp -d)",
    ),
    (
        "no such identity: /k/id: No such file or directory\nops@h1: Permission denied (publickey).",
        False,
        "credentials",
        "the SSH key /k/id does not exist here",
    ),
    (
        'Load key "/k/a b": bad permissions\nops@h1: Permission denied (publickey).',
        False,
        "credentials",
        "chmod 600 /k/a b",
    ),
    ("ops@10.0.0.5: Permission denied (publickey,password).", False, "credentials", "ssh-copy-id 10.0.0.5"),
    ("Your account has expired; please contact your system administrator.", False, "credentials", "chage -E -1 USER"),
    ("Password change required but no TTY available.", True, "credentials", "ssh 10.0.0.5 asks for a new one"),
    ("This account is currently not available.", True, "credentials", "as root on h1: chsh -s /bin/bash USER"),
    ("Received disconnect from ::1: 2: Too many authentication failures", False, "credentials", "IdentitiesOnly"),
    (
        "System is going down. Unprivileged users are not permitted to log in anymore.",
        False,
        "unreachable",
        "as root on h1: rm /run/nologin",
    ),
    ("kex_exchange_identification: read: Connection reset by peer", False, "unreachable", "MaxStartups"),
    ("Missing sudo password", True, "become", "-K"),
    ("password:Sorry, try again.", False, "become", "give it again"),
    ("Incorrect sudo password", True, "become", "-K"),
    ("sudo: a password is required", True, "become", "NOPASSWD"),
    ("sudo: a terminal is required to read the password; either use the -S option", True, "become", "-K"),
    ("sudo: sorry, you must have a tty to run sudo", True, "become", "'Defaults:USER !requiretty'"),
    ("ops is not in the sudoers file.  This incident will be reported.", True, "become", "no password helps"),
    ("Sorry, user ops is not allowed to execute '/bin/sh' as root on h1.", True, "become", "no password helps"),
    ("ssh: Could not resolve hostname h1: Name or service not known", False, "unreachable", "ansible_host"),
    ("ssh: connect to host 10.0.0.5 port 22: Connection refused", False, "unreachable", "correct ansible_port of h1"),
    ("ssh: connect to host 10.0.0.5 port 22: No route to host", False, "unreachable", "check that it is up:"),
    ("Connection timed out during banner exchange", False, "unreachable", "check that it is up:"),
    ("/bin/sh: 1: exec: /usr/libexec/platform-python: not found", True, "python", "install Python 3.9"),
    ("dash: 1: exec: /opt/py/bin/python3.12: not found", True, "python", "ansible_python_interpreter"),
    ("bash: line 1: /usr/libexec/platform-python: No such file or directory", True, "python", "on h1"),
    ("bash: line 1: /opt/python3: cannot execute: No such file or directory", True, "python", "Python"),
    ("SyntaxError: future feature annotations is not defined", True, "python", "Python 3.9"),
    ("PermissionError: [Errno 13] Permission denied: '/var/lib/ddp-play'", True, "other", ""),
    ("OSError: [Errno 28] No space left on device", True, "other", "free some space on h1: df -h there"),
    ("", False, "unreachable", "check that it is up:"),
]


@pytest.mark.parametrize(("text", "reached", "kind", "hint"), SAID, ids=[row[0][-48:] for row in SAID])
def test_errors_of_connections_have_kind_and_hint(text: str, reached: bool, kind: str, hint: str) -> None:
    problem = host_problems.problem_from_text("h1", text, "10.0.0.5", reached=reached)
    assert (problem["host"], problem["kind"]) == ("h1", kind)
    assert hint in problem["hint"]
    assert "@@@" not in problem["message"]
    assert problem["message"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("it did not answer within 150 s", "ssh 10.0.0.5, there timeout 5 df -h"),
        (
            "the program on the host did not finish 'facts' within 120 s: it was still at the GPUs",
            "DDP_PLAY_ANSWER_S=600",
        ),
        ("it sent more than 16 MiB instead of an answer", "ssh 10.0.0.5 true | head"),
    ],
)
def test_a_host_at_its_limits_has_a_remedy(text: str, hint: str) -> None:
    problem = host_problems.problem_from_text("h1", text, "10.0.0.5", reached=True)
    assert (problem["host"], problem["message"]) == ("h1", text)
    assert hint in problem["hint"]


def test_a_given_hint_is_kept() -> None:
    problem = host_problems.problem_from_text("h1", "Python 3.8.1 is too old", "h1", reached=True, hint="3.9 or newer")
    assert (problem["kind"], problem["hint"]) == ("other", "3.9 or newer")


def test_a_long_message_keeps_its_end() -> None:
    problem = host_problems.problem_from_text("h1", "blah\n" * 500 + "the point", "h1")
    assert len(problem["message"]) == 400
    assert problem["message"].endswith("the point")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("E: You don't have enough free space; No space left on device", "free disk space"),
        ("The following signatures couldn't be verified: NO_PUBKEY 7EA0", "key"),
        ("E: Unable to locate package nvidia-open-580", "apt-cache policy"),
        ("h1 runs Debian 11. Known: Debian 12, Debian 13", "systems that the message lists"),
        ("h1 runs Ubuntu 20.04 with docker_engine_source=vendor. Known: Debian 12", "systems that the message lists"),
        ("Ubuntu-20.04 is not supported by rdma. Supported: Debian-12", "systems that the message lists"),
        ("Failed to update apt cache after 5 retries: ", "apt-get update on the host"),
        ("mount.nfs: access denied by server while mounting s:/x", "exportfs -s"),
        ("h1: servers whose name does not resolve there: nas; mounts from", "correct nfs_client_mounts"),
        ("h1 gets no answer from nas port 2049.", "systemctl status nfs-server"),
        ("its kernel has no NFS client (module nfsv4).", "the distribution's own kernel"),
        (
            "h1 runs Debian 12 (known: Debian 12, Debian 13), and its kernel has no NFS client (module nfsv4).",
            "the distribution's own kernel",
        ),
        (
            "h1 runs Ubuntu 22.04 (known: Debian 12, Ubuntu 22.04). Every package needs a version: six",
            "variables of ROLE",
        ),
        (
            "Retrying after 'NewConnectionError: Failed to establish a new connection: [Errno 111]'\n"
            "ERROR: No matching distribution found for six==1.17.0",
            "cannot reach its package source",
        ),
        ("ERROR: No matching distribution found for sixx==1.17.0", "correct python_env_packages"),
        ("h1 runs Debian 1 (known: Debian 12). Every package needs a version", "systems that the message lists"),
        ("Secure boot is on and the modules would be built here", "enrol DKMS's key"),
        ("Driver branch 535 is refused: past its end of life", "nvidia_driver_branch"),
        ("Driver 535 (distribution) is too old: torch 2.13.0 needs 580", "nvidia_driver_branch"),
        ("nvidia-fabricmanager is 580.1, the driver is 580.2", "--tags nvidia_driver"),
        ("The following signatures were invalid: EXPKEYSIG 7EA0", "key"),
        ("Request failed: <urlopen error Tunnel connection failed: 403 Forbidden>", "curl -v -x PROXY URL"),
        ("Failed to fetch https://a.example.com/x  Invalid response from proxy: HTTP/1.1 407", "pass on a.example.com"),
        ("Curl error (56): Received HTTP code 407 from proxy after CONNECT", "ROLE_proxy (ddp_proxy)"),
        ("ProxyError('Cannot connect to proxy.', NewConnectionError('refused'))", "ddp_no_proxy"),
        ("proxyconnect tcp: dial tcp 10.0.0.1:3128: connect: connection refused", "HTTP proxy"),
        (
            "E: Failed to fetch https://m.example.com/a.example.com/x_1.deb  404  Not Found",
            "m.example.com lacks a file",
        ),
        ("HTTP Error 404: Not Found https://m.example.com/a.example.com/gpg", "MIRROR/HOST/PATH"),
        ("Status code: 404 for https://m.example.com/a/repomd.xml (IP: 10.0.0.1)", "m.example.com lacks a file"),
        ("E: Failed to fetch file:/srv/mirror/x/InRelease  File not found - /srv/mirror/x/InRelease", "lacks a file"),
        ("dpkg was interrupted, you must manually run", "dpkg --configure"),
        ("h2: not running: x\nno metrics from port 9100 (<urlopen error [Errno 111] Connection refused>).", ""),
        ("urlopen error [Errno 110]\nConnection timed out", "ddp_proxy"),
        ("something else", ""),
    ],
)
def test_remedies(text: str, words: str) -> None:
    assert words in host_problems.remedy_of(text)
    assert bool(words) == bool(host_problems.remedy_of(text))


@pytest.mark.parametrize(
    ("role", "text", "remedy"),
    [
        (
            "docker_engine",
            "W: Failed to fetch https://mirror.example.com/x/InRelease  Could not resolve 'mirror.example.com'",
            "the host cannot resolve mirror.example.com: set ddp_mirror_url, or docker_engine_source: distribution,"
            " or repair the host's DNS or its proxy (ddp_proxy)",
        ),
        (
            "docker_engine",
            "E: Failed to fetch http://10.0.0.1:8080/docker/InRelease  Could not connect to 10.0.0.1:8080",
            "the host cannot reach 10.0.0.1: set ddp_mirror_url, or docker_engine_source: distribution,"
            " or repair the host's route or its proxy (ddp_proxy)",
        ),
        (
            "nvidia_driver",
            "Request failed: <urlopen error timed out>\nhttps://developer.download.nvidia.com/key",
            "the host cannot reach developer.download.nvidia.com: set ddp_mirror_url, or"
            " nvidia_driver_source: distribution, or repair the host's route or its proxy (ddp_proxy)",
        ),
        (
            "base_os",
            "E: Failed to fetch http://deb.example.com/x  Could not connect to deb.example.com:80",
            "the host cannot reach deb.example.com: point the host's own package sources at a mirror, or repair"
            " the host's route or its proxy (ddp_proxy)",
        ),
        (
            "python_env",
            "Temporary failure in name resolution",
            "the host cannot resolve its package source: set python_env_index_url, or python_env_source:"
            " wheelhouse, or repair the host's DNS or its proxy (ddp_proxy)",
        ),
    ],
)
def test_the_remedy_names_server_and_variable(role: str, text: str, remedy: str) -> None:
    assert host_problems.remedy_of(text, role) == remedy


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Missing sudo password", "give the password with -K, or NOPASSWD in sudoers for this user"),
        ("sudo: command not found", "install sudo on h1, or connect as root with -u root"),
        ("Could not resolve hostname nas", ""),
    ],
)
def test_a_failed_task_may_be_a_problem_of_the_connection(text: str, remedy: str) -> None:
    assert host_problems.remedy_of(text, "nccl", host="h1", address="10.0.0.5") == remedy


def test_packages_of_the_host_do_not_come_from_the_index_of_pip() -> None:
    """python_env installs python3-venv with apt before it asks an index."""
    apt = "python3-venv: nothing was installed: W: Failed to fetch http://127.0.0.1:9/debian Could not connect"
    assert "point the host's own package sources at a mirror" in host_problems.remedy_of(apt, "python_env")
    pip = "Retrying: Failed to establish a new connection: [Errno 111] Connection refused"
    assert "set python_env_index_url" in host_problems.remedy_of(pip, "python_env")


def test_a_connection_gets_no_remedy_of_tasks() -> None:
    problem = host_problems.problem_from_text("h1", "Could not get lock lock-frontend", "h1", reached=True)
    assert (problem["kind"], problem["hint"]) == ("other", "")


def test_every_remedy_can_be_filled() -> None:
    for row in KNOWN_PROBLEMS:
        groups = dict.fromkeys(re.compile(row.pattern).groupindex, "it")
        values = {**host_problems._values(row, "", host="h1", address="10.0.0.5", role="nccl"), **groups}
        assert "{" not in row.remedy.format(**values) + row.message.format(**values)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "h1"),
        ({"port": 22, "user": None}, "h1"),
        ({"port": 2222, "user": "ops", "key": "/k/a b"}, "-p 2222 -i '/k/a b' ops@h1"),
        ({"args": "-o UserKnownHostsFile=/k/known -J jump"}, "-o UserKnownHostsFile=/k/known -J jump h1"),
    ],
)
def test_the_words_of_a_login_by_hand(given: dict[str, Any], words: str) -> None:
    assert host_problems.ssh_words("h1", **given) == words


def test_keys_of_a_host_on_another_port_are_read_from_there_and_go_where_ssh_looks() -> None:
    words = host_problems.ssh_words("10.0.0.5", port=2222, user="ops", args="-o UserKnownHostsFile=/k/known")
    problem = host_problems.problem_from_text("h1", "Host key verification failed.", words)
    assert "ssh-keyscan -p 2222 10.0.0.5 >> /k/known;" in problem["hint"]
    changed = CHANGED_KEY.replace("Host key for 10.0.0.5", "Host key for [10.0.0.5]:2222")
    problem = host_problems.problem_from_text("h1", changed, words)
    assert (
        "ssh-keygen -f /home/ops/.ssh/known_hosts -R '[10.0.0.5]:2222' && ssh-keyscan -p 2222 10.0.0.5"
        in problem["hint"]
    )
    assert problem["message"].startswith("its SSH host key is not the known one")


@pytest.mark.parametrize(
    ("file", "written"),
    [("/k/known", "/k/known"), ("/a b/known", "'/a b/known'"), ("~/a b/known", "~/'a b/known'")],
)
def test_a_file_of_host_keys_is_one_word_for_the_shell(file: str, written: str) -> None:
    words = host_problems.ssh_words("h1", args=f"-o 'UserKnownHostsFile={file}'")
    problem = host_problems.problem_from_text("h1", "Host key verification failed.", words)
    assert f"ssh-keyscan h1 >> {written};" in problem["hint"]


def test_an_open_quote_in_the_arguments_of_ssh_is_no_failure_of_its_own() -> None:
    assert host_problems.ssh_words("h1", args="-o 'User=x") == "-o ''\"'\"'User=x' h1"
