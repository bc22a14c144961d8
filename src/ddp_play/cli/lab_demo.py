"""`ddp-play lab demo`: hosts, image, a job on two hosts and its result with one command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddp_play.ansible.installed_collection import collection_root, demo_playbook
from ddp_play.ansible.runner import Passwords
from ddp_play.bundle.run_lookup import load as load_run
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.next_commands import NextCommand, ddp_play, show
from ddp_play.cli.progress_display import progress
from ddp_play.cli.run import stop_interrupted, stop_on_term, watch
from ddp_play.cli.run_start import Started, start_run
from ddp_play.errors import DdpPlayError, HostNotReady
from ddp_play.images.archive import has_local_image
from ddp_play.images.archive import load as load_archive
from ddp_play.images.build import build_planned, plan_image
from ddp_play.images.image_packages import wheelhouse
from ddp_play.images.recipe import CPU_TAG, SLIM_TAG, Kind, request_of, slim_base_tag
from ddp_play.images.ssh_access import resolve
from ddp_play.lab.base_image_recipe import host_steps, root_tag
from ddp_play.lab.lifecycle import up
from ddp_play.lab.requirements import NO_RANK_IMAGE, RankImageNeeds
from ddp_play.lab.spec import LabSpec, make_spec
from ddp_play.lab.status import read_status

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.images.build import PlannedImage
    from ddp_play.lab.lifecycle import UpResult

DEMO_NAME = "demo"
TORCH_IMAGE_MIB = 1100  # here, and on each host; that of --slim is small


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo: the lab that it needs, the image and the playbook of its job."""

    spec: LabSpec
    slim: bool

    @property
    def image(self) -> str:
        return SLIM_TAG if self.slim else CPU_TAG

    @property
    def kind(self) -> Kind:
        return Kind.SLIM if self.slim else Kind.CPU

    @property
    def playbook(self) -> str:
        return str(collection_root() / "templates" / "lab" / "add_up.yml" if self.slim else demo_playbook())

    @property
    def again(self) -> NextCommand:
        return NextCommand(self.command(slim=self.slim), "go on with the demo, from what exists")

    @property
    def image_removal(self) -> NextCommand:
        return NextCommand(f"docker image rm {self.image}", "remove the image from this machine")

    @property
    def removal(self) -> tuple[NextCommand, ...]:
        """Commands that remove the hosts, the image, and what the next lab or image would use again."""
        down = NextCommand(
            ddp_play("lab", "down", "--name", self.spec.name), "remove the hosts and all that is on them"
        )
        steps = host_steps(self.spec.distro, engine=self.spec.engine)
        tags = [slim_base_tag(self.spec.distro), *(step.tag for step in reversed(steps)), root_tag(self.spec.distro)]
        bases = NextCommand(
            f"docker image rm {' '.join(tags)}",
            "remove the images below those, which the next lab and image would use again",
        )
        if self.slim:
            return (down, self.image_removal, bases)
        wheels = shlex.join(["rm", "-rf", str(wheelhouse().absolute())])
        return (
            down,
            self.image_removal,
            bases,
            NextCommand(wheels, "remove downloaded packages, used again by the next image"),
        )

    def command(self, *, slim: bool) -> str:
        """The command line of this demo, or of the same one without torch."""
        words = ["lab", "demo", *(["--slim"] if slim else [])]
        words += [] if self.spec.name == DEMO_NAME else ["--name", self.spec.name]
        words += [] if self.spec.num_hosts == 2 else ["--hosts", str(self.spec.num_hosts)]
        return ddp_play(*words)


