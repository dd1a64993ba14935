"""Pools together with what decides for them, generated from what is true of their nodes and written in many forms.

Where `test_differential.py` reads generated inputs a second time, this writes a truth that was chosen first: which
machine, whether and how it joins a cluster, which taint it registers with. The forms are those of launch templates,
Auto Scaling groups, instances, managed groups and Cluster API; in Pulumi's two providers, Terraform and CloudFormation;
with user data in every way that nodes take it. `GPUPOOLS_FUZZ_SEED` and `GPUPOOLS_FUZZ_STACKS` choose others, and more.
"""

import base64
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.documents import forms
from gpupools.policies.documents.document import Document, Resource
from gpupools.policies.documents.judging import Config, judge_document

SEED = os.environ.get("GPUPOOLS_FUZZ_SEED", "7")
STACKS = int(os.environ.get("GPUPOOLS_FUZZ_STACKS", "1500"))
PASS, VIOLATION, UNVERIFIED = "pass", "violation", "unverified"
RULES = {"gpu-pool-tainted", "gpu-pool-tainted-elsewhere"}

GPU, CPU = ("g5.xlarge", "p4d.24xlarge", "g4dn.xlarge"), ("m5.large", "c7g.xlarge")
TAINTS = {"hard": "nvidia.com/gpu=present:NoSchedule", "soft": "a=b:PreferNoSchedule", "none": "", "unread": "$TAINT"}
LATE = "<late>"
"""Stands for a value not known yet until a form says how it writes one."""


@dataclass(frozen=True)
class Truth:
    """What is so of the nodes of a pool."""

    machine: str
    """`gpu`, `cpu` or `late`."""
    data: str
    """User data: `joins`, `else` (it does something else), `none` or `late`."""
    taint: str
    """Of user data that joins: a key of `TAINTS`."""
    tag: bool
    """Whether the tag of a cluster is on the machines."""
    own_taint: str = "none"
    """Of the group itself, where its API has such a field."""
    managed: bool = False

    def verdict(self) -> str:
        """Return what a person with all of it at hand would say."""
        is_open = self.data in ("late", "else")
        member = True if self.managed or self.tag or self.data == "joins" else None if is_open else False
        if member is False or self.machine == "cpu" or self.own_taint == "hard":
            return PASS
        if self.data == "joins" and self.taint == "hard":
            return PASS
        if self.machine == "late" and member is None:
            return PASS  # neither GPUs nor nodes are to be seen
        sure = self.data == "joins" and self.taint != "unread"
        return VIOLATION if self.machine == "gpu" and member and sure else UNVERIFIED


# --- user data ---


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def mime(*parts: tuple[str, str]) -> str:
    whole = MIMEMultipart()
    for subtype, body in parts:
        part = MIMEText(body, subtype)
        if subtype == "node.eks.aws":
            part.replace_header("Content-Type", "application/node.eks.aws")
        whole.attach(part)
    return whole.as_string()


def flag(taint: str) -> str:
    return f"--register-with-taints={TAINTS[taint]}" if TAINTS[taint] else "--node-labels=a=b"


def script(taint: str) -> str:
    return f"#!/bin/bash\nset -e\n/etc/eks/bootstrap.sh lab --kubelet-extra-args '{flag(taint)}'\n"


def kubeadm(taint: str) -> str:
    return f"#!/bin/bash\necho 'KUBELET_EXTRA_ARGS={flag(taint)}' > /etc/default/kubelet\nkubeadm join 10.0.0.1:6443\n"


def k3s(taint: str) -> str:
    given = f" --node-taint {TAINTS[taint]}" if TAINTS[taint] else ""
    return f"#!/bin/bash\ncurl -sfL https://get.k3s.io | K3S_URL=https://10.0.0.1:6443 sh -s - agent{given}\n"


def words(taint: str) -> str:
    command = ["/etc/eks/bootstrap.sh", "lab", "--kubelet-extra-args", flag(taint)]
    return "#cloud-config\n" + json.dumps({"package_update": True, "runcmd": [["ls", "/"], command]})


def lines(taint: str) -> str:
    return f'#cloud-config\nruncmd:\n  - /etc/eks/bootstrap.sh lab --kubelet-extra-args "{flag(taint)}"\n'


