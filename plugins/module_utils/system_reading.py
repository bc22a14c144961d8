"""Operating system and service manager of a host, as ansible.builtin.setup names them, without its other collectors."""

from __future__ import annotations

from typing import Any, Dict

from ansible.module_utils.facts.ansible_collector import get_ansible_collector
from ansible.module_utils.facts.namespace import PrefixFactNamespace
from ansible.module_utils.facts.system.distribution import DistributionFactCollector
from ansible.module_utils.facts.system.platform import PlatformFactCollector
from ansible.module_utils.facts.system.service_mgr import ServiceMgrFactCollector

COLLECTORS = [PlatformFactCollector, DistributionFactCollector, ServiceMgrFactCollector]
SUBSET = ["!all", "!min", "distribution", "platform", "service_mgr"]  # tasks/facts.yml of each role


def gather(module: Any) -> Dict[str, Any]:
    """The facts of this subset by their full names, such as ansible_distribution."""
    collector = get_ansible_collector(
        all_collector_classes=COLLECTORS,
        namespace=PrefixFactNamespace(namespace_name="ansible", prefix="ansible_"),
        gather_subset=SUBSET,
        minimal_gather_subset=frozenset(),
    )
    return dict(collector.collect(module=module))
