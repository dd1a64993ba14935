"""Serves the policy pack to Pulumi's engine."""

from gpupools.console.startup import start_lightly


def serve() -> None:
    """Serve until the engine ends the process: nothing after the call runs."""
    start_lightly()
    from pulumi_policy import EnforcementLevel, PolicyPack, policy

    from gpupools.policies.pack import NAME, POLICIES, Analyzer, missing_sdk_names

    if missing := missing_sdk_names():
        raise SystemExit(f"the installed pulumi_policy lacks {', '.join(missing)}; install that of requirements.txt")
    vars(policy)["_PolicyAnalyzerServicer"] = Analyzer
    PolicyPack(name=NAME, policies=[*POLICIES.values()], enforcement_level=EnforcementLevel.MANDATORY)
