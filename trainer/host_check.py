"""Load of `ddp-play check` on one host: multiplications, the same again with equal bits, an all_reduce with others.

ddp-play sends this file alone to the hosts, where the ranks' Python runs it with an order as JSON. It prints a line of
JSON for each part that has ended, so that a part that hangs takes only itself. It needs torch and Python 3.9.
"""

import json
import os
import socket
import statistics
import sys
import time
from datetime import timedelta
from typing import Any

Order = dict[str, Any]

WARM_UP, LEAST_CALLS = 2, 3
MOST_ODD = 32
CALLS, CALLS_S = 20, 1.5  # of one size of messages, at most
SIZE_GPU = 8192
FIGURE = 1e9
# Of the repeated calculation: products of random matrices, one after the other, so that an error spreads.
REPEAT_SIZE, REPEAT_SIZE_GPU, REPEAT_STEPS, SEED = 192, 4096, 4, 20


def say(part: str, **found: Any) -> None:
    """Print what a part has found."""
    sys.stdout.write(json.dumps({"part": part, **found}) + "\n")
    sys.stdout.flush()


def multiply(torch: Any, device: Any, order: Order) -> Order:
    """Multiply square matrices for some seconds: GFLOP/s of a call, and the part of the time that it had the CPUs."""
    on_gpu = device.type == "cuda"
    size = SIZE_GPU if on_gpu else order["size"]
    one = torch.full((size, size), 0.5, dtype=torch.bfloat16 if on_gpu else torch.float32, device=device)
    out = torch.empty_like(one)

    def call() -> None:
        torch.mm(one, one, out=out)
        settle(torch, device)

    # one thread waits for no other one, so that its CPU time is that of the work
    alone = 0.0 if on_gpu else on_one_thread(torch, call, 2 * size**3, order["seconds"] / 3)
    for _ in range(WARM_UP):
        call()
    rates: list[float] = []
    began, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - began < order["seconds"] or len(rates) < LEAST_CALLS:
        start = time.monotonic()
        call()
        rates.append(2 * size**3 / (time.monotonic() - start) / FIGURE)
    passed, used = time.monotonic() - began, time.process_time() - cpu
    threads = 1 if on_gpu else torch.get_num_threads()
    return {
        "device": str(device), "name": torch.cuda.get_device_name(device) if on_gpu else "cpu", "size": size,
        "calls": len(rates), "gflops": statistics.median(rates), "least_gflops": min(rates), "most_gflops": max(rates),
        "gflops_per_cpu": alone, "cpu_share": used / passed / threads, "threads": threads,
        "right": bool((out == 0.25 * size).all()),
    }  # fmt: skip


