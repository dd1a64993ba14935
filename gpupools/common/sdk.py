"""What some commands need beyond the base package."""

_MODULES = ("grpc", "google", "pulumi", "pulumi_policy")
"""Top-level modules of Pulumi's SDKs, which only some commands need."""

NEED = "the Pulumi SDKs: install gpupools[aws], [azure], [gcp] or [all]"

NEED_FOR_CLUSTERS = "the Kubernetes client: install gpupools[cluster] or [all]"

NEED_FOR_DASHBOARDS = "grafana-foundation-sdk: install gpupools[monitoring] or [all]"

NEED_FOR_SOURCES = "python-hcl2: install gpupools[audit] or [all]"


def is_missing(error: ModuleNotFoundError) -> bool:
    """Return whether an SDK is not installed, as opposed to a missing module of gpupools."""
    return error.name is not None and error.name.partition(".")[0] in _MODULES
