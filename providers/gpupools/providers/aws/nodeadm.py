"""Takes the NodeConfigs of user data as nodeadm does: which parts there are, and the one that they make. Pure.

After `nodeadm/internal/configprovider` and `internal/api` of awslabs/amazon-eks-ami at 81fec2e, which nodes of Amazon
Linux 2023 run (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/). It refuses all parts where it refuses one,
and a node of which it refuses them does not join. `tests/providers/test_nodes_read_the_same.py` compares this with the
real one.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpupools.base.errors import Rejected, shown
from gpupools.providers.aws.cloud_init import as_unicode, gunzipped
from gpupools.read.inputs import at, is_list

if TYPE_CHECKING:
    from email.message import Message

MIME = "application/node.eks.aws"
_MOST_VALUES = 10_000
_GZIP = b"\x1f\x8b"
_VERSIONS = ("node.eks.aws/v1alpha1", "node.eks.aws/__internal")
_TOKEN = r"[\w!#$%&'*+.^`{|}~-]+"
_ADDED = rf"{_TOKEN}\s*=\s*(?:{_TOKEN}|\"(?:[^\"\\]|\\.)*\")"
_MEDIA_TYPE = re.compile(rf"\s*{_TOKEN}(?:/{_TOKEN})?\s*(?:;\s*{_ADDED}\s*)*;?\s*")
"""What Go's mime.ParseMediaType takes (https://www.rfc-editor.org/rfc/rfc2045#section-5.1)."""
_TYPES: Mapping[str, type] = {
    **{f"cluster.{name}": str for name in ("name", "apiServerEndpoint", "certificateAuthority", "cidr", "id")},
    "containerd.config": str,
    "kubelet.maxPodsExpression": str,
    **dict.fromkeys(("cluster", "containerd", "instance", "kubelet", "featureGates", "kubelet.config"), Mapping),
}


_PLACEHOLDER = re.compile(r"[$<{]")
"""Of a value that is put in later."""


class Refused(ValueError):
    """Nodeadm takes none of it; says why."""


class Unreadable(ValueError):
    """It may be a template, and what nodeadm is given in the end is not known here."""


@dataclass
class NodeConfig:
    """What all parts make together."""

    named: bool = False
    """True when it names the cluster."""
    config: dict[str, Any] = field(default_factory=dict)
    """Of the kubelet: a drop-in, which goes over what EKS configures."""
    flags: list[str] = field(default_factory=list)


_BLANK = re.compile(r"(?m)^([A-Za-z-]{1,60})[ \t]+:")


def with_headers(content: str) -> str:
    """Return content of which every header is one for Python, too: Go takes a blank before the colon."""
    head, blank, rest = content.partition("\n\n")
    return _BLANK.sub(r"\1:", head) + blank + rest


def bodies(content: str) -> list[str]:
    """Return the parts that nodeadm reads: those of its type at the top, or all of what is not in parts.

    Raises:
        Refused: It is in parts that it cannot take apart.
    """
    from email import message_from_string  # slow to import and rarely needed

    message = message_from_string(as_unicode(content))
    if not _headed(message, content):
        raise Refused("its first lines are no headers of MIME")
    if message.get_content_maintype() != "multipart":
        return [content]  # whose headers are YAML, too
    if message.defects:
        raise Refused(f"its MIME parts cannot be taken apart ({type(message.defects[0]).__name__})")
    found = []
    given: Any = message.get_payload()
    for part in given if is_list(given) else ():
        kind = part.get("Content-Type")
        if kind is None:
            continue
        if not _MEDIA_TYPE.fullmatch(kind):
            raise Refused(f"Content-Type {shown(kind)} of a part is none")
        if kind.partition(";")[0].strip().lower() == MIME:
            found.append(_body(part))
    return found


