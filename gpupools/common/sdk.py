"""What some commands need beyond the base package."""

_MODULES = ("grpc", "google", "pulumi", "pulumi_policy")
"""Top-level modules that come with Pulumi's SDKs and that only some commands need."""

NEED = "Pulumi's SDK and the clouds': install gpupools[aws], [azure], [gcp] or [all]"

NEED_FOR_SOURCES = "python-hcl2: install gpupools[audit] or [all]"


def is_missing(error: ModuleNotFoundError) -> bool:
    """Say whether it is an SDK that is not there, and not a module of our own."""
    return error.name is not None and error.name.partition(".")[0] in _MODULES