def written(taint: str) -> str:
    file = {"path": "/join.sh", "permissions": "0755", "encoding": "b64", "content": encoded(script(taint))}
    return "#cloud-config\n" + json.dumps({"write_files": [file], "runcmd": [["/join.sh"]]})


def packed(taint: str) -> str:
    content = base64.b64encode(gzip.compress(kubeadm(taint).encode(), mtime=0)).decode()
    file = {"path": "/join.sh", "encoding": "gz+b64", "content": content}
    return "## template: jinja\n#cloud-config\n" + json.dumps({"write_files": [file], "runcmd": ["/join.sh"]})


def archive(taint: str) -> str:
    return "#cloud-config-archive\n" + json.dumps([{"type": "text/x-shellscript", "content": script(taint)}])


def taint_object(taint: str) -> list[dict[str, str]]:
    key, _, rest = TAINTS[taint].partition("=")
    return [{"key": key, "value": rest.partition(":")[0], "effect": rest.partition(":")[2]}] if rest else []


def node_config(taint: str) -> str:
    config = {"config": {"registerWithTaints": taint_object(taint)}} if taint != "unread" else {"flags": [flag(taint)]}
    document = {"kind": "NodeConfig", "apiVersion": "node.eks.aws/v1alpha1"}
    return json.dumps({**document, "spec": {"cluster": {"name": "lab"}, "kubelet": config}})


def node_flags(taint: str) -> str:
    return (
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: lab}\n"
        f"  kubelet:\n    flags:\n      - '{flag(taint)}'\n"
    )


def joined_file(taint: str) -> str:
    registration: dict[str, Any] = {"taints": taint_object(taint)}
    if taint == "unread":
        registration = {"kubeletExtraArgs": [{"name": "register-with-taints", "value": TAINTS[taint]}]}
    document = {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "nodeRegistration": registration}
    file = {"path": "/etc/kubeadm/join.yaml", "content": json.dumps(document)}
    run = [["kubeadm", "join", "--config", "/etc/kubeadm/join.yaml"]]
    return "#cloud-config\n" + json.dumps({"write_files": [file], "runcmd": run})


def agent_file(taint: str) -> str:
    config = {"server": "https://10.0.0.1:9345", **({"node-taint": [TAINTS[taint]]} if TAINTS[taint] else {})}
    file = {"path": "/etc/rancher/rke2/config.yaml", "content": json.dumps(config)}
    return "#cloud-config\n" + json.dumps({"write_files": [file], "runcmd": ["systemctl start rke2-agent"]})


def bottlerocket(taint: str) -> str:
    settings = '[settings.kubernetes]\ncluster-name = "lab"\n'
    key, _, rest = TAINTS[taint].partition("=")
    return settings + (f'[settings.kubernetes.node-taints]\n"{key}" = ["{rest}"]\n' if rest else "")


def ignition(taint: str) -> str:
    file = {"path": "/join.sh", "contents": {"source": f"data:;base64,{encoded(kubeadm(taint))}"}}
    return json.dumps({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}})


def jq(taint: str) -> str:
    return "#!/bin/bash\njq '.registerWithTaints=[]' /etc/kubelet.json > /tmp/k\n/etc/eks/bootstrap.sh lab\n"


def heredoc(taint: str) -> str:
    return "#!/bin/bash\ncat > /j.yaml <<EOF\nnodeRegistration:\n  taints: []\nEOF\nkubeadm join --config /j.yaml\n"


JOINING: tuple[Callable[[str], str], ...] = (
    *(script, words, lines, written, node_config, node_flags, bottlerocket),
    lambda taint: mime(("x-shellscript", "#!/bin/bash\necho hello\n"), ("x-shellscript", script(taint))),
    lambda taint: mime(("node.eks.aws", node_config(taint))),
    lambda taint: mime(("cloud-config", words(taint))),
)
UNREAD: tuple[Callable[[str], str], ...] = (
    *(jq, heredoc, script, words, node_config),
    *(kubeadm, k3s, packed, archive, joined_file, agent_file, ignition),
)
"""Ways to taint, or not, that gpupools does not evaluate."""
BY_THEMSELVES = (kubeadm, k3s, packed, archive, joined_file, agent_file, ignition, heredoc)
"""Ways of joining that no managed group of EKS has, so that their templates are pools themselves."""
ELSE = (
    "#!/bin/bash\necho ECS_CLUSTER=lab >> /etc/ecs/ecs.config\n",
    "#!/bin/bash\napt-get install -y nginx\n",
    "#cloud-config\nruncmd: [[systemctl, start, deadline]]\n",
)


