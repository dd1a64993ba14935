"""Rejects pools that Nimbus cannot run. Pure."""

from gpupools.common.errors import Problem
from gpupools.plan.provider_plan import PoolRequest


def check_settings(request: PoolRequest) -> list[Problem]:
    """Reject images that the cloud does not have, and more tags than it allows."""
    found, family = [], request.spec.image.family
    if family not in (None, "nimbus-os", "nimbus-lts"):
        what = f"Nimbus has no image {family}"
        found.append(Problem(("image", "family"), what, "use nimbus-os or nimbus-lts"))
    if len(request.spec.tags) > 2:
        what = f"got {len(request.spec.tags)}, and Nimbus takes 2"
        found.append(Problem(("tags",), what, "drop some"))
    return found


def check_pool(request: PoolRequest) -> list[Problem]:
    """Reject more containers per GPU than the cloud's plugin allows."""
    clients = request.spec.sharing.clients
    if clients is None or clients.replicas <= 8:
        return []
    where = ("sharing", "replicas")
    return [Problem(where, f"got {clients.replicas}, and Nimbus takes at most 8", "write 8 or fewer")]
