"""A job as one sbatch script that runs without ddp-play and keeps the first failing rank's exit code. Pure."""

from __future__ import annotations

import math
import re
import shlex
from typing import TYPE_CHECKING

from ddp_play.engines.slurm_container import NOT_MADE, gpu_lines, home_lines, step_options
from ddp_play.engines.slurm_limits import HOSTS_HINT
from ddp_play.engines.slurm_losses import loss_table, losses
from ddp_play.engines.slurm_script import time_limit
from ddp_play.errors import UsageError
from ddp_play.planning.apptainer_exec import mount_word
from ddp_play.planning.apptainer_images import for_apptainer, is_pulled

if TYPE_CHECKING:
    from ddp_play.planning.job import Job

# An image that is pulled once, into the directory that all nodes share.
PULLED = '"$RESULTS/image.sif"'
_PLACEHOLDER = re.compile(r"{([a-z_]+)}")
# Placeholders of a command, as the script's variables.
SHELL_NAMES = {
    "rank": "RANK",
    "local_rank": "LOCAL_RANK",
    "world_size": "WORLD_SIZE",
    "local_world_size": "LOCAL_WORLD_SIZE",
    "init_method": "INIT_METHOD",
    "backend": "BACKEND",
    "head_addr": "MASTER_ADDR",
    "head_port": "MASTER_PORT",
    "run_id": "RUN_ID",
    "python": "PYTHON",
}
SETUP = """\
set -u
{chdir}
export RUN_ID=slurm-$SLURM_JOB_ID PYTHON=${{PYTHON:-python}}
export RESULTS=$PWD/ddp-play-$RUN_ID   # rank-N.log, and failed-N of each rank that failed: time, rank, code
mkdir -p "$RESULTS" && [ -O "$RESULTS" ] && [ ! -L "$RESULTS" ] || {{
  echo "$RESULTS cannot be made, or is somebody else's" >&2
  exit 69
}}
rm -f "$RESULTS"/failed-*              # of the same job before it was requeued

# --- ranks and where they meet ---
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export RANKS_PER_NODE={ranks}
export WORLD_SIZE=$((${{#nodes[@]}} * RANKS_PER_NODE)) LOCAL_WORLD_SIZE=$RANKS_PER_NODE
export MASTER_ADDR=${{nodes[0]}} MASTER_PORT=$(({first_port} + SLURM_JOB_ID % {num_ports}))
export BACKEND={backend}
export INIT_METHOD={init_method}
export PYTHONUNBUFFERED=1
"""
NODE_BEGIN = """\
# --- one of these per node starts the node's ranks and ends them when one fails ---
cat > "$RESULTS/node.sh" <<'NODE'
set -u -m
ranks=()
for ((local = 0; local < RANKS_PER_NODE; local++)); do
  export LOCAL_RANK=$local RANK=$((SLURM_NODEID * RANKS_PER_NODE + local))
  (
    trap : TERM INT USR1 USR2   # the command gets them, and its exit code is still recorded
"""
NODE_END = """\
    code=$?
    trap '' TERM INT USR1 USR2   # date would be ended by them, and the record would lack its time
    [ $code = 0 ] || echo "$(date +%s.%N) $RANK $code $SLURMD_NODENAME" > "$RESULTS/failed-$RANK"
    exit $code
  ) > "$RESULTS/rank-$RANK.log" 2>&1 < /dev/null &
  ranks+=($!)
done
tell() { for pid in "${ranks[@]}"; do kill "-$1" -- "-$pid" 2> /dev/null; done; }
for signal in TERM INT USR1 USR2; do trap "tell $signal" $signal; done
alive() { for pid in "${ranks[@]}"; do kill -0 "$pid" 2> /dev/null && return; done; return 1; }
kill_at=
while alive; do
  if [ -n "$kill_at" ]; then
    ((SECONDS < kill_at)) || tell KILL
  elif ls "$RESULTS"/failed-* > /dev/null 2>&1; then   # a rank of any node: all nodes see this directory
    sleep 1   # the rank that failed first may be recorded a moment after one that lost its connection to it
    tell TERM
    kill_at=$((SECONDS + @GRACE@))
  fi
  sleep 0.2
done
worst=0
for pid in "${ranks[@]}"; do wait "$pid" || worst=$?; done
exit $worst
NODE
"""
END = """\

each=(srun --ntasks-per-node=1 --mpi=none)
# Ranks place themselves. A cluster that binds nothing complains about the option.
scontrol show config | grep -Eq '^TaskPlugin .*(affinity|cgroup)' && each+=(--cpu-bind=none)
"${each[@]}" sh -c 'test -r "$0" || exit 66' "$RESULTS/node.sh"
case $? in
  0) ;;
  66)
    echo "not every node has $RESULTS: the working directory has to be on a directory that all nodes share" >&2
    exit 69
    ;;
  *)
    echo "srun could not start on all of ${nodes[*]}: its words above say where and why; sinfo -R" >&2
    exit 69
    ;;
esac
"${each[@]}" --kill-on-bad-exit=1 @CONTAINER@bash "$RESULTS/node.sh"
code=$?
@NOT_MADE@
# --- the first failing rank's own code: srun has the highest of all nodes ---
first=$(sort -n "$RESULTS"/failed-* 2> /dev/null | head -n 1)
if [ -n "$first" ]; then
  read -r _ rank code node <<< "$first"
  echo "rank $rank on $node failed first: exit code $code; last lines of $RESULTS/rank-$rank.log:"
  tail -n 20 "$RESULTS/rank-$rank.log"
fi
"""


