"""Configuration that belongs to Pulumi's own providers: the stack program's never read it, so it is refused. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping

from gpupools.common.errors import Problem, nearest
from gpupools.plan.cloud import Cloud

NAMESPACE = "gpupools"

_KUBERNETES = {
    "kubeconfig": "write kubeconfig: {path: …} of the cluster",
    "context": "write kubeconfig: {path: …, context: …} of the cluster",
    "cluster": "write kubeconfig: {path: …, context: …} of the cluster",
}


def idle_settings(keys: Iterable[str], clouds: Mapping[str, Cloud]) -> Iterator[Problem]:
    """Refuse configuration of providers, which would be believed to choose account, region or credentials.

    A provider that a program declares reads no stack configuration (https://github.com/pulumi/pulumi-aws/issues/3259),
    and every cluster has one of its own.

    Args:
        keys: Whole keys, `aws:profile`; those of other namespaces (`pulumi:tags`, a policy pack's) are left alone.
        clouds: The clouds by name.
    """
    owned = [key for key in keys if ":" in key]
    if not owned:
        return
    known: dict[str, Mapping[str, str]] = {"kubernetes": _KUBERNETES}
    for cloud in clouds:
        known |= clouds[cloud].provider_settings
    for key in owned:
        namespace, _, setting = key.partition(":")
        if namespace in known:
            what = f"nobody reads it: each cluster has a provider of its own, which no {namespace}:… setting reaches"
            yield Problem((key,), what, known[namespace].get(_top(setting), "take it out"))
        elif "did you mean" in (close := nearest(namespace, [NAMESPACE])):
            yield Problem((key,), "belongs to nobody", close.replace(f"'{NAMESPACE}'", f"'{NAMESPACE}:{setting}'"))


def _top(setting: str) -> str:
    """Return a setting without what `pulumi config set --path` may have put behind it."""
    return re.split(r"[.\[]", setting, maxsplit=1)[0]