def user_data(random: Random, truth: Truth) -> str | None:
    if truth.data != "joins":
        return {"else": encoded(random.choice(ELSE)), "late": LATE}.get(truth.data)
    ways = UNREAD if truth.taint == "unread" else JOINING
    write = random.choice([way for way in ways if not (truth.managed and way in BY_THEMSELVES)])
    content = write(truth.taint).encode()
    return base64.b64encode(gzip.compress(content, mtime=0) if random.random() < 0.2 else content).decode()


# --- forms ---

TAG = {"kubernetes.io/cluster/lab": "owned"}


def template(random: Random, truth: Truth, *, machine: bool = True, profile: bool = False) -> dict[str, Any]:
    """Return a launch template by Pulumi's names."""
    given: dict[str, Any] = {"imageId": "ami-1"}
    if machine:
        given["instanceType"] = instance_type(random, truth)
    data = user_data(random, truth)
    if data is not None:
        given["userData"] = data
    if profile:
        given["iamInstanceProfile"] = {"name": "node"}
    return given


def instance_type(random: Random, truth: Truth) -> str:
    return LATE if truth.machine == "late" else random.choice(GPU if truth.machine == "gpu" else CPU)


@dataclass(frozen=True)
class Made:
    """One resource by Pulumi's classic names, and what its inputs were made from."""

    type: str
    name: str
    inputs: dict[str, Any]
    made_from: Mapping[str, str]
    """Name of the other resource by the path of the input that holds its id, which is `LATE`."""


LT, ASG = "aws:ec2/launchTemplate:LaunchTemplate", "aws:autoscaling/group:Group"
INSTANCE, GROUP = "aws:ec2/instance:Instance", "aws:eks/nodeGroup:NodeGroup"


def tags(truth: Truth) -> list[dict[str, Any]]:
    given = TAG if truth.tag else {"team": "vision"}
    return [{"key": key, "value": value, "propagateAtLaunch": True} for key, value in given.items()]


def scaling_group(random: Random, truth: Truth) -> list[Made]:
    inputs = {"launchTemplate": {"id": LATE}, "tags": tags(truth), "maxSize": 3, "minSize": 0}
    group = Made(ASG, "group", inputs, {"launchTemplate": "template"})
    return [Made(LT, "template", template(random, truth), {}), group]


def mixed_group(random: Random, truth: Truth) -> list[Made]:
    """An override takes the machines of the truth by a template of their own; what is beside them has no GPU."""
    path = "mixedInstancesPolicy.launchTemplate"
    other = Truth("cpu", random.choice(("joins", "else")), random.choice(("none", "hard")), truth.tag)
    override = {
        "instanceType": instance_type(random, truth),
        "launchTemplateSpecification": {"launchTemplateName": "own"},
    }
    base = {"launchTemplateName": "base"}
    policy = {"launchTemplateSpecification": base, "overrides": [{"instanceType": "m5.large"}, override]}
    inputs = {"mixedInstancesPolicy": {"launchTemplate": policy}, "tags": tags(truth), "maxSize": 3, "minSize": 0}
    where = {f"{path}.launchTemplateSpecification": "base", f"{path}.overrides[1].launchTemplateSpecification": "own"}
    return [
        Made(LT, "base", {"name": "base", **template(random, other, machine=False)}, {}),
        Made(LT, "own", {"name": "own", **template(random, truth, machine=False)}, {}),
        Made(ASG, "group", inputs, where),
    ]


def instance(random: Random, truth: Truth) -> list[Made]:
    inputs = {"launchTemplate": {"id": LATE}, "tags": TAG if truth.tag else {}}
    own = Made(INSTANCE, "instance", inputs, {"launchTemplate": "template"})
    return [Made(LT, "template", template(random, truth), {}), own]


