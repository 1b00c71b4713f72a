"""Intel's discrete GPUs and Macs, from the texts that their systems give."""

from __future__ import annotations

import pytest

from wizard.hardware import apple, intel

GIB = 2**30


def test_i915_tells_its_memory_and_xe_each_tiles() -> None:
    i915 = intel.parse_intel_gpu(0, {"lmem_total_bytes": f"0x{16 * GIB:x}\n"}, "0000:03:00.0", "Arc A770")
    xe = {"tile0/physical_vram_size_bytes": f"{8 * GIB}\n", "tile1/physical_vram_size_bytes": f"{8 * GIB}\n"}
    assert i915.memory_total_gib == 16.0
    assert intel.parse_intel_gpu(0, xe, "0000:03:00.0", None).memory_total_gib == 16.0
    assert i915.memory_free_gib is None
    assert "free memory" in i915.unknown[0]


def test_without_a_figure_the_pci_window_is_only_a_hint() -> None:
    resource = "0x0000004000000000 0x00000043ffffffff 0x000000000014220c\n0x0 0x0 0x0\n"
    gpu = intel.parse_intel_gpu(0, {"resource": resource, "device": "0xe20b\n"}, "0000:03:00.0", None)
    assert gpu.memory_total_gib is None
    assert "16 GiB" in gpu.unknown[0]
    assert gpu.name == "Intel GPU 0xe20b"


def test_integrated_graphics_are_told_by_their_place() -> None:
    assert intel.is_integrated("0000:00:02.0")
    assert not intel.is_integrated("0000:03:00.0")


SYSCTL = """hw.memsize: 137438953472
hw.physicalcpu: 16
hw.logicalcpu: 16
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_I8MM: 0
machdep.cpu.brand_string: Apple M4 Max
iogpu.wired_limit_mb: {limit}
"""
VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                             2097152.
Pages active:                           1000000.
Pages inactive:                         1048576.
Pages speculative:                            0.
Pages purgeable:                              0.
"""


def test_a_mac_shares_three_quarters_of_a_large_memory_with_its_gpu() -> None:
    facts = apple.parse_apple(SYSCTL.format(limit=0), VM_STAT, "arm64")
    assert (facts.ram_total_gib, facts.ram_available_gib) == (128.0, 48.0)
    assert facts.cpu.features == ("bf16",)
    (gpu,) = facts.gpus
    assert (gpu.name, gpu.memory_total_gib, gpu.memory_free_gib) == ("Apple M4 Max", 96.0, 48.0)
    assert gpu.unified_memory
    assert "estimated" in gpu.unknown[0]


def test_a_wired_limit_that_was_set_is_taken() -> None:
    (gpu,) = apple.parse_apple(SYSCTL.format(limit=110 * 1024), VM_STAT, "arm64").gpus
    assert gpu.memory_total_gib == 110.0
    assert gpu.unknown == ()


def test_an_intel_mac_has_no_gpu_to_serve_on() -> None:
    facts = apple.parse_apple(
        "hw.memsize: 17179869184\nmachdep.cpu.brand_string: Intel(R) Core(TM) i7\nhw.optional.avx2_0: 1\n", "", "x86_64"
    )
    assert facts.gpus == ()
    assert facts.cpu.features == ("avx2",)
    assert facts.ram_available_gib is None


@pytest.mark.parametrize("text", ["", "sysctl: unknown oid\n"])
def test_a_silent_sysctl_is_unknown(text: str) -> None:
    facts = apple.parse_apple(text, text, "arm64")
    assert facts.ram_total_gib is None
    assert facts.gpus == ()
