"""Measure the CPU time of rejecting a stack file of 300 clusters, compared with accepting one of 250.

250 clusters is the most that a stack file may have. Each wrong file is checked, with the lines of its problems, in turn
with the right one, so that a slow or busy machine changes both alike; the ratio is the median of the rounds' ratios.

    python benchmarks/refusal_cost.py [ROUNDS]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.stack_validation import MOST_CLUSTERS

CLUSTER = (
    "    {key}: {{cloud: aws, name: {key}, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d], "
    'node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}}\n'
)
POOL = "    p{number}: {{clusters: [{clusters}], gpu: A100-40GB, gpus_per_node: 8, nodes: {{max: 1}}}}\n"


def stack_file(clusters: int, pools: int = 0) -> str:
    """Write a stack file with one pool for each cluster, or with pools that are each on all clusters."""
    keys = [f"training-eu-{number:03}" for number in range(clusters)]
    named = [", ".join(keys)] * pools or keys
    return "".join(
        [
            "config:\n  gpupools:clusters:\n",
            *(CLUSTER.format(key=key) for key in keys),
            "  gpupools:pools:\n",
            *(POOL.format(number=number, clusters=pool) for number, pool in enumerate(named)),
        ]
    )


WRONG = {
    "too many clusters": ("", ""),
    "a region": ("eu-central-1", "eu-central"),
    "a key of clusters": ("region:", "regoin:"),
    "a GPU": ("A100-40GB", "A100-40BG"),
    "a number of GPUs": ("gpus_per_node: 8", "gpus_per_node: 5"),
    "a key of pools": ("gpus_per_node", "gpus_per_nod"),
    "names of clusters": ("[training", "[trainign"),
    "all names of clusters": (", training", ", trainign"),
}


def cpu_seconds(text: str, folder: Path) -> tuple[float, int]:
    """Return the CPU seconds of checking a stack file, and how many problems it has."""
    (file := folder / "Pulumi.dev.yaml").write_text(text, encoding="utf-8")
    before, problems = time.process_time(), 0
    try:
        check_stack_file(file, clouds())
    except Rejected as rejected:
        problems = len(locate(file, rejected))
    return time.process_time() - before, problems


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cpu_seconds(stack_file(2), folder)  # loads what is loaded once
        for pools in (0, 1, 10):
            right, wrong = stack_file(MOST_CLUSTERS, pools), stack_file(300, pools)
            print(f"{pools} pools on each cluster" if pools else "one pool for each cluster")
            for what, (old, new) in WRONG.items():
                took = [
                    (cpu_seconds(right, folder), cpu_seconds(wrong.replace(old, new), folder)) for _ in range(rounds)
                ]
                assert took[0][0][1] == 0
                ratio = statistics.median(rejected / accepted for (accepted, _), (rejected, _) in took)
                accepted, rejected = (statistics.median(each[side][0] for each in took) for side in (0, 1))
                count = took[0][1][1]
                print(f"  {what}: {rejected:.2f} s, accepted {accepted:.2f} s, ratio {ratio:.2f}; {count} problems")


if __name__ == "__main__":
    main()
