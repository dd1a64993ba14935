"""What `cfn-init` does to a machine counts as its user data does, where the template has it."""

from typing import Any

import pytest

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.aws.cfn_init import with_init
from gpupools.providers.aws.cloudformation import NOTHING_KNOWN, in_pulumis_names
from gpupools.providers.aws.user_data import read_user_data

CALL = "#!/bin/bash\n/opt/aws/bin/cfn-init -v --stack prod --resource Machine --region eu-central-1\n"
TAINTED = "--kubelet-extra-args --register-with-taints=nvidia.com/gpu=present:NoSchedule"
JOINS = {"commands": {"join": {"command": "/etc/eks/bootstrap.sh prod"}}}
NOTHING = {"commands": {"hello": {"command": "echo hello"}}}


def template(init: Any, script: Any = CALL, holder: str = "Machine") -> dict[str, Any]:
    machine = {"Type": "AWS::EC2::Instance", "Properties": {"UserData": {"Fn::Base64": script}}}
    return {"Machine": machine, "Other": {"Type": "AWS::S3::Bucket"}} | {
        holder: {**(machine if holder == "Machine" else {}), "Metadata": {"AWS::CloudFormation::Init": init}}
    }


def user_data(resources: dict[str, Any]) -> Any:
    made = with_init(resources["Machine"]["Properties"], resources)
    return in_pulumis_names(made, NOTHING_KNOWN)["userData"]


@pytest.mark.parametrize(
    ("init", "joins", "tainted"),
    [
        ({"config": JOINS}, True, False),
        ({"config": NOTHING}, False, False),
        ({"config": {"commands": {1: {"command": "/etc/eks/bootstrap.sh prod"}, "a": {"command": "ls"}}}}, True, False),
        ({"config": {"packages": {"yum": {"git": []}}}}, False, False),
        ({"config": {"commands": {str(n): {"command": "ls"} for n in range(1_000)}}}, None, False),
        ({"other": JOINS}, None, False),
        ({"config": {"commands": {"join": {"command": f"/etc/eks/bootstrap.sh prod {TAINTED}"}}}}, True, True),
        ({"config": {"commands": {"a": {"command": ["/etc/eks/bootstrap.sh", {"Ref": "C"}, TAINTED]}}}}, True, True),
        (
            {"config": {"commands": {"a": {"command": {"Fn::Sub": f"/etc/eks/bootstrap.sh ${{C}} {TAINTED}"}}}}},
            True,
            True,
        ),
        # A command is run by the file that it names, and a file alone is not run.
        (
            {
                "config": {
                    "files": {"/opt/a.sh": {"content": "kubeadm join a:6443"}},
                    "commands": {"a": {"command": "sh /opt/a.sh"}},
                }
            },
            True,
            False,
        ),
        ({"config": {"files": {"/etc/motd": {"content": "hello"}}}}, False, False),
        ({"config": {"files": {"/a": {"content": "", "encoding": "base64"}}, **NOTHING}}, False, False),
        # What is set up is what the set names, in its order, and `default` where none is asked for.
        ({"configSets": {"default": ["a"]}, "a": NOTHING, "b": JOINS}, False, False),
        ({"configSets": {"default": ["a", {"ConfigSet": "x"}], "x": "b"}, "a": NOTHING, "b": JOINS}, True, False),
        ({"configSets": {"default": [{"ConfigSet": "default"}]}}, None, False),
        ({"configSets": {"default": ["missing"]}}, None, False),
        ({"configSets": {"default": {"Fn::If": ["A", ["a"], ["b"]]}}, "a": NOTHING, "b": JOINS}, None, False),
        # What a program or a template on the machine writes is not known here.
        ({"config": {"commands": {"a": {"defaults": "/opt/settings"}}}}, None, False),
        ({"config": {"files": {"/a": {"content": "{{x}}", "context": {"x": "y"}}}}}, None, False),
    ],
)
def test_what_is_set_up_counts(init: dict[str, Any], joins: bool | None, tainted: bool) -> None:
    found = user_data(template(init))
    if joins is None:
        assert found is UNKNOWN
    else:
        read = read_user_data(found)
        assert (read.joins, [one.key for one in read.taints]) == (joins, ["nvidia.com/gpu"] if tainted else [])


@pytest.mark.parametrize(
    ("flags", "joins"),
    [("-c b", True), ("--configsets=b", True), ("--configsets a,b", True), ("-c a", False), ("", False)],
)
def test_the_sets_that_are_asked_for_are_set_up(flags: str, joins: bool) -> None:
    init = {"configSets": {"default": ["none"], "a": ["none"], "b": ["joins"]}, "none": NOTHING, "joins": JOINS}
    assert read_user_data(user_data(template(init, CALL.strip() + f" {flags}\n"))).joins is joins


