"""What excludes what in a pool of Nimbus. Pure."""

from gpupools.base.errors import Problem
from gpupools.planned.cloud import Wish


def conflicts(wish: Wish) -> list[Problem]:
    """Refuse images the cloud does not have, and more tags than it takes."""
    found, family = [], wish.spec.image.family
    if family not in (None, "nimbus-os", "nimbus-lts"):
        what = f"Nimbus has no image {family}"
        found.append(Problem(("pools", wish.name, "image", "family"), what, "use nimbus-os or nimbus-lts"))
    if len(wish.spec.tags) > 2:
        what = f"got {len(wish.spec.tags)}, and Nimbus takes 2"
        found.append(Problem(("pools", wish.name, "tags"), what, "drop some"))
    return found