def managed(random: Random, truth: Truth) -> list[Made]:
    inputs: dict[str, Any] = {"clusterName": "lab", "launchTemplate": {"id": LATE}}
    taints = [{**one, "effect": "NO_SCHEDULE"} for one in taint_object(truth.own_taint)]
    inputs |= {"taints": taints} if taints else {}
    here = random.random() < 0.5
    if here:
        inputs["instanceTypes"] = [instance_type(random, truth)]
    if random.random() < 0.5:
        inputs["amiType"] = "CUSTOM"
    group = Made(GROUP, "group", inputs, {"launchTemplate": "template"})
    return [Made(LT, "template", template(random, truth, machine=not here), {}), group]


def alone(random: Random, truth: Truth) -> list[Made]:
    specified = [{"resourceType": "instance", "tags": TAG}] if truth.tag else []
    return [Made(LT, "template", {**template(random, truth, profile=True), "tagSpecifications": specified}, {})]


# --- Cluster API, whose forms are objects only ---


def cluster_api(random: Random) -> tuple[list[Resource], str]:
    machine, taint = random.choice(("gpu", "gpu", "cpu", "late")), random.choice(("hard", "soft", "none", "late"))
    truth = Truth(machine, "joins", "unread" if taint == "late" else taint, tag=True)
    listed: Any = UNKNOWN if taint == "late" else taint_object(taint)
    text = UNKNOWN if taint == "late" else TAINTS[taint]
    specs: dict[str, dict[str, Any]] = {
        "KubeadmConfigTemplate": {"joinConfiguration": {"nodeRegistration": {"taints": listed}}},
        "EKSConfigTemplate": {"kubeletExtraArgs": {"register-with-taints": text}},
        "NodeadmConfigTemplate": {"kubelet": {"config": {"registerWithTaints": listed}}},
        "RKE2ConfigTemplate": {"agentConfig": {"nodeTaints": text if taint == "late" else [text] if text else []}},
    }
    kind = random.choice(list(specs))
    instance = UNKNOWN if machine == "late" else instance_type(random, truth)
    refs = {
        "infrastructureRef": {"kind": "AWSMachineTemplate", "name": "gpu"},
        "bootstrap": {"configRef": {"kind": kind, "name": "gpu"}},
    }
    objects = [
        ("infrastructure.cluster.x-k8s.io/v1beta2", "AWSMachineTemplate", {"instanceType": instance}),
        ("bootstrap.cluster.x-k8s.io/v1beta1", kind, specs[kind]),
        ("cluster.x-k8s.io/v1beta1", "MachineDeployment", refs),
    ]
    made = [
        Resource(
            address=f"{kind}/gpu",
            type=f"kubernetes:{version}:{kind}",
            inputs={"metadata": {"name": "gpu"}, "spec": {"template": {"spec": spec}}},
        )
        for version, kind, spec in objects
    ]
    return random.sample(made, len(made)), truth.verdict()


def karpenter(random: Random) -> tuple[list[Resource], str]:
    machine, taint = random.choice(("gpu", "gpu", "cpu")), random.choice(("hard", "soft", "none"))
    truth = Truth(machine, "joins", taint, tag=True)
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type(random, truth)]}
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
        "requirements": [{"key": "kubernetes.io/arch", "operator": "Exists"}, wanted],
        "taints": taint_object(taint),
        "startupTaints": random.choice(([], taint_object("hard"))),
    }
    node_class = {"amiSelectorTerms": [{"alias": "al2023@latest"}], "userData": script(random.choice(list(TAINTS)))}
    made = [
        Resource("NodePool/gpu", "kubernetes:karpenter.sh/v1:NodePool", {"spec": {"template": {"spec": spec}}}),
        Resource("EC2NodeClass/gpu", "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", {"spec": node_class}),
    ]
    return made, truth.verdict()


# --- ways to write them down ---


def late(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: late(item) for key, item in value.items()}
    return [late(item) for item in value] if isinstance(value, list) else UNKNOWN if value == LATE else value


def classic(made: list[Made], folder: Path) -> Document:
    resources = tuple(
        Resource(
            address=f"urn:pulumi:lab::gpu::{each.type}::{each.name}",
            type=each.type,
            inputs=late(each.inputs),
            refers={
                key.split(".")[0]: tuple(sorted({urn(made, one) for one in others(each, key)}))
                for key in each.made_from
            },
        )
        for each in made
    )
    return Document("Pulumi preview", resources)


def others(made: Made, key: str) -> list[str]:
    """Return what is behind the first key of a path, as the engine tells it."""
    return [name for path, name in made.made_from.items() if path.split(".")[0] == key.split(".")[0]]


