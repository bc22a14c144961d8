"""Do file names tell their content? Twenty subjects of past commits, to be matched with files by a fresh reader.

`python -m tests.content.first_guess draw` prints the subjects. The reader gets them and the list of files, nothing
else, and writes one line a subject: number, tab, path. `python -m tests.content.first_guess score FILE` counts the
paths that are among the files of the commit, under the names that these files have now.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEED = 12
NUM_SUBJECTS = 20
MAX_CODE_FILES = 6  # a commit over more files has no file that its subject could name
MIN_LINES = 3  # of a commit in a file of today, for a file that was split off after it
CODE = re.compile(r"(src|plugins|trainer)/.*\.py")
PRODUCT = re.compile(r"(src|plugins|trainer|roles|playbooks|templates)/|Makefile|pyproject\.toml")
# Work on the house itself, and subjects of two changes: no change request that one file could answer.
NO_REQUEST = re.compile(
    r"Fix lint|Test|Merge|Split|Move|Rename|Name |Run |Format|Document|Check the|Put |Show|Say in|.*;"
)


@dataclass(frozen=True)
class Commit:
    """A commit, when it was made (Unix seconds), and per file the letter of git, the old path and the new one."""

    commit_id: str
    committed: int
    subject: str
    files: tuple[tuple[str, ...], ...]


def git(*arguments: str) -> str:
    """Output of a git command in this repository."""
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True).stdout


@cache
def commits() -> tuple[Commit, ...]:
    """All commits without merges, the oldest first."""
    log = git("log", "--no-merges", "--reverse", "-M40%", "--name-status", "--format=%x00%H%x01%ct%x01%s")
    found = []
    for entry in log.split("\0")[1:]:
        head, *rows = entry.strip().split("\n")
        commit_id, committed, subject = head.split("\1")
        found.append(Commit(commit_id, int(committed), subject, tuple(tuple(row.split("\t")) for row in rows if row)))
    return tuple(found)


def names_of_today() -> dict[str, set[str]]:
    """Files of today by commit id: those that it touched, followed over renames."""
    number_of: dict[str, int] = {}
    touched: dict[str, set[int]] = {}
    for number, commit in enumerate(commits()):
        touched[commit.commit_id] = set()
        for place, (how, *paths) in enumerate(commit.files):
            if how.startswith("D"):
                number_of.pop(paths[0], None)
                continue
            file = number_of.pop(paths[0], number * 10_000 + place)
            number_of[paths[-1]] = file
            if how != "R100":
                touched[commit.commit_id].add(file)
    path_of = {file: path for path, file in number_of.items()}
    return {commit_id: {path_of[file] for file in files if file in path_of} for commit_id, files in touched.items()}


def surviving_lines() -> dict[str, set[str]]:
    """Files of today by commit id: those with at least MIN_LINES lines of it, also lines that moved between files."""
    found = defaultdict(set)
    for path in git("ls-files").split("\n"):
        if not CODE.fullmatch(path):
            continue
        lines: dict[str, int] = defaultdict(int)
        for line in git("blame", "-l", "-s", "-w", "-M", "-C", "-C", path).splitlines():
            lines[line.lstrip("^").split(" ")[0]] += 1
        for commit_id, count in lines.items():
            if count >= MIN_LINES:
                found[commit_id].add(path)
    return found


@cache
def pool(until: str) -> dict[str, set[str]]:
    """Change requests up to a revision: the subject, and the files of today that its commits touched."""
    today, surviving = names_of_today(), surviving_lines()
    last = int(git("log", "-1", "--format=%ct", until))
    found: dict[str, set[str]] = {}
    for commit in commits():
        if commit.committed > last:
            continue
        num_code = sum(bool(CODE.fullmatch(row[-1])) for row in commit.files)
        files = {path for path in today[commit.commit_id] | surviving[commit.commit_id] if PRODUCT.match(path)}
        if NO_REQUEST.match(commit.subject) or not 1 <= num_code <= MAX_CODE_FILES:
            continue
        if any(CODE.fullmatch(path) for path in files):
            found.setdefault(commit.subject, set()).update(files)
    return found


def draw(until: str, seed: int) -> list[str]:
    """The subjects, the same for the same revision and seed."""
    return random.Random(seed).sample(sorted(pool(until)), NUM_SUBJECTS)


def score(answers: str, subjects: list[str], touched: dict[str, set[str]]) -> list[str]:
    """A line per answer, with the files of the commit where it is none of them; the number of hits last."""
    lines, hits = [], 0
    for answer in answers.splitlines():
        number, path = answer.split("\t")[:2]
        subject = subjects[int(number) - 1]
        hit = path in touched[subject]
        hits += hit
        lines.append(
            f"{'yes' if hit else 'no'}\t{subject}\t{path}\t{'' if hit else ' '.join(sorted(touched[subject]))}"
        )
    return [*lines, f"{hits} of {len(subjects)}"]


def main() -> None:
    """Print the subjects, or the score of a reader's answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--until", default="HEAD", help="draw from the commits up to this revision")
    verbs = parser.add_subparsers(required=True, dest="verb")
    verbs.add_parser("draw")
    verbs.add_parser("score").add_argument("answers", type=Path)
    arguments = parser.parse_args()
    subjects = draw(arguments.until, arguments.seed)
    rows = [f"{number}\t{subject}" for number, subject in enumerate(subjects, 1)]
    if arguments.verb == "score":
        rows = score(arguments.answers.read_text(encoding="utf-8"), subjects, pool(arguments.until))
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