def export_script(job: Job, playbook: str) -> str:
    """The script. UsageError for a job that cannot be said in one."""
    _refuse(job)
    lines = [
        "#!/bin/bash",
        f"# Exported from {playbook} by ddp-play; runs without it: sbatch THIS-FILE",
        *(f"#SBATCH {option}" for option in _options(job)),
        "",
        SETUP.format(**_setup(job)).rstrip(),
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(job.env.items()) if value is not None),
        *_pull(job),
        *gpu_lines(job),
        "",
        NODE_BEGIN + "".join(f"    {line}\n" for line in _started(job)).rstrip("\n"),
        NODE_END.replace("@GRACE@", f"{max(1, math.ceil(job.failure_grace))}").rstrip(),
        _end(job).rstrip(),
        "",
        *loss_table(losses(job)),
        "exit $code",
    ]
    return "\n".join(lines) + "\n"


def _end(job: Job) -> str:
    """The steps on the nodes, and what came of them."""
    not_made = NOT_MADE if job.chosen_runtime == "pyxis" else ""
    return END.replace("@CONTAINER@", step_options(job)).replace("@NOT_MADE@", not_made)


def _started(job: Job) -> list[str]:
    """Lines that start a rank: its command, or Apptainer with it. An image has its own Python and the host's paths."""
    if job.chosen_runtime == "pyxis":
        command = shell_command(job.command, python="python")
        return [*home_lines(job), command]
    if job.chosen_runtime != "apptainer":
        return [shell_command(job.command)]
    words = ["apptainer", "--quiet", "exec", "--no-eval", '--home "$RESULTS/home-$RANK"']
    words += ["${SLURM_GPUS_ON_NODE:+--nv}"] if job.gpus == "auto" else []
    words.append('--mount "type=bind,source=$PWD,destination=$PWD"')
    for mount in job.mounts:
        words.append(f"--mount {shlex.quote(mount_word(mount.source, mount.target, read_only=mount.read_only))}")
    words.append(f"--pwd {shlex.quote(job.workdir)}" if job.workdir else '--pwd "$PWD"')
    words.append(PULLED if is_pulled(job.image) else shlex.quote(job.image))
    return ['mkdir -p "$RESULTS/home-$RANK"', f"{' '.join(words)} {shell_command(job.command, python='python')}"]


