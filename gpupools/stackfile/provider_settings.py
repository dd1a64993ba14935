"""Rejects configuration of Pulumi's default providers, which gpupools does not use. Pure."""

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
    """Reject configuration of default providers, which users would expect to set account, region or credentials.

    Each cluster has an explicit provider, which does not read stack configuration
    (https://github.com/pulumi/pulumi-aws/issues/3259).
    """
    owned = [key for key in keys if ":" in key]
    if not owned:
        return
    known: dict[str, Mapping[str, str]] = {"kubernetes": _KUBERNETES}
    for cloud in clouds:
        known |= clouds[cloud].provider_settings
    for key in owned:
        namespace, _, setting = key.partition(":")
        top = re.split(r"[.\[]", setting, maxsplit=1)[0]  # of a path that `pulumi config set --path` may have written
        if namespace in known:
            what = f"has no effect: each cluster has its own provider, which does not read {namespace}:… settings"
            yield Problem((key,), what, known[namespace].get(top, "remove it"))
        elif "did you mean" in (close := nearest(namespace, [NAMESPACE])):
            yield Problem(
                (key,), "has an unknown namespace", close.replace(f"'{NAMESPACE}'", f"'{NAMESPACE}:{setting}'")
            )
