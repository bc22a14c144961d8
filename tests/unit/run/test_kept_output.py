"""Which output of ranks a cleanup keeps on a host that answers, and that `attach` can collect it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.route import Route
from ddp_play.guard.protocol import AGENT_LOG, OVER_LIMIT, RESULT, encode
from ddp_play.run.collect_and_clean import collect, drain
from ddp_play.run.host_spec import HostPlace
from ddp_play.run.kept_output import kept_rows, limit_needed, order_to_keep
from ddp_play.run.late_collection import LateCollection
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.link import Link
from ddp_play.testing import refusal
from tests.unit.run.conftest import Make, Stage, done
from tests.unit.run.test_collect_and_clean import gang_of

if TYPE_CHECKING:
    from ddp_play.guard.protocol import Frame

TOP = "/state/runs/r.1/1.h2"
ARTIFACT = {"file": "artifact", "path": "rank-2"}
ALL: dict[str, Any] = {"drained": {}, "fetched": {}}


def link_of(replies: dict[str, Any]) -> Link:
    link = Link("h2", Route("h2", ("ssh", "h2"), "channel"), replies=dict(replies), ranks=frozenset({2, 3}))
    link.place = HostPlace(TOP, "/shm/r", 1000)
    return link


@pytest.mark.parametrize(
    ("replies", "paths", "keep_src", "keep"),
    [
        (ALL, [], False, []),
        (ALL, ["w.pt"], True, []),
        (ALL, [f"{TOP}/src/rank-2"], True, []),
        (ALL, [f"{TOP}/rank-3/metrics.jsonl"], True, ["rank-3"]),
        (ALL, [f"{TOP}/rank-2"], True, ["rank-2"]),
        (ALL, [f"{TOP}/rank-22/x"], True, []),
        (ALL, [f"{TOP}/logs/torchrun.log"], True, ["logs"]),
        ({"fetched": {}}, ["the end of its ranks' logs"], True, ["logs", "rank-2", "rank-3"]),
        ({"drained": {}}, ["results and artifacts"], True, ["logs", "rank-2", "rank-3"]),
        ({}, [], True, ["logs", "rank-2", "rank-3"]),
    ],
)
def test_what_is_kept(replies: dict[str, Any], paths: list[str], keep_src: bool, keep: list[str]) -> None:
    missing = [{"host": "h2", "path": path, "why": "x"} for path in paths]
    other = [{"host": "h1", "path": f"{TOP}/rank-2/result.json", "why": "x"}]
    assert order_to_keep(link_of(replies), [*missing, *other]) == {"keep_src": keep_src, "keep": keep}


@pytest.mark.parametrize(
    ("header", "keep"), [({"file": RESULT, "rank": 2}, ["rank-2"]), ({"file": AGENT_LOG}, ["logs"]), (ARTIFACT, [])]
)
def test_what_the_controller_did_not_keep_is_kept_there(header: dict[str, Any], keep: list[str]) -> None:
    link = link_of(ALL)
    link.files.drop(header, "too large")
    assert order_to_keep(link, link.files.missing)["keep"] == keep


def test_rows_about_it() -> None:
    kept = [f"{TOP}/src", "/shared/r.1", f"{TOP}/rank-2"]
    after = LeftFiles("r")
    attach = "not collected; ddp-play attach r collects it"
    assert kept_rows(link_of({}), kept, after) == [f"{TOP}: {attach}", f"/shared/r.1: {attach}"]
    assert kept_rows(link_of(ALL), kept, after) == [after.kept(path) for path in kept]
    assert kept_rows(link_of({}), [], after) == []


OVER = {"host": "h2", "path": "a.pt", "why": OVER_LIMIT, "size": 5 << 20}
MORE = {"host": "h2", "path": "3 more files", "why": "the list ends after 1000", "size": 1 << 20}


@pytest.mark.parametrize(
    ("replies", "missing", "mib"),
    [
        (ALL, [OVER], 5),
        (ALL, [OVER, {**OVER, "size": 1}, MORE], 7),
        (ALL, [{**OVER, "host": "h1"}], 0),
        (ALL, [OVER, {"host": "h2", "path": "b.pt", "why": "Permission denied"}], 5),
        (ALL, [{"host": "h2", "path": "b.pt", "why": "Permission denied"}], 0),
        (ALL, [], 0),
        ({"fetched": {}}, [OVER], 0),
    ],
)
def test_the_limit_that_suffices(replies: dict[str, Any], missing: list[dict[str, Any]], mib: int) -> None:
    link = link_of(replies)
    assert limit_needed(link, missing) == mib
    link.files.accept({"file": "artifact", "path": "c.pt", "last": True}, 1 << 20)
    assert limit_needed(link, missing) == (mib + 1 if mib else 0)


@pytest.mark.parametrize("kind", ["drain", "fetch"])
def test_attach_collects_what_a_host_that_answers_could_not_send(make: Make, kind: str) -> None:
    stage = make(2, source="/code")
    for name in ("h1", "h2"):
        done(stage, name)
    h2 = stage.far["h2"]
    h2.answers[kind] = refusal(kind, "Input/output error")
    h2.answers["clean"] = [encode("cleaned", left=[], kept=["/state/h2/logs"])]
    loop = stage.supervisor(token="")
    loop.run()
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2"}]
    row = "/state/h2: not collected; ddp-play attach calm-otter-1 collects it"
    assert stage.document["left_behind"] == {"h2": [row]}
    del h2.answers[kind], h2.answers["clean"]
    result = LateCollection(loop.assignment, {"h2"}, newest=True).run(open_s=0.3)
    assert (result.collected, result.missing, result.left) == (("h2",), (), {})
    assert (h2.order("clean")["keep_src"], h2.order("clean")["keep"]) == (False, [])


def test_a_channel_that_broke_meanwhile_is_opened_again_before_files_are_requested(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The break was seen only after the request, which is not repeated."""
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.05)
    stage = make(2)
    gang = gang_of(stage)
    assert drain(gang) == []
    h2 = stage.far["h2"]
    first = h2.channels[-1]

    def breaks() -> list[Frame]:
        first.cut("Connection reset by peer")
        return []

    monkeypatch.setattr(first, "receive", breaks)
    assert collect(gang, stage.plan, stage.paths) == []
    assert len(h2.channels) == 2


