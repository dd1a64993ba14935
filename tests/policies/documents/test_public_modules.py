"""Plans that Terraform makes of terraform-aws-eks' own modules, with verdicts and lines of configuration.

Runs where `terraform` and its AWS provider are at hand (`terraform.missing`) and GPUPOOLS_TERRAFORM_AWS_EKS names a
checkout of terraform-aws-modules/terraform-aws-eks at v20.37.2, the last for version 5 of the provider. No account is
asked: STS and SSM, which the modules' data sources read, answer on loopback. The provider cloudinit is not at hand, so
its MIME parts are joined by Terraform itself, and `null_resource` is the built-in `terraform_data`.
"""

import importlib.util
import json
import os
import re
import shutil
import threading
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpupools.policies.documents.judging import Config, Judged, judge_file

_HERE = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("terraform_of_plans", _HERE / "terraform.py")
assert _SPEC is not None
assert _SPEC.loader is not None
terraform = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(terraform)

MODULES = os.environ.get("GPUPOOLS_TERRAFORM_AWS_EKS", "")
_WHY = terraform.missing() or ("" if MODULES else "GPUPOOLS_TERRAFORM_AWS_EKS names no checkout of terraform-aws-eks")
pytestmark = pytest.mark.skipif(bool(_WHY), reason=_WHY)

PROVIDER = """
terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "example"
  secret_key                  = "example"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  endpoints {
    sts = "http://127.0.0.1:PORT"
    ssm = "http://127.0.0.1:PORT"
  }
}
"""

SELF_MANAGED = """
module "NAME" {
  source               = "./modules/self-managed-node-group"
  name                 = "NAME"
  cluster_name         = "train"
  cluster_version      = "1.33"
  cluster_endpoint     = "https://example.com"
  cluster_auth_base64  = "YQ=="
  cluster_service_cidr = "172.20.0.0/16"
  subnet_ids           = ["subnet-11111111"]
MORE
}
"""
MANAGED = SELF_MANAGED.replace("self-managed", "eks-managed")

NODE_CONFIG = """
  cloudinit_pre_nodeadm = [{
    content_type = "application/node.eks.aws"
    content      = <<-EOT
      ---
      apiVersion: node.eks.aws/v1alpha1
      kind: NodeConfig
      spec:
        kubelet:
          config:
            registerWithTaints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
    EOT
  }]
"""
MIXED = """
  use_mixed_instances_policy = true
  mixed_instances_policy = {
    override = [{ instance_type = "g5.xlarge" }, { instance_type = "g5.2xlarge" }]
  }
"""
TAINTS = 'taints = { gpu = { key = "nvidia.com/gpu", value = "present", effect = "NO_SCHEDULE" } }'
AL2023 = 'ami_type = "AL2023_x86_64_NVIDIA"'
BOTTLEROCKET = 'ami_type = "BOTTLEROCKET_x86_64_NVIDIA"'
SETTINGS = "bootstrap_extra_args = <<-EOT\n[settings.kubernetes.node-taints]\n{}\nEOT\n"

GROUPS = {
    "self_cpu": (SELF_MANAGED, 'ami_type = "AL2023_x86_64_STANDARD"\ninstance_type = "m6i.large"', False),
    "self_bare": (SELF_MANAGED, f'{AL2023}\ninstance_type = "g6.xlarge"', True),
    "self_tainted": (SELF_MANAGED, f'{AL2023}\ninstance_type = "g6.xlarge"\n{NODE_CONFIG}', False),
    "self_mixed": (SELF_MANAGED, f"{AL2023}\n{MIXED}", True),
    "self_mixed_tainted": (SELF_MANAGED, f"{AL2023}\n{MIXED}\n{NODE_CONFIG}", False),
    "self_bottlerocket": (SELF_MANAGED, f'{BOTTLEROCKET}\ninstance_type = "g6.xlarge"\n{SETTINGS.format("")}', True),
    "self_bottlerocket_tainted": (
        SELF_MANAGED,
        BOTTLEROCKET + '\ninstance_type = "g6.xlarge"\n' + SETTINGS.format('"nvidia.com/gpu" = ["present:NoSchedule"]'),
        False,
    ),
    "managed_cpu": (MANAGED, 'instance_types = ["m6i.large"]', False),
    "managed_bare": (MANAGED, f'{AL2023}\ninstance_types = ["g6.xlarge"]', True),
    "managed_tainted": (MANAGED, f'{AL2023}\ninstance_types = ["g6.xlarge"]\n{TAINTS}', False),
    "managed_by_data": (MANAGED, f'{AL2023}\ninstance_types = ["g6.xlarge"]\n{NODE_CONFIG}', False),
}
"""Module call, its arguments, and whether its nodes are open."""


