"""Decision of role image_distribution: missing images, names in the registry, names that a removal removes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import image_distribution

DIGEST = "sha256:" + "d" * 64
TRAINER = {"name": "trainer:1", "archive": "/images/trainer.tar", "digest": DIGEST}
BASE = {"name": "base:2", "archive": "/images/base.tar", "digest": DIGEST}
ARCHIVE = {"id": "sha256:" + "a" * 64, "layers": ["sha256:1", "sha256:2"], "created": "2026-01-02T03:04:05.123456789Z"}
THERE: dict[str, Any] = {
    "Id": ARCHIVE["id"],
    "RootFS": {"Layers": ARCHIVE["layers"]},
    "Created": ARCHIVE["created"],
    "RepoTags": ["trainer:1", "10.1.0.5:5000/trainer:aaaaaaaaaaaa"],
    "RepoDigests": ["trainer@" + DIGEST],
}
NAMES = {"trainer:1": "10.1.0.5:5000/trainer:aaaaaaaaaaaa"}
OTHER_ID = {"Id": "sha256:" + "9" * 64}


def state(there: dict[str, Any] | None) -> dict[str, Any]:
    """State of a host with this answer of docker image inspect for trainer:1; None if it has no such image."""
    absent = {"rc": 1, "stdout": "[]", "stderr": "Error response from daemon: No such image: trainer:1"}
    answer = absent if there is None else {"rc": 0, "stdout": json.dumps(there), "stderr": ""}
    return {"commands": {"trainer:1": answer, "base:2": absent}}


@pytest.mark.parametrize(
    ("source", "there", "is_lacking"),
    [
        ("archive", THERE, False),
        ("registry", THERE, False),
        ("pull", THERE, False),
        ("archive", None, True),
        ("pull", None, True),
        ("archive", {**THERE, **OTHER_ID}, False),  # an image store that counts ids in another way
        ("archive", {**THERE, **OTHER_ID, "Created": "2026-01-02T03:04:05.1Z"}, False),
        ("archive", {**THERE, **OTHER_ID, "Created": "2026-01-02T03:04:06Z"}, True),
        ("archive", {**THERE, **OTHER_ID, "RootFS": {"Layers": ["sha256:1"]}}, True),
        ("pull", {**THERE, "RepoDigests": ["trainer@sha256:" + "0" * 64]}, True),
        ("pull", {**THERE, "RepoDigests": []}, True),
        ("pull", {**THERE, "RepoDigests": None}, True),
    ],
)
def test_lacking(source: str, there: dict[str, Any] | None, is_lacking: bool) -> None:
    expected = {} if source == "pull" else {"trainer:1": ARCHIVE}
    found = image_distribution.lacking(state(there), [TRAINER], source, expected)
    assert found == ([TRAINER] if is_lacking else [])


@pytest.mark.parametrize(
    ("there", "absent", "names", "is_pending"),
    [
        (THERE, [], NAMES, False),
        (THERE, [], {}, False),
        (THERE, [TRAINER], {}, True),
        ({**THERE, "RepoTags": ["trainer:1"]}, [], NAMES, True),
        ({**THERE, "RepoTags": None}, [], NAMES, True),
        ({**THERE, "RepoTags": ["trainer:1"]}, [], {}, False),
        (None, [TRAINER], NAMES, True),
    ],
)
def test_pending(there: dict[str, Any] | None, absent: list[Any], names: dict[str, str], is_pending: bool) -> None:
    assert image_distribution.pending(state(there), [TRAINER], absent, names) == ([TRAINER] if is_pending else [])


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("trainer:1", "10.1.0.5:5000/trainer:aaaaaaaaaaaa"),
        ("trainer", "10.1.0.5:5000/trainer:aaaaaaaaaaaa"),
        ("team/trainer:1", "10.1.0.5:5000/team/trainer:aaaaaaaaaaaa"),
        ("localhost/trainer:1", "10.1.0.5:5000/trainer:aaaaaaaaaaaa"),
        ("registry.example.com:5000/team/trainer:1", "10.1.0.5:5000/team/trainer:aaaaaaaaaaaa"),
    ],
)
def test_references(name: str, reference: str) -> None:
    assert image_distribution.references({name: ARCHIVE}, "10.1.0.5:5000") == {name: reference}
    assert image_distribution.references({}, "10.1.0.5:5000") == {}


@pytest.mark.parametrize(
    ("there", "names"),
    [
        (None, []),
        (THERE, ["trainer:1", "10.1.0.5:5000/trainer:aaaaaaaaaaaa"]),
        ({**THERE, "RepoTags": ["trainer:1", "10.1.0.51:5000/trainer:1"]}, ["trainer:1"]),
        ({**THERE, "RepoTags": None}, ["trainer:1"]),
    ],
)
def test_removed_names(there: dict[str, Any] | None, names: list[str]) -> None:
    images, registry = [TRAINER, TRAINER, BASE], "10.1.0.5:5000"
    assert image_distribution.removed_names(state(there), images, registry, ["trainer:1", "base:2"]) == names
    others = [name for name in names if name != "trainer:1"]
    assert image_distribution.removed_names(state(there), images, registry, []) == others, "it was there before"
    kept = ["trainer:1"] if there else []
    assert image_distribution.kept_names(state(there), [TRAINER, BASE], []) == kept
    assert image_distribution.kept_names(state(there), [TRAINER, BASE], ["trainer:1"]) == []


@pytest.mark.parametrize(
    ("images", "container", "names"),
    [
        ([], [], []),
        ([], ["docker", "run"], []),
        ([TRAINER, BASE], [], ["trainer:1", "base:2"]),
        ([TRAINER, BASE], ["docker", "run"], ["trainer:1", "base:2", "container"]),
    ],
)
def test_commands(images: list[dict[str, str]], container: list[str], names: list[str]) -> None:
    found = image_distribution.commands(images, "{{json .}}", container)
    assert list(found) == names
    assert found.get("container", ["docker", "run", "trainer:1", "-c", ":"]) == [
        "docker",
        "run",
        "trainer:1",
        "-c",
        ":",
    ]
    assert all(found[i["name"]] == ["docker", "image", "inspect", "--format", "{{json .}}", i["name"]] for i in images)


@pytest.mark.parametrize(
    ("archives", "plain"),
    [([], True), (["a.tar", "/b.tar"], True), (["a.tar", "b.tar.gz"], False), (["a.tgz"], False), ([""], True)],
)
def test_archives_that_are_read_at_once(archives: list[str], plain: bool) -> None:
    assert image_distribution.plain([{"name": "x", "archive": name} for name in archives]) is plain
    assert image_distribution.plain([{"name": "by digest", "digest": DIGEST}])


def test_images_that_the_engine_refused_to_remove() -> None:
    rows = [{"__image_distribution_name": name, **answer} for name, answer in (("a:1", {"rc": 0}), ("b:1", {"rc": 1}))]
    checked = {"__image_distribution_name": "c:1", "skipped": True}
    assert image_distribution.used_names({"results": [*rows, checked]}) == ["b:1"]
    assert image_distribution.used_names({}) == []