def _headed(message: "Message", content: str) -> bool:
    """Say whether headers begin it, of which each has a colon, with a valid type."""
    wrong = any(type(one).__name__ in _NO_HEADERS for one in message.defects)
    kind = message.get("Content-Type")
    begins = content[:1].strip() != "" and not content.startswith(_MAILBOX)
    return not wrong and begins and kind is not None and _MEDIA_TYPE.fullmatch(kind) is not None


_NO_HEADERS = ("MissingHeaderBodySeparatorDefect", "FirstHeaderLineIsContinuationDefect")
_MAILBOX = "From "
"""What Python passes over as the first line."""


def _body(part: "Message") -> str:
    quoted = str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "quoted-printable"
    given = part.get_payload(decode=True) if quoted else part.get_payload()
    raw = given if isinstance(given, bytes) else str(given).encode(errors="replace")
    with suppress(ValueError):
        raw = base64.b64decode(raw.replace(b"\r", b"").replace(b"\n", b""), validate=True)
    if raw.startswith(_GZIP):
        try:
            raw = gunzipped(raw)
        except (zlib.error, EOFError):
            raise Refused("a part is damaged gzip") from None
    return raw.decode(errors="replace")


def merged(parts: list[str]) -> NodeConfig:
    """Decode each part, and merge them: a later setting of the kubelet replaces an earlier, and flags are appended.

    Raises:
        Refused: One of them is no NodeConfig.
        Unreadable: One of them is no YAML.
    """
    made = NodeConfig()
    for body in parts:
        spec = decode(body)
        made.named = made.named or names_cluster(spec)
        made.config.update(at(spec, "kubelet.config") or {})
        made.flags += [one or "" for one in at(spec, "kubelet.flags") or ()]
    return made


def names_cluster(spec: Any) -> bool:
    """Say whether a NodeConfig names the cluster, which EKS does for a managed group without an image of its own."""
    return bool(at(spec, "cluster.name") or at(spec, "cluster.apiServerEndpoint"))


def decode(body: str) -> Mapping[str, Any]:
    """Return the `spec` of a NodeConfig; of several documents the first counts.

    Raises:
        Refused: It is none.
        Unreadable: It is no YAML.
    """
    document = _document(body)
    version, kind = at(document, "apiVersion"), at(document, "kind")
    if version not in _VERSIONS or kind != "NodeConfig":
        said = f"a part of apiVersion {shown(version)}, kind {shown(kind)}"
        raise Refused(f"has {said}; nodeadm takes node.eks.aws/v1alpha1 NodeConfig alone")
    spec = at(document, "spec")
    if not isinstance(spec, Mapping | None):
        raise Refused("spec is no map")
    spec = spec or {}
    for path, wanted in _TYPES.items():
        value = at(spec, path)
        if value is not None and not isinstance(value, wanted):
            raise Refused(f"spec.{path} is {shown(value)}, which has another type")
    if not all(isinstance(on, bool | None) for on in (at(spec, "featureGates") or {}).values()):
        raise Refused("spec.featureGates has one that is neither true nor false")
    certificate = at(spec, "cluster.certificateAuthority") or ""
    try:
        base64.b64decode("".join(certificate.splitlines()), validate=True)
    except ValueError:
        if not _PLACEHOLDER.search(certificate):
            raise Refused("spec.cluster.certificateAuthority is no base64") from None
    flags = at(spec, "kubelet.flags")
    if flags is not None and not (is_list(flags) and all(isinstance(one, str | None) for one in flags)):
        raise Refused(f"spec.kubelet.flags is {shown(flags)}, which is no list of texts")
    return spec


def _document(body: str) -> Any:
    from gpupools.base.bounded_yaml import parse_yaml  # only here: most user data is a script

    in_json = body.lstrip().startswith("{")
    try:
        found = parse_yaml(body, _MOST_VALUES, unique=in_json)  # of JSON, Go merges what stands twice
    except Rejected:
        raise Unreadable from None
    if in_json:
        try:
            json.loads(body)
        except (ValueError, RecursionError):
            raise Refused("begins with a brace and is no JSON") from None
    return found[0].data if found else None
