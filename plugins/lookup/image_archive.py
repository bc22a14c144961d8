"""What identifies the images in plain archives of `docker save` on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.ddp.play.plugins.modules import image_archive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCUMENTATION = r"""
name: image_archive
author:
  - the ddp-play authors
short_description: Identity of the images in archives on the controller
description:
  - Returns what the module of the same name returns, for uncompressed archives only, which takes milliseconds. So each
    host of a play can be compared with the archives without a task of its own.
options:
  _terms:
    description: Images, each with C(archive), the path on the controller.
    required: true
"""

EXAMPLES = r"""
- name: Show the id of an image
  ansible.builtin.debug:
    msg: "{{ (query('ddp.play.image_archive', [{'archive': '/srv/images/train.tar'}]) | first).id }}"
"""

RETURN = r"""
_raw:
  description: For each image C(id), C(layers), C(created) and C(tags).
  type: list
  elements: dict
"""


class LookupModule(LookupBase):
    """Reads the archives."""

    def run(
        self, terms: Sequence[Mapping[str, str]], _variables: dict[str, Any] | None = None, **_options: Any
    ) -> list[dict[str, Any]]:
        """The identity of each image. Raises AnsibleError for an archive that cannot be read, or that is compressed."""
        return [_identity(str(image["archive"])) for image in terms]


def _identity(path: str) -> dict[str, Any]:
    try:
        return dict(image_archive.read(str(Path(path).expanduser()), "r:"))
    except image_archive.UNREADABLE as error:
        raise AnsibleError(
            f"{path} is not a plain archive of `docker save`: {type(error).__name__}: {error}"
        ) from error
