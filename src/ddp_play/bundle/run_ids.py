"""Random run ids that are easy to read aloud (adjective-animal-number), and run tokens."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ADJECTIVES = [
    "amber",
    "bold",
    "brave",
    "brisk",
    "calm",
    "clear",
    "crisp",
    "eager",
    "early",
    "fair",
    "fast",
    "fine",
    "firm",
    "fresh",
    "gentle",
    "glad",
    "golden",
    "grand",
    "green",
    "happy",
    "keen",
    "kind",
    "light",
    "lively",
    "lucky",
    "mellow",
    "merry",
    "mild",
    "neat",
    "noble",
    "plain",
    "proud",
    "quick",
    "quiet",
    "rapid",
    "ready",
    "royal",
    "sharp",
    "silver",
    "smart",
    "smooth",
    "solid",
    "steady",
    "still",
    "sunny",
    "swift",
    "tidy",
    "vivid",
    "warm",
    "wise",
    "young",
]
ANIMALS = [
    "badger",
    "bear",
    "beaver",
    "bison",
    "crane",
    "crow",
    "deer",
    "dove",
    "eagle",
    "elk",
    "falcon",
    "ferret",
    "finch",
    "fox",
    "gecko",
    "goose",
    "hare",
    "hawk",
    "heron",
    "ibex",
    "jay",
    "koala",
    "lark",
    "lemur",
    "lion",
    "lynx",
    "marten",
    "mole",
    "moose",
    "newt",
    "orca",
    "otter",
    "owl",
    "panda",
    "pony",
    "puffin",
    "puma",
    "quail",
    "raven",
    "robin",
    "seal",
    "shrew",
    "stork",
    "swan",
    "tapir",
    "tern",
    "tiger",
    "toad",
    "trout",
    "viper",
    "vole",
    "wolf",
    "wren",
    "yak",
    "zebra",
]


def new_token() -> str:
    """64 random bits: they distinguish the run from others of the same name, also on other controllers."""
    return secrets.token_hex(8)


def new_run_id(runs: Path) -> str:
    """A random id that no run in this directory has."""
    while True:
        name = f"{secrets.choice(ADJECTIVES)}-{secrets.choice(ANIMALS)}-{secrets.randbelow(900) + 100}"
        if not (runs / name).exists():
            return name
