"""Jobs as users write them: their own scripts, their values, their output, their playbooks."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, ROOT, Play
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

CLASSIC = """
import argparse
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int)
parser.add_argument("--world-size", type=int)
parser.add_argument("--init-method")
parser.add_argument("--backend")
args = parser.parse_args()
dist.init_process_group(args.backend, init_method=args.init_method, rank=args.rank, world_size=args.world_size)
value = torch.ones(1) * (args.rank + 1)
dist.all_reduce(value)
print("sum", int(value), "over", args.init_method.split(":")[0])
dist.destroy_process_group()
"""

ENVIRONMENT = """
import os
import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
value = torch.ones(1)
dist.all_reduce(value)
print("ranks", int(value))
dist.destroy_process_group()
"""

COMMAND = ["python", "classic.py", "--rank", "{rank}", "--world-size", "{world_size}"]
COMMAND += ["--init-method", "{init_method}", "--backend", "{backend}"]


@pytest.mark.parametrize("method", ["env", "tcp", "file"])
def test_the_classic_script_runs_as_it_is(play: Play, method: str) -> None:
    play.write("code/classic.py", CLASSIC)
    done = play("run", play.job({"source": "code", "command": COMMAND, "init_method": method}), "-i", LOCAL)
    assert done.code == 0, done.err
    assert f"localhost:0: sum 3 over {method}" in done.out


def test_a_script_that_only_reads_the_environment(play: Play) -> None:
    play.write("code/own.py", ENVIRONMENT)
    done = play("run", play.job({"source": "code", "command": "python own.py"}), "-i", LOCAL, "--ranks", "all")
    assert done.code == 0, done.err
    assert "localhost:0: ranks 2" in done.out
    assert "localhost:1: ranks 2" in done.out


def test_values_arrive_byte_for_byte(play: Play) -> None:
    values = {"QUOTES": "a 'b' \"c\" $HOME `d`", "LINES": "one\ntwo\n", "UNICODE": "ünï→😀", "EMPTY": "", "EQ": "=x=y"}
    play.environment["FROM_CALLER"] = "{{ not a template }} \n%"
    play.write(
        "code/own.py",
        "import json, os\njson.dump(dict(os.environ), open('seen-' + os.environ['RANK'], 'w'))\n",
    )
    job = play.job({"source": "code", "command": "python own.py", "env": {**values, "FROM_CALLER": None, "RAW": "@"}})
    text = job.read_text().replace('"RAW": "@"', '"RAW": RAW_UNSAFE').replace("RAW_UNSAFE", '!unsafe "{{ raw }}"')
    job.write_text(text)
    done = play("run", job, "-i", LOCAL)
    assert done.code == 0, done.err
    for rank in (0, 1):
        seen = json.loads((play.newest() / "artifacts" / "localhost" / f"seen-{rank}").read_text())
        for name, value in values.items():
            assert seen[name] == value
        assert seen["FROM_CALLER"] == "{{ not a template }} \n%"
        assert seen["RAW"] == "{{ raw }}"
    assert not [name for name in seen if name.startswith("TORCHELASTIC") and name != "TORCHELASTIC_ERROR_FILE"]


def test_a_bare_key_that_the_caller_does_not_have(play: Play) -> None:
    done = play("run", play.job({"command": ["true"], "env": {"NOT_THERE": None}}), "-i", LOCAL)
    assert done.code == 64
    assert "NOT_THERE" in done.err


def test_two_hundred_megabytes_of_anything_arrive_byte_exact(play: Play) -> None:
    play.write(
        "code/own.py",
        "import hashlib, os, random, sys\n"
        "random.seed(int(os.environ['RANK']))\nblock = random.randbytes(1 << 20)\nseen = hashlib.sha256()\n"
        "for i in range(200 if os.environ['RANK'] == '0' else 3):\n"
        "    os.write(1, block[: len(block) // 2]); os.write(2, block[len(block) // 2 :])\n    seen.update(block)\n"
        "open('digest-' + os.environ['RANK'], 'w').write(seen.hexdigest())\n",
    )
    job = play.job({"source": "code", "command": "python own.py"})
    done = play("run", job, "-i", LOCAL, "--ranks", "none", timeout_s=180)
    assert done.code == 0, done.err
    for rank, size in ((0, 200 << 20), (1, 3 << 20)):
        log = (play.newest() / "logs" / f"rank-{rank}.log").read_bytes()
        digest = (play.newest() / "artifacts" / "localhost" / f"digest-{rank}").read_text()
        assert (len(log), hashlib.sha256(log).hexdigest()) == (size, digest)


def test_lines_appear_long_before_the_end_even_without_a_flush(play: Play) -> None:
    play.write("code/own.py", "import time\nprint('now', time.time())\ntime.sleep(20)\n")
    child = play.start("run", play.job({"source": "code", "command": "python own.py"}), "-i", LOCAL)
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line.startswith("localhost:0: now ")
    assert time.time() - float(line.split()[-1]) < 5.0
    play("stop", "-", "--now")
    child.wait(20)


def test_tasks_around_the_job_run_the_same_in_both_and_plan_runs_none(play: Play) -> None:
    before, after = play.cwd / "before", play.cwd / "after"
    job = play.job({"command": ["true"]}, before=str(before), after=str(after))
    planned = play("plan", job, "-i", LOCAL, "--json")
    assert planned.code == 0, planned.err
    assert not before.exists()
    assert not after.exists()
    assert play.runs() == []
    both: tuple[tuple[str, list[str | Path]], ...] = (
        ("ddp-play", ["run", job, "-i", LOCAL]),
        ("ansible-playbook", [job, "-i", LOCAL]),
    )
    for program, words in both:
        done = play(*words, program=program)
        assert done.code == 0, done.err
        assert before.exists(), program
        assert after.exists(), program
        before.unlink()
        after.unlink()


def test_a_failed_job_fails_ansible_playbook_and_ends_the_playbook(play: Play) -> None:
    after = play.cwd / "after"
    job = play.job({"command": ["sh", "-c", "echo the reason; exit 5"]}, after=str(after))
    done = play(job, "-i", LOCAL, program="ansible-playbook")
    assert done.code == 2
    assert "failed first: exit code 5" in done.out
    assert "the reason" in done.out
    assert not after.exists()
    assert play("run", job, "-i", LOCAL).code == 5
    assert not after.exists()


def test_a_task_that_fails_after_the_job(play: Play) -> None:
    job = play.job({"command": ["true"]})
    document = json.loads(job.read_text())
    document[0]["post_tasks"] = [{"name": "Publish", "ansible.builtin.fail": {"msg": "no disk"}}]
    job.write_text(json.dumps(document))
    done = play("run", job, "-i", LOCAL)
    assert done.code == 1
    assert "the job succeeded, but the playbook failed after it" in done.err
    assert "no disk" in done.err


def test_run_executes_the_very_plan(play: Play) -> None:
    job = play.job({"command": ["true"], "env": {"A": "b"}})
    first = play("plan", job, "-i", LOCAL, "--json").json
    assert play("plan", job, "-i", LOCAL, "--json").json == first
    assert play("plan", job, "-i", LOCAL, "--json", "--cached").json == first
    assert play("run", job, "-i", LOCAL).code == 0
    assert json.loads((play.newest() / "plan.json").read_text()) == first


def test_secrets_are_files_and_nowhere_else(play: Play) -> None:
    secret = "correct-horse-7531"
    play.write(
        "code/own.py",
        "import hashlib, os, time\nsecret = open(os.environ['TOKEN_FILE']).read()\n"
        "print(hashlib.sha256(secret.encode()).hexdigest(), flush=True)\ntime.sleep(3)\n",
    )
    play.write("vars.yml", json.dumps({"ddp_job_secrets": {"TOKEN": secret}}))
    job = play.job({"source": "code", "command": "python own.py"})
    document = json.loads(job.read_text())
    document[0]["vars_files"] = ["vars.yml"]
    job.write_text(json.dumps(document))
    child = play.start("run", job, "-i", LOCAL, "--name", "secret")
    log = play.home / "runs" / "secret" / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and log.read_bytes())
    assert log.read_text().strip() == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in play_processes()
    assert child.wait(30) == 0
    for root in (play.home, play.host_dir):
        for path in root.rglob("*"):
            assert not (path.is_file() and secret.encode() in path.read_bytes()), path


def play_processes() -> str:
    """Every command line and environment on this machine."""
    texts = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            texts.append((entry / "cmdline").read_text() + (entry / "environ").read_text())
        except (OSError, UnicodeDecodeError):
            continue
    return "\n".join(texts)


def test_the_demo(play: Play) -> None:
    done = play("run", timeout_s=120)
    assert done.code == 0, done.err
    run = play.newest()
    assert json.loads((run / "results" / "rank-0.json").read_text())["accuracy"] >= 0.97
    for part in ("logs/rank-0.log", "logs/rank-1.log", "metrics/rank-0.jsonl", "results/rank-1.json", "env/rank-0.env"):
        assert (run / part).exists(), part
    assert (run / "run.json").stat().st_mode & 0o777 == 0o600
    assert run.stat().st_mode & 0o777 == 0o700
    assert play("results", "--json").json["results"]["0"]["accuracy"] >= 0.97
    assert ROOT.name  # the bundle is in the test's own place, not in the checkout
    assert play.left_on_host() == []
