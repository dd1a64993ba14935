"""The rules as plain functions on facts, from both sides."""

import dataclasses
from fractions import Fraction
from typing import Any

import pytest

from gpupools.common.taints import GPU_TAINT, Effect, Taint
from gpupools.plan.pool_facts import (
    CUSTOMISATIONS,
    UNKNOWN,
    By,
    MissingTaint,
    NodeCustomization,
    PoolFacts,
    Reference,
    SharingFacts,
    SoftwareHints,
    Weakness,
)
from gpupools.policies.components import judge_resource
from gpupools.policies.finding import Context, Finding, Level, format_finding
from gpupools.policies.rules import ALL_RULES, RESOURCE_RULES, gpu_pool_tainted

OBJECT = MissingTaint(
    "{key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE}",
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
)
TEXT = MissingTaint('"nvidia.com/gpu=present:NoSchedule"', "nvidia.com/gpu=present:NoSchedule")


def pool(
    gpus: Fraction | int | None = 8,
    *taints: Taint,
    cloud: str = "aws",
    evidence: str = "instanceTypes p4d.24xlarge",
    unknown: tuple[str, ...] = (),
    **more: Any,
) -> PoolFacts:
    given: dict[str, Any] = {"where": "taints", "missing_taint": OBJECT, "accelerator": "nvidia", **more}
    count = None if gpus is None else Fraction(gpus)
    return PoolFacts(cloud, ("p4d.24xlarge",), count, taints, evidence, unknown, **given)


def found(facts: PoolFacts, rule: str, stack: str = "dev", protect: bool = False, **config: Any) -> list[Finding]:
    """Return what one rule has against a pool."""
    context = Context(config={rule: config}, stack=stack, protect=protect)
    return [finding for each, finding in judge_resource([facts], None, context) if each.name == rule]


def taint_finding(facts: PoolFacts) -> Finding | None:
    return next(iter(found(facts, "gpu-pool-tainted")), None)


SOFT = Taint("nvidia.com/gpu", "present", Effect.PREFER_NO_SCHEDULE)
OTHER = Taint("team", "vision", Effect.NO_SCHEDULE)
EXECUTE = Taint("nvidia.com/gpu", "present", Effect.NO_EXECUTE)
NO_KEY = Taint("", "present", Effect.NO_SCHEDULE)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(pool(8, GPU_TAINT), id="the GPU taint"),
        pytest.param(pool(8, SOFT, GPU_TAINT), id="the GPU taint beside a soft one"),
        pytest.param(pool(8, OTHER), id="another hard taint"),
        pytest.param(pool(8, EXECUTE), id="NoExecute"),
        pytest.param(pool(Fraction(1, 8), GPU_TAINT), id="a part of a GPU"),
        pytest.param(pool(0, evidence=""), id="no GPU"),
        pytest.param(pool(0, evidence="", unknown=("taints",)), id="no GPU, unknown taints"),
        pytest.param(pool(8, GPU_TAINT, unknown=("taints[1]",)), id="a known taint is enough beside an unknown one"),
        pytest.param(pool(None, GPU_TAINT, evidence="", unknown=("instanceTypes",)), id="tainted, unknown machine"),
    ],
)
def test_a_pool_that_keeps_other_pods_off_or_has_no_gpu_passes(facts: PoolFacts) -> None:
    assert taint_finding(facts) is None


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        pytest.param(pool(8), "8 NVIDIA GPUs per node (instanceTypes p4d.24xlarge)", id="no taint"),
        pytest.param(pool(1, SOFT), "1 NVIDIA GPU per node (instanceTypes p4d.24xlarge)", id="a soft taint"),
        pytest.param(pool(8, NO_KEY), "8 NVIDIA GPUs per node (instanceTypes p4d.24xlarge)", id="a taint without key"),
        pytest.param(pool(Fraction(1, 8)), "1/8 NVIDIA GPU per node (instanceTypes p4d.24xlarge)", id="a part of one"),
        pytest.param(pool(2, evidence=""), "2 NVIDIA GPUs per node", id="no evidence named"),
        pytest.param(pool(None), "NVIDIA GPUs (instanceTypes p4d.24xlarge)", id="a type newer than the catalogue"),
        pytest.param(
            pool(8, unknown=("instanceTypes[1]",)),
            "8 NVIDIA GPUs per node (instanceTypes p4d.24xlarge)",
            id="what is unknown cannot save it",
        ),
        pytest.param(
            pool(8, unknown=("taintsNot",)),
            "8 NVIDIA GPUs per node (instanceTypes p4d.24xlarge)",
            id="an unknown input that only starts like the taints",
        ),
    ],
)
def test_a_gpu_pool_without_a_hard_taint_is_found(facts: PoolFacts, what: str) -> None:
    assert taint_finding(facts) == Finding(
        what=f"has {what}, but no permanent taint keeps other pods off",
        property="taints",
        fix=f"add {OBJECT.text} to taints",
    )


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        pytest.param(
            pool(8, SOFT, unknown=("taints",)),
            "has 8 NVIDIA GPUs per node (instanceTypes p4d.24xlarge), but whether a taint keeps other pods off cannot "
            "be verified: taints not known yet, or not in this resource",
            id="GPUs with unknown taints",
        ),
        pytest.param(
            pool(None, unknown=("taints[0].effect",)),
            "has NVIDIA GPUs (instanceTypes p4d.24xlarge), but whether a taint keeps other pods off cannot be "
            "verified: taints[0].effect not known yet, or not in this resource",
            id="one part of a taint",
        ),
        pytest.param(
            pool(None, evidence="", unknown=("instanceTypes", "amiType")),
            "may have GPUs, but whether a taint keeps other pods off cannot be verified: instanceTypes, amiType "
            "not known yet, or not in this resource",
            id="an unknown machine",
        ),
        pytest.param(
            pool(None, evidence=""),
            "may have GPUs, but whether a taint keeps other pods off cannot be verified: the machine type not "
            "known yet, or not in this resource",
            id="an unknown machine that names no input",
        ),
        pytest.param(
            pool(1, cloud="gcp", unknown=("nodeConfig",), where="nodeConfig.taints"),
            "has 1 NVIDIA GPU per node (instanceTypes p4d.24xlarge), but whether a taint keeps other pods off cannot "
            "be verified: nodeConfig not known yet, or not in this resource",
            id="the input that holds the taints",
        ),
    ],
)
def test_a_pool_that_the_unknown_part_decides_is_unverified(facts: PoolFacts, what: str) -> None:
    finding = taint_finding(facts)

    assert finding is not None
    assert (finding.what, finding.unverified) == (what, True)


