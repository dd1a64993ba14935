"""Finds in a script what makes a machine a node of a Kubernetes cluster, however its words are written. Pure.

Knows what `user_data` names. A shell takes quotes off, and puts variables, aliases and functions in their place; so is
done here for the programs and words that join, and where they stay open the script may join.
"""

import re
from dataclasses import dataclass
from itertools import islice

_OPTIONS = r"(?:[ \t]+--?[\w-]+(?:[= \t][\w./:-]+)?){0,9}?"
_BOOTSTRAP = re.compile(
    r"(?:/|\b)bootstrap\.sh['\"]?\s+\S|Start-EKSBootstrap|EKSBootstrapScriptFile|\s-{1,2}EKSClusterName[ \t:=]+\S"
    rf"|\bnodeadm{_OPTIONS}\s+init\b"
)
# `kubeadm`, and those after its manner (https://kubeedge.io/docs/setup/install-with-keadm,
# https://openyurt.io/docs/installation/yurtadm-init-join, https://github.com/superedge/superedge);
# https://docs.k3s.io/installation/configuration, https://docs.rke2.io/install/quickstart, also on Windows.
_SELF_MANAGED = re.compile(
    rf"\b(?:kube|ke|edge|yurt)adm(?:\.exe)?{_OPTIONS}\s+join\b|\bK3S_URL=|\bk3s\s+agent\b"
    r"|\bkubeadm\.exe\b[^\n;&|]{0,200}?\bjoin\b|\brancher/k3s(?::\S{1,99})?\s+agent\b|\bINSTALL_K3S_EXEC=[\"']?agent\b"
    r"|\bsystemctl[ \t](?:(?!\b(?:stop|disable|mask)\b)[^\n;&|]){0,200}?\bk3s-agent\b|\bk3s-agent\s+--server\b"
    r"|\brke2-agent\b|\brke2(?:\.exe)?\s+agent\b|\bRKE2_URL=|\bget\.(?:k3s|rke2)\.io\b.*--server\b"
)
_LINE = r"(?:\\\n|[^\n]){0,1000}?"
# Those that take taints as `--taints`: https://docs.k0sproject.io/stable/cli/k0s_worker/,
# https://ranchermanager.docs.rancher.com/reference-guides/cluster-configuration/rancher-server-configuration/use-existing-nodes/rancher-agent-options.
_WITH_TAINTS = re.compile(
    r"\bk0s\s+(?:install\s+)?worker\b"
    rf"|(?:\brancher/rancher-agent\b|\bsystem-agent-install\.sh\b){_LINE}\s(?:--worker|--all-roles)\b"
)
# https://microk8s.io/docs/clustering, https://documentation.ubuntu.com/canonical-kubernetes/
_MICROK8S = re.compile(r"\bmicrok8s(?:\.|\s+)join\s+\S|\bk8s\s+join-cluster\s+\S")
# What joins with settings that stand elsewhere: https://kops.sigs.k8s.io/boot-sequence/. Only a kubelet is told of a
# bootstrap kubeconfig: https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/.
_SET_ELSEWHERE = re.compile(rf"\bNODEUP_URL|\bnodeup\s{_LINE}--conf\b|(?<![\w-])--bootstrap-kubeconfig\b")
# A kubelet that is told where its cluster is registers itself: https://kubernetes.io/docs/concepts/architecture/nodes/,
# also as a snap: https://snapcraft.io/kubelet-eks.
_KUBELET = re.compile(
    r"\bkubelet(?:\.exe)?(?=\s)[^\n;&|]{0,1000}?\s--kubeconfig\b|\bsnap\s+set\s+kubelet[^\n;&|]{0,1000}?\bkubeconfig="
)
_KUBECONFIG = re.compile(r"/(?:etc/kubernetes|var/lib/kubelet)/(?:bootstrap-)?kube(?:let\.conf|config)(?![\w-])")
_STARTS_KUBELET = re.compile(
    r"\b(?:systemctl[^\n;&|]{0,60}?\s(?:start|restart|enable|reenable)\s[^\n;&|]{0,60}?|service\s+)kubelet(?![\w-])"
)

