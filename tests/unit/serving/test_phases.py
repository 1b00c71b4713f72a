"""Phases of a start, read from its log lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.serving.phases import Progress, advance, clean_line, patience_for, phase_title

RECORDED = Path(__file__).parents[2] / "recorded" / "vllm" / "starts"


def _read(*lines: str) -> Progress:
    progress = Progress()
    for second, line in enumerate(lines):
        progress = advance(progress, line, float(second))
    return progress


def test_a_real_start_on_a_cpu_goes_through_its_phases_to_ready() -> None:
    lines = (RECORDED / "cpu-0.32.0-smollm2-eager.log").read_text().splitlines()
    progress = _read(*lines)
    assert [phase.phase for phase in progress.phases] == ["start", "resolve", "load", "profile", "serve"]
    assert progress.announced_ready
    measured = progress.measured
    assert (measured.kv_tokens, measured.kv_gib, measured.weights_gib) == (46592, 1.0, 0.25)
    assert (measured.max_model_len, measured.max_concurrency) == (8192, 5.69)


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        pytest.param("INFO [model.py:733] Resolved architecture: Qwen3ForCausalLM", "resolve", id="architecture"),
        pytest.param("Fetching 8 files:  25%|##5  | 2/8 [00:01<00:03]", "download", id="hub files"),
        pytest.param(
            "INFO [weight_utils.py:304] Using model weights format ['*.safetensors']", "download", id="format"
        ),
        pytest.param("INFO [gpu_model_runner.py:2336] Starting to load model Qwen/Qwen3-8B...", "load", id="load"),
        pytest.param(
            "INFO [gpu_model_runner.py:2392] Model loading took 15.27 GiB and 4.1 seconds", "load", id="loaded"
        ),
        pytest.param(
            "INFO [backends.py:548] Using cache directory: /c for vLLM's torch.compile", "compile", id="cache"
        ),
        pytest.param("INFO [backends.py:559] Dynamo bytecode transform time: 5.63 s", "compile", id="dynamo"),
        pytest.param("INFO [monitor.py:34] torch.compile takes 21.4 s in total", "compile", id="compiled"),
        pytest.param("INFO [gpu_worker.py:298] Available KV cache memory: 51.2 GiB", "profile", id="memory"),
        pytest.param("INFO [kv_cache_utils.py:864] GPU KV cache size: 372,800 tokens", "profile", id="tokens"),
        pytest.param(
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|1 | 7/67 [0:1]", "graphs", id="graphs"
        ),
        pytest.param("INFO [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:8000", "serve", id="port"),
    ],
)
def test_a_line_enters_its_phase(line: str, phase: str) -> None:
    assert _read(line).phase == phase


def test_a_phase_is_never_left_backwards() -> None:
    progress = _read("Available KV cache memory: 1.0 GiB", "Loading safetensors checkpoint shards: 0% Completed | 0/1")
    assert progress.phase == "profile"


def test_each_phase_has_its_time() -> None:
    progress = _read("Resolved architecture: X", "", "Starting to load model X...")
    assert [(p.phase, p.began_s, p.ended_s) for p in progress.phases] == [
        ("start", 0.0, 0.0),
        ("resolve", 0.0, 2.0),
        ("load", 2.0, None),
    ]


@pytest.mark.parametrize(
    ("line", "fraction"),
    [
        pytest.param("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:02<00:02]", 0.5, id="shards"),
        pytest.param("Capturing CUDA graphs (decode, FULL):  25%|##  | 8/32 [00:01<00:03]", 0.25, id="graphs"),
        pytest.param("model-00001-of-00004.safetensors:  40%|####  | 1.9G/4.9G [00:30<00:44]", 0.4, id="file"),
        pytest.param("INFO nothing of the kind", None, id="none"),
    ],
)
def test_how_far_a_phase_is_stands_in_its_bar(line: str, fraction: float | None) -> None:
    assert _read(line).fraction == fraction


def test_a_new_phase_forgets_how_far_the_last_one_was() -> None:
    progress = _read(
        "Loading safetensors checkpoint shards: 100% Completed | 4/4", "Available KV cache memory: 2.0 GiB"
    )
    assert progress.fraction is None


def test_device_memory_wins_over_the_size_on_disk_in_any_order() -> None:
    for lines in (
        ("Checkpoint size: 15.26 GiB", "Model loading took 15.27 GiB memory and 4 s"),
        ("Model loading took 15.27 GiB memory and 4 s", "Checkpoint size: 15.26 GiB"),
    ):
        assert _read(*lines).measured.weights_gib == 15.27


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        pytest.param("\x1b[1;36m(EngineCore)\x1b[0m INFO x", "(EngineCore) INFO x", id="colours"),
        pytest.param("10%\r 50%\r100%\r\n", "100%", id="a bar's last state"),
        pytest.param("a\x00\x07b", "ab", id="control characters"),
        pytest.param("\x1b]0;title\x07text", "text", id="window title"),
    ],
)
def test_lines_are_cleaned(line: str, cleaned: str) -> None:
    assert clean_line(line) == cleaned


def test_a_line_without_end_is_cut() -> None:
    assert len(clean_line("x" * 1_000_000)) <= 4000


def test_patience_grows_with_the_size_and_with_a_download() -> None:
    small, large = patience_for(1.0, downloaded=True), patience_for(140.0, downloaded=True)
    assert large.total_s > small.total_s
    assert large.stall_s > small.stall_s
    assert patience_for(1.0, downloaded=False).total_s > small.total_s


def test_every_phase_has_a_title() -> None:
    from wizard.serving.phases import PHASES

    assert len({phase_title(phase) for phase in PHASES}) == len(PHASES)
