"""Files of a new site: inventory with documented settings, a first job, a vault example, the next commands."""

from __future__ import annotations

import ipaddress
import re
import shutil
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.errors import InternalError, UsageError
from ddp_play.planning.host_names import name_problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALL_HOSTS_VARIABLES = "inventory/group_vars/all"
EXAMPLE_SHARED_DIR = "/srv/ddp"
# The settings about the shared directory, at the end of the example's group_vars/all.yml.
SHARED_SETTINGS = "# --- nfs_server, nfs_client"
# Of a host's name or address; other characters are patterns and ranges of Ansible.
HOST_NAME = re.compile(r"\w[\w.-]*")
RANK_IMAGE, CPU_RANK_IMAGE = "ddp-play-rank", "ddp-play-rank:cpu"
VENDORS_ENGINE = "docker_engine_source: vendor\n"
# `lab up --no-docker` names the same source for its hosts.
LABS_ENGINE = """\
# On hosts of a lab the distribution's: it is the one they come with, and it needs no way to Docker's repository.
docker_engine_source: distribution
"""


DEFAULT_USER = "trainer"


class RankRuntime(StrEnum):
    """How ranks run, as in `ddp_job_runtime`."""

    DOCKER = "docker"
    PROCESS = "process"


@dataclass(frozen=True)
class SiteHost:
    """A host of the site: name in the inventory and address."""

    name: str
    address: str


EXAMPLE_HOSTS = (SiteHost("node1", "10.1.0.11"), SiteHost("node2", "10.1.0.12"))


@dataclass(frozen=True)
class Site:
    """Wanted site. `login`: further connection variables of Ansible; `shared_dir`: a directory that all hosts have.

    `of_lab`: the hosts are those of a lab; `has_engine`: they came with a container engine; `has_slurm`: they are to be
    a Slurm cluster, the first one its controller.
    """

    hosts: tuple[SiteHost, ...] = ()
    user: str = DEFAULT_USER
    login: tuple[tuple[str, str], ...] = ()
    runtime: RankRuntime = RankRuntime.DOCKER
    shared_dir: str = ""
    cpu: bool = False
    of_lab: bool = False
    has_engine: bool = False
    has_slurm: bool = False

    @property
    def image(self) -> str:
        """Name of the ranks' image, the one that `image build`, `lab up` and `lab demo` use for this kind."""
        return CPU_RANK_IMAGE if self.cpu else RANK_IMAGE

    @property
    def is_ready(self) -> bool:
        """Whether the hosts can run ranks as they are."""
        return self.has_engine and self.runtime is RankRuntime.DOCKER

    @property
    def subnets(self) -> tuple[str, ...]:
        """Networks of the hosts: the 256 addresses around each of them."""
        found = []
        for host in self.hosts or EXAMPLE_HOSTS:
            try:
                address = ipaddress.IPv4Address(host.address)
            except ValueError:
                continue  # a name
            found.append(str(ipaddress.IPv4Network((address, 24), strict=False)))
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class SiteCommand:
    """A command of the site's README, which runs in the site's directory, and what it does."""

    words: tuple[str, ...]
    purpose: str


def parse_hosts(values: list[str]) -> tuple[SiteHost, ...]:
    """Hosts from NAME=ADDRESS, or NAME that is an address too. Raises UsageError."""
    hosts = []
    for value in values:
        name, separator, address = value.partition("=")
        address = address if separator else name
        good = HOST_NAME.fullmatch(name) and HOST_NAME.fullmatch(address)
        if problem := name_problem(name) or ("" if good else "neither NAME nor NAME=ADDRESS"):
            raise UsageError(f"--host {value!r}: {problem}", hint="as in --host gpu01=10.0.0.11")
        hosts.append(SiteHost(name, address))
    names = [host.name for host in hosts]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"--host {twice[0]} was given twice")
    return tuple(hosts)


def site_commands(site: Site) -> tuple[SiteCommand, ...]:
    """Commands from the new files to a trained model, in the site's directory."""
    inventory = ("-i", "inventory")
    what = "optional: this lab's hosts run ranks as they are" if site.is_ready else "a second run changes nothing"
    provision = (SiteCommand(("provision", *inventory), f"configures the hosts; {what}"),)
    image: tuple[SiteCommand, ...] = ()
    if site.runtime is RankRuntime.DOCKER:
        load = ("image", "load", *inventory, "--image", site.image, "--build", "cpu" if site.cpu else "cuda")
        purpose = "the ranks' image, with torch, onto the hosts that lack it; built first if this machine has none"
        image = (SiteCommand(load, purpose),)
    return (
        SiteCommand(("inventory", "check", *inventory), "finds wrong names and values; connects to no host"),
        *(() if site.is_ready else provision),
        *image,
        SiteCommand(("run", "train.yml", *inventory), "trains on all hosts"),
        SiteCommand(("results",), "the verdict, the ranks' results, the model"),
        *(provision if site.is_ready else ()),
    )


