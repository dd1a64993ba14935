"""The rules as plain functions on facts, from both sides."""

from fractions import Fraction

import pytest

from gpupools.cloud import UNKNOWN, PoolFacts
from gpupools.taints import GPU_TAINT, Effect, Taint
from policies.rules import RULES, Finding, Level, gpu_pool_tainted, told

OBJECT = "{key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE}"
STRING = '"nvidia.com/gpu=present:NoSchedule"'


def pool(
    gpus: Fraction | int | None = 8,
    *taints: Taint,
    cloud: str = "aws",
    evidence: str = "instanceTypes p4d.24xlarge",
    unknown: tuple[str, ...] = (),
) -> PoolFacts:
    return PoolFacts(cloud, ("p4d.24xlarge",), None if gpus is None else Fraction(gpus), taints, evidence, unknown)


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
    assert gpu_pool_tainted(facts) is None


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
    assert gpu_pool_tainted(facts) == Finding(
        what=f"has {what}, but no permanent taint keeps other pods off",
        property="taints",
        fix=f"add {OBJECT} to taints",
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
            "may have NVIDIA GPUs, but whether a taint keeps other pods off cannot be verified: instanceTypes, amiType "
            "not known yet, or not in this resource",
            id="an unknown machine",
        ),
        pytest.param(
            pool(None, evidence=""),
            "may have NVIDIA GPUs, but whether a taint keeps other pods off cannot be verified: the machine type not "
            "known yet, or not in this resource",
            id="an unknown machine that names no input",
        ),
        pytest.param(
            pool(1, cloud="gcp", unknown=("nodeConfig",)),
            "has 1 NVIDIA GPU per node (instanceTypes p4d.24xlarge), but whether a taint keeps other pods off cannot "
            "be verified: nodeConfig not known yet, or not in this resource",
            id="the input that holds the taints",
        ),
    ],
)
def test_a_pool_that_the_unknown_part_decides_is_unverified(facts: PoolFacts, what: str) -> None:
    finding = gpu_pool_tainted(facts)

    assert finding is not None
    assert (finding.what, finding.unverified) == (what, True)


@pytest.mark.parametrize(
    ("cloud", "taint", "path"),
    [
        ("aws", OBJECT, "taints"),
        ("azure", STRING, "nodeTaints"),
        ("gcp", OBJECT, "nodeConfig.taints"),
        ("a new cloud", "nvidia.com/gpu=present:NoSchedule", "taints"),
    ],
)
def test_the_cure_is_in_the_clouds_own_spelling(cloud: str, taint: str, path: str) -> None:
    here = f"write machine type and taints as plain values here, with {taint} in {path}"

    found = gpu_pool_tainted(pool(8, cloud=cloud))
    late = gpu_pool_tainted(pool(8, cloud=cloud, unknown=(path,)))
    maybe = gpu_pool_tainted(pool(None, cloud=cloud, evidence="", unknown=(path,)))

    assert found is not None
    assert late is not None
    assert maybe is not None
    assert (found.fix, late.fix) == (f"add {taint} to {path}", here)
    assert maybe.fix == f"{here} if the nodes have GPUs"


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
        pytest.param({"nodeConfig": {"taints": ["x" * 500]}}, "x" * 58, id="a long one is cut"),
    ],
)
def test_a_finding_shows_what_was_declared_but_no_values_of_taints(props: dict[str, object], found: str) -> None:
    finding = Finding(what="is wrong", property="nodeConfig.taints", fix="mend it")

    assert told(finding, props) == f"is wrong; found nodeConfig.taints: {found}; mend it"


def test_every_rule_is_complete_and_named_once() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.severity in {"low", "medium", "high", "critical"}
        assert rule.url.startswith("https://")
        assert rule.why
        assert rule.fix


def test_the_taint_rule_is_mandatory() -> None:
    assert [(rule.name, rule.level) for rule in RULES if rule.check is gpu_pool_tainted] == [
        ("gpu-pool-tainted", Level.MANDATORY)
    ]