def _pull(job: Job) -> list[str]:
    """Lines that pull an image once for all nodes."""
    if job.chosen_runtime != "apptainer" or not is_pulled(job.image):
        return []
    return [f"apptainer --quiet pull --force {PULLED} {shlex.quote(job.image)} || exit 69"]


def shell_command(command: tuple[str, ...], *, python: str = '"$PYTHON"') -> str:
    """The command for a shell: everything quoted, placeholders as variables. `python`: for the word of this name."""
    return " ".join(python if word == "python" else _shell_word(word, python) for word in command)


def _shell_word(word: str, python: str) -> str:
    """`--rank={rank}` -> `--rank="$RANK"`. Other braces stay."""
    parts, end = [], 0
    for match in _PLACEHOLDER.finditer(word):
        if match[1] in SHELL_NAMES:
            literal = word[end : match.start()]
            value = python if match[1] == "python" else f'"${SHELL_NAMES[match[1]]}"'
            parts += [shlex.quote(literal) if literal else "", value]
            end = match.end()
    rest = word[end:]
    return "".join([*parts, shlex.quote(rest) if rest or not parts else ""])


def _options(job: Job) -> list[str]:
    low, high = job.hosts
    options = [
        f"--job-name={shlex.quote(job.name or 'ddp-play')}",
        f"--nodes={low}" if low == high else f"--nodes={low}-{high}",
        "--ntasks-per-node=1",
        "--exclusive",
        "--output=slurm-%j.out",
        "--open-mode=append",
        "--no-requeue",
    ]
    if limit := time_limit(job):
        options.append(f"--time={limit}")
    if job.warn_before:
        options.append(f"--signal={job.warn_signal}@{math.ceil(job.warn_before)}")
    return [*options, *(f"--{name}={value}" for name, value in job.slurm.options().items())]


def _setup(job: Job) -> dict[str, str]:
    first, last = job.port_range
    ranks = str(job.ranks_per_host)
    if job.ranks_per_host == "auto":
        ranks = "${SLURM_GPUS_ON_NODE:-1}" if job.gpus == "auto" else "1"
    backend = job.backend
    if backend == "auto":
        backend = '$([ -n "${SLURM_GPUS_ON_NODE:-}" ] && echo nccl || echo gloo)' if job.gpus == "auto" else "gloo"
    methods = {"env": "env://", "tcp": "tcp://$MASTER_ADDR:$MASTER_PORT", "file": "file://$RESULTS/rendezvous"}
    # of a job with an image, ddp_job_workdir is a directory in it
    workdir = job.source if job.in_image else job.workdir or job.source
    return {
        "chdir": f"cd {shlex.quote(workdir)} || exit 69" if workdir else 'cd "$SLURM_SUBMIT_DIR" || exit 69',
        "ranks": ranks,
        "first_port": str(first),
        "num_ports": str(last - first + 1),
        "backend": backend,
        "init_method": methods[job.init_method],
    }


def _refuse(job: Job) -> None:
    """UsageError for what the script would do in another way than the job says."""
    image = for_apptainer(job.image)
    reasons = {
        f"its image is Docker's; ddp_job_image: {image} is Apptainer's": job.chosen_runtime == "docker",
        "its launcher is torchrun: only ddp_job_launcher: ranks is exported": job.launcher != "ranks",
        "its backend is mpi: which PMI its ranks would find is the cluster's": job.backend == "mpi",
        "its init method is a Store of ddp-play's own": job.init_method == "store",
        "it restarts: a script that restarts ranks in an allocation is ddp-play run --on slurm": bool(job.restarts),
        "ddp_job_hosts is not set, or has no upper end": not all(job.hosts),
    }
    if found := [reason for reason, holds in reasons.items() if holds]:
        hint = "ddp-play run PLAYBOOK --on slurm" if all(job.hosts) else HOSTS_HINT
        raise UsageError(f"the job cannot be exported: {'; '.join(found)}", hint=hint)