def write_site(directory: Path, site: Site) -> tuple[Path, ...]:
    """Write the files and return their relative paths. Raises UsageError if the directory is not new or empty."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file", hint="give the name of a new directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty", hint="give a new or an empty directory; nothing was written")
    _refuse_values(site)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _copy_files(directory, site)
        _write_files(directory, site)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    return tuple(sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file()))


def _refuse_values(site: Site) -> None:
    """UsageError for values that would mean something else in the files."""
    if site.shared_dir and not site.shared_dir.startswith("/"):
        raise UsageError(f"--shared-dir {site.shared_dir} is no absolute path", hint="it is the same on all hosts")
    for option, value in (("--user", site.user), ("--shared-dir", site.shared_dir)):
        if "{{" in value or "{%" in value or not value.isprintable():
            raise UsageError(f"{option} {value!r} has a template or control characters", hint="give the plain name")
    if not site.user.strip():
        raise UsageError("--user is empty", hint="give the user who logs in to the hosts")


def _copy_files(directory: Path, site: Site) -> None:
    root = collection_root()
    example = root / "inventory" / "example" / "group_vars"
    variables = directory / "inventory" / "group_vars"
    (directory / ALL_HOSTS_VARIABLES).mkdir(parents=True)
    for path in sorted(example.glob("*.yml")):
        if path.name not in ("all.yml", "python_env.yml"):
            shutil.copyfile(path, variables / path.name)
    templates = root / "templates" / "site"
    shutil.copyfile(templates / "vault.yml.example", directory / ALL_HOSTS_VARIABLES / "vault.yml.example")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(templates / "job", directory / "job", copy_function=shutil.copyfile, ignore=ignored)
    # Ansible reads either all.yml or the directory all/. The vault needs its own file next to the settings.
    settings = (example / "all.yml").read_text(encoding="utf-8")
    (directory / ALL_HOSTS_VARIABLES / "main.yml").write_text(_all_hosts(settings, site), encoding="utf-8")
    if site.of_lab:
        ranks = variables / "ranks.yml"
        ranks.write_text(_changed(ranks.read_text(encoding="utf-8"), {VENDORS_ENGINE: LABS_ENGINE}), encoding="utf-8")


def _all_hosts(example: str, site: Site) -> str:
    """Settings of all hosts: the example's, with this site's login, networks and shared directory."""
    general, found, _ = example.partition(SHARED_SETTINGS)
    rows = (("ansible_user", _scalar(site.user)), *((name, _quoted(value)) for name, value in site.login))
    login = "".join(f"{name}: {value}\n" for name, value in rows)
    changes = {
        "ansible_user: trainer\n": login,
        "cluster_subnets: [10.1.0.0/16]\n": f"cluster_subnets: [{', '.join(site.subnets)}]\n",
        f"cluster_shared_dir: {EXAMPLE_SHARED_DIR}\n": "",
    }
    if not found:
        raise InternalError(f"the example inventory has no line {SHARED_SETTINGS.strip()}")
    return _changed(general, changes) + _rendered("shared_directory.yml.j2", site)


def _changed(example: str, changes: Mapping[str, str]) -> str:
    """The example with other lines, each of which it must have."""
    for old, new in changes.items():
        if old not in example:
            raise InternalError(f"the example inventory has no line {old.strip()}")
        example = example.replace(old, new)
    return example


def _write_files(directory: Path, site: Site) -> None:
    names = {
        "hosts.yml.j2": "inventory/hosts.yml",
        "python_env.yml.j2": "inventory/group_vars/python_env.yml",
        "train.yml.j2": "train.yml",
        "README.md.j2": "README.md",
    }
    for template, name in names.items():
        (directory / name).write_text(_rendered(template, site), encoding="utf-8")


def _rendered(template: str, site: Site) -> str:
    environment = Environment(
        loader=FileSystemLoader(collection_root() / "templates" / "site"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - YAML and Markdown, from the user's own options
        # Texts of Ansible with its own braces stay as they are.
        variable_start_string="<<",
        variable_end_string=">>",
    )
    environment.filters["scalar"] = _scalar
    values = {
        "site": site,
        "hosts": site.hosts or EXAMPLE_HOSTS,
        "is_process": site.runtime is RankRuntime.PROCESS,
        "image": site.image,
        "commands": site_commands(site),
    }
    return environment.get_template(template).render(values)


def _scalar(value: str) -> str:
    """A scalar of YAML that is this text, as a key and as a value: in quotes where YAML would read something else."""
    try:
        plain = bool(yaml.safe_load(f"{value}: {value}") == {value: value})
    except yaml.YAMLError:
        plain = False
    return value if plain else _quoted(value)


def _quoted(value: str) -> str:
    """A scalar of YAML in single quotes."""
    return "'" + value.replace("'", "''") + "'"
