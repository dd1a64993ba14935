"""What somebody set by hand may be a secret: no answer of the commands repeats it."""

from pathlib import Path

import pytest

from gpupools.cli.main import main

STACK = """\
config:
  gpupools:clusters:
    train:
      cloud: aws
      name: train
      region: us-east-1
      subnet_ids: [subnet-0a1b2c3d4e5f60718]
      node_role_arn: arn:aws:iam::123456789012:role/gpu-nodes
    lab: {cloud: gcp, name: l, project: ml-lab, location: europe-west4, service_account: gpu@ml.iam.gserviceaccount.com}
  gpupools:pools:
    a:
      clusters: [train]
      gpu: L4
      nodes: {max: 2}
      overrides: {aws: {LaunchTemplate: {userData: W3NldHRpbmdzLm50cF0KaHVudGVyMiA9IDEK, keyName: ops}}}
    c:
      clusters: [lab]
      gpu: L4
      nodes: {max: 2}
      overrides: {gcp: {NodePool: {nodeConfig: {metadata: {agent: hunter2b, ssh-keys: hunter2c}}}}}
"""
SECRETS = ("W3NldHRpbmdzLm50cF0K", "hunter2")


@pytest.mark.parametrize("command", [["check", "--json"], ["preview"], ["preview", "--json"]], ids=" ".join)
def test_no_answer_repeats_it(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(STACK, encoding="utf-8")
    main([*command, str(file)])
    said = "".join(capsys.readouterr())

    assert [each for each in SECRETS if each in said] == []
    if command[0] == "preview":
        assert "a text of 36 characters, not shown" in said
        assert "ops" in said


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_no_comparison_repeats_it(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "Pulumi.dev.yaml", tmp_path / "Pulumi.new.yaml"
    old.write_text(STACK, encoding="utf-8")
    changed = STACK.replace("hunter2b", "hunter2-longer").replace("aHVudGVyMiA9IDEK", "aHVudGVyMyA9IDEK")
    new.write_text(changed.replace("keyName: ops", "keyName: others"), encoding="utf-8")
    main(["diff", *flags, str(old), str(new)])
    said = "".join(capsys.readouterr())

    assert [each for each in SECRETS if each in said] == []
    assert "a text of 8 characters, not shown" in said
    assert "a text of 14 characters, not shown" in said
    assert "others" in said
