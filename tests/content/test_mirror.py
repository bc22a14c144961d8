"""Tests mirror the tree: each module has the test module of its name, or a row here says which test covers it.

A module with several subjects may have a test module for each: `test_MODULE.py`, and `test_MODULE_SUBJECT.py` with a
row here.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Package:
    """A package, the directories that mirror it, the modules that another test covers, and tests of one subject."""

    root: str
    tests: tuple[str, ...]
    elsewhere: dict[str, tuple[str, str]]  # module -> (test file, reason)
    subjects: dict[str, tuple[str, ...]] = field(default_factory=dict)  # module -> its subjects


MPI = ("tests/dist/test_mpi_backend.py", "importing it starts MPI, so the test starts processes of its own")
ENGINE = "needs a Docker engine: `lab up`, `status` and `down` run there"
TRAINING = "needs a process group and a whole run"
TERMINAL = ("tests/run/test_screen_terminal.py", "needs a terminal: the test starts it on one")
ACTION = "needs Ansible's own connection and templates: real plays run it there"
HOSTILE_HOSTS = ("tests/unit/attacks/test_hostile_hosts.py", "limits of what a host may send; hosts that lie are there")
SESSION = ("tests/run/test_session.py", "forks real processes; sessions with real runs are there")
DEFECT_TABLE = ("tests/unit/checks/self_test/test_kinds.py", "a table of defects; the test reads all of them")
BESIDE_PACKAGES = {
    "errors": ("tests/content/test_docs.py", "classes; the test compares their exit codes with the documents"),
    "testing": ("tests/unit/run/conftest.py", "fakes; every test of run uses them"),
}
PACKAGES = (
    Package(
        "trainer",
        ("tests/unit/trainer", "tests/dist"),
        {
            "collective_calls": ("tests/dist/test_trainer_suite.py", "needs a process group; all cases run there"),
            "errors": ("tests/unit/trainer/test_main.py", "one class without behavior; the test reads its text"),
            "evaluate": ("tests/dist/test_training_loop.py", f"{TRAINING}; the accuracy is compared between ranks"),
            "parallel": ("tests/dist/test_trainer_suite.py", f"{TRAINING}; every communication hook trains there"),
            "training_report": ("tests/dist/test_training_loop.py", f"{TRAINING}; the test reads the lines it writes"),
            "mpi_backend/buffers": MPI,
            "mpi_backend/joining": MPI,
            "mpi_backend/library": MPI,
            "mpi_backend/process_group": MPI,
            "mpi_backend/work": MPI,
        },
    ),
    Package(
        "plugins/modules",
        ("tests/unit/modules",),
        {
            "scratch_filesystem": (
                "tests/run/test_scratch.py",
                "needs root and loop devices; it formats real ones there",
            )
        },
    ),
    Package(
        "plugins/module_utils",
        ("tests/unit/module_utils",),
        {"file_validation": ("tests/unit/modules/test_files.py", "ends the module; the test runs it as a program")},
    ),
    Package(
        "plugins/connection",
        ("tests/unit/connection",),
        {},
    ),
    Package("plugins/filter", ("tests/unit/filters",), {}),
    Package("plugins/lookup", ("tests/unit/lookup",), {}),
    Package(
        "plugins/plugin_utils",
        ("tests/unit/plugin_utils",),
        {
            "host_approach": ("tests/run/test_logins.py", ACTION),
            "host_query": ("tests/run/test_logins.py", ACTION),
            "ssh_connections": ("tests/run/test_jump_hosts.py", ACTION),
        },
    ),
    Package(
        "plugins/action",
        ("tests/unit/action",),
        {
            "activity": ("tests/run/test_top.py", ACTION),
            "check": ("tests/lab/test_check.py", ACTION),
            "planned_changes": ("tests/lab/test_brownfield.py", ACTION),
            "quarantine": ("tests/lab/test_acceptance.py", ACTION),
            "host_state": ("tests/run/test_settled.py", ACTION),
            "slurm_cluster": ("tests/lab/test_slurm.py", ACTION),
            "run": ("tests/run/test_jobs.py", ACTION),
            "settled_roles": ("tests/run/test_settled_roles.py", ACTION),
            "sweep": ("tests/run/test_same_name.py", ACTION),
        },
    ),
    Package(
        "src/ddp_play/planning",
        ("tests/unit/planning",),
        {},
        {"fabric": ("several_nics",), "planner": ("engine_and_image", "shared_directory", "whole_plans")},
    ),
    Package("src/ddp_play/bundle", ("tests/unit/bundle",), {}, {"removal": ("interruptions",)}),
    Package(
        "src/ddp_play/report",
        ("tests/unit/report",),
        {
            "svg_charts": (
                "tests/unit/report/test_report_page.py",
                "matplotlib is imported by the tests of one module only: it takes a second",
            )
        },
    ),
    Package(
        "src/ddp_play/engines",
        ("tests/unit/engines",),
        {"interface": ("tests/unit/engines/test_slurm.py", "values and a protocol; the tests of the engines use them")},
    ),
    Package(
        "src/ddp_play/run",
        ("tests/unit/run",),
        {
            "attempt_result": (
                "tests/unit/run/test_restart_loop.py",
                "two values without behavior; the loop reads them",
            ),
            "host_files": HOSTILE_HOSTS,
            "host_frames": HOSTILE_HOSTS,
            "link": HOSTILE_HOSTS,
            "session_children": SESSION,
            "session_server": SESSION,
        },
        {
            "garbage_collection": ("kept_sources",),
            "allocated_controller": ("signals",),
            "engine_runs": ("lost_controller",),
            "kept_output": ("until_collected",),
            "restart_loop": ("between_attempts", "requeue", "slots"),
            "slot_wait": ("places",),
            "supervisor": ("take_over",),
            "verdict": ("texts",),
        },
    ),
    Package(
        "src/ddp_play/guard",
        ("tests/unit/guard",),
        {
            "refusal": (
                "tests/unit/guard/test_controller_channel.py",
                "one class without behavior; the test reads its fields",
            )
        },
        {
            "controller_channel": ("takeover",),
            "container_rank": ("silent_engine",),
            "hang_evidence": ("decisions",),
            "leftovers": ("alive", "lists"),
            "state_directory": ("names", "on_fuse"),
        },
    ),
    Package(
        "src/ddp_play/images",
        ("tests/unit/images",),
        {
            "build": ("tests/lab/conftest.py", "needs a Docker engine: the image of these tests is built there"),
        },
    ),
    Package(
        "src/ddp_play/lab",
        ("tests/unit/lab",),
        {
            "host_containers": ("tests/lab/test_lab.py", ENGINE),
            "lifecycle": ("tests/lab/test_lab.py", ENGINE),
            "networks": ("tests/lab/test_lab.py", ENGINE),
            "progress_listener": ("tests/lab/test_lab.py", "one protocol and its silent implementation"),
            "status": ("tests/lab/test_lab.py", ENGINE),
        },
    ),
    Package(
        "src/ddp_play/cli",
        ("tests/unit/cli",),
        {
            "attach": ("tests/run/test_outcomes.py", "needs a run whose supervisor died"),
            "execute": ("tests/run/test_outcomes.py", "its process becomes the command; the test starts the program"),
            "init": ("tests/content/test_site.py", "one call; the test runs the verb"),
            "inventory": ("tests/content/test_site.py", "one call; the test runs the verb"),
            "screen/run_screen": TERMINAL,
            "screen/terminal": TERMINAL,
            "session": SESSION,
            "playbook_runs": ("tests/unit/cli/test_provision.py", "what provision and reboot share"),
            "stop": ("tests/run/test_outcomes.py", "needs a run that is alive"),
        },
    ),
    Package(
        "src/ddp_play/checks",
        ("tests/unit/checks",),
        {
            "self_test/machine_defects": DEFECT_TABLE,
            "self_test/network_defects": DEFECT_TABLE,
            "self_test/reach_defects": DEFECT_TABLE,
            "self_test/silent_mount": ("tests/lab/test_check_defects.py", "needs root and a mount of its own"),
        },
    ),
    Package("src/ddp_play/measuring", ("tests/unit/measuring",), {}),
    Package(
        "src/ddp_play/provisioning",
        ("tests/unit/provisioning",),
        {"site_scaffold": ("tests/content/test_site.py", "the test runs `init` and the site that it writes")},
    ),
    Package(
        "src/ddp_play/ansible",
        ("tests/unit/ansible",),
        {
            "playbook_client": SESSION,
            "plugin_variables": ("tests/unit/ansible/test_plan_action.py", "names of variables, which the test sets"),
            "warm_processes": SESSION,
        },
        {"host_problems": ("of_tasks",)},
    ),
)


def modules(package: Package) -> frozenset[str]:
    """Names relative to the package, of files that hold more than a docstring: `run`, `folder/part`, `folder`."""
    return modules_below(ROOT / package.root)


@functools.cache
def modules_below(root: Path) -> frozenset[str]:
    """Parsed once; every package is looked at by two tests."""
    found = set()
    for path in root.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        name = path.relative_to(root).with_suffix("").as_posix().removesuffix("/__init__")
        if len(body) > 1 or not (body and isinstance(body[0], ast.Expr)):
            found.add(name)
    return frozenset(found - {"__init__"})


def named_tests(package: Package) -> dict[str, str]:
    """Test file by the module it is named after; the `__main__` of a package that has one has test_main.py."""
    found = {}
    is_program = (ROOT / package.root / "__main__.py").is_file()
    for directory in package.tests:
        for path in sorted((ROOT / directory).rglob("test_*.py")):
            name = path.relative_to(ROOT / directory).with_suffix("").as_posix().replace("test_", "", 1)
            found["__main__" if name == "main" and is_program else name] = path.relative_to(ROOT).as_posix()
    return found


@pytest.fixture(params=PACKAGES, ids=lambda package: package.root)
def package(request: pytest.FixtureRequest) -> Package:
    found: Package = request.param
    return found


def test_the_modules_beside_the_packages_have_a_test() -> None:
    found = {path.stem for path in (ROOT / "src" / "ddp_play").glob("*.py") if not path.stem.startswith("__")}
    assert found == set(BESIDE_PACKAGES)
    assert [test for test, _ in BESIDE_PACKAGES.values() if not (ROOT / test).is_file()] == []


def test_every_module_has_a_test_or_a_row(package: Package) -> None:
    assert modules(package) - set(named_tests(package)) == set(package.elsewhere)


def test_unit_tests_are_named_after_modules(package: Package) -> None:
    mirror = package.tests[0]
    named = {name for name, path in named_tests(package).items() if path.startswith(f"{mirror}/")}
    subjects = {f"{module}_{subject}" for module, rows in package.subjects.items() for subject in rows}
    assert named - modules(package) == subjects
    assert set(package.subjects) <= named & modules(package)


def test_rows_name_tests_that_exist(package: Package) -> None:
    for module, (test, reason) in package.elsewhere.items():
        assert (ROOT / test).is_file(), module
        assert reason
