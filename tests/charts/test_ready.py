"""The DaemonSets of the charts are the ones that `gpupools ready` looks for."""

import pytest

from gpupools.plan.software_plan import Piece, Release
from gpupools.ready.snapshot import daemons_of
from tests.charts.clusters import planned
from tests.charts.rendering import of_kind, rendered

pytestmark = pytest.mark.charts

EXPECTED = {
    "nvidia-device-plugin": {Piece.DEVICE_PLUGIN},
    "dra-driver-nvidia-gpu": {Piece.DRA_DRIVER},
    "hami": {Piece.DEVICE_PLUGIN},
}
"""What a chart brings in the matrix stack; the operator creates its DaemonSets itself."""
RELEASES = {
    release.chart: release
    for cluster in planned("stacks/Pulumi.matrix.yaml")
    for release in cluster.runtime.releases
    if release.chart in EXPECTED
}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_daemons_are_known_by_their_containers(release: Release) -> None:
    sets = list(of_kind(rendered(release), "DaemonSet"))
    assert {each.piece for one in sets for each in daemons_of(one)} == EXPECTED[release.chart]
    assert set(RELEASES) == set(EXPECTED)