@pytest.mark.parametrize(
    ("taint", "path"),
    [
        (OBJECT, "taints"),
        (TEXT, "nodeTaints"),
        (OBJECT, "nodeConfig.taints"),
        (TEXT, "agentPoolProfiles[1].nodeTaints"),
    ],
    ids=["aws", "azure", "gcp", "inline"],
)
def test_the_cure_is_in_the_clouds_own_spelling(taint: MissingTaint, path: str) -> None:
    here = f"write machine type and taints as plain values here, with {taint.text} in {path}"

    found = taint_finding(pool(8, where=path, missing_taint=taint))
    late = taint_finding(pool(8, where=path, missing_taint=taint, unknown=(path,)))
    maybe = taint_finding(pool(None, evidence="", where=path, missing_taint=taint, unknown=(path,)))

    assert found is not None
    assert late is not None
    assert maybe is not None
    assert (found.fix, late.fix) == (f"add {taint.text} to {path}", here)
    assert maybe.fix == f"{here} if the nodes have GPUs"


def test_what_looks_like_a_taint_and_is_none_is_named() -> None:
    finding = taint_finding(pool(8, not_counted=("taints[0]: effect 'NoSchedule' is not in the spelling",)))

    assert finding is not None
    assert finding.what.endswith("other pods off; ignored: taints[0]: effect 'NoSchedule' is not in the spelling")


def test_gpus_where_the_api_takes_no_taints_have_to_move() -> None:
    finding = taint_finding(pool(8, no_taint_field=True, pool="default"))

    assert finding is not None
    assert (finding.pool, finding.fix) == (
        "default",
        "move the GPUs to a pool of their own, because this one has no field for taints",
    )


def test_gpu_machines_that_may_not_join_a_cluster_are_unverified() -> None:
    finding = taint_finding(pool(8, in_cluster=None))

    assert finding is not None
    assert finding.unverified
    assert "whether the machines join a cluster not known yet" in finding.what


def test_amd_gpus_are_gpus() -> None:
    finding = taint_finding(pool(8, accelerator="amd"))

    assert finding is not None
    assert finding.what.startswith("has 8 AMD GPUs per node")


@pytest.mark.parametrize(
    ("facts", "decides", "left"),
    [
        pytest.param(pool(None, evidence=""), {"machine"}, True, id="the machine is in the template"),
        pytest.param(pool(None, evidence=""), {"image"}, True, id="the image is in the template"),
        pytest.param(pool(8), {"taints"}, True, id="the taints are in the template"),
        pytest.param(pool(8), {"machine", "image"}, False, id="GPUs are known here, and taints are not elsewhere"),
        pytest.param(pool(8), set(), False, id="the template decides nothing"),
        pytest.param(pool(None, evidence=""), {"taints"}, True, id="its taints can save what is not known yet"),
    ],
)
def test_what_another_resource_decides_is_left_to_the_rule_that_sees_the_stack(
    facts: PoolFacts, decides: set[str], left: bool
) -> None:
    reference = Reference("launchTemplate", ("aws:ec2/launchTemplate:LaunchTemplate",), "", frozenset(decides))

    finding = taint_finding(dataclasses.replace(facts, elsewhere=(reference,)))

    assert (finding is None) is left


