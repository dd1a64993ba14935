"""What excludes what in a pool of Nimbus. Pure."""

from gpupools.common.errors import Problem
from gpupools.plan.provider_plan import PoolRequest


def check_settings(request: PoolRequest) -> list[Problem]:
    """Refuse images the cloud does not have, and more tags than it takes."""
    found, family = [], request.spec.image.family
    if family not in (None, "nimbus-os", "nimbus-lts"):
        what = f"Nimbus has no image {family}"
        found.append(Problem(("pools", request.name, "image", "family"), what, "use nimbus-os or nimbus-lts"))
    if len(request.spec.tags) > 2:
        what = f"got {len(request.spec.tags)}, and Nimbus takes 2"
        found.append(Problem(("pools", request.name, "tags"), what, "drop some"))
    return found
