"""Every block of commands is run or says why not; every job, inventory and setting in the documents is valid."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from ddp_play.errors import UsageError
from ddp_play.planning.job import check_names, parse_job
from ddp_play.planning.job_values import HOST_VARIABLES, PREFIX, SECRET_VARIABLES
from ddp_play.provisioning.role_specs import read_specs, value_problems
from tests.content.doc_blocks import COMMANDS, PAGES, ROOT, DocBlock, blocks, blocks_of

ALL = [block for page in PAGES for block in blocks(page)]
ROLE = "ddp.play.ddp_job"
# Variables of all roles together, and of hosts; Ansible's own begin with ansible_.
SHARED = {"ddp_shared_dir", "ddp_python", "ddp_proxy", "ddp_no_proxy", "ddp_mirror_url", *HOST_VARIABLES}


def as_id(block: DocBlock) -> str:
    return block.where


@functools.cache
def yaml_of(block: DocBlock) -> Any:
    return DataLoader().load(block.body)


def jobs_of(block: DocBlock) -> list[dict[str, Any]]:
    """Variables of every job in a block; none if it is not a playbook."""
    plays = yaml_of(block)
    found: list[dict[str, Any]] = []
    for play in plays if isinstance(plays, list) else ():
        roles = play.get("roles", ())
        found += [role.get("vars", {}) for role in roles if isinstance(role, dict) and role.get("role") == ROLE]
    return found


YAML = [block for block in ALL if block.language in {"yaml", "yml"}]
JOBS = [block for block in YAML if jobs_of(block)]
SETTINGS = [block for block in YAML if isinstance(yaml_of(block), dict) and not {"all", "ranks"} & set(yaml_of(block))]
INVENTORIES = [block for block in ALL if block.language == "ini"]
INVENTORIES += [block for block in YAML if isinstance(yaml_of(block), dict) and {"all", "ranks"} & set(yaml_of(block))]


def test_there_are_blocks_of_every_kind() -> None:
    assert [len(found) > 1 for found in (JOBS, SETTINGS, INVENTORIES)] == [True] * 3
    assert [block for block in ALL if block.runs]
    fences = sum(len(re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES)
    assert fences == 2 * len(ALL)


@pytest.mark.parametrize("block", [block for block in ALL if block.language in COMMANDS], ids=as_id)
def test_commands_are_run_or_say_why_not(block: DocBlock) -> None:
    assert block.runs or re.fullmatch(r"not run: \S.{4,}", block.mark), "mark it: <!-- run --> or <!-- not run: WHY -->"


@pytest.mark.parametrize("block", [block for block in ALL if block.language not in COMMANDS], ids=as_id)
def test_other_blocks_have_a_language_and_no_commands(block: DocBlock) -> None:
    assert block.language, "name the language; text if there is none"
    assert not block.runs
    assert not re.search(r"^(\$ )?(ddp-play|ansible-playbook) [a-z-]+ .*-i ", block.body, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("```sh\nls\n```\n", ""),
        ("<!-- run -->\n```sh\nls\n```\n", "run"),
        ("<!-- something else -->\n```sh\nls\n```\n", ""),
        ("<!-- run -->\n\n```sh\nls\n```\n", ""),
        ("1. a\n   <!-- not run: it needs hosts -->\n   ```sh\n   ls\n   ```\n", "not run: it needs hosts"),
    ],
)
def test_marks_are_found_right_above_a_block(text: str, mark: str) -> None:
    (block,) = blocks_of(Path("x.md"), text)
    assert (block.mark, block.body, block.language) == (mark, "ls\n", "sh")


@pytest.mark.parametrize("block", JOBS, ids=as_id)
def test_jobs_are_valid(block: DocBlock) -> None:
    for variables in jobs_of(block):
        assert [name for name in variables if not name.startswith(PREFIX)] == []
        check_names(dict.fromkeys(variables, ""))
        secret = {PREFIX + name for name in SECRET_VARIABLES}
        names = {name: value for name, value in variables.items() if name not in secret}
        # A part of a job shows what it is about; then only the command may be missing.
        part = {} if "ddp_job_command" in names else {"command": ["python", "train.py"]}
        parse_job({**part, **{name.removeprefix(PREFIX): value for name, value in names.items()}})


def test_a_wrong_job_is_noticed() -> None:
    with pytest.raises(UsageError):
        parse_job({"command": ["a"], "no_such_thing": 1})


@pytest.mark.parametrize("block", SETTINGS, ids=as_id)
def test_settings_are_variables_of_roles_or_jobs(block: DocBlock) -> None:
    options = {name: option for role in read_specs().values() for name, option in role.items()}
    for name, value in yaml_of(block).items():
        if not name.startswith("ansible_") and name not in SHARED:
            assert name in options, f"no role has {name}"
            assert value_problems(name, options[name], value) == ()


@pytest.mark.parametrize("block", INVENTORIES, ids=as_id)
def test_inventories_load(block: DocBlock, tmp_path: Path) -> None:
    path = tmp_path / ("inventory.ini" if block.language == "ini" else "inventory.yml")
    path.write_text(block.body, encoding="utf-8")
    loaded = InventoryManager(loader=DataLoader(), sources=[str(path)])
    assert loaded.get_hosts("ranks")


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "python"], ids=as_id)
def test_python_compiles(block: DocBlock) -> None:
    compile(block.body, block.where, "exec")


def test_files_of_a_page_have_different_names() -> None:
    named = [(block.page, block.file) for block in ALL if block.file]
    assert len(named) == len(set(named))
    assert [name for _, name in named if name.startswith("/") or ".." in name] == []


TRAININGS = {
    **{
        block.where: block.body
        for block in ALL
        if block.language == "python" and block.file and re.search(r"backward\(|trainer\.(fit|train)\(", block.body)
    },
    "templates/site/job/train.py": (ROOT / "templates/site/job/train.py").read_text(encoding="utf-8"),
}


@pytest.mark.parametrize("where", TRAININGS)
def test_a_training_leaves_gloos_threads_time_to_let_go(where: str) -> None:
    """One that asks for Python's lock while Python ends makes torch abort a finished program (exit code 134)."""
    last = TRAININGS[where].partition('if __name__ == "__main__"')[0].rstrip().splitlines()[-1]
    assert last.strip().startswith("time.sleep(0.2)")
