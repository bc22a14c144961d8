"""What an exported script does not do, or does in another way than ddp-play, as a table for its reader. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_play.planning.job import Job


@dataclass(frozen=True, slots=True)
class Loss:
    """One row: what the job says, what ddp-play does with it, and what the script does."""

    what: str
    there: str
    here: str


ALWAYS = (
    Loss("why it failed", "the cause, apart from ranks that lost a peer", "the rank whose end was recorded first"),
    Loss(
        "network", "measured; NCCL_ and GLOO_SOCKET_IFNAME per node", "what NCCL and gloo choose; MASTER_ADDR is a name"
    ),
    Loss("port", "leased on the first node, another if taken", "from the job's id; not tried"),
    Loss("before the start", "hosts, network and versions are checked", "nothing is checked"),
    Loss("a lost node", "named after ddp_job_host_timeout", "ended by Slurm after SlurmdTimeout"),
    Loss("results, artifacts", "collected into a bundle", "stay where the ranks write them"),
    Loss("secrets", "ddp_job_secrets, and those in ddp_job_env", "not here: export them before sbatch"),
    Loss("DDP_PLAY_ variables", "result, metrics, attempt, timeout", "not set"),
    Loss("CPU binding", "to the NUMA node of a rank's GPU", "none"),
)


def losses(job: Job) -> list[Loss]:
    """The rows that hold for this job."""
    bare = ", ".join(sorted(name for name, value in job.env.items() if value is None))
    apptainer, pyxis = (job.chosen_runtime == name for name in ("apptainer", "pyxis"))
    rows = (
        (pyxis, Loss("container", "made before any rank starts", "made as they start; srun's output says why not")),
        (apptainer, Loss("image", "tried on each node before the start", "not tried")),
        (apptainer, Loss("variables", "those of the job", "those of the job, but for those that the image sets")),
        (apptainer, Loss("signals", "once to each rank", "twice: from the script and from Apptainer")),
        (job.source, Loss("source", "a snapshot of it when the run starts", f"{job.source} as it is while ranks run")),
        (job.max_duration, Loss("time limit", "ddp_job_max_duration, exact", "Slurm's, in minutes, two later")),
        (job.warn_before, Loss("warning", "ddp_job_warn_before, exact", "Slurm's, up to 60 s early")),
        (job.idle_timeout, Loss("a hang", "ends after ddp_job_idle_timeout, with stacks", "until the time limit")),
        (
            job.command[:1] == ("python",) and not job.in_image,
            Loss("python", "ddp_python of the host", "$PYTHON, if it is set at sbatch; else python in its PATH"),
        ),
        (bare, Loss("your environment", bare, "exported by sbatch, if it is set there")),
        (
            job.ranks_per_host == "auto",
            Loss("ranks per node", "each host's GPUs or slots", "the first node's GPUs on all nodes, else 1"),
        ),
        (job.hosts[0] != job.hosts[1], Loss("fewer nodes", "hosts with a problem are left out", "what Slurm grants")),
    )
    return [*ALWAYS, *(loss for holds, loss in rows if holds)]


def loss_table(rows: list[Loss]) -> list[str]:
    """The rows as comments of a script."""
    head = Loss("what", "ddp-play run", "this script")
    widths = [max(len(getattr(row, name)) for row in (head, *rows)) for name in ("what", "there")]
    return [
        "# --- what ddp-play does and this script does not ---",
        *(f"# {row.what:<{widths[0]}}  {row.there:<{widths[1]}}  {row.here}".rstrip() for row in (head, *rows)),
    ]
