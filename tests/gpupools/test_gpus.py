"""The table of GPU models, and what a wish such as `A100` can mean."""

import csv
from pathlib import Path

import pytest

import gpupools.catalog.gpus
from gpupools.catalog.gpus import gpu_models, match_gpu_model
from tests.rows import each_row

CANONICAL = set(
    """
    K80 M60 P4 P40 P100 V100-16GB V100-32GB T4 T4G A10 A10G A30 A100-40GB A100-80GB L4 L40S
    H100-80GB H100-NVL-94GB H100-96GB GH200-96GB GH200-144GB H20 H200-141GB B200 GB200 GB200-189GB B300 GB300
    RTX-PRO-6000 RTX-PRO-5000 RTX-PRO-4500
    """.split()  # noqa: SIM905 - a list of thirty quoted words takes a screen
)
WITHOUT_MIG = {"K80", "M60", "P4", "P40", "P100", "V100-16GB", "V100-32GB", "T4", "T4G", "A10", "A10G", "L4", "L40S"}


def test_every_canonical_model_is_there_and_no_other() -> None:
    assert set(gpu_models()) == CANONICAL


def test_the_models_with_mig_are_those_of_nvidias_list() -> None:
    assert {name for name, model in gpu_models().items() if model.mig_profiles} == CANONICAL - WITHOUT_MIG


def test_the_table_cannot_be_changed_by_a_reader() -> None:
    with pytest.raises(TypeError):
        gpu_models()["A100-40GB"] = gpu_models()["L4"]  # type: ignore[index]


def test_the_file_has_no_double_names_and_no_empty_sources() -> None:
    path = Path(gpupools.catalog.gpus.__file__).parents[1] / "data" / "gpu_models.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    assert len({row["name"] for row in rows}) == len(rows)
    assert [row["name"] for row in rows if not row["source"].startswith("https://")] == []
    assert {row["status"] for row in rows} <= {"verified", "derived", "unverified"}
    assert [row["name"] for row in rows if None in row or None in row.values()] == []


@each_row("name", sorted(CANONICAL))
def test_mps_clients_follow_the_plugins_rule_on_compute_capability(name: str) -> None:
    model = gpu_models()[name]

    assert model.mps_max_clients == (48 if model.compute_capability >= (7, 5) else 16)


@each_row("name", sorted(CANONICAL))
def test_only_old_architectures_have_a_last_driver_branch(name: str) -> None:
    model = gpu_models()[name]

    assert model.last_driver_branch == {"Kepler": 470, "Maxwell": 580, "Pascal": 580, "Volta": 580}.get(
        model.architecture
    )


@each_row(
    ("wanted", "meant"),
    [
        ("A100-40GB", ("A100-40GB",)),
        ("a100-40gb", ("A100-40GB",)),
        ("A100", ("A100-40GB", "A100-80GB")),
        (" h200 ", ("H200-141GB",)),
        ("H100", ("H100-80GB", "H100-NVL-94GB", "H100-96GB")),
        ("H100-NVL", ("H100-NVL-94GB",)),
        ("L4", ("L4",)),
        ("T4", ("T4",)),
        ("A10", ("A10",)),
        ("RTX-PRO", ("RTX-PRO-6000", "RTX-PRO-5000", "RTX-PRO-4500")),
        ("A1", ()),
        ("MI300X", ()),
        ("", ()),
        ("   ", ()),
        ("-", ()),
        ("A100-", ()),
    ],
)
def test_a_wish_means_the_model_of_that_name_or_its_sizes(wanted: str, meant: tuple[str, ...]) -> None:
    assert match_gpu_model(wanted) == meant
