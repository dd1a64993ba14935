"""Many patterns at once answer as each by itself."""

from fnmatch import fnmatchcase

import pytest

from gpupools.common.patterns import FirstOf

PATTERNS = ("karpenter.sh/NodeOverlay", "karpenter*/*", "*.sh/*", "a[bc]?", "*:*", "")


@pytest.mark.parametrize(
    "text", ["karpenter.sh/NodeOverlay", "karpenter.k8s/X", "x.sh/Y\n", "abz", "aws:x", "", "none"]
)
def test_the_first_pattern_that_fits_is_found(text: str) -> None:
    wanted = next((place for place, one in enumerate(PATTERNS) if fnmatchcase(text, one)), None)

    assert FirstOf(PATTERNS)(text) == wanted


def test_no_pattern_fits_nothing() -> None:
    assert FirstOf(())("") is None
