"""What the ranks' Python answers, and when it is asked again: virtual environments that count how often they run."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import kept_facts, rank_python
from ddp_play.guard.kept_facts import KeptFacts

if TYPE_CHECKING:
    from collections.abc import Callable

USER = {"login_uid": os.geteuid(), "login_gid": os.getegid()}


class Site:
    """A virtual environment with torch and a state directory. Its Python adds its pid to `count` when it starts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "venv"], check=True)
        self.python = root / "venv" / "bin" / "python"
        (self.packages,) = (root / "venv" / "lib").glob("python3.*/site-packages")
        self.count = root / "count"
        (self.packages / "count.pth").write_text(
            f"import os; open({str(self.count)!r}, 'a').write('%d ' % os.getpid())\n"
        )
        self.install("torch", "2.9.0")
        (root / "state").mkdir()

    def install(self, name: str, version: str) -> None:
        folder = self.packages / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def facts(self, machine: str = "boot-1", **wanted: Any) -> dict[str, str]:
        kept = KeptFacts(str(self.root / "state"), machine)
        return rank_python.facts({"python": str(self.python), **wanted}, USER, kept)

    def num_asked(self) -> int:
        return len(set(self.count.read_text().split())) if self.count.exists() else 0


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An environment that counts as installed long ago."""
    monkeypatch.setattr(kept_facts, "SETTLED_S", -3600.0)
    return Site(tmp_path)


def test_an_unchanged_python_is_asked_once(site: Site) -> None:
    first = site.facts()
    assert first == {
        "path": str(site.python),
        "version": platform.python_version(),
        "torch": "2.9.0",
        "mpi4py": "",
        "problem": "",
    }
    assert [site.facts() for _ in range(3)] == [first] * 3
    assert site.num_asked() == 1


def test_a_python_that_was_changed_just_now_is_asked_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_facts, "SETTLED_S", 2.0)
    assert site.facts() == site.facts()
    assert site.num_asked() == 2


def upgrade(site: Site) -> None:
    before = site.packages.stat()
    shutil.rmtree(site.packages / "torch-2.9.0.dist-info")
    site.install("torch", "2.10.0")
    os.utime(site.packages, ns=(before.st_atime_ns, before.st_mtime_ns))  # as rsync -a does


def edit_metadata(site: Site) -> None:
    path = site.packages / "torch-2.9.0.dist-info" / "METADATA"
    path.write_text(path.read_text().replace("2.9.0", "2.9.1"))


def add_another_place(site: Site) -> None:
    before, site.packages = site.packages, site.root / "more"
    site.packages.mkdir()
    site.install("mpi4py", "4.1.0")
    with (before / "count.pth").open("a") as file:
        file.write(f"{site.packages}\n")


def replace_python(site: Site) -> None:
    real = site.python.resolve()
    site.python.unlink()
    site.python.symlink_to(shutil.copy2(real, site.root / "python"))


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (upgrade, {"torch": "2.10.0"}),
        (edit_metadata, {"torch": "2.9.1"}),
        (lambda site: site.install("mpi4py", "4.1.1"), {"mpi4py": "4.1.1"}),
        (add_another_place, {"mpi4py": "4.1.0"}),
        (replace_python, {}),
        (lambda site: (site.root / "venv" / "pyvenv.cfg").touch(), {}),
    ],
    ids=["upgrade", "metadata", "installation", "pth", "python", "pyvenv.cfg"],
)
def test_it_is_asked_again_after_a_change(site: Site, change: Callable[[Site], Any], changed: dict[str, str]) -> None:
    first = site.facts()
    change(site)
    assert [site.facts(), site.facts()] == [{**first, **changed}] * 2
    assert site.num_asked() == 2


def test_it_is_asked_again_after_a_reboot(site: Site) -> None:
    assert site.facts("boot-1") == site.facts("boot-2")
    assert site.num_asked() == 2


def test_the_question_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks in images need no packages; another user may see other files, and the loader other libraries."""
    site.facts()
    for in_image in ({"engine": True}, {"apptainer": "/x.sif"}):
        found = site.facts(**in_image)
        assert (found["version"], found["torch"]) == (platform.python_version(), "")
    assert site.num_asked() == 1, "without its packages"
    site.facts(user=f"{os.geteuid()}:{os.getegid() + 1}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(site.root))
    site.facts()
    assert site.num_asked() == 3


def test_a_python_that_can_no_longer_be_run_is_told(site: Site) -> None:
    site.facts()
    site.python.unlink()
    assert site.facts()["problem"] == f"{site.python} cannot be run (No such file or directory)"
    shutil.copy(sys.executable, site.python)
    site.python.chmod(0o600)
    assert site.facts()["problem"] == f"{site.python} cannot be run (Permission denied)"
    site.python.chmod(0o700)
    assert site.facts()["problem"] == ""


def test_a_script_is_asked_each_time(site: Site) -> None:
    """It may choose another Python at any time, as pyenv's does."""
    script = site.root / "python3"
    script.write_text(f'#!/bin/sh\nexec {site.python} "$@"\n')
    script.chmod(0o755)
    assert site.facts(python=str(script)) == site.facts(python=str(script)) == {**site.facts(), "path": str(script)}
    assert site.num_asked() == 3


def test_a_program_that_chooses_a_python_is_asked_each_time(site: Site) -> None:
    """As the shims of version managers, some of which are binaries."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler")
    source = site.root / "shim.c"
    run = f'words[0] = "{site.python}"; return execv(words[0], words);'
    source.write_text(f"#include <unistd.h>\nint main(int n, char **words) {{ {run} }}\n")
    subprocess.run([compiler, "-o", site.root / "shim", source], check=True)
    for number in (1, 2):
        assert site.facts(python=str(site.root / "shim"))["torch"]
        assert site.num_asked() == number


def test_without_a_place_to_keep_it_is_asked_each_time(site: Site) -> None:
    shutil.rmtree(site.root / "state")
    assert site.facts() == site.facts()
    assert site.num_asked() == 2


@pytest.mark.parametrize(("packages", "torch"), [(False, ""), (True, "2.13.0")])
def test_packages_are_looked_up_only_where_ranks_are_processes(tmp_path: Path, packages: bool, torch: str) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\ncase \"$*\" in *mpi4py*) printf '3.12.1\\n2.13.0\\n\\n' ;; *) echo 3.12.1 ;; esac\n")
    python.chmod(0o755)
    answer = {"path": str(python), "version": "3.12.1", "torch": torch, "mpi4py": "", "problem": ""}
    assert rank_python.ask(str(python), packages=packages) == (answer, [])
