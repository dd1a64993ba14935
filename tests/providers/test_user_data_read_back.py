"""What the user data of an EC2 machine says: whether it joins a cluster, taints, labels, and how GPUs are shared."""

import base64
import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.base.taints import Effect, Taint
from gpupools.planned.pool_facts import UNKNOWN, SharingFacts
from gpupools.providers.aws.boot import MOST_USER_DATA
from gpupools.providers.aws.bottlerocket import read_settings, toml_fault
from gpupools.providers.aws.cloud_init import encoded
from gpupools.providers.aws.decoding import is_mime
from gpupools.providers.aws.user_data import UserData, read_user_data
from gpupools.read.inputs import TaintsRead

NVIDIA = "settings.kubelet-device-plugins.nvidia"
JOINS = '[settings.kubernetes]\ncluster-name = "x"\n'


def node_config(spec: str) -> str:
    return f"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("given", "joins"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("#!/bin/sh\n/etc/eks/bootstrap.sh train\n", True, id="bootstrap.sh"),
        pytest.param("#!/bin/sh\n# /etc/eks/bootstrap.sh train\n", False, id="bootstrap.sh in a comment"),
        pytest.param("#!/bin/sh\ncat /etc/eks/bootstrap.sh\n", False, id="bootstrap.sh without a cluster"),
        pytest.param("<powershell>\n& $EKSBootstrapScriptFile -EKSClusterName x\n</powershell>", True, id="Windows"),
        pytest.param("#!/bin/sh\nkubeadm join 10.0.0.1:6443 --token x\n", True, id="kubeadm"),
        pytest.param("#!/bin/sh\nkubeadm version\n", False, id="kubeadm that joins nothing"),
        pytest.param("#!/bin/sh\nnodeadm init -c file:///x\n", True, id="nodeadm"),
        pytest.param(node_config("{cluster: {name: x}}"), True, id="NodeConfig with a name"),
        pytest.param(node_config("{cluster: {apiServerEndpoint: https://x}}"), True, id="NodeConfig with an endpoint"),
        pytest.param(node_config("{kubelet: {}}"), False, id="NodeConfig that EKS completes"),
        pytest.param(
            '{"apiVersion": "node.eks.aws/v1alpha1", "spec": {"cluster": {"name": "x"}}}\n',
            True,
            id="NodeConfig as JSON",
        ),
        pytest.param(JOINS, True, id="Bottlerocket with a name"),
        pytest.param('[settings.kubernetes]\napi-server = "https://x"\n', True, id="Bottlerocket with an endpoint"),
        pytest.param("[settings.kubernetes]\nmax-pods = 9\n", False, id="Bottlerocket that EKS completes"),
    ],
)
def test_a_machine_joins_a_cluster_that_its_user_data_names(given: str, joins: bool) -> None:
    assert read_user_data(given).joins is joins


@pytest.mark.parametrize("kind", ["application/node.eks.aws", "text/plain"])
def test_a_part_is_known_by_its_content_type_or_its_text(kind: str) -> None:
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: {kind}\n\n'

    assert read_user_data(f"{head}{node_config('{cluster: {name: x}}')}--b--\n").joins


def test_a_part_of_nodeadm_needs_no_version() -> None:
    head = 'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: application/node.eks.aws\n\n'

    assert read_user_data(f"{head}spec: {{cluster: {{name: x}}}}\n--b--\n").joins


@pytest.mark.parametrize(
    ("settings", "sharing"),
    [
        ("", None),
        (f'[{NVIDIA}]\ndevice-sharing-strategy = "none"\n', SharingFacts("none", said_by=NVIDIA)),
        (f'[{NVIDIA}]\ndevice-sharing-strategy = "other"\n', None),
        (f'[{NVIDIA}]\ndevice-sharing-strategy = "time-slicing"\n', SharingFacts("time-slicing", 2, said_by=NVIDIA)),
        (
            f'[{NVIDIA}]\ndevice-sharing-strategy = "time-slicing"\n[{NVIDIA}.time-slicing]\nreplicas = 4\n',
            SharingFacts("time-slicing", 4, said_by=NVIDIA),
        ),
        (
            f'[{NVIDIA}]\ndevice-sharing-strategy = "mps"\n[{NVIDIA}.mps]\nreplicas = 8\n',
            SharingFacts("mps", 8, said_by=NVIDIA),
        ),
        (
            f'[{NVIDIA}]\ndevice-partitioning-strategy = "mig"\n[{NVIDIA}.mig.profile]\n"a100.40gb" = "1g.5gb"\n',
            SharingFacts("mig-single", None, "1g.5gb", NVIDIA),
        ),
        (
            f'[{NVIDIA}]\ndevice-partitioning-strategy = "mig"\ndevice-sharing-strategy = "time-slicing"\n',
            SharingFacts("mig-single+time-slicing", 2, "", NVIDIA),
        ),
    ],
    ids=["default", "none", "nonsense", "time-slicing", "replicas", "mps", "mig", "time-slicing on mig"],
)
def test_bottlerocket_says_how_gpus_are_shared(settings: str, sharing: SharingFacts | None) -> None:
    assert read_user_data(JOINS + settings).sharing == sharing


