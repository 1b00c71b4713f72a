"""What a start measured replaces the estimate of the next plan."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from wizard.catalog.gpus import find_gpu
from wizard.flows.plan import plan_for
from wizard.flows.serve_model import remember_measured
from wizard.hardware.describe import describe_machine
from wizard.planning.intent import Intent
from wizard.serving.record import ServerRecord

# Lines in the form that vLLM 0.19 and later print; the figures are made up.
LOG = """\
(EngineCore pid=77) INFO 04-02 10:00:01 [gpu_model_runner.py:4200] Model loading took 15.27 GiB memory and 8.1 seconds
(EngineCore pid=77) INFO 04-02 10:00:31 [gpu_worker.py:436] Available KV cache memory: 3.11 GiB
"""


def test_a_measured_start_is_used_by_the_next_plan(world: Any, tmp_path: Path) -> None:
    assert find_gpu("RTX 4090") is not None
    machine = replace(describe_machine("RTX 4090"), described=False)
    intent = Intent(vllm_version="0.32.0")
    first = plan_for(world, "Qwen/Qwen3-8B", machine=machine, intent=intent)
    log = tmp_path / "server.log"
    log.write_text(LOG)
    record = ServerRecord("local", 1, "x", "127.0.0.1", 8000, "m", "m", "", "0.32.0", ("vllm",), str(log), 0.0)
    remember_measured(world, record, first)
    second = plan_for(world, "Qwen/Qwen3-8B", machine=machine, intent=intent)
    assert not first.memory.measured
    assert second.memory.measured
    assert abs(second.memory.kv_gib - 3.11) < 0.01