@pytest.mark.parametrize(
    ("props", "found"),
    [
        pytest.param({}, "none", id="absent"),
        pytest.param({"nodeConfig": {"taints": []}}, "none", id="empty"),
        pytest.param({"nodeConfig": UNKNOWN}, "<unknown at preview>", id="unknown above"),
        pytest.param({"nodeConfig": {"taints": UNKNOWN}}, "<unknown at preview>", id="unknown"),
        pytest.param({"nodeConfig": "x"}, "x", id="the wrong type above"),
        pytest.param({"nodeConfig": {"taints": 7.0}}, "<float>", id="the wrong type"),
        pytest.param(
            {"nodeConfig": {"taints": [{"key": "a", "value": "hidden", "effect": "NoSchedule"}, {"key": UNKNOWN}]}},
            "a:NoSchedule, <unknown at preview>:<missing>",
            id="objects, without their values",
        ),
        pytest.param(
            {"nodeConfig": {"taints": ["a=hidden:NoSchedule", "", "b", None, True]}},
            "a:NoSchedule, <empty>, b and 2 more",
            id="strings, without their values, three at most",
        ),
        pytest.param({"nodeConfig": {"taints": ["x" * 500]}}, "a text of 500 characters", id="a long one is cut"),
    ],
)
def test_a_finding_shows_what_was_declared_but_no_values_of_taints(props: dict[str, object], found: str) -> None:
    finding = Finding(what="is wrong", property="nodeConfig.taints", fix="mend it")

    assert format_finding(finding, props) == f"is wrong; found nodeConfig.taints: {found}; mend it"


def test_every_rule_is_complete_and_named_once() -> None:
    assert len({rule.name for rule in ALL_RULES}) == len(ALL_RULES)
    for rule in ALL_RULES:
        assert rule.severity in {"low", "medium", "high", "critical"}
        assert rule.url.startswith("https://")
        assert rule.why.endswith(".")
        assert rule.fix.endswith(".")
        assert all(vars(rule.framework).values())
        assert [rule.pool, rule.software].count(None) == 1 or rule.stack is not None
        assert rule.pool is None or rule.software is None


def test_the_taint_rule_is_the_first_and_mandatory() -> None:
    assert (RESOURCE_RULES[0].name, RESOURCE_RULES[0].level) == ("gpu-pool-tainted", Level.MANDATORY)


def test_a_finding_is_told_with_its_pool_its_source_and_the_rules_section() -> None:
    finding = Finding(
        what="is wrong", property="a.b", found="x", fix="mend it", pool="blue", source="https://example.com"
    )

    assert format_finding(finding, {}, gpu_pool_tainted.RULE) == (
        "pool 'blue': is wrong; found a.b: x; mend it "
        "(see https://example.com, docs/reference/policies.md#gpu-pool-tainted)"
    )
    assert format_finding(Finding(what="is wrong", fix="mend it"), {}) == "is wrong; mend it"


def test_a_finding_links_to_the_documentation_that_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOLS_DOCS_URL", "https://example.com/gpupools/")

    said = format_finding(Finding(what="is wrong", fix="mend it"), {}, gpu_pool_tainted.RULE)

    assert said.endswith("(see https://example.com/gpupools/reference/policies/#gpu-pool-tainted)")


def test_the_value_at_a_list_position_is_shown() -> None:
    finding = Finding(what="w", property="agentPoolProfiles[1].nodeTaints", fix="f")

    assert "found agentPoolProfiles[1].nodeTaints: a:NoSchedule;" in format_finding(
        finding, {"agentPoolProfiles": [{}, {"nodeTaints": ["a=b:NoSchedule"]}]}
    )
    assert "nodeTaints: none;" in format_finding(finding, {"agentPoolProfiles": [{}]})
    assert "nodeTaints: x;" in format_finding(finding, {"agentPoolProfiles": "x"})


# --- the other rules that one pool decides ---

CLEAN = pool(8, GPU_TAINT, labels={"owner": "vision"}, min_nodes=0, max_nodes=4)
SHARED = SharingFacts("time-slicing", 4, said_by="nodeConfig.guestAccelerators[0].gpuSharingConfig")


def weakness(mandatory: bool = True, unverified: bool = False) -> Weakness:
    return Weakness(
        name="metadata-service",
        property="metadataOptions.httpTokens",
        found="optional",
        wanted="required",
        why="Pods can take the node's role.",
        mandatory=mandatory,
        source="https://example.com/imds",
        unverified=unverified,
    )


def gke(kind: str, machine: str, clients: int | None = None, profile: str = "") -> PoolFacts:
    sharing = SharingFacts(kind, clients, profile, "nodeConfig.guestAccelerators[0]")
    return PoolFacts(
        "gcp",
        (machine,),
        Fraction(1),
        (GPU_TAINT,),
        f"machineType {machine}",
        where="nodeConfig.taints",
        accelerator="nvidia",
        sharing=sharing,
        software=SoftwareHints(By.CLOUD, By.CLOUD, By.CLOUD),
    )


IDLE, OWNED, TOLERATED = "gpu-pool-idles-at-zero", "gpu-pool-owned", "gpu-taint-tolerated-by-daemons"
HARDENED, ADVISED, TRUSTED = "gpu-node-hardened", "gpu-node-hardening-advised", "gpu-sharing-trusted"
OTHERS, TAINTED, SUPPORTED = "other-accelerator-tainted", "gpu-pool-tainted", "gpu-sharing-supported"
ON_L4 = gke("mig-single", "g2-standard-4", profile="1g.5gb")


