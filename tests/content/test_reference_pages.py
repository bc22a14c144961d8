"""The generated reference has everything that the code has; links out of docs/ lead to pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ddp_play.cli.verbs import VERBS
from ddp_play.errors import DdpPlayError
from docs import reference_pages as pages
from docs import reference_tables as tables

ROOT = Path(__file__).resolve().parents[2]


def test_every_verb_has_a_heading_and_its_options() -> None:
    text = tables.verbs()
    assert [verb for verb in VERBS if f"## {verb}\n" not in text] == []
    assert "### lab up\n" in text
    run = text.partition("## run\n")[2].partition("\n## ")[0]
    assert "| `--wait-at-most` |" in run
    assert "ddp-play run train.yml -i inventory " in run
    assert "`--limit`" not in run.partition("and [Ansible's options]")[0].replace("`-l`", "")


@pytest.mark.parametrize("role", tables.role_names())
def test_every_variable_of_a_role_has_a_row(role: str) -> None:
    text = tables.variables(role)
    defaults = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8"))
    assert [name for name in defaults or () if f"| `{name}` |" not in text] == []
    assert {line.count(" | ") for line in text.replace("\\|", "").splitlines()} == {3}


@pytest.mark.parametrize("role", tables.role_names())
def test_only_the_sentence_on_variables_is_left_out_of_a_readme(role: str) -> None:
    shown = pages.readme(role, "reference/roles.md", shift=0)
    whole = (ROOT / "roles" / role / "README.md").read_text(encoding="utf-8")
    assert "Variables: " in whole
    assert "Variables: " not in shown
    assert len(whole.split()) - len(shown.split()) < 20
    assert [part for part in shown.split("\n\n") if re.match(r"\s*[a-z]", part)] == []


def test_roles_are_those_of_the_tree() -> None:
    text = pages.roles()
    names = {path.name for path in (ROOT / "roles").iterdir()} - {"ddp_job"}
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == names


def test_every_error_class_has_its_code() -> None:
    text = tables.exit_codes()
    classes = {cls.__name__: cls.exit_code for cls in tables.error_classes(DdpPlayError)}
    assert len(classes) > 5
    assert [name for name, number in classes.items() if not re.search(rf"\| {number} \|.*`{name}`", text)] == []


def test_every_way_to_end_has_its_code() -> None:
    text = tables.ends_of_runs()
    assert "| 124 | `max_duration`, `idle`, `lease` |" in text
    assert "| 69 | `host_lost` |" in text
    kinds = set(re.findall(r"`(\w+)`", "".join(line.split("|")[2] for line in text.splitlines()[2:])))
    source = (ROOT / "src" / "ddp_play" / "bundle" / "outcome.py").read_text(encoding="utf-8")
    listed = re.search(r"kind: str  # ([\w |]+) \| <error kind>", source)
    assert listed is not None
    assert set(listed[1].split(" | ")) <= kinds


def test_the_environment_of_ranks_is_that_of_the_plans_without_the_jobs_own() -> None:
    text = tables.rank_environment()
    assert "| `RANK` | plan: rank | all |" in text
    assert re.search(r"\| `NCCL_SOCKET_IFNAME` \|.*\| apptainer-2-hosts-8-gpus, nccl-ib-2-hosts-8-gpus \|", text)
    assert "`TEXT`" not in text
    assert "| job: ddp_job_env" not in text


@pytest.mark.parametrize(
    ("link", "page", "becomes"),
    [
        ("[a](../README.md)", "glossary.md", "[a](index.md)"),
        ("[a](../../README.md#x)", "how-to/results.md", "[a](../index.md#x)"),
        ("[a](../roles/nccl/README.md)", "images.md", "[a](reference/roles.md#nccl)"),
        ("[a](../roles/ddp_job/README.md#secrets)", "images.md", "[a](reference/job.md#secrets)"),
        ("[a](../src/ddp_play/errors.py)", "images.md", "a"),
        ("[a](images.md#x)", "glossary.md", "[a](images.md#x)"),
        ("[a](https://example.com/x)", "glossary.md", "[a](https://example.com/x)"),
        ("[a](#here)", "glossary.md", "[a](#here)"),
    ],
)
def test_links(link: str, page: str, becomes: str) -> None:
    assert pages.site_links(link, file=f"docs/{page}", page=page) == becomes


def test_a_dead_link_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/images\.md links to gone\.md"):
        pages.site_links("[a](gone.md)", file="docs/images.md", page="images.md")


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(KeyError):
        pages.page_text("<!-- reference: nothing -->", "images.md")


def test_make_check_builds_the_site() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"sphinx-build .*-W .*-n ", makefile)
    assert re.search(r"^check:.*\n\t.*\bdocs$", makefile, re.MULTILINE)
