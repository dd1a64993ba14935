"""What excludes what in a pool of Nimbus. Pure."""

from gpupools.base.errors import Problem
from gpupools.planned.cloud import Wish


def conflicts(wish: Wish) -> list[Problem]:
    """Refuse more tags than the cloud takes."""
    if len(wish.spec.tags) <= 2:
        return []
    return [Problem(("pools", wish.name, "tags"), f"got {len(wish.spec.tags)}, and Nimbus takes 2", "drop some")]