@pytest.mark.parametrize(
    ("rule", "facts", "config", "said"),
    [
        (TOLERATED, pool(8, EXECUTE), {}, 1),
        (TOLERATED, pool(8, EXECUTE, NO_KEY), {}, 1),
        (TOLERATED, pool(8, EXECUTE, GPU_TAINT), {}, 0),
        (TOLERATED, pool(None, EXECUTE), {}, 1),
        (TOLERATED, pool(0, EXECUTE), {}, 0),
        (TOLERATED, pool(None, EXECUTE, accelerator="other"), {}, 0),
        (TAINTED, pool(0, accelerator="other"), {}, 0),
        (TAINTED, pool(None, accelerator="other"), {}, 0),
        (TAINTED, pool(2, accelerator="other", unknown=("instanceTypes[1]",)), {}, 0),
        (TAINTED, pool(None, accelerator="other", unknown=("instanceTypes[1]",)), {}, 1),
        (OTHERS, pool(0, accelerator="other", in_cluster=None), {}, 1),
        (OTHERS, pool(0, accelerator="other", in_cluster=False), {}, 0),
        (OTHERS, pool(0, GPU_TAINT, accelerator="other"), {}, 0),
        (OTHERS, pool(0, accelerator=""), {}, 0),
        (OTHERS, pool(8), {}, 0),
        (HARDENED, pool(8, evidence="", weaknesses=(weakness(),)), {}, 1),  # GPUs that no input shows
        (HARDENED, pool(None, weaknesses=(weakness(),)), {}, 1),
        (HARDENED, pool(8, in_cluster=None, weaknesses=(weakness(),)), {}, 0),
        (HARDENED, pool(0, accelerator="other", weaknesses=(weakness(),)), {}, 0),
        (HARDENED, pool(8, weaknesses=(weakness(mandatory=False),)), {}, 0),
        (ADVISED, pool(0, weaknesses=(weakness(mandatory=False),)), {}, 0),
        (ADVISED, pool(8, weaknesses=(weakness(),)), {}, 0),
        (OWNED, pool(0), {}, 0),
        *(
            (OWNED, pool(8, labels={label: "vision"}), {}, 0)
            for label in ("owner", "team", "cost-center", "gpupools/trust", "gpupools/pool")
        ),
        (IDLE, pool(8, min_nodes=1, labels={"gpupools/software": "dra-driver"}), {}, 0),
        (IDLE, pool(0, min_nodes=3), {}, 0),
        *(
            (TRUSTED, pool(8, GPU_TAINT, sharing=SHARED, **named), {"waived": [pattern]}, count)
            for pattern, count in (("note*", 0), ("other", 1))
            for named in ({"labels": {"gpupools/pool": "notebooks"}}, {"pool": "notebooks"}, {"name": "notebooks"})
        ),
        (SUPPORTED, ON_L4, {}, 1),
        (SUPPORTED, dataclasses.replace(ON_L4, accelerator="amd"), {}, 0),
    ],
)
def test_a_rule_finds_what_it_is_for_and_nothing_else(
    rule: str, facts: PoolFacts, config: dict[str, Any], said: int
) -> None:
    assert len(found(facts, rule, **config)) == said


@pytest.mark.parametrize(
    "path", ["scalingConfig.maxSize", "scalingConfig", "maxSize", "maxCount", "limits.gpu", "labels"]
)
def test_a_bound_that_is_not_known_yet_is_unverified(path: str) -> None:
    is_open = path != "labels"
    (finding,) = found(pool(8, unknown=(path,)), "gpu-pool-bounded", maxNodesPerPool=5)

    assert finding.unverified is is_open
    assert (path in finding.what, "not known yet" in finding.what) == (is_open, is_open)


def test_a_clean_pool_passes_every_rule() -> None:
    assert [(rule.name, finding.what) for rule, finding in judge_resource([CLEAN], None, Context())] == []


def test_a_weakness_that_is_not_known_yet_is_unverified() -> None:
    (finding,) = found(pool(8, weaknesses=(weakness(unverified=True),)), "gpu-node-hardened")

    assert finding.unverified
    assert (finding.property, finding.found, finding.source) == (
        "metadataOptions.httpTokens",
        "optional",
        "https://example.com/imds",
    )
    assert finding.fix == "expected metadataOptions.httpTokens: required"


def test_a_pool_whose_taints_are_part_of_a_text_is_shown_with_them_alone() -> None:
    text = MissingTaint('the taint in "userData"')
    (bare,) = found(pool(8, missing_taint=text), "gpu-pool-tainted")
    (soft,) = found(pool(8, SOFT, missing_taint=text), "gpu-pool-tainted")

    assert (bare.found, soft.found) == ("none", "nvidia.com/gpu:PreferNoSchedule")


