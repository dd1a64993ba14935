"""Instance types from a cloud's folder."""

from fractions import Fraction
from pathlib import Path

from gpupools.catalog.instance_types import Catalogue, smallest


def test_a_row_becomes_a_machine(fake_catalogue: Catalogue) -> None:
    machine = fake_catalogue["a100-80.8"]

    assert (machine.name, machine.gpu_model, machine.gpus) == ("a100-80.8", "A100-80GB", Fraction(8))
    assert (machine.vcpus, machine.memory_gib, machine.gpu_memory_gib) == (96, 1360.0, 80.0)
    assert (machine.rdma_interfaces, machine.local_disk_gb) == (None, 0)
    assert machine.source == "https://example.com/a100-80.8"
    assert machine.extra == {"zone": "north-a"}


def test_a_part_of_a_gpu_is_one_device(fake_catalogue: Catalogue) -> None:
    machine = fake_catalogue["a10.part"]

    assert machine.gpus == Fraction(1, 4)
    assert machine.is_fraction
    assert machine.devices == 1
    assert not fake_catalogue["a10.1"].is_fraction


def test_a_catalogue_is_a_mapping_in_the_order_of_its_file(fake_catalogue: Catalogue) -> None:
    assert list(fake_catalogue)[:3] == ["k80.1", "p100.1", "a10.part"]
    assert len(fake_catalogue) == 15
    assert fake_catalogue.get("nothing") is None


def test_nothing_is_read_before_it_is_needed(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "not there yet")

    (tmp_path / "not there yet").mkdir()
    (tmp_path / "not there yet" / "instance_types.csv").write_text("instance_type\n", encoding="utf-8")
    assert len(catalogue) == 0


def test_other_accelerators_are_found_by_pattern(fake_catalogue: Catalogue) -> None:
    assert fake_catalogue.other_accelerator("amd.8") == "AMD Radeon"
    assert fake_catalogue.other_accelerator("AMD.8") is None
    assert fake_catalogue.other_accelerator("l4.small") is None


def test_machines_to_choose_from_come_smallest_first_and_older_ones_last(fake_catalogue: Catalogue) -> None:
    machines = fake_catalogue.with_gpus("L4", Fraction(1))

    assert [machine.name for machine in machines] == ["l4.small", "l4.large", "l4.old"]


def test_what_cannot_be_bought_or_has_no_known_size_is_not_chosen(fake_catalogue: Catalogue) -> None:
    assert fake_catalogue.with_gpus("K80", Fraction(1)) == ()
    assert fake_catalogue.with_gpus("A10", Fraction(2)) == ()
    assert fake_catalogue.with_gpus("B200", Fraction(8)) == ()


def test_the_smallest_are_those_of_one_size(fake_catalogue: Catalogue) -> None:
    twins = fake_catalogue.with_gpus("L4", Fraction(4))

    assert [machine.name for machine in smallest(twins)] == ["l4.4.twin-a", "l4.4.twin-b"]
    assert [machine.name for machine in smallest(fake_catalogue.with_gpus("L4", Fraction(1)))] == ["l4.small"]
    assert smallest(()) == ()