_PROGRAMS = r"(?:kubeadm|kubelet|nodeadm|k3s|rke2|k0s|microk8s)"
_AT = r"(?:^|[;&|({=]|(?<=\bsudo)\s|(?<=\bexec)\s|(?<=\bthen)\s|(?<=\bdo)\s)[ \t]{0,20}(?:/[\w./-]{1,99}/)?"
_WORDS_OPEN = re.compile(
    rf"{_AT}{_PROGRAMS}(?:\.exe)?(?:[ \t]+-[\w-]{{1,40}}){{0,9}}[ \t]+(?:[\"']?\$|@\w)"
    rf"|\bxargs(?:[ \t]+-\S{{1,40}}){{0,9}}[ \t]+(?:sudo[ \t]+)?(?:/[\w./-]{{1,99}}/)?{_PROGRAMS}(?![\w.-])",
    re.MULTILINE,
)
# Variables that hold such a program or a word of it, arrays too; and what a shell writes out as one.
_HELD = re.compile(
    r"\b(?P<name>\w{1,60})=(?:\((?P<array>[^()\n$]{1,200})\)|\"(?P<double>[^\"\n$]{1,200})\""
    r"|'(?P<single>[^'\n]{1,200})'|(?P<bare>[\w./-]{1,99}))(?=[\s;&]|$)"
)
_OF_A_WORD = re.compile(
    r"(?<=[\w}])(?<!\\[nrt])[\"']{0,2}\$\{?(\w{1,60})|\$\{?(\w{1,60})\}?(?=[\"']{0,2}\$)|\$\{(\w{1,60})\}(?=[\"']{0,2}\w)"
)
_OF_JOINING = re.compile(rf"{_PROGRAMS}|bootstrap|\b(?:join|agent|worker|init)\b")
_STANDS_FOR = re.compile(
    rf"\balias\s+(\w{{1,60}})=[\"']?((?:/[\w./-]{{1,99}}/)?{_PROGRAMS})[\"']?(?=[\s;&]|$)"
    rf"|(?:^|[\s;])(?:function\s+)?(\w{{1,60}})\s*\(\)\s*\{{\s*(?:sudo\s+|exec\s+)?((?:/[\w./-]{{1,99}}/)?{_PROGRAMS})\s+[\"']?\$[@*]",
)
_MOST_HELD, _MOST_USED = 20, 200
_BETWEEN = re.compile(r"([\"'])\s*,\s*\[?\s*(?=[\"'])")
_QUOTES = re.compile(r"[\"'\\]")


@dataclass(frozen=True)
class Joining:
    """What a script does to its machine."""

    joins: bool
    own: bool
    """True when it joins by itself, which no node of a managed group of EKS does."""
    elsewhere: bool
    """True when how it registers is set elsewhere."""
    takes_taints: bool
    """True when its program takes `--taints`."""
    may: bool
    """True when it may join: which words a program that joins gets is not known."""


def joining(script: str) -> Joining:
    """Look for what joins.

    Args:
        script: Without comments, each command in one line.
    """
    held = with_held(script, _OF_JOINING)
    for match in islice(_STANDS_FOR.finditer(held), _MOST_HELD):
        name, program = match[1] or match[3], match[2] or match[4]
        held = re.sub(rf"(?m)(?:^|(?<=[;&|({{]))([ \t]*){name}(?=[ \t]+[\w\"'-])", rf"\g<1>{program}", held)
    forms = tuple(dict.fromkeys((held, _QUOTES.sub("", _BETWEEN.sub(" ", held)))))

    def has(pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(form) for form in forms)

    tainted, elsewhere, kubelet = has(_WITH_TAINTS), has(_SET_ELSEWHERE), has(_KUBELET)
    own = tainted or elsewhere or has(_SELF_MANAGED) or has(_MICROK8S)
    return Joining(
        joins=own or kubelet or has(_BOOTSTRAP),
        own=own,
        elsewhere=elsewhere or kubelet,
        takes_taints=tainted,
        may=has(_WORDS_OPEN),
    )


def with_held(script: str, wanted: re.Pattern[str]) -> str:
    """Write a script with the values of its variables in their place.

    Of those whose value has what is wanted, and those that are a part of a word, such as `$A$B` and `${A}adm`.
    """
    values: dict[str, str] = {}
    parts = {name for match in islice(_OF_A_WORD.finditer(script), _MOST_USED) for name in match.groups() if name}
    for match in _HELD.finditer(script):
        value = match["array"] or match["double"] or match["single"] or match["bare"]
        if (match["name"] in parts or wanted.search(value)) and len(values) < _MOST_HELD:
            values[match["name"]] = value
    if not values:
        return script
    names = "|".join(sorted(values, key=len, reverse=True))
    used = re.compile(rf"[\"']?\$(?:(?P<plain>{names})\b|\{{(?P<braced>{names})(?:\[[@*]\])?\}})[\"']?")
    return used.sub(lambda match: values[match["plain"] or match["braced"]], script, count=_MOST_USED)


def starts_kubelet(scripts: str, files: str) -> bool:
    """Say whether scripts start a kubelet that finds its kubeconfig: one that they name, or a file that is written.

    https://kubernetes.io/docs/reference/setup-tools/kubeadm/implementation-details/

    Args:
        scripts: All of them.
        files: The paths of files that are written beside them.
    """
    return _STARTS_KUBELET.search(scripts) is not None and _KUBECONFIG.search(f"{scripts}\n{files}") is not None