def urn(made: list[Made], name: str) -> str:
    return next(f"urn:pulumi:lab::gpu::{each.type}::{name}" for each in made if each.name == name)


NATIVE = {
    LT: "aws-native:ec2:LaunchTemplate",
    ASG: "aws-native:autoscaling:AutoScalingGroup",
    INSTANCE: "aws-native:ec2:Instance",
    GROUP: "aws-native:eks:Nodegroup",
}
FORMED = {
    LT: "AWS::EC2::LaunchTemplate",
    ASG: "AWS::AutoScaling::AutoScalingGroup",
    INSTANCE: "AWS::EC2::Instance",
    GROUP: "AWS::EKS::Nodegroup",
}


def native_inputs(each: Made) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(json.dumps(each.inputs))
    if each.type == LT:
        named = {"launchTemplateName": given.pop("name")} if "name" in given else {}
        for one in given.get("tagSpecifications", []):
            one["tags"] = [{"key": key, "value": value} for key, value in one["tags"].items()]
        return {**named, "launchTemplateData": given}
    if each.type == INSTANCE:
        given["tags"] = [{"key": key, "value": value} for key, value in given["tags"].items()]
    if isinstance(given.get("launchTemplate"), dict) and each.type != GROUP:
        given["launchTemplate"] = {"launchTemplateId": given["launchTemplate"]["id"], "version": "1"}
    return given


def native(made: list[Made], folder: Path) -> Document:
    changed = [Made(NATIVE[each.type], each.name, native_inputs(each), each.made_from) for each in made]
    return classic(changed, folder)