def test_a_script_that_is_not_evaluated_is_said_to_be_one() -> None:
    (finding,) = found(pool(8, unresolved_taints=("userData",), has_unevaluated_script=True), "gpu-pool-tainted")

    assert finding.unverified
    assert finding.what.endswith("user data is a script that gpupools does not evaluate (userData)")
    assert finding.fix.startswith("set the taint in ")


def test_a_text_that_is_no_profile_is_answered_with_the_profiles_there_are() -> None:
    (finding,) = found(gke("mig-single", "a2-highgpu-1g", profile="x" * 200), "gpu-sharing-supported")

    assert (finding.fix.partition(":")[0], finding.source) == ("profiles of this GPU", "")


CLOUD, NOBODY, UNSAID = By.CLOUD, By.NOBODY, By.UNSAID
A100, LONE_L4, NVADS = "Standard_NC24ads_A100_v4", "g2-standard-4", "Standard_NV6ads_A10_v5"
SHARINGS = [
    ("gcp", "a2-highgpu-1g", "mig-single", None, "1g.5gb", UNSAID, ""),
    ("gcp", "a2-highgpu-1g", "mig-single", None, "1g.99gb", UNSAID, "A100-40GB has no MIG profile '1g.99gb'"),
    ("gcp", "a2-highgpu-1g", "mig-single", None, "x" * 200, UNSAID, "is not a MIG profile"),
    ("gcp", LONE_L4, "mig-single", None, "1g.5gb", CLOUD, "L4 (g2-standard-4) cannot be cut into MIG instances"),
    ("gcp", "a2-highgpu-1g", "mig-single", None, "", UNSAID, ""),
    ("gcp", "a2-ultragpu-1g", "mig-single", None, "1g.5gb", UNSAID, "A100-80GB has no MIG profile '1g.5gb'"),
    ("gcp", LONE_L4, "time-slicing", 49, "", UNSAID, "got 49; GKE shares a GPU among at most 48 containers"),
    ("gcp", LONE_L4, "time-slicing", 48, "", UNSAID, ""),
    ("gcp", LONE_L4, "time-slicing", 1, "", UNSAID, "got 1; a shared GPU needs at least 2"),
    ("gcp", LONE_L4, "time-slicing", 2, "", UNSAID, ""),
    ("gcp", LONE_L4, "time-slicing", None, "", UNSAID, ""),
    ("gcp", LONE_L4, "mps", 49, "", UNSAID, "got 49; the MPS server of L4 takes 48 clients"),
    ("gcp", LONE_L4, "mps", 48, "", UNSAID, ""),
    ("gcp", LONE_L4, "mps", 1, "", UNSAID, "got 1; a shared GPU needs at least 2"),
    ("gcp", LONE_L4, "mps", None, "", UNSAID, ""),
    ("gcp", "a2-highgpu-1g", "mig-single+time-slicing", 48, "1g.5gb", UNSAID, ""),
    (
        "gcp",
        "a2-highgpu-1g",
        "mig-single+time-slicing",
        49,
        "1g.5gb",
        UNSAID,
        "got 49; GKE shares a GPU among at most 48",
    ),
    ("gcp", "a2-highgpu-1g", "mig-single+mps", 4, "1g.5gb", CLOUD, ""),
    ("gcp", "a2-highgpu-1g", "mig-single+mps", 4, "1g.5gb", NOBODY, "NVIDIA's device plugin does not run MPS on MIG"),
    ("gcp", "a2-highgpu-1g", "mig-mixed", None, "", UNSAID, ""),
    (
        "gcp",
        "a2-highgpu-1g",
        "mig-mixed",
        None,
        "",
        CLOUD,
        "gpuPartitionSize cuts every GPU of the pool into slices of",
    ),
    ("gcp", "a2-highgpu-1g", "mig-mixed", None, "", NOBODY, ""),
    ("azure", A100, "mig-single", None, "MIG1g", UNSAID, ""),
    ("azure", A100, "mig-mixed", None, "MIG1g", UNSAID, ""),
    ("azure", A100, "mig-mixed", None, "MIG9g", UNSAID, "A100-80GB has no profile MIG9g"),
    ("azure", A100, "mig-single", None, "MIG9g", UNSAID, "A100-80GB has no profile MIG9g"),
    ("azure", "Standard_NC4as_T4_v3", "mig-single", None, "MIG1g", NOBODY, "T4 (Standard_NC4as_T4_v3) cannot be cut"),
    ("azure", NVADS, "time-slicing", 4, "", UNSAID, ""),
    ("azure", NVADS, "mps", 4, "", UNSAID, f"{NVADS} has 1/6 of an A10, which cannot be shared further"),
    ("aws", "p4d.24xlarge", "mig-single", None, "1g.5gb", UNSAID, ""),
    ("aws", "g6f.large", "time-slicing", 4, "", UNSAID, ""),
    ("aws", "g6f.large", "mps", 4, "", UNSAID, "g6f.large has 1/8 of an L4, which cannot be shared further"),
    ("gcp", "g4-standard-6", "time-slicing", 4, "", UNSAID, "which GKE does not share"),
    ("aws", "g6.xlarge", "mps", 48, "", CLOUD, ""),
    ("aws", "p4d.24xlarge", "mig-single+time-slicing", 4, "1g.5gb", UNSAID, ""),
    (
        "aws",
        "p4d.24xlarge",
        "mig-single+time-slicing",
        4,
        "1g.5gb",
        CLOUD,
        "",
    ),
    ("aws", "p4d.24xlarge", "mig-single+time-slicing", 4, "1g.5gb", NOBODY, ""),
    ("aws", "not-in-the-catalogue", "mps", 1, "", UNSAID, ""),
    ("kubernetes", "g6.xlarge", "mps", 1, "", UNSAID, ""),
    ("aws", "g6.xlarge", "none", None, "", UNSAID, ""),
]


