"""GPU software that Nimbus nodes come with. Pure."""

from gpupools.plan.node_software import NodeRuntime
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.plan.software_plan import Piece

_PAGE = "https://example.com/images"
_IMAGE = {Piece.DRIVER: "Nimbus", Piece.CONTAINER_TOOLKIT: "Nimbus"}
MANAGED = NodeRuntime(brings={**_IMAGE, Piece.DEVICE_PLUGIN: "Nimbus"}, why="the image brings all of it", source=_PAGE)
BARE = NodeRuntime(brings=_IMAGE, why="the image brings driver and toolkit", source=_PAGE)


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes."""
    return MANAGED if software == "cloud-managed" else BARE
