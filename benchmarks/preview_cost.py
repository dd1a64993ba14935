"""Measure `gpupools preview` of 100 pools and `gpupools check` of 1,000, compared with imports of what they rest on.

Prints the median CPU seconds of each and the median ratio of pairs, measured in turn in one run: the preview to the
import of the classes of the clouds' SDKs that a program needs for a pool on each cloud, the check to that of pydantic.
With the `gpupools` of another checkout, also to that one's.

    python benchmarks/preview_cost.py [RUNS] [OTHER_GPUPOOLS]
"""

import statistics
import sys
import tempfile
from pathlib import Path

from command_cost import cpu_seconds, stack_file

SDKS = (
    "import pulumi, pulumi_aws.eks.node_group, pulumi_aws.ec2.launch_template, pulumi_aws.autoscaling.tag, "
    "pulumi_azure_native.containerservice.agent_pool, pulumi_gcp.container.node_pool, pulumi_kubernetes.helm.v3.Release"
)


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    gpupools = [str(Path(sys.executable).with_name("gpupools")), *sys.argv[2:3]]
    with tempfile.TemporaryDirectory() as folder:
        files = {pools: Path(folder) / f"Pulumi.p{pools}.yaml" for pools in (100, 1000)}
        for pools, file in files.items():
            file.write_text(stack_file(pools), encoding="utf-8")
        compared = {
            "preview of 100 pools": (["preview", str(files[100])], ["import of the SDKs", SDKS]),
            "check of 1,000 pools": (["check", str(files[1000])], ["import of pydantic", "import pydantic.main"]),
        }
        for name, (arguments, (base, statement)) in compared.items():
            commands = {place: [program, *arguments] for place, program in zip(("", ", other"), gpupools, strict=False)}
            commands["base"] = [sys.executable, "-c", statement]
            figures: dict[str, list[float]] = {place: [] for place in commands}
            for run in range(runs + 1):
                for place, command in commands.items():
                    spent = cpu_seconds(command)
                    figures[place] += [spent] if run else []  # the first run compiles
            print(f"{base:28} {statistics.median(figures['base']):6.3f} s CPU")
            for place in list(commands)[:-1]:
                ratios = [mine / its for mine, its in zip(figures[place], figures["base"], strict=True)]
                median = statistics.median(figures[place])
                print(f"{name + place:28} {median:6.3f} s CPU  {statistics.median(ratios):5.2f} × {base}")


if __name__ == "__main__":
    main()