class _Cloud(BaseHTTPRequestHandler):
    """Answers who is asking, and which image a parameter names."""

    def do_POST(self) -> None:
        target = self.headers.get("X-Amz-Target", "")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if target:
            arn = "arn:aws:ssm:eu-central-1::parameter/a"
            found = {"Name": "a", "Type": "String", "Value": "ami-0123456789abcdef0", "ARN": arn, "Version": 1}
            body, kind = json.dumps({"Parameter": found}), "application/x-amz-json-1.1"
        else:
            who = "<Arn>arn:aws:iam::123456789012:user/a</Arn><UserId>a</UserId><Account>123456789012</Account>"
            space = 'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
            result = f"<GetCallerIdentityResult>{who}</GetCallerIdentityResult>"
            body, kind = f"<GetCallerIdentityResponse {space}>{result}</GetCallerIdentityResponse>", "text/xml"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


_MIME = r"""
locals {
  joined = base64encode(join("\r\n", concat(
    ["Content-Type: multipart/mixed; boundary=\"MIMEBOUNDARY\"", "MIME-Version: 1.0", ""],
    flatten([
      for part in local.nodeadm_cloudinit : ["--MIMEBOUNDARY", "Content-Type: ${part.content_type}", "", part.content]
    ]),
    ["--MIMEBOUNDARY--", ""]
  )))
}
"""


def without_other_providers(module: Path) -> None:
    """Write the module of user data so that Terraform alone is enough."""
    (module / "versions.tf").unlink()
    text = (module / "main.tf").read_text()
    text = re.sub(r'(?ms)^data "cloudinit_config".*?^}\n', "", text)
    rendered = "try(data.cloudinit_config.al2023_eks_managed_node_group[0].rendered, local.user_data)"
    assert rendered in text
    text = text.replace(rendered, "(length(local.nodeadm_cloudinit) > 0 ? local.joined : local.user_data)")
    text = re.sub(r"try\(data\.cloudinit_config\.linux\w+\[0\]\.rendered, local\.user_data\)", "local.user_data", text)
    (module / "main.tf").write_text(text.replace('"null_resource"', '"terraform_data"') + _MIME)
    outputs = module / "outputs.tf"
    outputs.write_text(outputs.read_text().replace("null_resource.", "terraform_data."))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Judged]:
    folder = tmp_path_factory.mktemp("plan")
    for name in ("modules", "templates"):
        shutil.copytree(Path(MODULES) / name, folder / name)
    without_other_providers(folder / "modules/_user_data")
    server = HTTPServer(("127.0.0.1", 0), _Cloud)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        (folder / "provider.tf").write_text(PROVIDER.replace("PORT", str(server.server_port)))
        calls = (call.replace("NAME", name).replace("MORE", more) for name, (call, more, _) in GROUPS.items())
        (folder / "main.tf").write_text("".join(calls))
        (provider,) = (next(terraform.mirrors()) / terraform._PROVIDER).iterdir()
        overrides = f'provider_installation {{\ndev_overrides {{\n "hashicorp/aws" = "{provider}"\n}}\n}}\n'
        (folder / terraform._CONFIGURATION).write_text(overrides)
        terraform.run(folder, "get")
        terraform.run(folder, "plan", "-lock=false", "-out=saved")
        (folder / "plan.json").write_text(terraform.run(folder, "show", "-json", "saved"))
    finally:
        server.shutdown()
        thread.join()
    return folder, judge_file(folder / "plan.json", Config(today=date(2026, 11, 22)))


def test_every_group_gets_its_verdict_and_nothing_is_not_understood(work: tuple[Path, Judged]) -> None:
    _, judged = work
    assert judged.problems == ()
    tainted = [each for each in judged.found if each.rule.name.startswith("gpu-pool-tainted")]
    said = {each.address.split(".")[1]: each.finding.unverified for each in tainted}

    assert said == {name: False for name, (_, _, is_open) in GROUPS.items() if is_open}
    assert judged.answers["not_understood"] == 0


def test_a_finding_names_the_line_of_the_module(work: tuple[Path, Judged]) -> None:
    folder, judged = work
    places = {each.address: each for each in judged.found if each.rule.name.startswith("gpu-pool-tainted")}
    for address, each in places.items():
        assert each.file is not None, address
        assert each.line is not None, address
        assert each.file.suffix == ".tf"
        text = (folder / each.file).read_text().splitlines()
        assert text[each.line - 1].strip(), address
