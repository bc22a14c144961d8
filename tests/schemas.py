"""The published schemas of `--json`, for tests of every kind."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schemas"


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its name, which is that of its verb."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(SCHEMAS.glob("*.json"))}


def check(name: str, document: Any) -> None:
    """ValidationError if the document does not fit the schema. Tuples count as the lists that they become."""
    resources = [(f"{key}.json", Resource.from_contents(schema)) for key, schema in schemas().items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    validator = jsonschema.Draft202012Validator(schemas()[name], registry=registry)
    validator.validate(json.loads(json.dumps(document)))
