"""Remedies of failed tasks on a host, by the text of the error and the role: packages, mounts, proxies, mirrors."""

from __future__ import annotations

import pytest

from ddp_play.ansible import host_problems


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
        (
            "E: The repository 'http://m.example.com/debian bookworm Release' does not have a Release file.",
            "m.example.com lacks a file",
        ),
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