@pytest.mark.parametrize(
    ("settings", "on"),
    [("", True), (f"[{NVIDIA}]\nenabled = true\n", True), (f"[{NVIDIA}]\nenabled = false\n", False)],
    ids=["default", "on", "off"],
)
def test_bottlerocket_says_whether_its_plugin_runs(settings: str, on: bool) -> None:
    assert read_user_data(JOINS + settings).own_device_plugin is on


def test_other_systems_say_nothing_of_a_plugin() -> None:
    assert read_user_data(node_config("{cluster: {name: x}}")).own_device_plugin is None


def test_bottlerocket_labels_are_read() -> None:
    assert read_user_data(JOINS + '[settings.kubernetes.node-labels]\nteam = "vision"\n').labels == {"team": "vision"}


@pytest.mark.parametrize(
    ("given", "taints", "not_counted"),
    [
        (
            JOINS + '[settings.kubernetes.node-taints]\na = "b:NoSchedule"\nc = [":NoExecute", "d:PreferNoSchedule"]\n',
            (
                Taint("a", "b", Effect.NO_SCHEDULE),
                Taint("c", "", Effect.NO_EXECUTE),
                Taint("c", "d", Effect.PREFER_NO_SCHEDULE),
            ),
            [],
        ),
        (
            JOINS + '[settings.kubernetes.node-taints]\na = "b:NO_SCHEDULE"\n',
            (),
            ["mine settings.kubernetes.node-taints"],
        ),
        (
            node_config("{kubelet: {flags: [--register-with-taints=a=b:NoSchedule, '--x=y']}}"),
            (Taint("a", "b", Effect.NO_SCHEDULE),),
            [],
        ),
        (
            node_config("{kubelet: {config: {registerWithTaints: [{key: a, effect: NO_SCHEDULE}]}}}"),
            (),
            ["mine spec.kubelet.config.registerWithTaints[0]"],
        ),
        ("[settings.kubernetes\nnode-taints", (), ["mine"]),
    ],
    ids=["Bottlerocket", "a wrong effect", "flags", "a wrong effect in NodeConfig", "no TOML"],
)
def test_taints_are_read(given: str, taints: tuple[Taint, ...], not_counted: list[str]) -> None:
    found = read_user_data(given, "mine")

    assert found.taints == taints
    assert [note.partition(":")[0] for note in found.not_counted] == not_counted


@pytest.mark.parametrize(("text", "raw"), [("a", b"a"), ("\udcff", b"\xff"), ("a\ud800", b"a?")], ids=ascii)
def test_a_text_is_bytes_again_whatever_it_has(text: str, raw: bytes) -> None:
    assert encoded(text) == raw


@pytest.mark.parametrize("late", [UNKNOWN, {"a": UNKNOWN}, {"a": ["b:NoSchedule", UNKNOWN]}])
def test_settings_of_bottlerocket_may_hold_what_is_not_known_yet(late: Any) -> None:
    taints = TaintsRead()
    read_settings({"settings": {"kubernetes": {"cluster-name": "c", "node-taints": late}}}, "mine", taints)

    assert (taints.unknown, taints.taints, taints.not_counted) == (["mine settings.kubernetes.node-taints"], [], [])


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("text", "'text' is no taint; write key, value and effect"),
        ("{key: b, effect: NoSchedule, timeAdded: x}", "it has timeAdded, which the kubelet refuses"),
        ("{key: b, effect: NoSchedule, value: true}", "value true is no text that a label may have; put it in quotes"),
        ("{key: -b, effect: NoSchedule}", "key '-b' is no qualified name such as 'example.com/team'"),
        ("{key: a, effect: NoSchedule}", "a with NoSchedule stands there twice, which Kubernetes refuses"),
    ],
)
def test_a_wrong_taint_is_one_too_many(beside: str, why: str) -> None:
    given = f"{{kubelet: {{config: {{registerWithTaints: [{{key: a, effect: NoSchedule}}, {beside}]}}}}}}"
    found = read_user_data(node_config(given), "mine")

    assert (found.taints, found.not_counted) == ((), (f"mine spec.kubelet.config.registerWithTaints[1]: {why}",))


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("k3s agent --server https://a --node-taint=a=b:NoSchedule --node-taint=c=d:NoSchedule", ["a", "c"]),
        ("k0s worker --taints=a=b:NoSchedule --taints=c=d:NoSchedule", ["a", "c"]),
        ("kubelet --kubeconfig=/k --register-with-taints=a=b:NoSchedule --register-with-taints=c=d:NoSchedule", ["c"]),
    ],
)
def test_of_the_kubelets_own_flag_the_last_counts_and_others_add_up(command: str, keys: list[str]) -> None:
    assert [taint.key for taint in read_user_data(f"#!/bin/sh\n{command}\n").taints] == keys


