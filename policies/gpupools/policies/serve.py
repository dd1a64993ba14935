"""Serves the policy pack to Pulumi's engine."""

from gpupools.console.startup import start_lightly


def serve() -> None:
    """Serve until the engine ends the process: nothing after the call runs."""
    start_lightly()
    from pulumi_policy import EnforcementLevel, PolicyPack

    from gpupools.policies.pack import NAME, judge_once, policies

    judge_once()
    PolicyPack(name=NAME, policies=policies(), enforcement_level=EnforcementLevel.MANDATORY)
