"""Apptainer (or SingularityCE) on this host and the image file of a job, as facts."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any, Dict, Optional

from .programs import which
from .rank_user import User, acting_as, process_options, wanted_user

NAMES = ("apptainer", "singularity")
VERSION = re.compile(r"^(\S+)(?: version)? v?(\d[\w.+~-]*)", re.MULTILINE)
TIMEOUT_S = 20
# Beginning of a SIF file: line for the shell, magic, versions, architecture, id (github.com/apptainer/sif, create.go).
SIF_MAGIC, SIF_MAGIC_AT, SIF_ID_AT, SIF_ID_BYTES = b"SIF_MAGIC\0", 32, 48, 16
EXT_MAGIC, EXT_MAGIC_AT = b"\x53\xef", 1024 + 56
SQUASHFS_MAGIC = b"hsqs"
HEAD_BYTES = 2048


def facts(wanted: Dict[str, Any], login: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Program, version and, where `wanted["apptainer"]` is a path, the image there; None if nobody asks."""
    image = wanted.get("apptainer")
    if image is None:
        return None
    user = wanted_user(wanted.get("user"), login)
    found = _program(user)
    found["image"] = image_file(image, user) if image.startswith("/") else None
    return found


def _program(user: User) -> Dict[str, Any]:
    path = next(filter(None, map(which, NAMES)), None)
    found: Dict[str, Any] = {"program": path or "", "name": "", "version": "", "problem": ""}
    if path is None:
        return {**found, "problem": "neither apptainer nor singularity is in the PATH of a login without a terminal"}
    try:
        done = subprocess.run(
            [path, "--version"], cwd="/", capture_output=True, timeout=TIMEOUT_S, check=True, **process_options(user)
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else "exit code %d" % error.returncode
        return {**found, "problem": "%s --version fails: %s" % (path, why[:300])}
    except (OSError, subprocess.SubprocessError) as error:
        return {**found, "problem": "%s cannot be run: %s" % (path, error)}
    said = done.stdout.decode("utf-8", "replace")
    match = VERSION.search(said)
    if match is None:
        return {**found, "problem": "%s --version says %r, which is no version" % (path, said[:80])}
    return {**found, "name": match[1], "version": match[2]}


def image_file(path: str, user: User) -> Dict[str, Any]:
    """Kind and id of an image, read with the rights of the ranks' user; `problem` if that user cannot use it."""
    found = {"kind": "", "id": "", "problem": ""}
    try:
        with acting_as(user):
            if os.path.isdir(path):
                names = os.listdir(path)
                if not {"bin", "usr"} & set(names):
                    return {**found, "problem": "is a directory without bin and usr: no root of a system"}
                return {**found, "kind": "sandbox"}
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        return {**found, "problem": "does not exist"}
    except OSError as error:
        return {**found, "problem": "cannot be read: %s" % (error.strerror or error)}
    kind = kind_of(head)
    if not kind:
        return {**found, "problem": "is neither a SIF file nor another image of Apptainer"}
    number = head[SIF_ID_AT : SIF_ID_AT + SIF_ID_BYTES] if kind == "sif" else b""
    return {**found, "kind": kind, "id": number.hex() if number.strip(b"\0") else ""}


def kind_of(head: bytes) -> str:
    """Kind of an image file by its beginning; empty for other files."""
    if head[SIF_MAGIC_AT : SIF_MAGIC_AT + len(SIF_MAGIC)] == SIF_MAGIC:
        return "sif"
    if head.startswith(SQUASHFS_MAGIC):
        return "squashfs"
    return "ext3" if head[EXT_MAGIC_AT : EXT_MAGIC_AT + len(EXT_MAGIC)] == EXT_MAGIC else ""