def on_one_thread(torch: Any, call: Any, num_operations: int, seconds: float) -> float:
    """GFLOP/s of a second of CPU time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        speeds: list[float] = []
        began = time.monotonic()
        while time.monotonic() - began < seconds or len(speeds) < LEAST_CALLS:
            start = time.thread_time()
            call()
            speeds.append(num_operations / max(time.thread_time() - start, 1e-9) / FIGURE)
    finally:
        torch.set_num_threads(threads)
    return statistics.median(speeds)


def repeat(torch: Any, device: Any, order: Order) -> Order:
    """The same calculation again and again for some seconds; by digest of its bits, how often it came out.

    On CPUs one thread makes it on each in turn, from number `first` on: `odd` names those with another result.
    """
    on_gpu = device.type == "cuda"
    size = REPEAT_SIZE_GPU if on_gpu else REPEAT_SIZE
    kind = torch.bfloat16 if on_gpu else torch.float32
    # the numbers are those of this generator on the CPU, the same on every host
    one = torch.randn((size, size), generator=torch.Generator().manual_seed(SEED)).to(kind).to(device)
    weights = 2 * torch.arange(size * size, dtype=torch.int64) + 1
    cpus = [None] if on_gpu else sorted(os.sched_getaffinity(0))
    allowed, threads = os.sched_getaffinity(0), torch.get_num_threads()
    torch.set_num_threads(1)
    found: dict[str, dict[str, int]] = {}
    began, at = time.monotonic(), int(order.get("first", 0))
    try:
        while time.monotonic() - began < order["seconds"] or at - order.get("first", 0) < LEAST_CALLS:
            cpu = cpus[at % len(cpus)]
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})
            digest = digest_of(torch, product(torch, one), weights)
            where = found.setdefault(digest, {})
            where[str(cpu)] = where.get(str(cpu), 0) + 1
            at += 1
    finally:
        os.sched_setaffinity(0, allowed)
        torch.set_num_threads(threads)
    counts = {digest: sum(where.values()) for digest, where in found.items()}
    usual = max(counts, key=lambda digest: counts[digest])
    odd = sorted({cpu for digest, where in found.items() if digest != usual for cpu in where})
    return {
        "device": str(device), "kind": kind_of(torch, device), "calls": sum(counts.values()), "next": at,
        "digest": usual, "wrong": sum(counts.values()) - counts[usual], "odd": [] if on_gpu else odd[:MOST_ODD],
        "cpus": len({cpu for where in found.values() for cpu in where}),
    }  # fmt: skip


def product(torch: Any, one: Any) -> Any:
    """Matrix products, one of the other, scaled so that they neither grow nor vanish."""
    result = one
    for _ in range(REPEAT_STEPS):
        result = torch.mm(one, result)
        result = result / result.abs().max()
    return result


def digest_of(torch: Any, values: Any, weights: Any) -> str:
    """The bits of a matrix as one number: sums of integers are the same in any order."""
    bits = values.float().cpu().contiguous().view(torch.int32).to(torch.int64).flatten()
    return format(int((bits * weights).sum()) & (1 << 64) - 1, "016x")


def kind_of(torch: Any, device: Any) -> str:
    """What must have the same bits: model of the processor or GPU, instructions that torch uses, and torch."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - one line of it
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "cpu")
    return f"{model}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def settle(torch: Any, device: Any) -> None:
    """Wait until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reduce_together(torch: Any, device: Any, order: Order) -> list[Order]:
    """all_reduce of each size with the other hosts: median seconds, bus bandwidth, and number of wrong values."""
    import torch.distributed as dist  # noqa: PLC0415 - some builds of torch have none

    interface = order.get("interface") or ""
    if interface:
        os.environ.update(GLOO_SOCKET_IFNAME=interface, NCCL_SOCKET_IFNAME="=" + interface)
    limit = timedelta(seconds=order["timeout_s"])
    backend = "nccl" if device.type == "cuda" else "gloo"
    url = "tcp://{}:{}".format(order["address"], order["port"])
    dist.init_process_group(backend, init_method=url, rank=order["rank"], world_size=order["world"], timeout=limit)
    try:
        return [reduced(torch, dist, device, num_bytes, order) for num_bytes in order["sizes"]]
    finally:
        dist.destroy_process_group()


def reduced(torch: Any, dist: Any, device: Any, num_bytes: int, order: Order) -> Order:
    """One size. All ranks make the same number of calls."""
    world = order["world"]
    data = torch.full((max(1, num_bytes // 4),), float(order["rank"] + 1), device=device)
    dist.all_reduce(data)
    settle(torch, device)
    wrong = int((data != world * (world + 1) / 2).sum())
    took: list[float] = []
    calls = CALLS
    while len(took) < calls:
        start = time.monotonic()
        dist.all_reduce(data)
        settle(torch, device)
        took.append(time.monotonic() - start)
        if len(took) == LEAST_CALLS:
            slowest = torch.tensor([max(took)], device=device)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            calls = max(LEAST_CALLS, min(CALLS, int(CALLS_S / max(float(slowest), 1e-6))))
    median = torch.tensor([statistics.median(took)], device=device)
    dist.all_reduce(median, op=dist.ReduceOp.MAX)
    seconds = float(median)
    return {"bytes": num_bytes, "calls": len(took), "seconds": seconds, "wrong": wrong,
            "busbw_gb_s": num_bytes / seconds * 2 * (world - 1) / world / FIGURE}  # fmt: skip


def main(order: Order) -> None:
    """Do what is ordered. An exception of torch is what a part has found."""
    began = time.monotonic()
    import torch  # noqa: PLC0415 - so that its time is known

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    gpus = [torch.device("cuda", at) for at in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    device = gpus[0] if gpus else torch.device("cpu")
    say("start", torch=torch.__version__, device=device.type, host=socket.gethostname(),
        seconds=time.monotonic() - began)  # fmt: skip
    if "multiply" in order:
        for one in gpus or [device]:
            attempt("multiply", lambda one=one: multiply(torch, one, order["multiply"]))
    if "repeat" in order:
        for one in gpus or [device]:
            attempt("repeat", lambda one=one: repeat(torch, one, order["repeat"]))
    if "group" in order:
        attempt("group", lambda: {"backend": "nccl" if gpus else "gloo",
                                  "sizes": reduce_together(torch, device, order["group"])})  # fmt: skip


def attempt(part: str, work: Any) -> None:
    """Say what a part has found, or the first line of why it has not."""
    try:
        say(part, **work())
    except Exception as error:  # noqa: BLE001 - whatever torch raises is the result
        lines = str(error).strip().splitlines() or [type(error).__name__]
        say(part, problem=lines[0][:300])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
