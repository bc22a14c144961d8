"""Text file for the textfile collector of Prometheus' node_exporter, with the newest numbers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.metric_values import Values, host_values, rank_values, ranks_with_metrics
from ddp_play.bundle.outcome import RunStatus
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.run_lookup import Run

# Name in a sample -> name and help of the metric, and labels of what is between the slashes.
OF_HOST = {
    "cpu": ("host_cpu_cores", "Cores that are busy on a host of the run."),
    "memory": ("host_memory_bytes", "Memory in use on a host of the run."),
}
OF_RANK = {
    "cpu": ("rank_cpu_cores", "Cores that a rank uses."),
    "memory": ("rank_memory_bytes", "Resident memory of a rank's processes."),
}
OF_GPU = {
    "utilization": ("gpu_utilization_percent", "Utilization of a GPU."),
    "memory": ("gpu_memory_bytes", "Memory in use on a GPU."),
    "power": ("gpu_power_watts", "Power of a GPU."),
    "temperature": ("gpu_temperature_celsius", "Temperature of a GPU."),
    "sm_clock": ("gpu_sm_clock_mhz", "Clock of a GPU's multiprocessors."),
}
TRAFFIC = ("host_bytes_per_second", "Traffic of an interface, an RDMA port or the disks.")


def write_prometheus(run: Run, path: Path) -> None:
    """Write the newest numbers, in place of an earlier file. UsageError without the package prometheus-client."""
    try:
        import prometheus_client  # noqa: PLC0415 - only this export needs it
    except ImportError:
        hint = "pip install 'ddp-play[prometheus]' in the environment of ddp-play"
        raise UsageError("the text file needs the package prometheus-client", hint=hint) from None
    registry = prometheus_client.CollectorRegistry()
    gauges = Gauges(prometheus_client.Gauge, registry, run.paths.run_id)
    for status in RunStatus:
        gauges.set(("run_status", "1 for the status of the run."), float(run.status is status), status=str(status))
    _set_hosts(gauges, run.paths)
    _set_ranks(gauges, run.paths)
    prometheus_client.write_to_textfile(str(path), registry)


class Gauges:
    """Gauges of a registry, made when they are first set; each has the label `run`."""

    def __init__(self, kind: Any, registry: Any, run: str) -> None:
        self._kind, self._registry, self._run = kind, registry, run
        self._made: dict[str, Any] = {}

    def set(self, named: tuple[str, str], value: float, **labels: str) -> None:
        """Set the gauge with this name and help for these labels."""
        name, text = named
        if name not in self._made:
            self._made[name] = self._kind(f"ddp_play_{name}", text, ["run", *labels], registry=self._registry)
        self._made[name].labels(run=self._run, **labels).set(value)


def _set_hosts(gauges: Gauges, paths: RunPaths) -> None:
    for host in paths.sampled_hosts:
        if newest := _last(host_values(paths, host)):
            gauges.set(("host_sample_time_seconds", "Time of the newest sample of a host."), newest.time, host=host)
            for name, value in newest.numbers.items():
                _set_sample(gauges, host, name.split("/"), value)


def _set_ranks(gauges: Gauges, paths: RunPaths) -> None:
    for rank in ranks_with_metrics(paths):
        newest: dict[str, float] = {}
        for row in rank_values(paths, rank):  # not each row has all numbers
            newest |= row.numbers
        for name, value in newest.items():
            gauges.set(("rank_metric", "Newest number that a rank reported."), value, rank=str(rank), name=name)


def _set_sample(gauges: Gauges, host: str, parts: list[str], value: float) -> None:
    kind, field = parts[0], parts[-1]
    device = "/".join(parts[1:-1])
    if len(parts) == 1 and kind in OF_HOST:
        gauges.set(OF_HOST[kind], value, host=host)
    elif kind == "ranks" and field in OF_RANK:
        gauges.set(OF_RANK[field], value, host=host, rank=device)
    elif kind == "gpus" and field in OF_GPU:
        gauges.set(OF_GPU[field], value, host=host, gpu=device)
    elif kind in ("nics", "rdma", "disk"):
        gauges.set(TRAFFIC, value, host=host, kind=kind, device=device, direction=field)


def _last(values: Iterable[Values]) -> Values | None:
    newest = None
    for newest in values:  # noqa: B007 - the last one is wanted
        pass
    return newest
