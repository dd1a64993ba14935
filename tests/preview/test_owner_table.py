"""The table of who installs which GPU software."""

from gpupools.plan.software_plan import Piece, PoolOwners, RuntimePlan
from gpupools.preview.format_preview import owner_table


def runtime(*owners: PoolOwners) -> RuntimePlan:
    return RuntimePlan(
        cluster="train", cloud="aws", owners=owners, releases=(), objects=(), pods={}, depends={}, notes=()
    )


IMAGE = {Piece.DRIVER: "the image", Piece.CONTAINER_TOOLKIT: "the image"}


def test_each_owner_has_a_line_with_its_pieces() -> None:
    table = owner_table([runtime(PoolOwners("a", "device-plugin", {**IMAGE, Piece.DEVICE_PLUGIN: "a chart"}))])

    assert table.split("\n")[0].split() == ["cluster", "pools", "software", "installed", "by", "components"]
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["train", "a", "device-plugin", "the", "image", "driver,", "container", "toolkit"],
        ["a", "chart", "device", "plugin"],
    ]


def test_pools_with_the_same_owners_stand_together_and_others_apart() -> None:
    table = owner_table(
        [
            runtime(
                PoolOwners("a", "device-plugin", IMAGE),
                PoolOwners("b", "cloud-managed", IMAGE),
                PoolOwners("c", "device-plugin", IMAGE),
            )
        ]
    )

    assert [line.split()[:2] for line in table.splitlines()[2:]] == [
        ["train", "a"],
        ["c"],
        ["train", "b"],
    ]


def test_a_pool_nobody_serves_is_still_in_the_table() -> None:
    assert "alone" in owner_table([runtime(PoolOwners("alone", "device-plugin", {}))])