# -- a channel that breaks -----------------------------------------------------------------------------


def cut_once(stage: Stage, kind: str) -> None:
    """The channel of h2 breaks when it gets this order for the first time."""
    h2 = stage.far["h2"]

    def cut(*_: Any) -> list[bytes]:
        h2.answers.pop(kind)
        h2.channels[-1].cut("Connection reset by peer")
        return []

    h2.answers[kind] = cut


@pytest.mark.parametrize(
    ("kind", "missing"), [("drain", []), ("fetch", ["results and artifacts"]), ("clean", [])], ids=str
)
def test_a_cut_of_seconds_removes_nothing_that_is_not_here(
    make: Make, monkeypatch: pytest.MonkeyPatch, kind: str, missing: list[str]
) -> None:
    """Files are not asked for twice, as pieces from before the cut would count as sent twice: `attach` collects."""
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.05)
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    cut_once(stage, kind)
    (rank,) = stage.ranks("h2")
    output = ["logs", f"rank-{rank}"] if missing else []
    if missing:
        stage.far["h2"].answers["clean"] = [encode("cleaned", left=[], kept=["/state/h2/logs"])]
    outcome = stage.supervisor().run()
    row = "/state/h2: not collected; ddp-play attach calm-otter-1 collects it"
    assert outcome.left == ({"h2": [row]} if missing else {})
    assert [row["path"] for row in outcome.missing] == missing
    kinds = stage.far["h2"].kinds()
    assert kinds[-2:] == ["clean", "bye"]
    assert kinds.count(kind) == (1 if kind == "fetch" else 2)
    order = stage.far["h2"].order("clean")
    assert (order["keep_src"], order["keep"]) == (bool(missing), output)
    assert stage.far["h1"].kinds().count(kind) == 1