def formed(made: list[Made], folder: Path) -> Document:
    """Write one CloudFormation stack."""

    def capital(value: Any, path: str, each: Made) -> Any:
        if isinstance(value, dict):
            return {
                key[:1].upper() + key[1:]: capital(item, f"{path}.{key}" if path else key, each)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [capital(item, f"{path}[{index}]", each) for index, item in enumerate(value)]
        if path.endswith(("launchTemplate.id", "launchTemplate.launchTemplateId", "Specification.launchTemplateName")):
            return {"Ref": each.made_from[path.rpartition(".")[0]]}
        return {"Ref": "Parameter"} if value == LATE else value

    resources = {
        each.name: {"Type": FORMED[each.type], "Properties": capital(native_inputs(each), "", each)} for each in made
    }
    stack = {"templateBody": json.dumps({"Resources": resources})}
    token = "aws:cloudformation/stack:Stack"
    return Document("Pulumi preview", (Resource(f"urn:pulumi:lab::gpu::{token}::stack", token, stack),))


def template_file(made: list[Made], folder: Path) -> Document:
    """Write the same as the template itself, and read it again."""
    (stack,) = formed(made, folder).resources
    file = folder / "template.json"
    file.write_text(stack.inputs["templateBody"], encoding="utf-8")
    return forms.read_document(file)


TERRAFORM = {
    LT: "aws_launch_template",
    ASG: "aws_autoscaling_group",
    INSTANCE: "aws_instance",
    GROUP: "aws_eks_node_group",
}
SINGULAR = {"tags": "tag", "taints": "taint", "overrides": "override"}
BLOCKS = ("launchTemplate", "mixedInstancesPolicy", "launchTemplateSpecification", "iamInstanceProfile")


def terraform(made: list[Made], folder: Path) -> Document:
    """Write a plan, in which what is made from other resources is not known, and read it again."""
    changes, configured = [], []
    for each in made:
        values, unknown, expressions = in_terraform(each.inputs, "", each)
        kind, name = TERRAFORM[each.type], each.name
        about = {"address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name}
        change = {"actions": ["create"], "before": None, "after": values, "after_unknown": unknown}
        changes.append({**about, "change": change})
        configured.append({**about, "expressions": expressions})
    plan = {"format_version": "1.2", "resource_changes": changes}
    file = folder / "plan.json"
    file.write_text(json.dumps({**plan, "configuration": {"root_module": {"resources": configured}}}), encoding="utf-8")
    return forms.read_document(file)


def in_terraform(
    inputs: Mapping[str, Any], at: str, each: Made
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return values, marks of what is unknown, and expressions of a block."""
    values: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    expressions: dict[str, Any] = {}
    for key, value in inputs.items():
        plain = each.type in (LT, INSTANCE) or at.endswith("tagSpecifications[0]")
        name = key if key == "tags" and plain else SINGULAR.get(key, key)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        path = f"{at}.{key}" if at else key
        if path.endswith("launchTemplate.id") or (key == "launchTemplateName" and at in each.made_from):
            other = each.made_from[at]
            unknown[name], expressions[name] = True, {"references": [f"aws_launch_template.{other}.id"]}
        elif value == LATE:
            unknown[name], expressions[name] = True, {"references": ["var.late"]}
        elif key in BLOCKS or (isinstance(value, list) and value and isinstance(value[0], dict)):
            listed = value if isinstance(value, list) else [value]
            name = "tag_specifications" if key == "tagSpecifications" else name
            paths = [f"{path}[{index}]" if isinstance(value, list) else path for index in range(len(listed))]
            blocks = [in_terraform(one, where, each) for one, where in zip(listed, paths, strict=True)]
            values[name], unknown[name], expressions[name] = (list(part) for part in zip(*blocks, strict=True))
        elif isinstance(value, list) and LATE in value:
            unknown[name], expressions[name] = [one == LATE for one in value], {"references": ["var.late"]}
            values[name] = [None if one == LATE else one for one in value]
        else:
            values[name], expressions[name] = value, {"constant_value": value}
    return values, unknown, expressions


WRITTEN: tuple[Callable[[list[Made], Path], Document], ...] = (classic, native, formed, template_file, terraform)
FORMS: tuple[Callable[[Random, Truth], list[Made]], ...] = (scaling_group, mixed_group, instance, managed, alone)


def truth(random: Random) -> Truth:
    return Truth(
        machine=random.choice(("gpu", "gpu", "gpu", "cpu", "late")),
        data=random.choice(("joins", "joins", "joins", "joins", "else", "none", "late")),
        taint=random.choice(("hard", "none", "none", "soft", "unread")),
        tag=random.random() < 0.5,
    )


def expected(random: Random, form: Callable[[Random, Truth], list[Made]], chosen: Truth) -> tuple[Truth, str]:
    if form is managed:
        chosen = Truth(chosen.machine, chosen.data, chosen.taint, False, random.choice(("none", "none", "hard")), True)
    said = chosen.verdict()
    # A template alone is no pool as long as neither its machine nor what it joins is to be seen.
    if form is alone and said == UNVERIFIED and chosen.machine == "late" and chosen.data == "none":
        said = PASS
    return chosen, said


def generated(count: int, folder: Path) -> Iterator[tuple[str, Document, str, Any]]:
    """Yield the way it is written, the document, the verdict and what it was made of."""
    random = Random(SEED)
    for number in range(count):
        if number % 8 == 7:
            make = random.choice((cluster_api, karpenter))
            resources, said = make(random)
            yield make.__name__, Document("Kubernetes manifest", tuple(resources)), said, resources
            continue
        form, write = random.choice(FORMS), WRITTEN[number % len(WRITTEN)]
        chosen, said = expected(random, form, truth(random))
        made = form(random, chosen)
        yield f"{form.__name__} in {write.__name__}", write(made, folder), said, (chosen, made)


def verdict(document: Document, folder: Path) -> str:
    found = [each for each in judge_document(folder / "file", document, Config()).found if each.rule.name in RULES]
    if any(not each.finding.unverified for each in found):
        return VIOLATION
    return UNVERIFIED if found else PASS


@pytest.mark.parametrize("stacks", [min(STACKS, 500), pytest.param(STACKS, marks=pytest.mark.slow, id="all")])
def test_a_pool_with_what_decides_for_it_is_judged_as_it_is(stacks: int, tmp_path: Path) -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    wrong = []
    for way, document, said, made in generated(stacks, tmp_path):
        verdicts[way, said] += 1
        given = verdict(document, tmp_path)
        if given != said:
            wrong.append(f"{way}: read as {given}, and is {said}: {made}")

    assert wrong[:3] == [], f"seed {SEED}: {len(wrong)} of {stacks}"
    assert {said for _, said in verdicts} == {PASS, VIOLATION, UNVERIFIED}
    assert len({way for way, _ in verdicts}) == len(FORMS) * len(WRITTEN) + 2
