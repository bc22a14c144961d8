"""Environment variables DDP_PLAY_* that pass values from the command through ansible-playbook to action plugins."""

from __future__ import annotations

RUN_DIR_ENV = "DDP_PLAY_RUN_DIR"
FACTS_ENV = "DDP_PLAY_FACTS"
USE_CACHED_ENV = "DDP_PLAY_CACHED"
WAIT_ENV = "DDP_PLAY_WAIT"
# Only the job is wanted: the run directory gets job.json, and no host is asked.
DESCRIBE_ENV = "DDP_PLAY_DESCRIBE"
# Engine of the allocation that this controller runs in; unset outside of one.
ENGINE_ENV = "DDP_PLAY_ENGINE"
ANSWER_ENV = "DDP_PLAY_ANSWER_S"
# Tag of the role's task; with this tag requested, it ends after the plan.
PLAN_TAG = "ddp_job_plan"
SWEEP_VERB_ENV = "DDP_PLAY_SWEEP_VERB"
ACTIVITY_ENV = "DDP_PLAY_ACTIVITY"
CHECK_SCOPE_ENV = "DDP_PLAY_CHECK_SCOPE"
SWEEP_ORDERS_ENV = "DDP_PLAY_SWEEP_ORDERS"
MARK_ORDERS_ENV = "DDP_PLAY_MARK_ORDERS"
