"""How the API of a cluster is reached, as a stack file says it: the same keys on every cloud. Pure.

Only software inside the cluster needs them; a pool is declared through the cloud's own API.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from gpupools.common.errors import Path, Problem, shown
from gpupools.common.model import StrictModel
from gpupools.spec.models import Address, Cluster, Late, StackOutput

ACCESS_KEYS = ("kubeconfig", "endpoint", "certificate_authority")
"""The keys of a cluster that say how its API is reached; no pool needs them."""


class ExecPlugin(NamedTuple):
    """A program that gets a token for a cluster's API when one is needed, so that none is stored.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """

    command: str
    args: tuple[Any, ...]
    """Text, or values known only while the program runs."""
    install_hint: str
    """What to do on a machine that lacks the program."""
    provide_cluster_info: bool = False
    """Whether the plugin is told which cluster the token is for."""


def _absolute(path: str) -> str:
    if not path.startswith(("/", "~/")):
        # The provider looks from its own working folder, and takes what is no file for the kubeconfig's text:
        # https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/util.go.
        raise ValueError(f"got {shown(path)}; write the whole path, or one that begins with ~/")
    return path


def _text_or_late(value: object) -> object:
    if isinstance(value, Late) or (isinstance(value, str) and value):
        return value
    raise ValueError(f"got {shown(value)}; write the kubeconfig as a secret of the stack: {{secure: …}}")


class KubeconfigFile(StrictModel):
    """A kubeconfig on the machine that runs Pulumi."""

    path: Annotated[str, AfterValidator(_absolute)]
    """Absolute, or beginning with `~/`."""
    context: str | None = None
    """The context to use; left out: the file's current one."""


class KubeconfigSecret(StrictModel):
    """A kubeconfig kept in the stack file, encrypted."""

    secret: Annotated[Any, AfterValidator(_text_or_late)]
    """Written by `pulumi config set --secret --path`."""
    context: str | None = None
    """The context to use; left out: the kubeconfig's current one."""


def _form(value: object) -> str | None:
    forms = ((KubeconfigFile, "path"), (KubeconfigSecret, "secret"), (StackOutput, "output"))
    return next(
        (f"<{key}>" for kind, key in forms if isinstance(value, kind) or (isinstance(value, Mapping) and key in value)),
        None,
    )


def _not_bare(value: object) -> object:
    if isinstance(value, Late):
        raise ValueError("is a secret that no key names; write {secret: {secure: …}}")
    if isinstance(value, str):
        # What was written is not shown: while the program runs, a secret is here as clear text.
        raise ValueError("is a text; write {path: …}, {secret: {secure: …}} or {output: …}")
    given = [key for key in ("path", "secret", "output") if isinstance(value, Mapping) and key in value]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} both say it; write one of them alone")
    return value


Kubeconfig = Annotated[
    Annotated[KubeconfigFile, Tag("<path>")]
    | Annotated[KubeconfigSecret, Tag("<secret>")]
    | Annotated[StackOutput, Tag("<output>")],
    Discriminator(_form),
    BeforeValidator(_not_bare),
]


_HOST = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
_API = rf"(https://)?({_HOST}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[A-Za-z0-9._~/-]*)?"


def api_url(endpoint: str) -> str:
    """Return the address of a cluster's API as a URL; GKE and AKS show a bare host.

    A token goes there, so nothing but TLS will do, and nothing may hide which host it is: no user before it, no query.

    Raises:
        ValueError: It is no such address.
    """
    if not re.fullmatch(_API, endpoint):
        # What was written may hold a password: https://user:password@host.
        raise ValueError("is no address of an API; write https://<host>, with its port where it has one")
    return endpoint if endpoint.startswith("https://") else f"https://{endpoint}"


def _an_api(endpoint: Any) -> Any:
    if isinstance(endpoint, str):
        api_url(endpoint)
    return endpoint


class ReachableCluster(Cluster):
    """A cluster whose API may be needed: give a kubeconfig, or endpoint and certificate authority, or neither."""

    kubeconfig: Kubeconfig | None = None
    """Where credentials are: `{path: …}`, `{secret: …}` or `{output: …}` of another stack."""
    endpoint: Annotated[Address, AfterValidator(_an_api)] | None = None
    """Address of the cluster's API; credentials then come from the cloud's own login on this machine."""
    certificate_authority: Address | None = None
    """The API's certificate authority, base64 as the cloud shows it; goes with endpoint."""

    untold: ClassVar[frozenset[str]] = Cluster.untold | frozenset(ACCESS_KEYS)

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Refuse two ways to the API, and half of one."""
        yield from super().conflicting_keys()
        pair = ("endpoint", "certificate_authority")
        given = [key for key in pair if getattr(self, key) is not None]
        if self.kubeconfig is not None:
            yield from (((key,), "kubeconfig already says where the API is; leave it out") for key in given)
        elif len(given) == 1:
            missing = next(key for key in pair if key not in given)
            yield (given[0],), f"is given without {missing}; add {missing}"

    @property
    def has_access(self) -> bool:
        """Say whether the file tells how the cluster's API is reached."""
        return self.kubeconfig is not None or self.endpoint is not None


def missing_access(key: str, cluster: Cluster, installs: Collection[str]) -> list[Problem]:
    """Refuse to install software in a cluster of a stack file that does not say how its API is reached.

    Args:
        key: The cluster's key in the stack file.
        cluster: The cluster.
        installs: Names of what would be installed; none asks for no access.
    """
    if not installs or not isinstance(cluster, ReachableCluster) or cluster.has_access:
        return []
    what = f"its pools need software in the cluster ({', '.join(installs)}), and nothing says how its API is reached"
    fix = (
        "add kubeconfig: {path: …}, {secret: {secure: …}} or {output: …}, or endpoint and certificate_authority; "
        "or runtime: {management: external, existing: …} where a team installs it"
    )
    return [Problem(("clusters", key), what, fix)]


def clear_secrets(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Refuse a kubeconfig that stands in the stack file as clear text; what it holds is not repeated.

    Args:
        clusters: The clusters of the stack by key, with `LATE` for what is encrypted.
    """
    for key, cluster in clusters.items():
        kubeconfig = cluster.kubeconfig if isinstance(cluster, ReachableCluster) else None
        if isinstance(kubeconfig, KubeconfigSecret) and not isinstance(kubeconfig.secret, Late):
            path = ("clusters", key, "kubeconfig", "secret")
            fix = f"write it with pulumi config set --secret --path 'gpupools:{'.'.join(path)}'"
            yield Problem(path, "is clear text", fix)


def kubeconfigs_inside(clusters: Mapping[str, Cluster], is_inside: Callable[[str], bool]) -> Iterator[Problem]:
    """Refuse a kubeconfig that lies in the checkout: it names programs that are run, and a pull request may bring it.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

    Args:
        clusters: The clusters of the stack by key.
        is_inside: Says whether a path leads into the checkout of the stack file.
    """
    for key, cluster in clusters.items():
        kubeconfig = cluster.kubeconfig if isinstance(cluster, ReachableCluster) else None
        if isinstance(kubeconfig, KubeconfigFile) and is_inside(kubeconfig.path):
            yield Problem(
                ("clusters", key, "kubeconfig", "path"),
                "is inside the checkout, and a kubeconfig names programs that are run",
                "keep it outside, or as a secret of the stack: {secret: {secure: …}}",
            )