def test_a_set_whose_name_is_not_known_is_not_known() -> None:
    init = {"configSets": {"default": ["none"], "b": ["joins"]}, "none": NOTHING, "joins": JOINS}
    script = {"Fn::Join": ["", [CALL.strip(), " -c ", {"Ref": "Set"}, "\n"]]}
    assert user_data(template(init, script)) is UNKNOWN


@pytest.mark.parametrize(
    "script",
    [
        {"Fn::Join": ["", ["#!/bin/bash\n", "cfn-init -s ", {"Ref": "AWS::StackName"}, " -r Machine\n"]]},
        {"Fn::Sub": "#!/bin/bash\ncfn-init -s ${AWS::StackName} -r Machine\n"},
        "#cloud-config\nruncmd:\n- [cfn-init, -s, prod, -r, Machine]\n",
    ],
)
def test_whatever_calls_it_has_it_done(script: Any) -> None:
    assert read_user_data(user_data(template({"config": JOINS}, script))).joins


def test_what_is_fetched_is_said_in_its_order() -> None:
    config = {
        "services": {"systemd": {"b": {"ensureRunning": True}, "a": {"ensureRunning": False}}},
        "commands": {"b": {"command": "two"}, "a": {"command": ["one", "x"], "cwd": "/w", "env": {"V": {"Ref": "P"}}}},
        "files": {
            "/f": {"source": "https://example.com/f"},
            "/e": {"content": {"k": 1}},
            "/j": {"content": {"Fn::Join": ["-", ["a", "b"]]}},
            "/d": {"content": "YQ==", "encoding": "base64"},
        },
        "sources": {"/s": "https://example.com/s.tgz"},
    }
    lines = (
        user_data(template({"config": config})).partition("#!/bin/bash\n")[2].partition("#!/bin/bash\n")[2].splitlines()
    )

    assert lines == [
        "curl -L 'https://example.com/s.tgz' | tar -xz -C /s",
        "echo 'YQ==' | base64 -d > /d",
        "cat > /e <<'END_OF_CFN_INIT'",
        '{"k": 1}',
        "END_OF_CFN_INIT",
        "curl -o /f 'https://example.com/f'",
        "cat > /j <<'END_OF_CFN_INIT'",
        "a-b",
        "END_OF_CFN_INIT",
        "cd '/w'",
        "export V='${…}'",
        "one x",
        "two",
        "systemctl start b",
        "--==cfn-init==--",
    ]


def test_it_may_take_another_resource_s() -> None:
    assert read_user_data(user_data(template({"config": JOINS}, CALL.replace("Machine", "Group"), "Group"))).joins


def test_a_kubelet_that_is_started_finds_the_settings_that_are_written() -> None:
    files = {"/var/lib/kubelet/kubeconfig": {"content": {"kind": "Config"}}}
    for asked, may_join in (
        ({"ensureRunning": "true"}, True),
        ({"enabled": True}, True),
        ({"ensureRunning": "false"}, False),
    ):
        init = {"config": {"files": files, "services": {"systemd": {"kubelet": asked}}}}
        assert read_user_data(user_data(template(init))).may_join is may_join


def test_what_no_call_has_done_is_not() -> None:
    resources = template({"config": JOINS}, "#!/bin/bash\necho hello\n")
    assert with_init(resources["Machine"]["Properties"], resources) == resources["Machine"]["Properties"]


@pytest.mark.parametrize(
    ("resource", "known"), [({"Ref": "Name"}, False), ({"Fn::Sub": "${Name}"}, False), ("Elsewhere", True)]
)
def test_a_resource_whose_name_is_not_known_is_not_known(resource: Any, known: bool) -> None:
    script = {"Fn::Join": ["", ["#!/bin/bash\ncfn-init -s prod -r ", resource, "\n"]]}
    resources = template({"config": JOINS}, script)
    assert (with_init(resources["Machine"]["Properties"], resources) == resources["Machine"]["Properties"]) is known


def test_parts_are_not_put_into_parts() -> None:
    script = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=a\n\n--a\n\n" + CALL + "\n--a--\n"
    assert user_data(template({"config": JOINS}, script)) is UNKNOWN


def test_a_stack_is_judged_with_it() -> None:
    resources = {
        "Machine": {
            "Type": "AWS::EC2::Instance",
            "Metadata": {"AWS::CloudFormation::Init": {"config": JOINS}},
            "Properties": {"InstanceType": "g5.xlarge", "UserData": {"Fn::Base64": CALL}},
        }
    }
    stack = {"templateBody": {"Resources": resources}}
    [pool] = clouds()["aws"].reading().read_pools("aws:cloudformation/stack:Stack", stack)
    assert (pool.pool, pool.in_cluster, pool.taints) == ("Machine", True, ())
