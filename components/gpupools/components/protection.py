"""What keeps `pulumi destroy` from taking half of a production stack: one resource that goes first, or nothing does."""

from collections.abc import Iterable

import pulumi


class Protection(pulumi.ComponentResource):
    """Depend on everything a stack has, so that the engine deletes this first; protected while any pool is.

    The engine deletes what nothing depends on before all else, refuses what is protected only when it comes to it, and
    has deleted the rest by then (https://github.com/pulumi/pulumi, pkg/resource/deploy/step.go, `DeleteStep.Apply`).
    `--exclude-protected` leaves what a protected resource depends on, and `--target` asks for what depends on a target.
    """

    def __init__(self, everything: Iterable[pulumi.Resource], *, protect: bool) -> None:
        """Declare it: in every stack, since an update deletes nothing that the one before it left protected.

        Args:
            everything: The components of the stack.
            protect: Whether any of its pools is protected.
        """
        opts = pulumi.ResourceOptions(depends_on=list(everything), protect=protect)
        super().__init__("gpupools:index:Protection", "protection", {}, opts)
        self.register_outputs({})
