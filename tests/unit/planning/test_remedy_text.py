"""Commands in remedies name the inventory, the login and the run, so that they can be copied."""

from __future__ import annotations

import pytest

from ddp_play.planning.remedy_text import Asked, complete

HERE = Asked(("/site/hosts.yml",))
LOGIN = Asked(("a b", "h1,h2,"), ("--user", "ops", "--limit", "h1", "--private-key", "k", "--vault-id", "x@y", "-v"))
RUN = Asked((), run="night-1")


@pytest.mark.parametrize(
    ("text", "asked", "becomes"),
    [
        ("", HERE, ""),
        ("free some space", HERE, "free some space"),
        ("ddp-play gc -i INVENTORY --yes", Asked(), "ddp-play gc -i INVENTORY --yes"),
        ("ddp-play gc -i INVENTORY --yes", HERE, "ddp-play gc -i /site/hosts.yml --yes"),
        ("ddp-play gc -i INVENTORY --yes", Asked(()), "ddp-play gc --yes"),
        (
            "ddp-play ps -i INVENTORY; ddp-play image load -i INVENTORY",
            LOGIN,
            "ddp-play ps -i 'a b' -i h1,h2, --user ops --private-key k --vault-id x@y; "
            "ddp-play image load -i 'a b' -i h1,h2,",
        ),
        (
            "ansible-inventory --graph -i INVENTORY",
            LOGIN,
            "ansible-inventory --graph -i 'a b' -i h1,h2, --vault-id x@y",
        ),
        (
            "ddp-play inventory check -i INVENTORY names file and line",
            LOGIN,
            "ddp-play inventory check -i 'a b' -i h1,h2, --vault-id x@y names file and line",
        ),
        ("ddp-play attach RUN; docker RUN", RUN, "ddp-play attach night-1; docker RUN"),
        ("ddp-play logs RUN --rank 3", RUN, "ddp-play logs night-1 --rank 3"),
        ("ddp-play gc -i INVENTORY --run RUN --yes ends it", RUN, "ddp-play gc --run night-1 --yes ends it"),
        ("ddp-play gc -i INVENTORYS", HERE, "ddp-play gc -i INVENTORYS"),
    ],
)
def test_commands_can_be_copied(text: str, asked: Asked, becomes: str) -> None:
    assert complete(text, asked) == becomes


def test_what_a_run_was_asked_for() -> None:
    request = {"inventory": ["/hosts"], "options": ["--user", "ops"]}
    assert Asked.from_run({"id": "n", "request": request}) == Asked(("/hosts",), ("--user", "ops"), "n")
    assert Asked.from_run({"id": "n"}) == Asked(None, (), "n")
