"""Role image_distribution: images that a host lacks, names in the registry, and names that a removal removes."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

Image = Mapping[str, Any]
TAG = re.compile(r":[^:/]*$")
REGISTRY = re.compile(r"^(localhost|[^/]*[.:][^/]*)/")
# Created in seconds; image stores print the fraction with different precision.
SECONDS = 19
ID_DIGITS = slice(len("sha256:"), len("sha256:") + 12)


def commands(images: Sequence[Image], form: str, container: Sequence[str]) -> Dict[str, List[str]]:
    """Read-only commands: each image by its name, and `container`, which starts one of the first image.

    form: for `docker image inspect --format`. An empty `container` starts none.
    """
    found = {image["name"]: ["docker", "image", "inspect", "--format", form, image["name"]] for image in images}
    if container and images:
        found["container"] = [*container, images[0]["name"], "-c", ":"]
    return found


def references(expected: Mapping[str, Image], registry: str) -> Dict[str, str]:
    """Name of each image in the role's registry, with the first 12 digits of its id as the tag.

    expected: by image name, the content of its archive, as ddp.play.image_archive returns it.
    """
    found = {}
    for name, archive in expected.items():
        repository = REGISTRY.sub("", TAG.sub("", name))
        found[name] = f"{registry}/{repository}:{archive['id'][ID_DIGITS]}"
    return found


def plain(images: Sequence[Image]) -> bool:
    """Whether the archives have names of uncompressed ones, in which the description of the image is found at once."""
    return all(str(image.get("archive", "")).endswith(".tar") for image in images if image.get("archive"))


def lacking(
    state: Mapping[str, Any], images: Sequence[Image], source: str, expected: Mapping[str, Image]
) -> List[Image]:
    """Images whose content the host lacks: by digest if `source` is pull, else by the content of the archive."""
    if source == "pull":
        return [image for image in images if not _is_pulled(_inspected(state, image), image)]
    return [image for image in images if not _is_loaded(_inspected(state, image), expected[image["name"]])]


def pending(
    state: Mapping[str, Any], images: Sequence[Image], absent: Sequence[Image], names: Mapping[str, str]
) -> List[Image]:
    """Images that the host lacks or does not have under the registry's name. names: of `references`, or empty."""
    return [image for image in images if image in absent or not _is_named(state, image, names)]


def removed_names(
    state: Mapping[str, Any], images: Sequence[Image], registry: str, recorded: Sequence[str]
) -> List[str]:
    """Names that a removal removes: each image that is there and that the role put there, and names in the registry."""
    found: Dict[str, None] = {}
    for image in images:
        there = _inspected(state, image)
        if there:
            tags = [tag for tag in there.get("RepoTags") or [] if tag.startswith(registry + "/")]
            own = [image["name"]] if image["name"] in recorded else []
            found.update(dict.fromkeys([*own, *tags]))
    return list(found)


def kept_names(state: Mapping[str, Any], images: Sequence[Image], recorded: Sequence[str]) -> List[str]:
    """Names of the images that a removal leaves: they are there, and the role did not put them there."""
    return [image["name"] for image in images if image["name"] not in recorded and _inspected(state, image)]


def used_names(gone: Mapping[str, Any]) -> List[str]:
    """Names that the engine refused to remove. gone: result of the loop of `docker image rm`."""
    results = gone.get("results", [])
    return [row["__image_distribution_name"] for row in results if row.get("rc", 0) != 0]


def _inspected(state: Mapping[str, Any], image: Image) -> Dict[str, Any]:
    """Answer of `docker image inspect`; empty if the host has no such image."""
    answer = state["commands"][image["name"]]
    return dict(json.loads(answer["stdout"])) if answer["rc"] == 0 else {}


def _is_pulled(there: Mapping[str, Any], image: Image) -> bool:
    return any(digest.endswith(image["digest"]) for digest in there.get("RepoDigests") or [])


def _is_loaded(there: Mapping[str, Any], archive: Image) -> bool:
    """Same id, or, in an image store with other ids, same layers and time of creation."""
    if not there or there["Id"] == archive["id"]:
        return bool(there)
    same_layers = there["RootFS"]["Layers"] == archive["layers"]
    return bool(same_layers and there["Created"][:SECONDS] == archive["created"][:SECONDS])


def _is_named(state: Mapping[str, Any], image: Image, names: Mapping[str, str]) -> bool:
    return not names or names[image["name"]] in (_inspected(state, image).get("RepoTags") or [])


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "image_distribution_plain": plain,
            "image_distribution_commands": commands,
            "image_distribution_references": references,
            "image_distribution_lacking": lacking,
            "image_distribution_pending": pending,
            "image_distribution_removed_names": removed_names,
            "image_distribution_kept_names": kept_names,
            "image_distribution_used_names": used_names,
        }
