"""Image of ranks that Apptainer starts, before they start: pulled once per host, and tried with their own options."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List

from . import processes
from .rank_user import User, other_user, process_options
from .refusal import Refused
from .withdrawal import Withdrawn, outcome

TRY_S = 60.0
# What Apptainer says before a reason.
LEVEL = re.compile(r"^(?:FATAL|ERROR)\s*:\s*")
NOT_FOUND = "executable file not found"
# Words of Apptainer -> what helps.
HINTS = (
    (
        r"user namespace|setgroups|CLONE_NEWUSER|uid_map|Operation not permitted",
        "let users make namespaces on HOSTS (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
        "kernel.apparmor_restrict_unprivileged_userns), or install the package apptainer-suid",
    ),
    (r"mount source .* doesn't exist|mount .*->.*: no such file", "make it on HOSTS, or correct ddp_job_mounts"),
    (r"set working directory", "ddp_job_workdir is a directory of the image, or one in ddp_job_mounts"),
    (r"fuse", "install fuse3 and squashfuse on HOSTS, or name a sandbox directory (apptainer build --sandbox)"),
)


def provide(spec: Dict[str, Any], registry: Dict[str, str], withdrawn: Withdrawn = lambda: False) -> None:
    """Pull the image as the ranks' user, unless the ranks name it themselves: it is a path. Raises Refused."""
    unit, reference = _first(spec), spec["image"]
    if image_word(unit) == reference:
        return
    program, file = unit["argv"][0], Path(image_word(unit))
    found = other_user(spec.get("user"))
    file.parent.mkdir(mode=0o700)
    if found is not None:
        os.chown(str(file.parent), found["uid"], found["gid"])
    env = {**os.environ, "HOME": _home(spec.get("user"))}
    if registry:  # not as words: every user of the host sees those
        prefix = "SINGULARITY_DOCKER_" if program.endswith("singularity") else "APPTAINER_DOCKER_"
        env.update({prefix + "USERNAME": registry["username"], prefix + "PASSWORD": registry["password"]})
    words = [program, "--quiet", "--nocolor", "pull", str(file), reference]
    done = _run(words, env, float(spec["pull_timeout_s"]), spec.get("user"), withdrawn)
    if done.returncode:
        raise Refused(
            "cannot pull %s: %s" % (reference, reason(done)),
            hint="correct ddp_job_image, or make a file with apptainer pull where that is possible and name its path",
        )


def try_out(spec: Dict[str, Any], withdrawn: Withdrawn = lambda: False) -> None:
    """Start a command that does nothing in the image, as the first rank will be started. Raises Refused."""
    unit = _first(spec)
    words = [*unit["argv"][: unit["num_image_words"]], "true"]
    done = _run(words, dict(unit["env"]), TRY_S, spec.get("user"), withdrawn)
    why = reason(done)
    if done.returncode and NOT_FOUND not in why:  # an image without `true` was started all the same
        hint = next((text for pattern, text in HINTS if re.search(pattern, why)), "")
        raise Refused("%s cannot start %s: %s" % (words[0], spec["image"], why), hint=hint)


def image_word(unit: Dict[str, Any]) -> str:
    """Path of the image in which Apptainer starts this command: the last word before it, also where it is pulled."""
    return str(unit["argv"][unit["num_image_words"] - 1])


def _first(spec: Dict[str, Any]) -> Dict[str, Any]:
    found: Dict[str, Any] = spec.get("agent") or spec["ranks"][0]
    return found


def _home(user: User) -> str:
    """Of the ranks' user, who has Apptainer's cache there."""
    found = other_user(user)
    try:
        return pwd.getpwuid(found["uid"] if found else os.geteuid()).pw_dir
    except KeyError:
        return "/"


def _run(
    words: List[str], env: Dict[str, str], limit_s: float, user: User, withdrawn: Withdrawn
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end, with all that it starts. Raises Refused after `limit_s`, and if it is not wanted."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True,
        **process_options(user),
    ) as child:  # fmt: skip
        try:
            output, errors = outcome(child, time.monotonic() + limit_s, withdrawn)
        except TimeoutError as error:
            raise Refused("%s did not end within %g s" % (" ".join([words[0], words[3]]), limit_s)) from error
        finally:
            if child.returncode is None:
                processes.kill_descendants(child.pid)  # what mounts an image leads a group of its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(words, child.returncode, output, errors)


def reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    """The last of its lines that is an error, else its last line."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    errors = [LEVEL.sub("", line) for line in lines if LEVEL.match(line)]
    return (errors or lines or ["exit code %d" % done.returncode])[-1][:400]
