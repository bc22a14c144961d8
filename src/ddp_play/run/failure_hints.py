"""Hint of a verdict: remedy, by how the first rank ended and by its last output. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddp_play.guard.rank_failure import final_error, is_collateral, is_oom, last_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddp_play.bundle.outcome import RankOutcome

SIGBUS, SIGABRT, SIGKILL, SIGSEGV = 7, 6, 9, 11
STORAGE = ("No space left on device", "Read-only file system", "Stale file handle", "Disk quota exceeded")
PORT_TAKEN = "another program took the rendezvous port: run again, or move ddp_job_port_range"
SHARED_MEMORY = "shared memory is full: set or raise ddp_job_shm_size, or enlarge /dev/shm on the host"
GPU_MEMORY = "the memory of its GPU is full: lower the batch size, or see who else uses the GPU with nvidia-smi"
# std::terminate without an exception, while Python has no frame any more: a thread of torch outlived the interpreter.
TEARDOWN = "terminate called without an active exception"
TEARDOWN_HINT = (
    "Python was ending while a thread of torch still needed it, and torch aborted the program: exit code 134 (SIGABRT) "
    "or 139 took the place of its own; before every exit call torch.distributed.destroy_process_group(), then "
    "time.sleep(0.2)"
)
# What an error of CUDA does not say, because the kernel that made it ran later than the line that started it.
BLOCKING = "CUDA_LAUNCH_BLOCKING=1 in ddp_job_env makes the traceback end at the operation that did it"
# Text in the last output -> remedy; the first match counts.
REMEDIES = (
    (
        r"can't open file '.+': \[Errno 2\]",
        "the script is not where the rank runs: correct ddp_job_command; ddp_job_source has to hold the script, and "
        "ddp_job_source_exclude must not leave it out",
    ),
    (r"No module named 'torch'", "the rank's Python has no torch: set ddp_python to one that has, or use an image"),
    (
        r"Unable to JIT load the deepspeed_\w+ op|Error building extension 'deepspeed_\w+'",
        "DeepSpeed compiles an operation when a rank starts, and the host has no ninja, C++ compiler or headers: "
        "compile it when DeepSpeed is installed, for CPUs with DS_BUILD_SHM_COMM=1 (docs/how-to/deepspeed.md)",
    ),
    (r"server socket has failed to (listen|bind)|c10d.*address already in use", PORT_TAKEN),
    (
        r"apparmor_parser",
        "package apparmor is missing on the host: ddp-play provision -i INVENTORY --tags docker_engine",
    ),
    (
        r"(?m)^FATAL: +\"[^\"]+\": executable file not found",
        "the command is not in the image: check ddp_job_command; Python may have the name python3 there",
    ),
    (r"CUDA out of memory", GPU_MEMORY),
    (
        r"out of shared memory|insufficient shared memory|/dev/shm/.*No space left|No space left.*/dev/shm/",
        SHARED_MEMORY,
    ),
    (
        r"Duplicate GPU detected",
        "two ranks use the same GPU, and NCCL allows one rank per GPU: ddp_job_ranks_per_host: auto, "
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) in the program, no CUDA_VISIBLE_DEVICES of the job's own",
    ),
    (
        r"device-side assert triggered",
        f"a check inside a GPU operation failed, in most cases an index or a label out of range: {BLOCKING}",
    ),
    (r"illegal memory access", f"an operation of the program used memory that is not its own: {BLOCKING}"),
    (r"uncorrectable ECC error", "a GPU of the host has broken memory: drain the host and check it with nvidia-smi -q"),
    *((words, f"{words}: look at the disk or the shared directory that the rank writes to") for words in STORAGE),
)
NOT_EXECUTABLE = "chmod +x {} in ddp_job_source, or start it with its interpreter (ddp_job_command: [sh, {}])"
# Pattern in the detail of a process that could not be started (`guard/start_problem.py`) -> remedy.
START_REMEDIES = (
    (r"the working directory (\S+) does not exist", "correct ddp_job_workdir, or make {} on every host"),
    (r"cannot start: (\S+) is not executable", NOT_EXECUTABLE.replace("{}", "{0}")),
    (r"cannot start: (\S+) needs .* which does not exist: the line ends", "in ddp_job_source: sed -i 's/\\r$//' {}"),
    (r"cannot start: (\S+) needs ", "correct the first line (#!) of {}, or start it with its interpreter"),
)
OLD_PORT_ERROR = re.compile(r"^RuntimeError: Address already in use")


def hint(row: RankOutcome, tail: str, silent: Iterable[RankOutcome]) -> str:
    """The remedy. `silent`: stopped ranks without an error of their own, if every failed rank lost a peer."""
    if row.oom or is_oom(list(row.kernel)):
        return "it ran out of memory: lower the batch size, or raise its limit (of a container: ddp_job_memory)"
    if row.signal == SIGKILL and not row.stopped:
        return "it was killed from outside" + (f"; {row.kernel_problem}" if row.kernel_problem else "")
    if is_teardown_abort(row, tail):
        return TEARDOWN_HINT
    if not row.stopped and is_collateral(tail):
        return _of_lost_peers(tuple(silent))
    return _remedy(tail) or _by_exit_code(row)


def _by_exit_code(row: RankOutcome) -> str:
    for pattern, remedy in START_REMEDIES:
        if found := re.search(pattern, row.detail):
            return remedy.format(*found.groups())
    if row.exit_code == 126:
        return NOT_EXECUTABLE.replace("{}", "FILE")
    if row.exit_code == 127:
        return "the command was not found where the rank runs: check ddp_job_command, the image, or ddp_python"
    if row.signal == SIGBUS:
        return (
            f"a memory-mapped file could not grow, because its file system is full (bus error); often {SHARED_MEMORY}"
        )
    return ""


def is_teardown_abort(row: RankOutcome, tail: str) -> bool:
    """Did torch abort the process when Python was already gone? A C++ abort in the middle of a program shows frames.

    The dump of the stacks that Python makes then may itself end in SIGSEGV.
    """
    if not {row.signal, (row.exit_code or 0) - 128} & {SIGABRT, SIGSEGV}:
        return False
    _, found, dump = tail.rpartition(TEARDOWN)
    return bool(found) and not re.search(r'^\s*File ".+", line \d+ in ', dump, re.MULTILINE)


def _of_lost_peers(silent: tuple[RankOutcome, ...]) -> str:
    """No rank has an error of its own: which logs to read."""
    if not silent:
        return "every failed rank lost a peer and none shows an error of its own: read the ends of all logs"
    ranks = ", ".join(f"{row.rank} on {row.host}" for row in silent[:4]) + (", ..." if len(silent) > 4 else "")
    return (
        "every failed rank lost a peer and none shows an error of its own; still running when stopped: rank "
        f"{ranks}; read its log: ddp-play logs RUN --rank {silent[0].rank}"
    )


def _remedy(tail: str) -> str:
    texts = last_texts(tail)
    error = final_error(tail)
    if error is not None:
        texts += "\n" + "\n".join(error.text)
        in_torch = bool(error.frames) and "/torch/distributed/" in error.frames[-1]["file"]
        if in_torch and OLD_PORT_ERROR.match(error.first_line):
            return PORT_TAKEN
    return next((remedy for pattern, remedy in REMEDIES if re.search(pattern, texts)), "")
