"""The table: every fault and what must come of it."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

from ddp_play.run.controller_disk_full import WAIT_FOR_SPACE_S
from ddp_play.run.restart_loop import LOST_HOSTS_CLEANUP_S
from tests.faults import acts, hosts
from tests.faults.rows import DONE, Expected, Row

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ["python3", "-m", "trainer", "train", "--epochs", "1", "--checkpoint-every", "3", "--sleep-per-step", "0.1"]
IDLE_S = 20
# Rows in which 300 MB come home, from the end of the ranks on.
COLLECT_S = 30.0


def failed(rank: int, host: str, exit_code: int, *says: str) -> Expected:
    """The run ends because of this rank."""
    return Expected(True, "rank_failed", exit_code, rank=rank, host=host, says=says)


def hung(rank: int, host: str, *says: str) -> Expected:
    """The watchdog ends the run, and knows who held it up."""
    return Expected(True, "idle", 124, rank=rank, host=host, says=says, stopped_s=IDLE_S + 10)


def stopped(*says: str, stopped_s: float | None = 5.0, missing: bool = False) -> Expected:
    """A person ended it."""
    return Expected(True, "stopped", 130, says=says, stopped_s=stopped_s, missing=missing)


def lost(host: str, rank: int) -> Expected:
    """The run ends because this host is gone, with its ranks; what only it knew is missing, and run.json says so.

    Its peers may end at once, for they miss it first; that it is lost is certain, and all is cleaned, only when it
    has been silent for `host_timeout`.
    """
    says = (f"host {host} was lost",)
    return Expected(True, "host_lost", 69, rank, host, stopped_s=10.0, clean_s=10.0, missing=True, says=says)


def again(*says: str, stopped_s: float | None = 5.0) -> Expected:
    """The gang starts once more, and succeeds."""
    return dataclasses.replace(DONE, attempts=2, stopped_s=stopped_s, says=says)


# Ranks 0 and 1 on h1, 2 on h2; h3 stands by. The defaults are 30 s, 60 s and 30 s.
LOST = {"host_timeout": 8, "lease": 12, "grace": 2}
RESTARTS = {"restarts": 1, "spares": ["h3"], **LOST}

# At its end the run tries to clean the lost host once more; the other hosts are examined after that.
AFTER_A_LOSS = dataclasses.replace(again("replacement host: h3", stopped_s=10.0), clean_s=5.0 + LOST_HOSTS_CLEANUP_S)

UNSTARTED = Expected(True, "interrupted", 130, stopped_s=None)

RANKS = (
    Row(
        "rank exits 3",
        failed(3, "h3", 3, "rank 3 on h3 failed first: exit code 3"),
        victim=("--fault", "exit", "--at-rank", "3"),
        quick=True,
    ),
    Row(
        "rank raises",
        failed(1, "h1", 1, "ValueError: loss is nan", "victim.py"),
        victim=("--fault", "raise", "--at-rank", "1"),
    ),
    Row(
        "rank crashes",
        failed(2, "h2", 128 + signal.SIGSEGV, "SIGSEGV"),
        victim=("--fault", "segv", "--at-rank", "2"),
    ),
    Row("rank SIGKILLed", failed(2, "h2", 128 + signal.SIGKILL, "SIGKILL"), acts.kill_rank, quick=True),
    Row(
        "rank OOM-killed by its container's cgroup",
        failed(2, "h2", 128 + signal.SIGKILL, "out of memory", "ddp_job_memory", "kernel of h2"),
        victim=("--fault", "eat", "--at-rank", "2"),
        job={"memory": "512m"},
        options=("-b",),  # only root may read the kernel log there
        on=("lab",),
        check=acts.is_in_the_kernel_log,
    ),
    Row(
        "rank OOM-killed by its process's cgroup",
        failed(2, "h2", 128 + signal.SIGKILL, "out of memory"),
        acts.confine,
        victim=("--fault", "eat", "--at-rank", "2", "--at-step", "80"),
        after=acts.release,
        on=("lab",),
        containers=False,
        check=acts.says_why_it_died,
    ),
    Row(
        "rank with a slow teardown",
        failed(2, "h2", 1, "rank 2 on h2 failed first"),
        victim=("--fault", "slow", "--at-rank", "2"),
        quick=True,
    ),
)

HANGS = (
    Row(
        "rank SIGSTOPped",
        hung(2, "h2", "rank 2 is stopped by a signal", "wait in"),
        acts.stop_rank,
        job={"idle_timeout": IDLE_S},
        check=acts.has_evidence,
    ),
    Row(
        "rank SIGSTOPped under torchrun",
        hung(2, "h2", "rank 2 is stopped by a signal", "wait in"),
        acts.stop_rank,
        job={"idle_timeout": IDLE_S, "launcher": "torchrun"},
        on=("lab",),
        check=acts.has_evidence,
    ),
    Row(
        "endless loop outside collectives",
        hung(3, "h3", "ranks 0, 1, 2 wait in", "rank 3 is in load_batch at victim.py"),
        victim=("--fault", "loop", "--at-rank", "3"),
        job={"idle_timeout": IDLE_S},
        quick=True,
        check=acts.has_evidence,
    ),
    Row(
        "rank skips a collective",
        hung(1, "h1", "ranks 0, 2, 3 wait in", "rank 1 waits in barrier at victim.py"),
        victim=("--fault", "skip", "--at-rank", "1"),
        job={"idle_timeout": IDLE_S},
        check=acts.has_evidence,
    ),
)

HOSTS = (
    Row(
        "dockerd stopped on one host",
        failed(2, "h2", 1, "the engine cannot tell its exit code", "still on h2: container"),
        hosts.stop_engine,
        after=hosts.start_engine,
        on=("lab",),
        check=hosts.sweeps_when_the_engine_is_back,
    ),
    Row(
        "dockerd SIGSTOPped on one host, then Ctrl-C",
        dataclasses.replace(
            stopped("interrupted with Ctrl-C", "still on h2: container"),
            remains={"h2": ("container",)},
            clean_s=30.0,  # a question to the engine that has no answer
        ),
        hosts.freeze_engine_and_interrupt,
        after=hosts.thaw_engine,
        on=("lab",),
        check=hosts.sweeps_what_is_left,
    ),
    Row(
        "dockerd restarted with live-restore",
        DONE,
        hosts.restart_engine,
        before=hosts.keep_containers,
        after=hosts.let_containers_go,
        on=("lab",),
    ),
    Row(
        "container removed from outside",
        failed(2, "h2", 128 + signal.SIGKILL, "it was killed from outside"),
        acts.remove_container,
        on=("lab",),
    ),
    Row(
        "host powered off",
        lost("h2", 2),
        hosts.power_off_second,
        job=LOST,
        after=hosts.power_on,
        on=("lab",),
        check=hosts.is_swept_after_boot,
    ),
    Row(
        "head host powered off",
        lost("h1", 0),
        hosts.power_off_head,
        job=LOST,
        after=hosts.power_on,
        on=("lab",),
        check=hosts.is_swept_after_boot,
    ),
    Row("network of a host cut for 5 s", DONE, hosts.cut_for_five_seconds, after=hosts.mend_network, on=("lab",)),
    Row(
        "network of a host cut for 60 s",
        lost("h2", 2),
        hosts.cut_for_long,
        job=LOST,
        after=hosts.mend_network,
        on=("lab",),
        check=hosts.ended_by_itself_and_swept,
    ),
    Row("SSH cut, data network alive", DONE, hosts.cut_ssh, after=hosts.mend_ssh, on=("lab",)),
    Row(
        "image missing on one host",
        Expected(True, "host_not_ready", 69, stopped_s=None, says=("h3: image ddp-play-rank:slim", "image load")),
        job={"image_pull": "never"},
        under_way=False,
        before=hosts.hide_image,
        after=hosts.show_image,
        on=("lab",),
    ),
    Row(
        "clock five minutes off on one host",
        failed(3, "h3", 3, "rank 3 on h3 failed first: exit code 3"),
        victim=("--fault", "exit", "--at-rank", "3"),
        before=hosts.set_clock_ahead,
        on=("lab",),
        check=hosts.tells_times_on_one_clock,
    ),
    Row(
        "port taken between plan and launch",
        DONE,
        victim=("--steps", "20"),
        job={"port_range": "29870-29871"},
        before=hosts.take_port,
        after=hosts.give_port,
        on=("here",),
        check=hosts.took_the_next_port,
    ),
)

SHARED = (
    Row(
        "shared mount turns read-only",
        failed(0, "h1", 1, "Read-only file system"),
        acts.share_read_only,
        victim=("--checkpoint", "newest.pt"),
        before=acts.share,
        after=acts.unmount,
        on=("here",),
        check=acts.says_what_stays_in_the_shared_directory,
    ),
    Row(
        "shared mount full",
        failed(0, "h1", 1, "No space left on device"),
        acts.share_full,
        victim=("--checkpoint", "newest.pt"),
        before=acts.share,
        after=acts.unmount,
        on=("here",),
    ),
    Row(
        "shared mount gone in the middle",
        failed(0, "h1", 1, "No such file or directory"),
        acts.share_gone,
        victim=("--checkpoint", "newest.pt"),
        before=acts.share,
        after=acts.unmount,
        on=("here",),
    ),
)

STATE = (
    Row(
        "state disk filled by ranks' logs, then Ctrl-C",
        stopped("interrupted with Ctrl-C", "cannot be written", "No space left on device"),
        acts.interrupt_on_a_full_host,
        victim=("--steps", "2000", "--fault", "fill", "--at-rank", "1"),
        before=acts.small_state_disk,
        after=acts.unmount,
        on=("here",),
        quick=True,
    ),
)

ATTEMPTS = (
    Row(
        "spare takes over from a host without its guard",
        again("replacement host: h3", stopped_s=10.0),
        acts.kill_guard,
        job=RESTARTS,
    ),
    Row(
        "spare takes over from a host without power",
        AFTER_A_LOSS,
        hosts.power_off_second,
        job=RESTARTS,
        after=hosts.power_on,
        on=("lab",),
        check=hosts.is_swept_after_boot,
    ),
    Row(
        "partitioned head, its rank 0 alive",
        AFTER_A_LOSS,
        hosts.cut_head,
        victim=("--steps", "1000"),
        job=RESTARTS,
        after=hosts.mend_network,
        on=("lab",),
        check=hosts.old_head_ended_in_time,
    ),
    Row(
        "partitioned head, its engine SIGSTOPped, one rank ignores SIGTERM",
        AFTER_A_LOSS,
        hosts.freeze_engine_and_cut_head,
        victim=("--steps", "400", "--stubborn-rank", "1"),
        job=RESTARTS,
        after=hosts.thaw_and_mend,
        on=("lab",),
        check=hosts.stubborn_rank_ended_in_time,
    ),
    Row(
        "same fault twice with one restart",
        dataclasses.replace(failed(2, "h2", 128 + signal.SIGKILL, "ddp_job_restarts is 1"), attempts=2),
        acts.kill_rank_twice,
        job=RESTARTS,
    ),
    Row(
        "checkpoint torn by the crash",
        again(),
        acts.crash_with_a_torn_checkpoint,
        job={**RESTARTS, "source": str(ROOT), "source_include": ["trainer"], "command": TRAIN},
        before=acts.share_directory,
        under_way=False,
        on=("here",),
        check=acts.resumed_from_the_one_before,
    ),
    Row(
        "two runs at once, one is stopped",
        DONE,
        acts.stop_another,
        victim=("--steps", "600"),
        job={"ranks_per_host": 1},
        options=("-e", "ddp_slots=2"),
    ),
)

CONTROLLER = (
    Row("controller SIGKILLed, then attach", DONE, acts.kill_controller, victim=("--steps", "200")),
    Row("Ctrl-C while discovering", UNSTARTED, acts.in_discover, under_way=False),
    Row("Ctrl-C while launching", UNSTARTED, acts.in_launch, under_way=False),
    Row("Ctrl-C while training", stopped("interrupted with Ctrl-C"), acts.interrupt, quick=True),
    Row(
        "Ctrl-C twice while training, ranks ignore SIGTERM",
        stopped("interrupted with Ctrl-C"),
        acts.interrupt_twice,
        victim=("--stubborn",),
    ),
    Row(
        "Ctrl-C while collecting",
        dataclasses.replace(DONE, clean_s=COLLECT_S),
        acts.in_collect,
        victim=("--steps", "5", "--leave-mib", "300"),
        under_way=False,
        on=("here",),
    ),
    Row(
        "Ctrl-C twice while collecting",
        dataclasses.replace(
            stopped("collecting was stopped", "not collected from h1", "still on h1: /", stopped_s=None, missing=True),
            remains={"h1": ("files",)},  # the working directory, for it is not home
            clean_s=COLLECT_S,
        ),
        acts.in_collect_twice,
        victim=("--steps", "5", "--leave-mib", "300"),
        under_way=False,
        on=("here",),
    ),
    Row(
        "controller disk full, then attach",
        Expected(
            True,
            "disk_full",
            70,
            stopped_s=None,
            clean_s=WAIT_FOR_SPACE_S + 10,
            missing=True,
            remains={"h1": ("files",)},
            says=("no space left", "ddp-play attach"),
        ),
        acts.fill_home,
        victim=("--steps", "100", "--fault", "much", "--at-rank", "1"),
        before=acts.small_home,
        after=acts.unmount,
        on=("here",),
        check=acts.attach_brings_it_home,
    ),
)

OUTPUT = (
    Row("100 MB of log from one rank", DONE, victim=("--steps", "60", "--fault", "much", "--at-rank", "2")),
    Row("binary output", DONE, victim=("--steps", "60", "--fault", "bytes", "--at-rank", "0")),
    Row("a line of 10 MB", DONE, victim=("--steps", "60", "--fault", "long", "--at-rank", "0"), on=("here",)),
    Row(
        "64 ranks printing 1,000 lines/s",
        DONE,
        acts.watch_the_controller,
        job={"command": ["python3", "-S", "chatter.py"], "hosts": 1, "ranks_per_host": 64},
        options=("--ranks", "none"),
        under_way=False,
        on=("here",),
        check=acts.used_little_and_lost_nothing,
    ),
    Row(
        "a secret",
        DONE,
        acts.look_for_secret_on_hosts,
        victim=("--steps", "600"),
        secrets={"TOKEN": acts.SECRET},
        check=acts.look_for_secret_here,
    ),
)

ROWS: tuple[Row, ...] = (*RANKS, *HANGS, *HOSTS, *SHARED, *STATE, *ATTEMPTS, *CONTROLLER, *OUTPUT)
