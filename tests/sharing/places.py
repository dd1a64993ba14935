"""Every place that has to know each way of sharing by name, since it speaks a vendor's words."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpupools.plan.capability import Verdict
from gpupools.providers import clouds
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_SHARING
from gpupools.providers.gcp.pool_settings import SHARING_STRATEGIES
from gpupools.spec.models import SHARED_MODES, SHARING_KINDS

OWN_WORDS = {
    "gcp": (SHARING_STRATEGIES, "providers/gpupools/providers/gcp/pool_settings.py SHARING_STRATEGIES"),
    "aws": (BOTTLEROCKET_SHARING, "providers/gpupools/providers/aws/bootstrap.py BOTTLEROCKET_SHARING"),
}
"""How the node pools of a cloud call the ways in which they share a GPU themselves; AKS's share none."""


def lacking() -> list[str]:
    """Name every place that has no words for a way of sharing, each with what it lacks."""
    found = []
    for mode in SHARED_MODES:
        for name, (words, place) in OWN_WORDS.items():
            its_own = clouds()[name].capabilities.get(("cloud-managed", mode))
            if mode not in words and (its_own is None or its_own.verdict is Verdict.NATIVE):
                found.append(f"{place}: {mode}")
    for cloud in clouds().values():
        place = f"providers/gpupools/providers/{cloud.name}/capabilities.csv"
        found += [f"{place} default: {kind}" for kind in SHARING_KINDS if kind not in cloud.default_software]
        cells = {(software, kind) for software in cloud.software for kind in SHARING_KINDS}
        found += [f"{place}: {' '.join(cell)}" for cell in sorted(cells - set(cloud.capabilities))]
    return found


def read_back(preview: Mapping[str, Any]) -> dict[str, tuple[str, int | None]]:
    """Read how the pools of a preview share their GPUs from what it declares: cloud to kind and clients."""
    found = {}
    for resource in preview["resources"]:
        for cloud in clouds().values():
            template = cloud.readback().read_template(resource["type"], resource["inputs"])
            for pool in (*cloud.readback().read_pools(resource["type"], resource["inputs"]), template):
                if pool is not None and pool.sharing is not None:
                    found[cloud.name] = (pool.sharing.kind, pool.sharing.clients)
    return found


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")) if sys.argv[1:] else None
    json.dump(lacking() if read is None else read_back(read), sys.stdout)
