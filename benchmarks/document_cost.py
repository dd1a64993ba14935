"""Measure the CPU time of `gpupools policy` for a file, compared with `json.loads` of the same file.

Terraform plans of 1,000 and of 100,000 resources, a tenth of them EKS node groups with GPUs and taints, are judged in
turn with a `json.loads` of the same text. The ratio is the median of the rounds' ratios, with the least and the
greatest; it says how much dearer judging is than reading, whatever the machine. Beyond 10,000 node pools the rest is
counted, so the third line has all of them in one file that is refused for that. The fourth is of mixed resources: a
hundred thousand of 20,000 types that nobody knows, objects and scripts among them. With `big`, the files of fifty
megabytes of `tests/security/big_files.py` follow, each full of one sort of thing, in turn with a `json.loads` of fifty
megabytes.

    python benchmarks/document_cost.py [ROUNDS] [big]
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpupools.audit.judging import FileReport, judge_file
from gpupools.policies.policy_config import Config

EVERY = 10
SIZES = (1_000, 100_000)


def planned(number: int, every: int) -> dict[str, Any]:
    """Plan one resource: a node group, or a bucket."""
    kind, values = "aws_s3_bucket", {"bucket": f"data-{number}", "force_destroy": False, "tags": {"owner": "ml"}}
    if number % every == 0:
        kind = "aws_eks_node_group"
        values = {
            "cluster_name": "train",
            "instance_types": ["g5.xlarge"],
            "ami_type": "AL2023_x86_64_NVIDIA",
            "scaling_config": [{"desired_size": 0, "max_size": 4, "min_size": 0}],
            "taint": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
            "tags": {"owner": "ml"},
        }
    return {
        "address": f"{kind}.r{number}",
        "mode": "managed",
        "type": kind,
        "name": f"r{number}",
        "change": {"actions": ["create"], "before": None, "after": values, "after_unknown": {}},
    }


def plan(count: int, every: int) -> str:
    """Write a plan of that many resources, each `every` of which is a node group."""
    changes = [planned(number, every) for number in range(count)]
    return json.dumps({"format_version": "1.2", "complete": True, "resource_changes": changes})


def mixed(count: int) -> str:
    """Write a plan of many types, with machines, policies and scripts."""
    script = "#!/bin/sh\nset -e\nkubectl get nodes\naws s3 cp a b\nterraform plan\n"
    values: list[tuple[str, dict[str, Any]]] = [
        ("aws_thing_{}", {"name": "a b c", "size": "m5.large", "list": ["x.y", "z"] * 4}),
        ("other{}_thing", {"name": "a b c", "size": "m5.large", "tags": {"owner": "ml and others"}}),
        ("aws_s3_object", {"bucket": "data", "content": script * 3}),
        ("kubernetes_job_v1", {"spec": [{"template": [{"spec": [{"container": [{"args": ["-c", script]}]}]}]}]}),
        ("aws_iam_policy", {"policy": json.dumps({"Action": ["ec2:Describe*"] * 9, "Resource": "*"})}),
    ]
    changes = []
    for number in range(count):
        kind, after = values[number % len(values)]
        made = planned(number, count + 1)
        type_ = kind.format(number % 20_000)
        change = {**made["change"], "after": after}
        changes.append({**made, "type": type_, "address": f"{type_}.r{number}", "change": change})
    return json.dumps({"format_version": "1.2", "complete": True, "resource_changes": changes})


def spent(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a piece of work."""
    before = time.process_time()
    work()
    return time.process_time() - before


def measured(file: Path, rounds: int) -> tuple[FileReport, list[float], list[float]]:
    """Return the verdict, and the seconds of judging and of reading in each round."""
    text = file.read_text(encoding="utf-8")
    judged = judge_file(file, Config())
    pairs = [(spent(lambda: judge_file(file, Config())), spent(lambda: json.loads(text))) for _ in range(rounds)]
    return judged, [ours for ours, _ in pairs], [theirs for _, theirs in pairs]


def main() -> None:
    """Print one line for each size."""
    rounds = next((int(each) for each in sys.argv[1:] if each.isdigit()), 3)
    with tempfile.TemporaryDirectory() as folder:
        of_sizes = (
            (count, plan(count, every)) for count, every in (*((size, EVERY) for size in SIZES), (SIZES[-1], 1))
        )
        for count, text in (*of_sizes, (SIZES[-1], mixed(SIZES[-1]))):
            file = Path(folder) / "plan.json"
            file.write_text(text, encoding="utf-8")
            judged, judging, readback = measured(file, rounds)
            ratios = sorted(ours / theirs for ours, theirs in zip(judging, readback, strict=True))
            seconds = statistics.median(judging)
            said = ", ".join(f"{number:,} {answer}" for answer, number in judged.answers.items() if number)
            print(
                f"{count:,} resources, {len(text) / 1e6:.1f} MB ({said or 'none'}; "
                f"{'refused' if judged.refuses else 'passes'}): {seconds:.2f} s CPU, "
                f"{statistics.median(ratios):.1f} times json.loads ({ratios[0]:.1f} to {ratios[-1]:.1f})"
            )
        if "big" in sys.argv:
            _print_big(Path(folder) / "big", rounds)


def _print_big(file: Path, rounds: int) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.security.big_files import BIG_FILES

    json_file = BIG_FILES["plan of pools"]()
    for name, write in BIG_FILES.items():
        file.write_text(write(), encoding="utf-8")
        pairs = [
            (spent(lambda: judge_file(file, Config())), spent(lambda: json.loads(json_file))) for _ in range(rounds)
        ]
        seconds = [ours for ours, _ in pairs]
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        print(
            f"50 MB, {name}: {statistics.median(seconds):.2f} s CPU ({min(seconds):.2f} to {max(seconds):.2f}), "
            f"{statistics.median(ratios):.1f} times json.loads of 50 MB ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        )


if __name__ == "__main__":
    main()
