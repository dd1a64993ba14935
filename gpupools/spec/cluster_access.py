"""Keys of a cluster for access to its Kubernetes API, the same on every cloud. Pure.

Only software inside the cluster needs them. Pools are declared through the cloud's own API.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from gpupools.common.errors import Path, Problem, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.model import StrictModel
from gpupools.spec.models import Address, Cluster, ExecPlugin, Late, StackOutput

ACCESS_KEYS = ("kubeconfig", "endpoint", "certificate_authority")
"""Keys for access to the cluster's API, which pools do not need."""


_EXEC_API = "client.authentication.k8s.io/v1beta1"
"""The version that all three clouds' plugins support; `v1` would need a newer `gke-gcloud-auth-plugin`.

https://kubernetes.io/docs/reference/config-api/client-authentication.v1beta1/
"""


def built_kubeconfig(name: Any, server: Any, certificate_authority: Any, plugin: ExecPlugin) -> dict[str, Any]:
    """Return a kubeconfig without credentials, only with the command that gets a token. Values may be outputs."""
    execution = {
        "apiVersion": _EXEC_API,
        "command": plugin.command,
        "args": list(plugin.args),
        "installHint": plugin.install_hint,
        "provideClusterInfo": plugin.provide_cluster_info,
        "interactiveMode": "IfAvailable",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": certificate_authority}}
        ],
        "users": [{"name": name, "user": {"exec": execution}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _absolute(path: str) -> str:
    if not path.startswith(("/", "~/")):
        # The provider resolves the path in its own working folder, and reads a path without a file as a kubeconfig:
        # https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/util.go.
        raise ValueError(f"got {shown(path)}; write an absolute path, or one that starts with ~/")
    if {":", ";"} & set(path):  # Kubernetes clients read such a path as a list of files
        raise ValueError(f"got {shown(path)}; write the path of one file, without : and ;")
    return path


def _text_or_late(value: object) -> object:
    if isinstance(value, Late) or (isinstance(value, str) and value):
        return value
    raise ValueError(f"got {shown(value)}; store the kubeconfig as a secret of the stack: {{secure: …}}")


class KubeconfigFile(StrictModel):
    """A kubeconfig on the machine that runs Pulumi."""

    path: Annotated[str, AfterValidator(_absolute)]
    """Absolute path, or one that starts with `~/`."""
    context: str | None = None
    """Context of the kubeconfig. Default: its current context."""


class KubeconfigSecret(StrictModel):
    """A kubeconfig that the stack file stores encrypted."""

    secret: Annotated[Any, AfterValidator(_text_or_late)]
    """The kubeconfig, set with `pulumi config set --secret --path`."""
    context: str | None = None
    """Context of the kubeconfig. Default: its current context."""


def _forms(value: object) -> list[str]:
    """Return the keys of a kubeconfig's forms that a value has, as the file has it or validated."""
    forms = ("path", "secret", "output")
    return [key for key in forms if hasattr(value, key) or (isinstance(value, Mapping) and key in value)]


def _not_bare(value: object) -> object:
    if isinstance(value, Late):
        raise ValueError("is an encrypted value; write {secret: {secure: …}}")
    if isinstance(value, str):
        # The value is not shown: while the program runs, a secret is clear text here.
        raise ValueError("is text; write {path: …}, {secret: {secure: …}} or {output: …}")
    if len(given := _forms(value)) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other; set one of them")
    return value


Kubeconfig = Annotated[
    Annotated[KubeconfigFile, Tag("<path>")]
    | Annotated[KubeconfigSecret, Tag("<secret>")]
    | Annotated[StackOutput, Tag("<output>")],
    Discriminator(lambda value: next((f"<{key}>" for key in _forms(value)), None)),
    BeforeValidator(_not_bare),
]


def provider_kubeconfig(
    cluster: JsonObject, plugin_of: Callable[[JsonObject], ExecPlugin], url_of: Callable[[Any], Any]
) -> tuple[Any, str | None]:
    """Return what the Kubernetes provider of a cluster gets: path or content of a kubeconfig, and its context.

    Values may be outputs. The context is None for the current one.
    """
    source = cluster.get("kubeconfig")
    if isinstance(source, KubeconfigFile):
        return source.path, source.context
    if isinstance(source, KubeconfigSecret):
        return source.secret, source.context
    if source is not None:
        return source, None
    server, authority = url_of(cluster["endpoint"]), cluster["certificate_authority"]
    return built_kubeconfig(cluster["name"], server, authority, plugin_of(cluster)), None


_HOST = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
_API = rf"(https://)?({_HOST}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[A-Za-z0-9._~/-]*)?"


def api_url(endpoint: str) -> str:
    """Return the address of a cluster's API as a URL. GKE and AKS show the host alone.

    The address receives a token, so it must use TLS and have neither a user nor a query.

    Raises:
        ValueError: The endpoint is not such an address.
    """
    if not re.fullmatch(_API, endpoint):
        # The value may contain a password: https://user:password@host.
        raise ValueError("is not the address of an API; write https://<host> or https://<host>:<port>")
    return endpoint if endpoint.startswith("https://") else f"https://{endpoint}"


def endpoint_host(cluster: Cluster) -> str:
    """Return the host of the API, with a port if it has one, that the stack file names; empty for none."""
    endpoint = getattr(cluster, "endpoint", None)
    return urlsplit(api_url(endpoint)).netloc.casefold() if isinstance(endpoint, str) else ""


def _an_api(endpoint: Any) -> Any:
    if isinstance(endpoint, str):
        api_url(endpoint)
    return endpoint


class ReachableCluster(Cluster):
    """A cluster with optional API access: a kubeconfig, or endpoint and certificate authority."""

    kubeconfig: Kubeconfig | None = None
    """Credentials for the API: `{path: …}`, `{secret: …}`, or `{output: …}` of another stack."""
    endpoint: Annotated[Address, AfterValidator(_an_api)] | None = None
    """Address of the cluster's API. Credentials then come from the cloud's own login on this machine."""
    certificate_authority: Address | None = None
    """Certificate authority of the API, base64-encoded as the cloud shows it. Required with `endpoint`."""

    not_pool_inputs: ClassVar[frozenset[str]] = Cluster.not_pool_inputs | frozenset(ACCESS_KEYS)

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject two kinds of access, and an endpoint without its certificate authority or the reverse."""
        yield from super().conflicting_keys()
        pair = ("endpoint", "certificate_authority")
        given = [key for key in pair if getattr(self, key) is not None]
        if self.kubeconfig is not None:
            yield from (((key,), "cannot be combined with kubeconfig; remove one of them") for key in given)
        elif len(given) == 1:
            missing = next(key for key in pair if key not in given)
            yield (given[0],), f"requires {missing}; add {missing}"

    @property
    def has_access(self) -> bool:
        """Whether the stack file has access to the cluster's API."""
        return self.kubeconfig is not None or self.endpoint is not None


def missing_access(key: str, cluster: Cluster, installs: Collection[str]) -> list[Problem]:
    """Reject software (`installs`) for a cluster whose stack file has no access to its API."""
    if not isinstance(cluster, ReachableCluster) or cluster.has_access:
        return []
    if not installs:
        what = "requires access to the cluster's API, which is not set"
        fix = "add kubeconfig, or endpoint and certificate_authority; or remove wait_ready"
        path = ("clusters", key, "runtime", "wait_ready")
        return [Problem(path, what, fix)] if cluster.runtime.wait_ready is not None else []
    what = f"its pools need software in the cluster ({', '.join(installs)}), but the cluster's API access is not set"
    fix = (
        "add kubeconfig: {path: …}, {secret: {secure: …}} or {output: …}, or endpoint and certificate_authority; "
        "or runtime: {management: external, existing: …} if your team installs the software"
    )
    return [Problem(("clusters", key), what, fix)]


def misplaced_kubeconfigs(clusters: Mapping[str, Cluster], is_inside: Callable[[str], bool]) -> Iterator[Problem]:
    """Reject a kubeconfig that the stack file stores as clear text, without repeating it, and one inside the checkout.

    It names programs to run, and a pull request may change it.
    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """
    for key, cluster in clusters.items():
        kubeconfig, path = getattr(cluster, "kubeconfig", None), ("clusters", key, "kubeconfig")
        if isinstance(kubeconfig, KubeconfigSecret) and not isinstance(kubeconfig.secret, Late):
            fix = f"set it with pulumi config set --secret --path 'gpupools:{'.'.join(path)}.secret'"
            yield Problem((*path, "secret"), "is stored as clear text", fix)
        if isinstance(kubeconfig, KubeconfigFile) and is_inside(kubeconfig.path):
            what = "is inside the checkout, but a kubeconfig names programs that run"
            fix = "move it outside, or store it as a secret of the stack: {secret: {secure: …}}"
            yield Problem((*path, "path"), what, fix)
