"""Faults of attempts, of the controller and of output, and what must come of each."""

from __future__ import annotations

import dataclasses
import signal

from tests.faults import (
    acts,
    controller_acts,
    engines,
    hosts,
    quota_acts,
    restart_acts,
    secret_acts,
    shared_directory_acts,
)
from tests.faults.expectations import (
    AFTER_A_LOSS,
    COLLECT_S,
    RESTARTS,
    ROOT,
    TRAIN,
    UNSTARTED,
    again,
    controller_full,
    failed,
    lost,
    stopped,
)
from tests.faults.rows import DONE, Act, Expected, Row, nothing

# Rank 2 writes a checkpoint in the first two attempts and fails before it does in later ones.
STALLS = """test $RANK = 2 || exec sleep 60
test $DDP_PLAY_ATTEMPT -gt 2 || echo x > step-$DDP_PLAY_ATTEMPT.pt
exit 75"""

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
        "spare takes over from a host that shuts down",
        AFTER_A_LOSS,
        hosts.shut_down_second,
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
        engines.freeze_engine_and_cut_head,
        victim=("--steps", "400", "--stubborn-rank", "1"),
        job=RESTARTS,
        after=engines.thaw_and_mend,
        on=("lab",),
        check=engines.stubborn_rank_ended_in_time,
    ),
    Row(
        "Ctrl-C while the lease of a lost host is waited for",
        dataclasses.replace(
            UNSTARTED, says=("stopped while it waited for h2",), missing=True, remains={"h1": ("files",)}, clean_s=10.0
        ),
        restart_acts.interrupt_while_the_lease_runs,
        victim=("--steps", "1000", "--checkpoint", "newest.pt"),
        job=RESTARTS,
        before=restart_acts.all_hosts_share_and_h2_can_be_cut_off,
        after=restart_acts.mend_h2,
        check=restart_acts.checkpoint_is_kept_and_named,
    ),
    Row(
        "restart refused, with checkpoints",
        # the attempt that is refused is prepared before anything is collected
        Expected(True, "host_not_ready", 69, says=("exists already",), attempts=2, clean_s=COLLECT_S),
        restart_acts.refuse_the_restart,
        victim=("--checkpoint", "newest.pt"),
        job={"restarts": 1, "init_method": "file"},
        before=restart_acts.share_a_directory,
        check=restart_acts.checkpoint_is_collected,
    ),
    Row(
        "restarts without progress",
        Expected(
            True,
            "no_progress",
            75,
            rank=2,
            host="h2",
            stopped_s=None,
            says=("2 attempts in a row made no progress", "step-2.pt on", "ddp-play logs "),
            attempts=4,
            clean_s=COLLECT_S,
        ),
        job={"command": ["sh", "-c", STALLS], "restarts": 9, "restart_exit_codes": [75], "progress": "step-*.pt"},
        before=restart_acts.share_a_directory,
        under_way=False,
        quick=True,
        check=restart_acts.ended_after_two_attempts_without_a_checkpoint,
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
    Row("controller SIGKILLed, then attach", DONE, controller_acts.kill_controller, victim=("--steps", "200")),
    Row("Ctrl-C while discovering", UNSTARTED, controller_acts.in_discover, under_way=False),
    Row("Ctrl-C while launching", UNSTARTED, controller_acts.in_launch, under_way=False),
    Row("Ctrl-C while training", stopped("interrupted with Ctrl-C"), controller_acts.interrupt, quick=True),
    Row(
        "Ctrl-C twice while training, ranks ignore SIGTERM",
        stopped("interrupted with Ctrl-C"),
        controller_acts.interrupt_twice,
        victim=("--stubborn",),
    ),
    Row(
        "Ctrl-C while collecting",
        dataclasses.replace(DONE, clean_s=COLLECT_S),
        controller_acts.in_collect,
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
        controller_acts.in_collect_twice,
        victim=("--steps", "5", "--leave-mib", "300"),
        under_way=False,
        on=("here",),
    ),
    Row(
        "controller disk full, then attach",
        controller_full("no space left"),
        controller_acts.fill_home,
        victim=("--steps", "100", "--fault", "much", "--at-rank", "1"),
        before=controller_acts.small_home,
        after=shared_directory_acts.unmount,
        on=("here",),
        check=controller_acts.attach_brings_it_home,
    ),
    Row(
        "quota of the controller used up, then attach",
        controller_full("quota"),
        quota_acts.use_up_the_quota,
        victim=("--steps", "100", "--fault", "much", "--at-rank", "1"),
        before=quota_acts.home_with_a_quota,
        after=shared_directory_acts.unmount,
        on=("here",),
        check=quota_acts.attach_with_a_larger_quota,
    ),
)

# How a run with secrets ends: expectation, fault, arguments and variables of the job, check.
SECRET_ENDS: tuple[tuple[str, Expected, Act, tuple[str, ...], dict[str, str], Act], ...] = (
    ("the run succeeds", DONE, secret_acts.look_on_hosts, ("--steps", "300"), {}, secret_acts.look_everywhere),
    (
        "a rank is killed",
        failed(2, "h2", 128 + signal.SIGKILL, "SIGKILL"),
        secret_acts.look_and_kill_rank,
        (),
        {},
        secret_acts.look_everywhere,
    ),
    (
        "the run is refused",
        Expected(True, "busy", 75, stopped_s=None, says=("29870",)),
        nothing,
        (),
        {"port_range": "29870-29870"},
        secret_acts.look_everywhere,
    ),
    (
        "guard and controller SIGKILLed",
        # The host itself answers, so its files come home.
        dataclasses.replace(lost("h2", 2), missing=False, stopped_s=None, clean_s=30.0),
        secret_acts.look_and_crash,
        (),
        {},
        secret_acts.look_everywhere_and_sweep,
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
    *(
        Row(
            f"secrets, {end}",
            expected,
            fault,
            victim=victim,
            job={"env": secret_acts.ENV, **job},
            secrets={"TOKEN": secret_acts.NAMED},
            under_way=not job,
            on=("here",) if job else ("here", "lab"),
            before=secret_acts.plant_and_take_port if job else secret_acts.plant,
            after=secret_acts.end,
            check=check,
        )
        for end, expected, fault, victim, job, check in SECRET_ENDS
    ),
)