@pytest.mark.parametrize(("cloud", "machine", "kind", "clients", "profile", "plugin", "why"), SHARINGS)
def test_sharing_is_judged_by_the_ways_of_installing_that_the_pool_leaves_open(
    cloud: str, machine: str, kind: str, clients: int | None, profile: str, plugin: By, why: str
) -> None:
    facts = PoolFacts(
        cloud,
        ("no-such-machine", machine),
        Fraction(1),
        (GPU_TAINT,),
        accelerator="nvidia",
        sharing=SharingFacts(kind, clients, profile, said_by=f"gpuSharingConfig {kind}"),
        software=SoftwareHints(device_plugin=plugin),
        pool="shared",
    )
    said = found(facts, "gpu-sharing-supported")
    amount = f" {clients} clients" if clients is not None else ""

    assert [why in each.what for each in said] == ([True] if why else [])
    assert all(
        each.what.startswith(f"{kind}{f' {profile}' if profile else ''}{amount} on {machine} (") for each in said
    )
    assert {(each.property, each.pool) for each in said} <= {("gpuSharingConfig", "shared")}
    assert all(each.fix for each in said)
    # What the wish itself gets wrong needs no page; every limit of a GPU or a cloud names one.
    assert all(bool(each.source) is not ("needs at least" in why or "is not a MIG" in why) for each in said)


def test_the_first_machine_that_cannot_share_is_reported_once() -> None:
    facts = dataclasses.replace(
        gke("time-slicing", "g2-standard-4", 49), instance_types=("g2-standard-4", "g2-standard-8")
    )
    (finding,) = found(facts, "gpu-sharing-supported")

    assert " on g2-standard-4 (1 × L4) is not supported: " in finding.what
    assert finding.found == "time-slicing 49 clients"
    assert finding.fix == "use 48 or fewer"
    assert finding.source.startswith("https://")


def test_gpus_beside_a_machine_are_shared_as_the_machine_can() -> None:
    machine = "n1-standard-8+nvidia-tesla-t4:2"

    assert found(gke("time-slicing", machine, 8), "gpu-sharing-supported") == []
    (finding,) = found(gke("mps", machine, 49), "gpu-sharing-supported")
    assert f" on {machine} (2 × T4) is not supported: " in finding.what


def test_an_aks_profile_names_what_the_gpu_has() -> None:
    facts = PoolFacts(
        "azure",
        (A100,),
        Fraction(1),
        (GPU_TAINT,),
        accelerator="nvidia",
        sharing=SharingFacts("mig-single", None, "MIG9g"),
    )
    (finding,) = found(facts, "gpu-sharing-supported")

    assert finding.fix == "use one of MIG1g, MIG2g, MIG3g, MIG4g, MIG7g"
    assert finding.source == "https://learn.microsoft.com/azure/aks/gpu-multi-instance"


@pytest.mark.parametrize(
    ("facts", "config", "said"),
    [
        (
            pool(8, max_nodes=None),
            {"maxNodesPerPool": 5},
            "has no maximum size that gpupools can read, and the limit is 5 nodes",
        ),
        (pool(8, max_nodes=6), {"maxNodesPerPool": 5}, "may grow to 6 GPU nodes, and the limit is 5"),
        (
            pool(8, max_nodes=6, per_zone=True),
            {"maxNodesPerPool": 5},
            (
                "may grow to 18 GPU nodes (6 in each zone; no zones are named, and a regional cluster has 3), and the "
                "limit is 5"
            ),
        ),
        (
            pool(8, max_nodes=3, per_zone=True, zones=2),
            {"maxNodesPerPool": 5},
            "may grow to 6 GPU nodes (3 in each of 2 zones), and the limit is 5",
        ),
        (pool(8, max_nodes=5, per_zone=True, zones=1), {"maxNodesPerPool": 5}, None),
        (pool(8, max_nodes=2, per_zone=True, zones=2), {"maxNodesPerPool": 5}, None),
        (pool(8, max_nodes=5), {"maxNodesPerPool": 5}, None),
        (pool(8, max_nodes=6), {}, None),
        (pool(8, max_nodes=0), {"maxNodesPerPool": 0}, None),
        (pool(8, max_nodes=1), {"maxNodesPerPool": 0}, "may grow to 1 GPU nodes, and the limit is 0"),
        (pool(8, max_nodes=9), {"maxNodesPerPool": float("nan")}, None),
        (pool(0, max_nodes=6), {"maxNodesPerPool": 5}, None),
    ],
)
def test_a_pool_is_held_to_the_cap(facts: PoolFacts, config: dict[str, Any], said: str | None) -> None:
    assert [each.what for each in found(facts, "gpu-pool-bounded", **config)] == ([said] if said else [])


