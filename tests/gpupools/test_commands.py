"""`gpupools catalog`, `mig` and `matrix`, as they are called."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.providers import clouds
from gpupools.spec.models import SHARING_KINDS


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """Call the command with --json and return what it holds: its rows, or its whole answer."""
    assert main([*arguments, "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    return next((said[key] for key in ("instance_types", "rows", "profiles") if key in said), said)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.strip()


# --- catalog ---


def test_the_catalogue_has_every_row_of_every_cloud(capsys: pytest.CaptureFixture[str]) -> None:
    rows = asked(capsys, "catalog")

    assert len(rows) == sum(len(cloud.instance_types) for cloud in clouds().values())
    assert {row["cloud"] for row in rows} == set(clouds())


def test_a_row_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = [row for row in asked(capsys, "catalog", "--cloud", "aws") if row["instance_type"] == "p4d.24xlarge"]

    assert {key: row[key] for key in ("cloud", "gpu_model", "gpus", "gpu_memory_gib", "vcpus", "memory_gib")} == {
        "cloud": "aws",
        "gpu_model": "A100-40GB",
        "gpus": 8,
        "gpu_memory_gib": 40,
        "vcpus": 96,
        "memory_gib": 1152,
    }
    assert (row["architecture"], row["rdma"], row["rdma_interfaces"], row["lifecycle"]) == (
        "amd64",
        "efa",
        4,
        "current",
    )
    assert row["source"]


def test_a_part_of_a_gpu_is_a_fraction(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["instance_type"]: row for row in asked(capsys, "catalog")}

    assert rows["g6f.large"]["gpus"] == 0.125
    assert rows["Standard_NV6ads_A10_v5"]["gpus_exact"] == "1/6"
    assert rows["g4-standard-24"]["gpus"] == 0.5


def test_n1_rows_are_named_after_their_accelerators(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["instance_type"]: row for row in asked(capsys, "catalog", "--cloud", "gcp", "--gpu", "T4")}

    assert set(rows) == {f"n1+nvidia-tesla-t4:{count}" for count in (1, 2, 4)}
    assert [rows[f"n1+nvidia-tesla-t4:{count}"]["gpus"] for count in (1, 2, 4)] == [1, 2, 4]


def test_a_family_of_models_is_listed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    models = {row["gpu_model"] for row in asked(capsys, "catalog", "--gpu", "a100")}

    assert models == {"A100-40GB", "A100-80GB"}


def test_a_cloud_without_the_gpu_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "--gpu", "L4"]) == 0

    printed = capsys.readouterr().out
    assert "g6.xlarge" in printed
    assert "g2-standard-4" in printed
    assert printed.endswith("azure has no instance type with L4\n")


@pytest.mark.parametrize("command", ["catalog", "matrix"])
@pytest.mark.parametrize(
    ("option", "value", "answer"),
    [
        ("--gpu", "A1000", "--gpu: 'A1000' is not an NVIDIA GPU model; did you mean 'A10' or"),
        ("--cloud", "azur", "--cloud: unknown cloud 'azur'; did you mean 'azure'?"),
    ],
    ids=["gpu", "cloud"],
)
def test_unknown_words_are_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], command: str, option: str, value: str, answer: str
) -> None:
    assert refused(capsys, command, option, value).startswith(f"gpupools {command}: {answer}")


# --- mig ---


def test_what_fits_is_shown_slice_by_slice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mig", "fit", "--gpu", "A100-40GB", "3g.20gb", "2g.10gb", "1g.5gb"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fits: uses 6 of 7 compute slices and 7 of 8 memory slices of one A100-40GB"
    assert lines[2].split()[:9] == ["3g.20gb", *"####...."]


def test_what_does_not_fit_exits_1_with_the_largest_part_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "mig", "fit", "--gpu", "A100-40GB", "3g.20gb", "3g.20gb", "1g.5gb", code=1)

    assert not answer["fits"]
    assert answer["why"] == "needs 9 memory slices of 8 on one A100-40GB"
    assert answer["left_over"] == ["1g.5gb"]
    assert answer["largest"] == [
        {"profile": "3g.20gb", "start": 0, "size": 4},
        {"profile": "3g.20gb", "start": 4, "size": 4},
    ]


def test_28_sms_and_10_gb_fit_three_times_on_an_a100(capsys: pytest.CaptureFixture[str]) -> None:
    """By slices: 28 of 14 each are 2 of 7 slices, so 3; by SMs alone 108 / 28 would agree by luck."""
    (profile,) = [row for row in asked(capsys, "mig", "profiles", "--gpu", "A100-40GB") if row["profile"] == "2g.10gb"]

    assert (profile["sm_count"], profile["max_instances"], profile["compute_slices"]) == (28, 3, 2)
    assert asked(capsys, "mig", "fit", "--gpu", "A100-40GB", *["2g.10gb"] * 3)["fits"]
    assert not asked(capsys, "mig", "fit", "--gpu", "A100-40GB", *["2g.10gb"] * 4, code=1)["fits"]


def test_the_fewest_gpus_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "mig", "pack", "--gpu", "A100-40GB", "1g.5gb=10", "3g.20gb=3", "2g.10gb=4")

    assert answer["gpus"] == 4
    held = [placed["profile"] for layout in answer["layouts"] for placed in layout]
    assert {name: held.count(name) for name in set(held)} == {"1g.5gb": 10, "3g.20gb": 3, "2g.10gb": 4}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("profiles", "--gpu", "L4"), "L4 cannot do MIG; take one of A30, "),
        (("fit", "--gpu", "A100", "1g.5gb"), "--gpu: 'A100' is ambiguous: A100-40GB or A100-80GB; use one of them"),
        (
            ("fit", "--gpu", "A100-80GB", "1g.5gb"),
            "A100-80GB has no MIG profile '1g.5gb' (it is a profile of A100-40GB)",
        ),
        (("fit", "--gpu", "Voodoo", "1g.5gb"), "--gpu: unknown GPU 'Voodoo'; the nearest of 31: V100-32GB, "),
        (("pack", "--gpu", "A30", "1g.6gb=0"), ""),
        (("pack", "--gpu", "A30", "1g.6gb=1", "--max-gpus", "99"), ""),
    ],
    ids=["no MIG", "a family", "a profile of another GPU", "unknown GPU", "nothing wished", "too many GPUs"],
)
def test_a_wish_that_cannot_be_is_answered_without_a_traceback(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], answer: str
) -> None:
    code = main(["mig", *arguments])

    printed = capsys.readouterr()
    assert code == (2 if answer.startswith("--gpu") else 1 if answer else int("99" in arguments))
    assert printed.err.startswith(answer)


def test_what_is_left_out_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mig", "fit", "--gpu", "A100-40GB", *["2g.10gb"] * 5, "1g.5gb+me"]) == 1

    assert ", without 2 × 2g.10gb:" in capsys.readouterr().out


def test_a_malformed_wish_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mig", "pack", "--gpu", "A30", "1g.6gb:3"]) == 2
    assert "write PROFILE=COUNT" in capsys.readouterr().err


# --- matrix ---


def test_the_matrix_is_total(capsys: pytest.CaptureFixture[str]) -> None:
    rows = asked(capsys, "matrix")

    cells = {(row["cloud"], row["software"], row["sharing"], row["gpu_model"]) for row in rows}
    expected = {
        (name, software, sharing, model)
        for name, cloud in clouds().items()
        for software in ("cloud-managed", "device-plugin", "gpu-operator", "dra-driver", "hami")
        for sharing in SHARING_KINDS
        for model in {row.gpu_model for row in cloud.instance_types.values() if row.lifecycle != "retired"}
    }
    assert cells == expected
    assert len(rows) == len(cells)


def test_every_answer_has_a_sentence_and_a_source_and_every_refusal_a_way_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = asked(capsys, "matrix")

    assert [row for row in rows if not row["why"] or not row["source"]] == []
    assert [row for row in rows if row["verdict"] == "refused" and not row["instead"]] == []
    assert {row["verdict"] for row in rows} == {"native", "in-cluster", "refused"}


@pytest.mark.parametrize(
    ("cloud", "software", "sharing", "gpu", "verdict"),
    [
        ("gcp", "cloud-managed", "time-slicing", "L4", "native"),
        ("gcp", "cloud-managed", "mps", "L4", "native"),
        ("gcp", "cloud-managed", "mig-single", "A100-80GB", "native"),
        ("gcp", "cloud-managed", "mig-single", "L4", "refused"),
        ("gcp", "cloud-managed", "mig-single", "GB200", "refused"),
        ("gcp", "cloud-managed", "mig-mixed", "A100-80GB", "refused"),
        ("gcp", "gpu-operator", "mps", "L4", "refused"),
        ("azure", "device-plugin", "mig-single", "A100-80GB", "native"),
        ("azure", "device-plugin", "time-slicing", "A100-80GB", "in-cluster"),
        ("azure", "device-plugin", "mig-single", "RTX-PRO-6000", "refused"),
        ("azure", "cloud-managed", "time-slicing", "T4", "refused"),
        ("aws", "cloud-managed", "time-slicing", "L4", "native"),
        ("aws", "cloud-managed", "mig-single", "A100-40GB", "native"),
        ("aws", "cloud-managed", "mig-mixed", "A100-40GB", "refused"),
        ("aws", "device-plugin", "mig-single", "A100-40GB", "refused"),
        ("aws", "gpu-operator", "mig-mixed", "H100-80GB", "in-cluster"),
        ("aws", "gpu-operator", "mig-mixed+mps", "H100-80GB", "refused"),
    ],
)
def test_the_matrix_says_what_is_known_of_the_clouds(
    capsys: pytest.CaptureFixture[str], cloud: str, software: str, sharing: str, gpu: str, verdict: str
) -> None:
    rows = asked(capsys, "matrix", "--cloud", cloud, "--gpu", gpu)

    assert {r["verdict"] for r in rows if (r["software"], r["sharing"]) == (software, sharing)} == {verdict}


def test_people_see_the_models_an_answer_holds_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "--cloud", "gcp"]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("GKE (gcp)\n")
    assert "all" in printed


def test_a_cloud_without_the_gpu_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "--cloud", "azure", "--gpu", "L4"]) == 0
    assert "no instance type with L4" in capsys.readouterr().out


# --- all ---


@pytest.mark.parametrize("command", [("catalog",), ("mig", "profiles", "--gpu", "A30"), ("matrix", "--gpu", "L4")])
def test_none_of_these_needs_pulumi(command: tuple[str, ...]) -> None:
    program = (
        "import sys; from gpupools.cli.main import main; "
        f"main({list(command)!r}); print(sorted(m for m in sys.modules if m.startswith('pulumi')), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stderr.strip() == "[]"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert (ended.value.code, capsys.readouterr().out) == (0, f"gpupools {project['project']['version']}\n")
