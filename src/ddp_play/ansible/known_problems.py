"""Table of known host problems and remedies, by the error texts of ssh, sudo, shells, package managers, engines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Kind of a host problem."""

    HOST_KEY = "host_key"
    CREDENTIALS = "credentials"
    BECOME = "become"
    UNREACHABLE = "unreachable"
    PYTHON = "python"
    TASK = "task"  # a provisioning task: packages, services, mounts
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class KnownProblem:
    """Pattern of an error text, its kind and its remedy.

    The remedy may contain {host}, {user}, {role}, {server}, {another_source}, {address} (words after `ssh`), {keyscan}
    (command that prints the host's keys), {known_hosts}, and the pattern's groups. `message` replaces the host's.
    """

    pattern: str
    kind: Kind
    remedy: str
    message: str = ""


# The first row that matches applies. Errors of a connection are compared only with rows of other kinds than TASK.
KNOWN_PROBLEMS: tuple[KnownProblem, ...] = (
    KnownProblem(
        r"Could not get lock|Failed to lock apt|lock-frontend|Waiting for cache lock|yum lockfile",
        Kind.TASK,
        "another package manager runs on the host: wait for it, or raise the role's *_lock_timeout_s",
    ),
    KnownProblem(
        r"No space left on device|enough free space",
        Kind.TASK,
        "free disk space: df -h on the host shows it; docker_engine_data_root moves images",
    ),
    KnownProblem(  # of a system that is in the list the message is about something else
        r"runs (?P<system>\w+ [\d.]+)\b(?!.*[Kk]nown: .*\b(?P=system)\b).*[Kk]nown: "
        r"|is not supported by \w+\. Supported:",
        Kind.TASK,
        "use one of the systems that the message lists, or add a row to the role's vars and try it",
    ),
    KnownProblem(
        r"Failed to update apt cache after \d+ retries: *$",
        Kind.TASK,
        "apt-get update on the host names the source or key: check the mirror (ddp_mirror_url), the proxy and "
        "the host's clock",
    ),
    KnownProblem(
        r"NO_PUBKEY|EXPKEYSIG|KEYEXPIRED|BADSIG|is not signed|signatures? (?:couldn't|could not) be verified",
        Kind.TASK,
        "the repository's key is wrong or has expired: check the role's *_key_url and the host's clock",
    ),
    KnownProblem(  # messages of urllib, apt, curl in dnf, pip, and Docker
        r"Tunnel connection failed|[Ii]nvalid response from proxy|from proxy after CONNECT|Could not resolve proxy"
        r"|Cannot connect to proxy|Unable to connect to proxy|Proxy Authentication Required|proxyconnect tcp",
        Kind.TASK,
        "the HTTP proxy does not pass on {server}: on the host, curl -v -x PROXY URL shows its answer. {role}_proxy "
        "(ddp_proxy) names it, ddp_no_proxy lists what is reached without it",
    ),
    KnownProblem(
        r"Name or service not known|Temporary failure (?:in name resolution|resolving)|Could not resolve (?!hostname)"
        r"|No address associated with hostname",
        Kind.TASK,
        "the host cannot resolve {server}: {another_source}, or repair the host's DNS or its proxy (ddp_proxy)",
    ),
    KnownProblem(  # of apt and urllib, of dnf, of apt with a mirror in a directory
        r"\b404:? +Not Found|Status code: 404|File not found - /|does not have a Release file",
        Kind.TASK,
        "{server} lacks a file that the message names: a mirror (ddp_mirror_url) needs it at MIRROR/HOST/PATH of the "
        "vendor's address, and its package lists have to be as new as its packages",
    ),
    KnownProblem(
        # not an exporter of the host itself, about which role monitoring gives the command
        r"(?s)\A(?!.*no metrics from port).*?(Failed to fetch|Unable to connect to|Connection timed out|urlopen error"
        r"|Request failed|Failed to establish a new connection)",
        Kind.TASK,
        "the host cannot reach {server}: {another_source}, or repair the host's route or its proxy (ddp_proxy)",
    ),
    KnownProblem(  # of pip, also after the failed connections of the row above
        r"No matching distribution found for",
        Kind.TASK,
        "correct python_env_packages, or use an index that has it (python_env_index_url)",
    ),
    KnownProblem(
        r"No package matching|Unable to locate package|has no installation candidate|Version .* was not found",
        Kind.TASK,
        "the source lacks this package: apt-cache policy on the host shows its versions; choose another source",
    ),
    KnownProblem(
        r"dpkg was interrupted|dpkg --configure -a",
        Kind.TASK,
        "an earlier installation was interrupted: run dpkg --configure -a on the host, then provision again",
    ),
    KnownProblem(
        r"error setting rlimit|RLIMIT|operation not permitted.*ulimit",
        Kind.TASK,
        "the engine may not raise that limit here: lower docker_engine_default_ulimits",
    ),
    KnownProblem(
        r"access denied by server", Kind.TASK, "the export does not list this host: exportfs -s on the server"
    ),
    KnownProblem(
        r"servers whose name does not resolve there",
        Kind.TASK,
        "correct nfs_client_mounts as the message says: use an address, an empty mount point or another server",
    ),
    KnownProblem(
        r"gets no answer from .* port",
        Kind.TASK,
        "run systemctl status nfs-server on the server; base_os_firewall_extra opens the port in its firewall",
    ),
    KnownProblem(
        r"has no NFS (client|server)",
        Kind.TASK,
        "install the distribution's own kernel on it, or remove it from the mounts or from group nfs_server",
    ),
    KnownProblem(  # the roles' refusals of settings name the system too
        r"runs \w+ [\d.]+\b.*[Kk]nown: ", Kind.TASK, "correct the variables of {role} that the message names"
    ),
    KnownProblem(
        r"Secure boot is on",
        Kind.TASK,
        "on Ubuntu set nvidia_driver_source: distribution; elsewhere enrol DKMS's key, or disable secure boot",
    ),
    KnownProblem(
        r"Driver branch \S+ is refused|is too old: torch",
        Kind.TASK,
        "set nvidia_driver_branch to an offered branch, or use another version of torch",
    ),
    KnownProblem(
        r"fabricmanager is \S+, the driver is",
        Kind.TASK,
        "ddp-play provision -i INVENTORY --limit {host} --tags nvidia_driver brings both to one version",
    ),
    KnownProblem(r"reboot needed", Kind.TASK, "ddp-play reboot -i INVENTORY --limit {host}, then provision again"),
    KnownProblem(r"Read-only file system", Kind.TASK, "the host's disk is read-only: read dmesg on the host first"),
    KnownProblem(
        r"too long for Unix domain socket",
        Kind.OTHER,
        "nothing is wrong with the host: the path of the home directory here is too long for ssh's control sockets: "
        "export ANSIBLE_SSH_CONTROL_PATH_DIR=$(mktemp -d)",
    ),
    KnownProblem(
        r"(?s:REMOTE HOST IDENTIFICATION HAS CHANGED.*Offending \S+ key in (?P<file>\S+?):\d+"
        r".*Host key for (?P<name>\S+) has changed)",
        Kind.HOST_KEY,
        "if the host was reinstalled: ssh-keygen -f {file} -R '{name}' && {keyscan} >> {file}; compare the new "
        "fingerprint with the host's own first",
        message="its SSH host key is not the known one in {file}: the host was reinstalled, or another machine answers",
    ),
    KnownProblem(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        Kind.HOST_KEY,
        "if the host was reinstalled: ssh {address} names the file and the command that removes the old key",
    ),
    KnownProblem(
        r"Host key verification failed|No \S+ host key is known for",
        Kind.HOST_KEY,
        "if the host is new: {keyscan} >> {known_hosts}; compare its fingerprint first, as ssh shows it: ssh {address}",
    ),
    KnownProblem(  # messages of PAM and of sshd about an account; a denial of the login may follow
        r"[Yy]our account has expired|[Aa]ccount \S+ has expired",
        Kind.CREDENTIALS,
        "as root on {host}: chage -E -1 {user}; or connect as another user with -u",
        message="the account {user} has expired there",
    ),
    KnownProblem(
        r"[Pp]assword has expired|Password change required|required to change your password",
        Kind.CREDENTIALS,
        "ssh {address} asks for a new one; or connect as another user with -u",
        message="the password of {user} has expired there, and only a login with a terminal can change it",
    ),
    KnownProblem(
        r"This account is currently not available",
        Kind.CREDENTIALS,
        "as root on {host}: chsh -s /bin/bash {user}; or connect as another user with -u",
        message="the login shell of {user} refuses logins: This account is currently not available.",
    ),
    KnownProblem(
        r"Unprivileged users are not permitted to log in",
        Kind.UNREACHABLE,
        "it reboots or has just started: try again in a minute; if that lasts, as root on {host}: rm /run/nologin",
        message="the host takes no logins now, as before a reboot or during a start",
    ),
    KnownProblem(
        r"Too many authentication failures",
        Kind.CREDENTIALS,
        "ssh offered more keys than the server tries (MaxAuthTries) before the right one: name it with "
        "ansible_ssh_private_key_file (--private-key), and set -o IdentitiesOnly=yes in ansible_ssh_common_args",
    ),
    KnownProblem(
        r"no such identity: (?P<file>[^\n]+?): No such file|Identity file (?P<other>\S+) not accessible",
        Kind.CREDENTIALS,
        "the SSH key {file}{other} does not exist here: correct ansible_ssh_private_key_file or --private-key, or give "
        "the password with -k",
    ),
    KnownProblem(
        r'Load key "(?P<file>[^"\n]+)": bad permissions',
        Kind.CREDENTIALS,
        "ssh ignores a private key that others may read: chmod 600 {file}",
    ),
    KnownProblem(
        r"Permission denied \(|Permission denied, please try again|Invalid/incorrect (username/)?password",
        Kind.CREDENTIALS,
        "correct the user (-u, ansible_user) or the key (--private-key, ansible_ssh_private_key_file), or let the key "
        "in: ssh-copy-id {address}; with a password: -k",
    ),
    KnownProblem(
        r"is not in the sudoers file|is not allowed to (run|execute)",
        Kind.BECOME,
        "no password helps: allow it with visudo on {host}, or connect as another user with -u",
    ),
    KnownProblem(
        r"Incorrect (sudo|become) password|Sorry, try again",
        Kind.BECOME,
        "the password that -K asked for (or ansible_become_password) is not that of the user there: give it again",
        message="sudo does not accept the password",
    ),
    KnownProblem(
        r"[Mm]issing (sudo|become) password|sudo: a password is required|a terminal is required",
        Kind.BECOME,
        "give the password with -K, or NOPASSWD in sudoers for this user",
    ),
    KnownProblem(
        r"you must have a tty to run sudo",
        Kind.BECOME,
        "sudo there wants a terminal, which a run cannot have: add 'Defaults:USER !requiretty' with visudo on {host}",
    ),
    KnownProblem(
        r"sudo: (command )?not found|sudo: No such file",
        Kind.BECOME,
        "install sudo on {host}, or connect as root with -u root",
    ),
    KnownProblem(
        r"Could not resolve hostname|Name or service not known",
        Kind.UNREACHABLE,
        "set ansible_host of {host} in the inventory to an address, or to a name that resolves here",
    ),
    KnownProblem(
        r"port \d+: Connection refused",
        Kind.UNREACHABLE,
        "the machine answers, but no SSH server on this port: correct ansible_port of {host}, or start sshd there",
    ),
    KnownProblem(  # after any failure of a jump host or ProxyCommand the second line is of UNKNOWN port 65535
        r"kex_exchange_identification: (?:read: )?Connection (?:closed|reset)"
        r"(?! by (?:remote host|peer)\s+Connection (?:closed|reset) by UNKNOWN)|Exceeded MaxStartups",
        Kind.UNREACHABLE,
        "its SSH server ends connections before a login: too many at once (raise MaxStartups in its sshd_config), or "
        "it bans this machine: journalctl -u ssh on {host} says which",
    ),
    KnownProblem(  # of `bounded_execution`, and of the program on the host, which names the step
        r"^it did not answer within \d|did not finish '\w+' within",
        Kind.OTHER,
        "usually a mount that does not answer: ssh {address}, there timeout 5 df -h, and ps -eo pid,stat,wchan:32,args "
        "| grep ' D'; DDP_PLAY_ANSWER_S=600 before the command gives a slow host more time",
    ),
    KnownProblem(
        r"^it sent more than \d+ MiB",
        Kind.OTHER,
        "look for what prints without end when somebody logs in: ssh {address} true | head",
    ),
    KnownProblem(  # messages of dash, of bash, and of a Python older than 3.7 that reads the host program
        r"python[\w.-]*: (command not found|not found|(cannot execute: )?No such file or directory|Permission denied)|"
        r"future feature annotations is not defined",
        Kind.PYTHON,
        "install Python 3.9 or newer on {host}, or correct ansible_python_interpreter of {host}",
    ),
    KnownProblem(
        r"[Nn]o space left on device",
        Kind.OTHER,
        "free some space on {host}: df -h there shows which disk is full, docker system df what its engine keeps",
    ),
)