@pytest.mark.parametrize(("most", "certain"), [(2, False), (6, True)], ids=["with one zone it fits", "with any"])
def test_a_pool_whose_zones_are_not_known_yet_may_be_within_the_cap(most: int, certain: bool) -> None:
    facts = pool(8, max_nodes=most, per_zone=True, zones_unknown=True)
    (finding,) = found(facts, "gpu-pool-bounded", maxNodesPerPool=5)

    assert finding.unverified is not certain
    assert "the zones are not known yet" in finding.what


@pytest.mark.parametrize(
    ("nodes", "zones", "said"),
    [
        (1, False, "keeps 1 GPU node when no pod requests a GPU"),
        (2, False, "keeps 2 GPU nodes when no pod requests a GPU"),
        (2, True, "keeps 2 GPU nodes in each zone when no pod requests a GPU"),
        (0, False, None),
        (None, False, None),
    ],
)
def test_nodes_that_idle_are_counted(nodes: int | None, zones: bool, said: str | None) -> None:
    facts = pool(8, min_nodes=nodes, per_zone=zones)

    assert [each.what for each in found(facts, "gpu-pool-idles-at-zero")] == ([said] if said else [])


@pytest.mark.parametrize(
    ("named", "config", "passes"),
    [
        ({"labels": {"owner": "vision"}}, {}, True),
        ({"tags": {"Owner": "vision"}}, {}, True),
        ({"tags": {"owner": ""}}, {}, False),
        ({"tags": {"stage": "prod"}}, {}, False),
        ({"tags": {"stage": "prod"}}, {"labels": ["Stage"]}, True),
        ({"labels": {"owner": "vision"}}, {"labels": ["stage"]}, False),
        ({}, {"labels": []}, True),
        ({}, {"labels": "owner"}, False),
    ],
)
def test_an_owner_is_a_label_or_tag_that_is_asked_for(
    named: dict[str, Any], config: dict[str, Any], passes: bool
) -> None:
    said = found(pool(8, **named), "gpu-pool-owned", **config)

    assert bool(said) is not passes
    assert all(each.what == "no label or tag names the owner of these GPUs" for each in said)


def sharing(**more: Any) -> list[Finding]:
    config = more.pop("config", {})
    facts = SharingFacts(more.pop("kind", "time-slicing"), 4, said_by="gpuSharingConfig x")
    return found(pool(8, sharing=facts, **more), "gpu-sharing-trusted", **config)


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({}, False),
        ({"kind": "mps"}, False),
        ({"kind": "mig-single+mps"}, False),
        ({"kind": "mig-single"}, True),
        ({"kind": "none"}, True),
        ({"labels": {"gpupools/trust": "vision"}}, True),
        ({"labels": {"gpupools/trust": ""}}, False),
        ({"labels": {"gpupools/trust-waiver": "one-team-owns-the-cluster"}}, True),
        ({"config": {"tenants": "one"}}, True),
        ({"config": {"tenants": "several"}}, False),
        ({"config": {"tenants": "two"}}, False),
        ({"config": {"waived": ["note*"]}, "pool": "notebooks"}, True),
        ({"config": {"waived": ["note*"]}, "labels": {"gpupools/pool": "notebooks"}}, True),
        ({"config": {"waived": ["note*"]}, "pool": "training"}, False),
        ({"config": {"waived": ["*"]}}, False),
    ],
)
def test_who_shares_a_gpu_is_named_or_waived(given: dict[str, Any], passes: bool) -> None:
    said = sharing(**given)

    assert bool(said) is not passes
    assert {(each.property, each.found) for each in said} <= {
        ("gpuSharingConfig", f"{given.get('kind', 'time-slicing')} 4 clients")
    }


@pytest.mark.parametrize(
    ("facts", "protect", "stack", "passes"),
    [
        (pool(8), False, "prod", False),
        (pool(8), False, "team-prod", False),
        (pool(8), False, "dev", True),
        (pool(8), True, "prod", True),
        (pool(8, deletion_protected=True), False, "prod", True),
        (pool(0, evidence=""), False, "prod", True),
        (pool(8, in_cluster=None), False, "prod", True),
    ],
)
def test_gpu_pools_of_production_stacks_need_protection(
    facts: PoolFacts, protect: bool, stack: str, passes: bool
) -> None:
    said = found(facts, "gpu-pool-protected", stack, protect, stacks=["prod", "*-prod"])

    assert bool(said) is not passes
    assert {(each.property, each.found) for each in said} <= {("protect", "false")}
    assert all(f"production stack {stack} can be deleted" in each.what for each in said)


