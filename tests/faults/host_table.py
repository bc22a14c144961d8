"""Faults of hosts, of the shared directory and of the disk of the state, and what must come of each."""

from __future__ import annotations

import dataclasses
import signal

from tests.faults import acts, controller_acts, engines, hosts, quota_acts, shared_directory_acts
from tests.faults.expectations import (
    LOST,
    failed,
    lost,
    stopped,
)
from tests.faults.rows import DONE, Expected, Row

HOSTS = (
    Row(
        "dockerd stopped on one host",
        dataclasses.replace(
            failed(2, "h2", 1, "the engine did not report the exit code", "still on h2: container"),
            remains={"h2": ("files",)},  # those by which gc knows the container, which the engine does not list now
        ),
        engines.stop_engine,
        after=engines.start_engine,
        on=("lab",),
        check=engines.sweeps_when_the_engine_is_back,
    ),
    Row(
        "dockerd SIGSTOPped on one host, then Ctrl-C",
        dataclasses.replace(
            stopped("interrupted with Ctrl-C", "still on h2: container"),
            remains={"h2": ("container", "files")},
            clean_s=30.0,  # a question to the engine that has no answer
        ),
        engines.freeze_engine_and_interrupt,
        after=engines.thaw_engine,
        on=("lab",),
        check=engines.sweeps_what_is_left,
    ),
    Row(
        "dockerd restarted with live-restore",
        DONE,
        engines.restart_engine,
        before=engines.keep_containers,
        after=engines.let_containers_go,
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
        "host shut down in order, ranks as processes",
        # it may still send what it has
        dataclasses.replace(
            lost("h2", 2), missing=None, says=("host h2 was lost with rank 2: the host is shutting down",)
        ),
        hosts.shut_down_second,
        job=LOST,
        containers=False,
        after=hosts.power_on,
        on=("lab",),
        check=hosts.is_swept_after_boot,
    ),
    Row(
        "head host powered off",
        # the shared directory stays until the head is back: its ranks may still write there
        dataclasses.replace(lost("h1", 0), remains={"h2": ("files",)}),
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
        before=engines.hide_image,
        after=engines.show_image,
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
        dataclasses.replace(failed(0, "h1", 1, "Read-only file system"), remains={"h1": ("files",)}),
        shared_directory_acts.share_read_only,
        victim=("--checkpoint", "newest.pt"),
        before=shared_directory_acts.share,
        after=shared_directory_acts.unmount,
        on=("here",),
        check=shared_directory_acts.says_what_stays_in_the_shared_directory,
    ),
    Row(
        "shared mount full",
        failed(0, "h1", 1, "No space left on device"),
        shared_directory_acts.share_full,
        victim=("--checkpoint", "newest.pt"),
        before=shared_directory_acts.share,
        after=shared_directory_acts.unmount,
        on=("here",),
    ),
    Row(
        "shared mount gone in the middle",
        dataclasses.replace(failed(0, "h1", 1, "No such file or directory"), missing=True),  # what was there is nowhere
        shared_directory_acts.share_gone,
        victim=("--checkpoint", "newest.pt"),
        before=shared_directory_acts.share,
        after=shared_directory_acts.unmount,
        on=("here",),
    ),
)

STATE = (
    Row(
        "state disk filled by ranks' logs, then Ctrl-C",
        stopped("interrupted with Ctrl-C", "cannot be written", "No space left on device"),
        controller_acts.interrupt_on_a_full_host,
        victim=("--steps", "2000", "--fault", "fill", "--at-rank", "1"),
        before=controller_acts.small_state_disk,
        after=shared_directory_acts.unmount,
        on=("here",),
        quick=True,
    ),
    Row(
        "quota of the ranks' logs used up, then Ctrl-C",
        stopped("interrupted with Ctrl-C", "cannot be written", "Disk quota exceeded"),
        controller_acts.interrupt_on_a_full_host,
        victim=("--steps", "2000", "--fault", "fill", "--at-rank", "1"),
        before=quota_acts.state_directory_with_a_quota,
        after=shared_directory_acts.unmount,
        on=("here",),
    ),
)
