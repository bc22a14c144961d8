"""Kind and remedy of a host's problem, from the error text of its connection or of a task there."""

from __future__ import annotations

import itertools
import re
import shlex

from ddp_play.ansible.known_problems import KNOWN_PROBLEMS, Kind, KnownProblem

HOSTS_SOURCES = "point the host's own package sources at a mirror"
# Settings for a role whose source of packages cannot be reached.
ANOTHER_SOURCE = {
    "python_env": "set python_env_index_url, or python_env_source: wheelhouse",
    "image_distribution": "choose another image_distribution_source",
    "nvidia_container_toolkit": "set ddp_mirror_url",
    "rdma": "set ddp_mirror_url",
    **dict.fromkeys(("base_os", "cluster_users", "monitoring", "nfs_client", "nfs_server", "scratch"), HOSTS_SOURCES),
}
SERVER = re.compile(r"https?://(?:[^/\s@]*@)?([\w.-]+)|Could not resolve(?: host)?:? '?([\w.-]+)")
# In one word of an ssh command.
KNOWN_HOSTS = re.compile(r"(?:-o)?UserKnownHostsFile=(.+)")


def ssh_words(address: str, *, port: object = None, user: object = None, key: object = None, args: str = "") -> str:
    """What follows `ssh` on a command line that logs in as Ansible does."""
    words = _split(args)
    words += ["-p", str(port)] if port and str(port) != "22" else []
    words += ["-i", str(key)] if key else []
    return shlex.join([*words, f"{user}@{address}" if user else address])


def problem_from_text(host: str, text: str, address: str, *, reached: bool = False, hint: str = "") -> dict[str, str]:
    """Fields of a Problem, from the error text of a connection; `reached`: the host itself answered.

    `address`: words after `ssh`, as `ssh_words` makes them.
    """
    lines = re.sub("@{3,}", "", text).splitlines()  # ssh frames its message about a changed host key
    message = " ".join(line.strip() for line in lines if line.strip() and not line.startswith("@"))
    known = next((row for row in KNOWN_PROBLEMS if row.kind is not Kind.TASK and re.search(row.pattern, text)), None)
    if known is not None:
        values = _values(known, text, host=host, address=address)
        said = known.message.format(**values) if known.message else message
        return {
            "host": host,
            "kind": str(known.kind),
            "message": said[-400:],
            "hint": hint or known.remedy.format(**values),
        }
    if reached:
        return {
            "host": host,
            "kind": str(Kind.OTHER),
            "message": message[-400:] or "the host gave no answer",
            "hint": hint,
        }
    hint = f"check that it is up: ssh {address}"
    return {"host": host, "kind": str(Kind.UNREACHABLE), "message": message[-400:] or "unreachable", "hint": hint}


def remedy_of(text: str, role: str = "", *, host: str = "", address: str = "") -> str:
    """Remedy for the error text of a failed task; empty if there is no known one.

    Rows of kind UNREACHABLE do not apply: the host answered, so its message is about other machines.
    """
    known = next((row for row in KNOWN_PROBLEMS if re.search(row.pattern, text)), None)
    if known is None or known.kind is Kind.UNREACHABLE:
        return ""
    return known.remedy.format(**_values(known, text, host=host, address=address, role=role or "ROLE"))


def _values(known: KnownProblem, text: str, *, host: str, address: str, role: str = "ROLE") -> dict[str, str]:
    """Values of the placeholders; {server} is the host of the first URL in the text."""
    server, found = SERVER.search(text), re.search(known.pattern, text)
    groups = {name: value or "" for name, value in found.groupdict().items()} if found else {}
    words = _split(address) or ["HOST"]
    known_hosts = next((file[1] for word in words if (file := KNOWN_HOSTS.fullmatch(word))), "~/.ssh/known_hosts")
    port = next((after for word, after in itertools.pairwise(words) if word == "-p"), "")
    return {
        "host": host,
        "address": address,
        "user": words[-1].rpartition("@")[0] or "USER",
        "role": role,
        "server": (server[1] or server[2]) if server else "its package source",
        "another_source": HOSTS_SOURCES
        if role == "python_env" and "Failed to fetch" in text  # of apt, which installs python3-venv
        else ANOTHER_SOURCE.get(role, f"set ddp_mirror_url, or {role}_source: distribution"),
        "known_hosts": _for_shell(known_hosts),
        "keyscan": f"ssh-keyscan {f'-p {port} ' if port else ''}{words[-1].rpartition('@')[2]}",
        **groups,
    }


def _split(words: str) -> list[str]:
    """Words as a shell would see them; of an open quote as they stand."""
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()


def _for_shell(path: str) -> str:
    """The path as one word, in which the shell still replaces a leading `~`."""
    home, slash, rest = path.partition("/")
    return f"{home}{slash}{shlex.quote(rest)}" if home == "~" else shlex.quote(path)