def test_the_words_for_what_is_set_by_hand_stay_since_reasons_are_given_by_them() -> None:
    assert (
        *("user-data", "start-up-script", "boot-image", "ssh-keys", "node-identity", "host-ports", "sysctls"),
        "container-runtime",
    ) == CUSTOMISATIONS


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, "*/user-data"),
        ({"pool": "inner"}, "inner/user-data"),
        ({"name": "outer"}, "outer/user-data"),
        ({"labels": {"gpupools/pool": "key"}, "name": "outer"}, "key/user-data"),
        ({"tags": {"gpupools:pool": "tag"}, "pool": "inner"}, "tag/user-data"),
    ],
)
def test_a_reason_is_asked_for_by_the_pools_own_name(given: dict[str, Any], asked: str) -> None:
    by_hand = (NodeCustomization("user-data", "userData", "runs at boot", "https://a"),)
    (finding,) = found(pool(8, GPU_TAINT, node_customizations=by_hand, **given), "gpu-node-customised")

    assert finding.fix.endswith(f"{{reasons: {{'{asked}': …}}}}")
    assert finding.found == "set"
    assert found(pool(8, node_customizations=by_hand, **given), "gpu-node-customised", reasons={asked: "agreed"}) == []
    assert found(pool(8, node_customizations=by_hand, **given), "gpu-node-customised", reasons={asked: " "}) == [
        finding
    ]


def test_every_option_of_a_rule_has_its_type_and_says_what_it_is() -> None:
    options = {f"{rule.name}.{key}": option for rule in ALL_RULES for key, option in (rule.config or {}).items()}

    assert len(options) > 10
    assert [name for name, option in options.items() if not option.get("type") or not option.get("description")] == []
    lists = {name: option for name, option in options.items() if option["type"] == "array"}
    assert {(option["items"]["type"], type(option["default"])) for option in lists.values()} == {("string", list)}


@pytest.mark.parametrize(
    ("facts", "has"),
    [
        (pool(8), True),
        (pool(None), True),
        (pool(None, evidence=""), False),
        (pool(0), False),
        (pool(8, accelerator="other"), False),
        (pool(8, in_cluster=None), False),
        (pool(8, in_cluster=False), False),
    ],
)
def test_a_pool_has_gpus_where_its_inputs_show_them_on_nodes(facts: PoolFacts, has: bool) -> None:
    assert facts.has_gpus is has


EKS_LABEL = {"k8s.amazonaws.com/accelerator": "nvidia-tesla-a100"}
CLAIMED = {"gpupools/software": "dra-driver"}
RENAMED = {"nvidia.com/device-plugin.config": "time-slicing-4-shared"}
MIXED = {"nvidia.com/device-plugin.config": "mig-mixed", "nvidia.com/mig.config": "all-1g.5gb"}
ONE_OF_EIGHT = MIXED | {"nvidia.com/mig.config": "custom-gpu0-7x1g.5gb_gpu1.2.3.4.5.6.7-off"}


@pytest.mark.parametrize(
    ("cloud", "machine", "labels", "said"),
    [
        ("azure", "Standard_ND96asr_v4", CLAIMED, "pods claim its GPUs"),
        ("gcp", "a2-highgpu-8g", CLAIMED, ""),  # its autoscaler models them
        ("aws", "p4d.24xlarge", CLAIMED, ""),
        ("aws", "p4d.24xlarge", CLAIMED | EKS_LABEL, "pods claim its GPUs"),
        ("azure", "Standard_ND96asr_v4", RENAMED, "renames the replicas"),
        ("gcp", "a2-highgpu-8g", MIXED, "strategy mixed"),
        ("gcp", "a2-highgpu-8g", ONE_OF_EIGHT, ""),  # seven GPUs stay whole
        ("gcp", "a2-highgpu-8g", {"nvidia.com/mig.config": "all-1g.5gb"}, ""),  # strategy single
        ("gcp", "a2-highgpu-8g", {"nvidia.com/mig.config": "theirs"}, ""),
        ("gcp", "unknown-8g", MIXED, ""),
        ("kubernetes", "", RENAMED, ""),
    ],
)
def test_an_autoscaler_misjudges_nodes_without_the_gpu_resource(
    cloud: str, machine: str, labels: dict[str, str], said: str
) -> None:
    facts = dataclasses.replace(pool(8), cloud=cloud, instance_types=tuple(filter(None, [machine])), labels=labels)

    for least, most in ((0, 4), (1, 4), (None, 4)):
        texts = [each.what for each in found(dataclasses.replace(facts, min_nodes=least, max_nodes=most), AUTOSCALED)]
        assert [said in each for each in texts] == ([True] if said else [])
    for fixed in (dict.fromkeys(("min_nodes", "max_nodes"), 2), {"min_nodes": 0, "max_nodes": None}):
        assert found(dataclasses.replace(facts, **fixed), AUTOSCALED) == []
    idle = found(dataclasses.replace(facts, min_nodes=1, max_nodes=4), "gpu-pool-idles-at-zero")
    assert bool(idle) is not (bool(said) or labels == CLAIMED)


AUTOSCALED = "gpu-pool-ready-for-autoscaler"
