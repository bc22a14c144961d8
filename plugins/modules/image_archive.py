#!/usr/bin/python
"""Read the identity of the image in an archive of `docker save`, without loading it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from typing import Any, Dict, Literal

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: image_archive
short_description: Identify the image in an archive
description:
  - Returns the id that an engine's classic image store reports, and the values that are equal in every store - layers
    and creation time.
options:
  path:
    description: The archive, as C(docker save) writes it (also compressed with gzip).
    type: path
    required: true
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Read the archive
  ddp.play.image_archive:
    path: /srv/images/train.tar
  register: archive
"""

RETURN = r"""
id:
  description: C(sha256:...) of the image's configuration.
  returned: always
  type: str
layers:
  description: Digests of the uncompressed layers, lowest first.
  returned: always
  type: list
  elements: str
created:
  description: Creation time from the configuration.
  returned: always
  type: str
tags:
  description: Names of the image in the archive.
  returned: always
  type: list
  elements: str
"""


UNREADABLE = (OSError, tarfile.TarError, LookupError, TypeError, ValueError)


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """The content of a file in the archive. KeyError if there is none, or if it is a directory."""
    stream = archive.extractfile(name)
    if stream is None:
        raise KeyError("%s is not a file" % name)
    return stream.read()


def read(path: str, mode: Literal["r:*", "r:"] = "r:*") -> Dict[str, Any]:
    """Id, layers, creation time and tags of the first image; one of UNREADABLE if it is no such archive.

    With mode r: a compressed archive is a TarError.
    """
    with tarfile.open(path, mode) as archive:
        manifest = json.loads(member(archive, "manifest.json"))[0]
        config = member(archive, manifest["Config"])
    image = json.loads(config)
    return {
        "id": "sha256:" + hashlib.sha256(config).hexdigest(),
        "layers": image["rootfs"]["diff_ids"],
        "created": image.get("created", ""),
        "tags": manifest.get("RepoTags") or [],
    }


def main() -> None:
    """Return the identity of the image, or fail with the archive's path and its defect."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    path = module.params["path"]
    try:
        found = read(path)
    except UNREADABLE as error:
        module.fail_json(msg="%s is not an archive of `docker save`: %s: %s" % (path, type(error).__name__, error))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
