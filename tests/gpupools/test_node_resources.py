"""What a node advertises to Kubernetes, for every way of sharing."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.catalog.instance_types import Catalogue
from gpupools.catalog.mig import UnknownProfile
from gpupools.plan.node_resources import node_resources, slice_shares
from gpupools.spec.models import PoolSpec
from gpupools.stackfile.stack_validation import parse_pool
from tests.rows import each_row

GPU = "nvidia.com/gpu"


def sharing(text: Mapping[str, Any]) -> Any:
    spec: PoolSpec = parse_pool((), {"gpu": "x", "nodes": {"max": 1}, "sharing": text})
    return spec.sharing


def mig(**keys: Any) -> dict[str, Any]:
    return {"mode": "mig", **keys}


@each_row(
    ("machine", "text", "counts"),
    [
        pytest.param("a100-40.8", {"mode": "none"}, {GPU: 8}, id="whole GPUs"),
        pytest.param("a10.part", {"mode": "none"}, {GPU: 1}, id="a part of a GPU is one device"),
        pytest.param("l4.small", {"mode": "time-slicing", "replicas": 4}, {GPU: 4}, id="time-slicing"),
        pytest.param("a100-40.8", {"mode": "mps", "replicas": 3}, {GPU: 24}, id="MPS"),
        pytest.param(
            "l4.small",
            {"mode": "time-slicing", "replicas": 4, "rename": True},
            {f"{GPU}.shared": 4},
            id="time-slicing by another name",
        ),
        pytest.param(
            "l4.small", {"mode": "mps", "replicas": 3, "rename": True}, {f"{GPU}.shared": 3}, id="MPS by another name"
        ),
        pytest.param("a100-40.8", mig(profile="1g.5gb"), {GPU: 56}, id="one profile takes its maximum per GPU"),
        pytest.param("a100-40.8", mig(profile="3g.20gb"), {GPU: 16}, id="a larger profile"),
        pytest.param("a100-40.8", mig(profile="1g.5gb+me"), {GPU: 8}, id="a profile a GPU carries once"),
        pytest.param(
            "a100-40.8", mig(profile="1g.5gb", strategy="mixed"), {"nvidia.com/mig-1g.5gb": 56}, id="one profile, mixed"
        ),
        pytest.param(
            "a100-40.1",
            mig(profile="1g.5gb+me", strategy="mixed"),
            {"nvidia.com/mig-1g.5gb.me": 1},
            id="a plus is a dot",
        ),
        pytest.param(
            "a100-40.8",
            mig(layout=["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"]),
            {"nvidia.com/mig-1g.5gb": 16, "nvidia.com/mig-2g.10gb": 8, "nvidia.com/mig-3g.20gb": 8},
            id="one layout for every GPU",
        ),
        pytest.param("a100-40.8", mig(layout=["2g.10gb"] * 3, strategy="single"), {GPU: 24}, id="a uniform layout"),
        pytest.param(
            "a100-40.8",
            mig(layout={0: ["3g.20gb", "3g.20gb"], "7": ["1g.5gb"]}),
            {GPU: 6, "nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-3g.20gb": 2},
            id="a layout per GPU leaves the others whole",
        ),
        pytest.param(
            "a100-40.1", mig(layout={0: ["7g.40gb"]}), {"nvidia.com/mig-7g.40gb": 1}, id="a layout for the only GPU"
        ),
        pytest.param(
            "a100-40.8",
            mig(profile="1g.5gb", share={"mode": "time-slicing", "replicas": 3}),
            {GPU: 168},
            id="shared slices of one name",
        ),
        pytest.param(
            "a100-40.8",
            mig(profile="1g.5gb", share={"mode": "time-slicing", "replicas": 3, "rename": True}),
            {f"{GPU}.shared": 168},
            id="shared slices of another name",
        ),
        pytest.param(
            "a100-40.8",
            mig(layout={0: ["3g.20gb", "1g.5gb", "1g.5gb+me"]}, share={"mode": "mps", "replicas": 2, "rename": True}),
            {
                GPU: 7,
                "nvidia.com/mig-1g.5gb.me.shared": 2,
                "nvidia.com/mig-1g.5gb.shared": 2,
                "nvidia.com/mig-3g.20gb.shared": 2,
            },
            id="only what is shared has another name",
        ),
        pytest.param(
            "a100-40.8",
            mig(layout={0: ["3g.20gb", "1g.5gb"]}, share={"mode": "mps", "replicas": 2}),
            {GPU: 7, "nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 2},
            id="only slices are shared, whole GPUs beside them are not",
        ),
    ],
)
def test_a_node_advertises(
    machine: str, text: dict[str, Any], counts: dict[str, int], fake_catalogue: Catalogue
) -> None:
    found = node_resources(fake_catalogue[machine], sharing(text))

    assert found == counts
    assert list(found) == sorted(found)


def test_a_slice_takes_its_share_of_the_memory_of_its_gpu(fake_catalogue: Catalogue) -> None:
    cut = sharing(mig(layout={0: ["3g.20gb", "1g.5gb"], "7": ["7g.40gb"]}))
    found = slice_shares(fake_catalogue["a100-40.8"], cut)

    assert found == [[("3g.20gb", 0.5), ("1g.5gb", 0.125)], *[[]] * 6, [("7g.40gb", 1.0)]]


def test_a_profile_of_another_gpu_is_refused(fake_catalogue: Catalogue) -> None:
    with pytest.raises(UnknownProfile):
        node_resources(fake_catalogue["a100-80.1"], sharing(mig(profile="1g.5gb")))
