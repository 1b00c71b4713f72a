"""Which GPU a name means, and what follows from the row."""

import shlex

import pytest

from wizard.catalog.gpus import all_gpus, find_gpu, lacks, names_beginning, nearest


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("RTX 4090 24GB", "rtx-4090"),
        ("RTX 4090 D", "rtx-4090-d"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"),
        ("h100", "h100-sxm"),
        ("H100-80GB", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("A100 80GB", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-40gb"),
        ("Tesla V100-PCIE-32GB", "v100-32gb"),
        ("RTX A4000", "a4000"),
        ("RTX 4000 Ada", "rtx-4000-ada"),
        ("Quadro RTX 4000", "quadro-rtx-4000"),
        ("A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("L4", "l4"),
        ("L40", "l40"),
        ("L40S 46GB", "l40s"),
        ("H200", "h200"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("DGX Spark", "gb10"),
        ("rtx 4070tisuper", "rtx-4070-ti-super"),
        ("RTX 4060 Ti 16GB", "rtx-4060-ti-16gb"),
        ("RTX 3080", "rtx-3080"),
        ("RTX 3080 12GB", "rtx-3080-12gb"),
        ("AMD Instinct MI300X", "mi300x"),
        ("7900XTX", "rx-7900-xtx"),
        ("RX 9070", "rx-9070"),
        ("Intel(R) Arc(TM) B580 Graphics", "arc-b580"),
    ],
)
def test_a_name_means_one_gpu(name: str, gpu_id: str) -> None:
    found = find_gpu(name)
    assert found is not None
    assert found.id == gpu_id


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("A100", "NVIDIA A100-SXM4-80GB", id="two-sizes"),
        pytest.param("RTX 4000", "Quadro RTX 4000", id="two-generations"),
        pytest.param("RTX 4060 Ti", "NVIDIA GeForce RTX 4060 Ti 16GB", id="two-sizes-of-one-driver-name"),
        pytest.param("RTX 4091", "NVIDIA GeForce RTX 4090 24GB", id="misspelt"),
        pytest.param("RTX A4000 Ada", "NVIDIA RTX A4000", id="a-word-too-many"),
        pytest.param("RTX 4090 Super", "NVIDIA GeForce RTX 4090 24GB", id="a-card-that-does-not-exist"),
        pytest.param("RTX 4090 16GB", "NVIDIA GeForce RTX 4090 24GB", id="a-size-it-does-not-have"),
    ],
)
def test_a_name_that_is_unclear_is_not_guessed_and_the_nearest_are_named(name: str, meant: str) -> None:
    assert find_gpu(name) is None
    assert meant in nearest(name)


@pytest.mark.parametrize("name", ["", "   ", "NVIDIA Graphics Device", "GPU", "24GB", "\x00", "显卡"])
def test_a_name_that_says_nothing_finds_nothing(name: str) -> None:
    assert find_gpu(name) is None
    assert nearest(name) == ()


@pytest.mark.parametrize(
    ("name", "memory_gib", "gpu_id"),
    [
        ("A100", 39.4, "a100-40gb"),
        ("A100", 79.25, "a100-80gb"),
        ("NVIDIA GeForce RTX 3060", 7.8, "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 15.6, "rtx-4060-ti-16gb"),
        ("NVIDIA GeForce RTX 4090", 47.4, "rtx-4090-48gb"),
        ("NVIDIA L4", 11.0, "l4"),
    ],
)
def test_the_reported_memory_tells_apart_what_the_name_does_not(name: str, memory_gib: float, gpu_id: str) -> None:
    found = find_gpu(name, memory_gib)
    assert found is not None
    assert found.id == gpu_id


def test_every_row_is_found_by_its_own_name_and_memory() -> None:
    lost = [entry.id for entry in all_gpus() if find_gpu(entry.name, entry.memory_gib) is not entry]
    assert lost == []


def test_there_are_at_least_sixty_rows_with_plausible_figures() -> None:
    rows = all_gpus()
    assert len(rows) >= 60
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        assert 0.85 * row.nameplate_gb < row.memory_gib <= row.nameplate_gb, row.id
        assert 100 <= row.memory_bandwidth_gb_s <= 10_000, row.id
        assert (row.compute_capability is None) == (row.vendor != "nvidia"), row.id
        assert row.source, row.id


@pytest.mark.parametrize(
    ("compute_capability", "features"),
    [
        ("7.0", {"bf16", "flash-attention-2", "fp8", "fp4"}),
        ("7.5", {"bf16", "flash-attention-2", "fp8", "fp4"}),
        ("8.0", {"fp8", "fp4"}),
        ("8.6", {"fp8", "fp4"}),
        ("8.9", {"fp4"}),
        ("9.0", {"fp4"}),
        ("10.0", set()),
        ("12.0", set()),
        ("12.1", set()),
    ],
)
def test_what_an_nvidia_gpu_lacks_follows_from_its_compute_capability(
    compute_capability: str, features: set[str]
) -> None:
    assert set(lacks("nvidia", compute_capability)) == features


def test_what_other_gpus_lack_follows_from_their_architecture() -> None:
    assert "fp8" not in lacks("amd", None, "gfx942")
    assert "fp8" in lacks("amd", None, "gfx90a")
    assert "bf16" in lacks("amd", None, "gfx906")


@pytest.mark.parametrize("name", ["FooBar 9000", "Frobnicator 9000", "9000"])
def test_a_number_alone_makes_no_other_series_likely(name: str) -> None:
    assert not any("Quadro" in near for near in nearest(name))
    assert nearest("FooBar 9000") == ()


@pytest.mark.parametrize("typed", ["", "h", "NVIDIA-h", "rtx", "Arc"])
def test_what_tab_offers_begins_as_it_was_typed_needs_no_quotes_and_means_a_gpu(typed: str) -> None:
    names = names_beginning(typed)
    assert names
    for name in names:
        assert name.lower().startswith(typed.lower())
        assert shlex.quote(name) == name
        assert find_gpu(name) is not None


def test_tab_offers_a_gpu_without_its_maker_s_name() -> None:
    assert "H200" in names_beginning("h2")
    assert "Thor" in names_beginning("T")
    assert not any("H" not in name[:1].upper() for name in names_beginning("H"))


def test_every_name_of_the_catalogue_is_found_with_dashes_for_blanks() -> None:
    for entry in all_gpus():
        assert find_gpu(entry.name.replace(" ", "-")) == find_gpu(entry.name)
