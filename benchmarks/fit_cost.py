"""Measure CPU time and peak memory of `gpupools fit`.

    python benchmarks/fit_cost.py

500 pod templates and the 56 pools of the matrix stack; 1 MB of manifests and the pools of the prod stack; and, to
compare with, `gpupools check` of the same stack files in the same run.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

STACKS = Path(__file__).parents[1] / "stacks"
TEMPLATE = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: job-{index}, namespace: research, annotations: {{note: "{note}"}}}}
spec:
  parallelism: 4
  template:
    spec:
      nodeSelector: {{gpupools/gpu-model: A100-80GB}}
      tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
      containers:
      - name: main
        image: registry.example.com/train
        resources: {{limits: {{nvidia.com/gpu: {gpus}, memory: 64Gi}}, requests: {{cpu: 8}}}}
---
"""


def manifests(templates: int, size: int) -> str:
    """Return so many jobs, of so many bytes in all."""
    note = "x" * max(0, size // templates - len(TEMPLATE))
    return "".join(TEMPLATE.format(index=index, gpus=index % 8 + 1, note=note) for index in range(templates))


def measure(title: str, *words: str) -> None:
    """Print the cost of a command."""
    command = [sys.executable, "-m", "gpupools.cli.main", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    cost = f"{usage.ru_utime + usage.ru_stime:.2f} s CPU, {usage.ru_maxrss / 1024:.0f} MB"
    print(f"{title}: {cost}, exit code {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        for name, stack, templates, size in (("many", "matrix", 500, 0), ("large", "prod", 500, 10**6)):
            file = Path(folder, f"{name}.yaml")
            file.write_text(manifests(templates, size), encoding="utf-8")
            path = str(STACKS / f"Pulumi.{stack}.yaml")
            measure(f"check {stack}", "check", path)
            what = f"{templates} templates, {file.stat().st_size / 1e6:.1f} MB, stack {stack}"
            measure(what, "fit", str(file), "--stack", path, "--fail-on", "never", "--json")
