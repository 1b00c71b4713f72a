"""Exports: found by folder, rendered with every value quoted, whatever it holds."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from wizard.problems import ProblemError
from wizard.serving.export import (
    Exported,
    ExportValues,
    check_public_name,
    image_for,
    mount_files,
    parse_export,
    render_export,
    split_over_nodes,
    systemd_word,
)

SERVER = Path(__file__).parents[3] / "templates" / "server"
KINDS = sorted(path.parent.name for path in SERVER.glob("*/export.toml"))
KEY = "sk-the-key-of-this-test-0000"
NASTY = "a \"b\" 'c' $HOME %h {{ x }} \\ # é"
VALUES = ExportValues(
    name="local",
    command=("/v/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", "/models/a b", "--seed", "1", NASTY),
    arguments=("--served-model-name", "q", "--override", NASTY, "--chat-template", "/home/x/t.jinja"),
    container_arguments=("--served-model-name", "q", "--override", NASTY, "--chat-template", "/etc/llm-setup/t.jinja"),
    env={"VLLM_CPU_KVCACHE_SPACE": "4", "NASTY": NASTY},
    machine_env={"VLLM_CPU_KVCACHE_SPACE": "4", "NASTY": NASTY, "TORCH_COMPILE_DISABLE": "1"},
    container_env={"VLLM_CPU_KVCACHE_SPACE": "4", "NASTY": NASTY},
    model="/models/a b",
    model_folder="/models/a b",
    served_name="q",
    host="127.0.0.1",
    connect_host="127.0.0.1",
    port=8001,
    python="/v/bin/python",
    vllm_version="0.32.0",
    build="cuda",
    image="vllm/vllm-openai:v0.32.0",
    gpus=2,
    shm_gib=8,
    startup_s=1600,
    home="/home/x y",
    cache_folder="/home/x y/.cache/huggingface",
    wizard=("/w/bin/python", "-m", "wizard"),
    key=KEY,
    key_file="/home/x y/key",
    public_name="llm.example.com",
    mounted=mount_files(("/home/x/t.jinja",), {"/home/x/t.jinja": "{{ messages }}\n# 'x'\n"})[1],
    wizard_env=(("LLM_SETUP_HOME", "/home/x y/own"),),
    nodes=2,
    master="10.0.0.1",
    tensor_parallel_size=2,
    pipeline_parallel_size=2,
)


def _render(kind: str, values: ExportValues = VALUES) -> dict[str, Exported]:
    folder = SERVER / kind
    spec = parse_export(kind, (folder / "export.toml").read_text())
    texts = {path.name: path.read_text() for path in folder.glob("*.j2")}
    return {file.target: file for file in render_export(spec, texts, values)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_renders_and_keeps_the_key_in_secret_files_alone(kind: str) -> None:
    files = _render(kind)
    assert files
    for file in files.values():
        assert file.text.strip()
        assert (KEY in file.text) == file.secret


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_names_a_source_and_what_to_do_next(kind: str) -> None:
    spec = parse_export(kind, (SERVER / kind / "export.toml").read_text())
    assert spec.name == kind
    assert spec.docs.startswith("https://")
    assert spec.next


def test_compose_keeps_every_word_publishes_on_loopback_and_reads_the_key_from_a_secret() -> None:
    service = YAML(typ="safe").load(_render("compose")["compose.yaml"].text)["services"]["vllm"]
    # Compose reads `$$` as a dollar.
    words = [word.replace("$$", "$") for word in service["command"]]
    assert words[0] == "/model"
    assert words[5:] == list(VALUES.container_arguments)
    assert service["environment"]["NASTY"].replace("$$", "$") == NASTY
    assert service["ports"] == ["127.0.0.1:8001:8000"]
    assert service["secrets"] == ["vllm_api_key"]
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 2
    assert {mount["target"] for mount in service["volumes"]} == {"/model", "/etc/llm-setup/t.jinja"}


def test_a_cpu_server_asks_for_no_gpu_and_a_hub_model_for_the_cache() -> None:
    values = replace(VALUES, build="cpu", gpus=0, model="Qwen/Qwen3-8B", model_folder="")
    service = YAML(typ="safe").load(_render("compose", values)["compose.yaml"].text)["services"]["vllm"]
    assert "deploy" not in service
    assert service["command"][0] == "Qwen/Qwen3-8B"
    assert service["volumes"][0]["target"] == "/root/.cache/huggingface"
    text = _render("kubernetes", values)["vllm.yaml"].text
    assert "nvidia.com/gpu" not in text


def test_kubernetes_has_all_its_parts_and_the_server_keeps_its_words() -> None:
    documents = {row["kind"]: row for row in YAML(typ="safe").load_all(_render("kubernetes")["vllm.yaml"].text)}
    assert set(documents) == {"PersistentVolumeClaim", "ConfigMap", "Service", "Deployment"}
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["args"][5:] == list(VALUES.container_arguments)
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["key"] == "api-key"
    assert pod["volumes"][1]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert documents["ConfigMap"]["data"] == {"t.jinja": "{{ messages }}\n# 'x'\n"}
    assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("kind", ["systemd-user", "systemd-system"])
def test_units_are_hardened_and_take_the_key_as_a_credential(kind: str) -> None:
    unit = next(file.text for target, file in _render(kind).items() if target.endswith(".service"))
    assert "NoNewPrivileges=yes" in unit
    assert "LoadCredential=api-key:" in unit
    assert "--api-key " not in unit
    if kind == "systemd-system":
        assert "DynamicUser=yes" in unit


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("--seed=1", "--seed=1"),
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('"x"\\', '"\\"x\\"\\\\"'),
        ("a\nb", '"a\\nb"'),
        ("", '""'),
    ],
)
def test_words_of_a_unit_are_literal(word: str, quoted: str) -> None:
    assert systemd_word(word) == quoted


def test_each_node_gets_its_script_and_only_the_first_serves() -> None:
    files = _render("multi-node")
    first, second = files["node-0.sh"].text, files["node-1.sh"].text
    assert "--node-rank 0" in first
    assert "--headless" not in first
    assert "--node-rank 1" in second
    assert "--headless" in second
    for text in (first, second):
        assert "--tensor-parallel-size 2 --pipeline-parallel-size 2" in text
        words = shlex.split(text.split("exec ", 1)[1])
        assert NASTY in words
    assert files["node-0.sh"].executable


def test_layers_are_split_across_machines_but_for_the_cpu_build_which_cannot() -> None:
    assert split_over_nodes("cuda", 2, 4) == (4, 2)
    assert split_over_nodes("cpu", 2, 1) == (2, 1)


def test_proxies_pass_streams_on_and_keep_metrics_inside() -> None:
    (nginx,) = _render("nginx").values()
    assert "proxy_buffering off" in nginx.text
    assert "server_name llm.example.com;" in nginx.text
    (caddy,) = _render("caddy").values()
    assert "flush_interval -1" in caddy.text
    for file in (nginx, caddy):
        assert "127.0.0.1:8001" in file.text
        assert "404" in file.text


def test_the_dashboard_is_json_for_any_data_source() -> None:
    (file,) = _render("grafana").values()
    dashboard = json.loads(file.text)
    assert len(dashboard["panels"]) >= 6
    assert dashboard["templating"]["list"][0]["type"] == "datasource"


@pytest.mark.parametrize("name", ["a b", "x;y", "", "-x", "x" * 300, "a\nb", "{x}"])
def test_a_host_name_cannot_smuggle_configuration(name: str) -> None:
    with pytest.raises(ProblemError):
        check_public_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "name = ",
        'name = "x"',
        'name="x"\ntitle="t"\ndocs="d"\nfile=[]\ntypo=1',
        'name="x"\ntitle="t"\ndocs="d"\nfile=[{a=1}]',
    ],
)
def test_a_wrong_kind_is_named(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_export("mine", text)
    assert caught.value.problem.code == "template-broken"
    assert "mine" in caught.value.problem.what


def test_a_template_that_prints_an_unquoted_value_is_refused() -> None:
    spec = parse_export("x", 'name="x"\ntitle="t"\ndocs="d"\nfile=[{template="a.j2", target="a"}]')
    for template in ("{{ server.model }}", "{{ server.nothing | sh }}", "{{ oops"):
        with pytest.raises(ProblemError) as caught:
            render_export(spec, {"a.j2": template}, VALUES)
        assert caught.value.problem.code == "template-broken"


def test_files_that_flags_name_are_mounted_once() -> None:
    words, mounted = mount_files(("--a", "/x/t.jinja", "--b", "/x/t.jinja"), {"/x/t.jinja": "T"})
    assert words == ("--a", "/etc/llm-setup/t.jinja", "--b", "/etc/llm-setup/t.jinja")
    assert [file.source for file in mounted] == ["/x/t.jinja"]


def test_each_build_has_its_image() -> None:
    assert len({image_for(build, "0.32.0") for build in ("cuda", "rocm", "cpu")}) == 3
    assert image_for("cuda", "0.32.0") == "vllm/vllm-openai:v0.32.0"


def test_a_node_talks_over_the_network_that_reaches_the_first_machine() -> None:
    files = _render("multi-node")
    for name in ("node-0.sh", "node-1.sh", "ray-head.sh", "ray-worker.sh", "ray-serve.sh"):
        assert "export GLOO_SOCKET_IFNAME=" in files[name].text
        assert "export NCCL_SOCKET_IFNAME=" in files[name].text
        assert "export VLLM_HOST_IP" in files[name].text
    assert "address show to" in files["node-0.sh"].text
    assert "route get" in files["node-1.sh"].text


def test_the_cpu_build_gets_no_scripts_for_ray_which_it_cannot_use() -> None:
    assert set(_render("multi-node", replace(VALUES, build="cpu"))) == {"node-0.sh", "node-1.sh"}


# Of the chart vllm-stack 0.1.12 (values.schema.json): what it knows, as far as it concerns us.
STACK = {
    "servingEngineSpec": dict,
    "servingEngineSpec.runtimeClassName": str,
    "servingEngineSpec.vllmApiKey": dict,
    "servingEngineSpec.vllmApiKey.secretName": str,
    "servingEngineSpec.vllmApiKey.secretKey": str,
    "servingEngineSpec.modelSpec": list,
    "servingEngineSpec.startupProbe": dict,
    "servingEngineSpec.startupProbe.initialDelaySeconds": int,
    "servingEngineSpec.startupProbe.periodSeconds": int,
    "servingEngineSpec.startupProbe.failureThreshold": int,
    "routerSpec": dict,
    "routerSpec.routingLogic": str,
}
STACK_MODEL = {
    "name": str,
    "repository": str,
    "tag": str,
    "modelURL": str,
    "replicaCount": int,
    "requestCPU": int,
    "requestMemory": str,
    "requestGPU": int,
    "pvcStorage": str,
    "shmSize": str,
    "vllmConfig": dict,
    "vllmConfig.extraArgs": list,
    "env": list,
}


def _typed(value: object, path: str = "") -> dict[str, type]:
    """Each key of nested tables, with the type of what it holds."""
    found: dict[str, type] = {}
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f"{path}.{key}".lstrip(".")
            found |= {name: type(inner)} | _typed(inner, name)
    return found


@pytest.mark.parametrize("build", ["cuda", "cpu"])
def test_the_production_stacks_values_are_those_that_its_chart_knows(build: str) -> None:
    files = _render("production-stack", replace(VALUES, build=build, gpus=0 if build == "cpu" else 2))
    values = YAML(typ="safe").load(files["values.yaml"].text)
    (model,) = values["servingEngineSpec"]["modelSpec"]
    assert _typed(values).items() <= STACK.items()
    assert _typed(model).items() <= STACK_MODEL.items()
    assert all(set(row) == {"name", "value"} for row in model["env"])
    secret = YAML(typ="safe").load(files["secret.yaml"].text)
    key = values["servingEngineSpec"]["vllmApiKey"]
    assert secret["metadata"]["name"] == key["secretName"]
    assert secret["stringData"] == {key["secretKey"]: KEY}
