"""Runs Terraform on the sources beside the recorded plans, offline; `python terraform.py FOLDER` records them anew."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PLANS = Path(__file__).resolve().parent / "plans"
PLANNED = ("eks", "eks_modules", "eks_templates")
"""The plans Terraform itself made; the others are written by hand."""
_PROVIDER = "registry.terraform.io/hashicorp/aws/5.100.0"
_CONFIGURATION = "terraform.rc"


def mirrors() -> Iterator[Path]:
    """Find local mirrors of providers that have the AWS provider the plans were made with.

    https://developer.hashicorp.com/terraform/cli/config/config-file#implied-local-mirror-directories, and /opt.
    """
    named = [Path.home() / ".terraform.d/plugins", Path("/usr/local/share/terraform/plugins")]
    for folder in (*named, Path("/usr/share/terraform/plugins"), *sorted(Path("/opt").glob("*"))):
        if (folder / _PROVIDER).is_dir():
            yield folder


def missing() -> str:
    """Say what keeps Terraform from planning here; empty when nothing does."""
    if shutil.which("terraform") is None:
        return "terraform is not on PATH"
    return "" if next(mirrors(), None) else "no local mirror has Terraform's AWS provider 5.100.0"


def plan(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Plan a copy of the sources, of several together, without account, credentials or network."""
    work = folder / "+".join(names)
    work.mkdir()
    shutil.copy(PLANS / "provider.tf", work)
    for name in names:
        shutil.copy(PLANS / name / "main.tf", work / f"{name}.tf")
        for module in PLANS.glob(f"{name}/*/main.tf"):
            shutil.copytree(module.parent, work / module.parent.name)
    # A provider that stands in the configuration is neither installed nor hashed, which cost more than the planning.
    # https://developer.hashicorp.com/terraform/cli/config/config-file#development-overrides-for-provider-developers
    (provider,) = (next(mirrors()) / _PROVIDER).iterdir()
    overrides = f'dev_overrides {{\n "hashicorp/aws" = "{provider}"\n}}'
    (work / _CONFIGURATION).write_text(f"provider_installation {{\n{overrides}\n}}\n", encoding="utf-8")
    run(work, "get")
    run(work, "plan", "-refresh=false", "-lock=false", "-out=saved")
    shown: dict[str, Any] = json.loads(run(work, "show", "-json", "saved"))
    return without_circumstances(shown)


def run(work: Path, *arguments: str) -> str:
    """Run one command of Terraform."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(work), "TF_CLI_CONFIG_FILE": str(work / _CONFIGURATION)}
    environment["GOGC"] = "off"  # the schemas of the provider are large, and all of them live until the end
    done = subprocess.run(
        ["terraform", *arguments, *(["-input=false"] if arguments[0] == "plan" else []), "-no-color"],
        cwd=work,
        env={**environment, "CHECKPOINT_DISABLE": "1", "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"terraform {arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def without_circumstances(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out when, by which Terraform and with which provider settings a plan was made, and what nobody reads."""
    # Relevant attributes come in another order each time; the planned values say again what the changes say.
    circumstances = ("timestamp", "terraform_version", "relevant_attributes", "planned_values")
    kept = {key: value for key, value in shown.items() if key not in circumstances}
    kept["configuration"] = {"root_module": shown["configuration"]["root_module"]}
    for each in kept["resource_changes"]:
        each["change"] = {key: value for key, value in each["change"].items() if not key.endswith("_sensitive")}
    return kept


if __name__ == "__main__":
    for name in PLANNED:
        planned = plan([name], Path(sys.argv[1]))
        (PLANS / name / "plan.json").write_text(json.dumps(planned, indent=1) + "\n", encoding="utf-8")