def test_a_taint_from_a_variable_names_the_property() -> None:
    script = '#!/bin/sh\n/etc/eks/bootstrap.sh x --kubelet-extra-args "--register-with-taints=${TAINT}"\n'

    assert read_user_data(script, "mine").unknown == ("mine",)
    assert read_user_data(script).unknown == ("userData",)


def test_other_user_data_says_nothing() -> None:
    nothing: Any = UserData()

    assert read_user_data("#!/bin/sh\napt-get install nginx\n") == nothing


TABLE = Path(__file__).with_name("user_data.yaml")


@cache
def table() -> Sequence[Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(yaml.load(TABLE.read_text(encoding="utf-8"), loader))


def told(found: UserData) -> dict[str, Any]:
    """Write down what differs from user data that says nothing."""
    given = {each.name: getattr(found, each.name) for each in fields(found)}
    said = {name: value for name, value in given.items() if value != getattr(UserData(), name)}
    if found.sharing is not None:
        said["sharing"] = {name: value for name, value in asdict(found.sharing).items() if value}
    return {name: [str(one) for one in value] if isinstance(value, tuple) else value for name, value in said.items()}


@pytest.mark.parametrize("case", table(), ids=lambda case: case["id"])
def test_everything_that_user_data_says_is_read(case: Mapping[str, Any]) -> None:
    assert told(read_user_data(case["given"])) == case["expected"]


AGENT = "#!/bin/sh\nk3s agent --node-taint=a=b:NoSchedule\n"
UNPACKED = 256 * 1024
"""Characters that are read of user data once it is unpacked."""


def zipped(content: str) -> str:
    packer = zlib.compressobj(wbits=31)
    return base64.b64encode(packer.compress(content.encode()) + packer.flush()).decode()


def filled(content: str, most: int) -> str:
    """Add a comment up to a number of characters."""
    return f"{content}#{'x' * (most - len(content) - 1)}"


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        pytest.param(filled(AGENT, MOST_USER_DATA), True, id="as much as EC2 takes"),
        pytest.param(filled(AGENT, MOST_USER_DATA + 1), False, id="more than EC2 takes"),
        pytest.param(zipped(filled(AGENT, UNPACKED)), True, id="as much as is unpacked"),
        pytest.param(zipped(filled(AGENT, UNPACKED + 1)), False, id="more than is unpacked"),
        pytest.param(f"{AGENT}# {'multipart/' * 20}", True, id="as many parts as are read"),
        pytest.param(f"{AGENT}# {'MultiPart/' * 21}", False, id="more parts than are read"),
    ],
)
def test_what_is_too_much_to_read_may_join_with_any_taint(given: str, whole: bool) -> None:
    found = read_user_data(given, "mine")

    assert found.joins
    assert (found.taints, found.unknown) == (((Taint("a", "b", Effect.NO_SCHEDULE),), ()) if whole else ((), ("mine",)))


def test_what_is_too_much_and_speaks_of_no_cluster_says_nothing() -> None:
    assert read_user_data(filled("#!/bin/sh\napt-get install nginx\n", MOST_USER_DATA + 1)) == UserData()


@pytest.mark.parametrize(("beyond", "opaque"), [(0, False), (1, True)], ids=["all that is read", "one more"])
def test_files_are_unpacked_up_to_a_limit_together(beyond: int, opaque: bool) -> None:
    first = zipped(filled("", UNPACKED - len(AGENT) + beyond))
    files = [{"path": "/x", "encoding": "gz+b64", "content": each} for each in (first, zipped(AGENT))]
    found = read_user_data(f"#cloud-config\n{yaml.safe_dump({'write_files': files, 'runcmd': ['kubeadm join a']})}")

    assert found.opaque is opaque
    assert bool(found.taints) is not opaque


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"[settings.kubernetes]\nmax-pods = 9\n", ""),
        (b"", ""),
        (b"\xff", "it is no text"),
        (b"[settings", "Expected ']'"),
        (b"a = " + b"[" * 5000, ("it is nested too deeply", "TOML inline arrays")),  # as Python's version has it
        (b"[settings]\n[b]\n[a]\n", "it has a, b beside settings"),
        (b'[settings."a.b"]\nc = 1\n', "a table's header has a quoted key, which EKS does not read"),
        (b"[settings]\n[['settings'.a]]\n", "a table's header has a quoted key"),
        (b'[settings]\n"a.b" = "[settings.\'a\']"\n', ""),
    ],
)
def test_bottlerocket_settings_that_eks_cannot_merge_say_why(raw: bytes, fault: str | tuple[str, ...]) -> None:
    assert toml_fault(raw).startswith(fault)
    assert bool(toml_fault(raw)) is bool(fault)


