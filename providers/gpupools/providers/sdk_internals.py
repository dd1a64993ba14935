"""The one name of Pulumi's SDK that its makers do not promise to keep; whoever wants it asks here.

What `pulumi` has no public way for: waiting for a value while a program runs. `pack` of the policies also replaces
internals, to save time, and leaves an SDK alone that has them no longer.
"""

from collections.abc import Awaitable
from typing import TypeVar

import pulumi

T = TypeVar("T")

TESTED = "3.272.0"
"""The version of `pulumi` with which the name was there."""


def wait_for(value: Awaitable[T]) -> T:
    """Run the program's loop until a value is there, also from inside that loop.

    Raises:
        pulumi.RunError: The installed SDK has the name no longer.
    """
    try:
        from pulumi.runtime.sync_await import _sync_await
    except ImportError:
        what = "the installed pulumi has no pulumi.runtime.sync_await._sync_await, which waits for a value while the"
        fix = f"install pulumi=={TESTED}, with which it was tried"
        raise pulumi.RunError(f"{what} program runs; {fix}") from None
    found: T = _sync_await(value)
    return found