def demo(
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the lab.")] = DEMO_NAME,
    hosts: Annotated[int, typer.Option("--hosts", help="How many hosts.")] = 2,
    slim: Annotated[bool, typer.Option("--slim", help="A job and an image without torch: sooner, smaller.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show everything once: start hosts, build an image, run a job on all of them, collect its result.

    The job trains on handwritten digits with torch on CPUs; with --slim, ranks add up numbers without torch. What
    exists already is used: a second call only runs the job again. What this machine lacks, also for the image, is said
    before anything is created. The exit code is the job's.

    [bold]Examples[/]

      ddp-play lab demo

      ddp-play lab demo --slim; ddp-play lab down --name demo
    """
    with error_boundary():
        wanted = Demo(make_spec(LabSpec(name=name, num_hosts=hosts, slots=())), slim)
        stop_on_term()
        try:
            planned, needs = _image_needs(wanted)
            lab = _start_hosts(wanted, needs)
            _provide_image(wanted, planned, lab)
            started = _start_job(wanted, lab)
        except (KeyboardInterrupt, DdpPlayError):
            _report_what_exists(wanted)
            raise
        paths = started.paths
        if started.interrupted:
            stop_interrupted(paths)
        code = watch(paths, ranks="all" if slim else "0")
        if as_json:
            console.as_json(_document(wanted, lab, paths, code))
        else:
            show("next:", _next_commands(wanted, lab, paths))
            show("to remove it:", wanted.removal)
        raise typer.Exit(code)


def _image_needs(wanted: Demo) -> tuple[PlannedImage | None, RankImageNeeds]:
    """The image as it will be built, None if it exists or cannot be built, and what that takes: asked before the lab.

    Without an engine nothing is asked: `up` says what else the machine lacks then.
    """
    size_mib = 0 if wanted.slim else TORCH_IMAGE_MIB
    try:
        if has_local_image(wanted.image):
            return None, RankImageNeeds(host_mib=size_mib)
    except HostNotReady:
        return None, NO_RANK_IMAGE
    try:
        with progress(f"image {wanted.image}") as listener:
            planned = plan_image(request_of(wanted.kind, wanted.image), progress=listener)
    except HostNotReady as error:
        if not wanted.slim:
            error.hint = "; ".join(filter(None, (error.hint, f"without torch: {wanted.command(slim=True)}")))
        return None, RankImageNeeds((error,))
    return planned, RankImageNeeds(host_mib=size_mib, here_mib=size_mib)


def _start_hosts(wanted: Demo, needs: RankImageNeeds) -> UpResult:
    with progress(f"lab {wanted.spec.name}") as listener:
        listener.step(f"1/4 hosts: {counted(wanted.spec.num_hosts, 'container')} with systemd, sshd and Docker")
        return up(wanted.spec, progress=listener, rank_image=needs)


def _provide_image(wanted: Demo, planned: PlannedImage | None, lab: UpResult) -> None:
    with progress(f"image {wanted.image}") as listener:
        if planned is None:
            listener.step(f"2/4 image: {wanted.image} exists")
        else:
            what = (
                "Python without torch, 0.13 GB" if wanted.slim else "torch for CPUs, 0.2 GB to download, 1.1 GB on disk"
            )
            listener.step(f"2/4 image: {wanted.image}, {what}")
            build_planned(planned, progress=listener)
        listener.step("3/4 image onto the hosts")
        load_archive(wanted.image, resolve(str(lab.state.inventory)), progress=listener)


def _start_job(wanted: Demo, lab: UpResult) -> Started:
    console.note(f"4/4 job: {wanted.playbook}")
    ansible = options.Ansible(extra_vars=[f"ddp_job_image={wanted.image}"])
    request = ansible.request(wanted.playbook, [str(lab.state.inventory)])
    return start_run(request, Passwords(), name="", output=None)


def _report_what_exists(wanted: Demo) -> None:
    """After an interruption or a failure: what was made so far, and how to go on or remove it."""
    try:
        found = read_status(wanted.spec.name)
        present = [host for host in found.hosts if host.state != "missing"]
        has_image = has_local_image(wanted.image)
    except DdpPlayError:
        return  # the engine does not answer, which is the error that is reported
    if not present and not has_image:
        return
    made = [counted(len(present), "host")] if present else []
    made += [f"the image {wanted.image}"] if has_image else []
    console.note(f"there are now: {' and '.join(made)}", style="")
    removal = [row for row in wanted.removal if has_image or row.command != wanted.image_removal.command]
    for row in (wanted.again, *removal):
        console.note(f"  # {row.purpose}")
        console.note(f"  {row.command}", style="")


def _next_commands(wanted: Demo, lab: UpResult, paths: RunPaths) -> tuple[NextCommand, ...]:
    inventory = str(lab.state.inventory)
    words = ("run", wanted.playbook, "-i", inventory, "-e", f"ddp_job_image={wanted.image}")
    return (
        NextCommand(ddp_play("results", paths.run_id), "the verdict and the results of every rank"),
        NextCommand(ddp_play("logs", paths.run_id), "the output of every rank"),
        NextCommand(ddp_play(*words), "the same job again: copy its playbook and change it"),
        NextCommand(ddp_play("lab", "ssh", "--name", wanted.spec.name, "h1"), "log in to a host"),
        NextCommand(
            ddp_play("init", "site", "--lab", wanted.spec.name),
            "files of a site for these hosts, with a job of your own",
        ),
    )


def _document(wanted: Demo, lab: UpResult, paths: RunPaths, code: int) -> dict[str, Any]:
    rows = (*_next_commands(wanted, lab, paths), *wanted.removal)
    return {
        "name": wanted.spec.name,
        "inventory": str(lab.state.inventory),
        "image": wanted.image,
        "run": paths.run_id,
        "status": str(load_run(paths).status),
        "exit_code": code,
        "bundle": str(paths.root),
        "next": [row.to_json() for row in rows],
    }