@pytest.mark.parametrize(
    ("raw", "mime"),
    [
        (b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\na\n--b--\n', True),
        (b'\n\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\na\n--b--\n', True),
        (b'Content-Type: multipart/mixed; boundary="b"\n\n', False),
        (b"Content-Type: text/plain\n\na\n", False),
        (b"#!/bin/sh\n", False),
        (b"", False),
    ],
)
def test_user_data_in_parts_is_told_from_any_other(raw: bytes, mime: bool) -> None:
    assert is_mime(raw) is mime


def test_what_is_no_unicode_is_read_all_the_same() -> None:
    assert read_user_data("#!/bin/sh\necho \ud800\nk3s agent --node-taint=a=b:NoSchedule\n").taints


def test_no_character_makes_the_reader_of_parts_fail() -> None:
    part = "MIME-Version: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\nk3s agent # "

    assert read_user_data(f"{part}ν\udc83\ud800\n").joins


NO_TEXT = bytes(range(128, 256)) * 2
SCRIPT = "#!/bin/sh\nk3s agent --node-taint=a=b:NoSchedule\n"


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def in_part(raw: bytes) -> str:
    head = 'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/x-shellscript\n'
    return f"{head}Content-Transfer-Encoding: base64\n\n{b64(raw)}\n--b--\n"


@pytest.mark.parametrize("form", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_user_data_is_read_in_any_unicode(form: str) -> None:
    assert [str(one) for one in read_user_data(b64(SCRIPT.encode(form))).taints] == ["a=b:NoSchedule"]


@pytest.mark.parametrize("form", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_part_in_unicode_that_cloud_init_cannot_start_joins_at_most(form: str) -> None:
    found = read_user_data(in_part(SCRIPT.encode(form)))

    assert (found.joins, found.taints) == (True, ())
    assert found.not_counted == ("userData: has taints in a part that neither cloud-init nor nodeadm takes",)


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress], ids=["xz", "bzip2"])
def test_packed_user_data_is_read(pack: Callable[[bytes], bytes]) -> None:
    assert [str(one) for one in read_user_data(b64(pack(SCRIPT.encode()))).taints] == ["a=b:NoSchedule"]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(b64(NO_TEXT), id="bytes"),
        pytest.param(b64(b"\x28\xb5\x2f\xfd" + NO_TEXT), id="Zstandard"),
        pytest.param(b64(gzip.compress(NO_TEXT)), id="gzip of bytes"),
        pytest.param(b64(b"#!/bin/sh\0\0\0\0\0\0\0"), id="text with zeros"),
        pytest.param(in_part(NO_TEXT), id="a part"),
        pytest.param("3b18e512dba79e4c8300dd08aeb37f8e728b8dad", id="a hash"),
    ],
)
def test_user_data_that_is_no_text_is_opaque(given: str) -> None:
    found = read_user_data(given)

    assert (found.joins, found.opaque) == (False, True)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(b64("#!/bin/sh\necho Käse\n".encode("latin-1")), id="Latin-1"),
        pytest.param("H4tubw==", id="few bytes"),
    ],
)
def test_other_user_data_is_not(given: str) -> None:
    assert read_user_data(given) == UserData()


def test_a_character_that_is_cut_off_hides_nothing() -> None:
    given = b64(gzip.compress(f"{AGENT}#{'x' * (UNPACKED - len(AGENT) - 2)}ä".encode()))

    assert read_user_data(given).unknown


def written(raw: bytes) -> UserData:
    file = {"path": "/opt/x", "encoding": "b64", "content": b64(raw)}
    return read_user_data(f"#cloud-config\n{yaml.safe_dump({'write_files': [file]})}")


def test_scripts_in_archives_that_are_written_are_read() -> None:
    files = {"a/run.sh": SCRIPT, "a/README.md": "Then run: kubeadm join x\n"}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))

    assert [str(one) for one in written(made.getvalue()).taints] == ["a=b:NoSchedule"]
    assert written(b"\x28\xb5\x2f\xfd" + NO_TEXT).opaque
    assert written(NO_TEXT) == UserData(), "a key"
