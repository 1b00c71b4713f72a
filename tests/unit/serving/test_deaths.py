"""Why a server died, from its log: the table's own examples, recorded logs, and what must not be taken for a death."""

import json
import string
import tomllib
from pathlib import Path

import pytest

from wizard.secret import Secret
from wizard.serving.deaths import (
    Death,
    FlagChange,
    all_deaths,
    find_death,
    find_deaths,
    find_deaths_in_bytes,
    judge_log,
    split_prefix,
)

RECORDED = Path(__file__).parents[2] / "recorded" / "vllm" / "deaths"
EXAMPLES = [
    pytest.param(kind.code, line.example, id=f"{kind.code}-{n}")
    for kind in all_deaths()
    for n, line in enumerate(kind.lines)
]
LOGS = [
    pytest.param(row["file"], row["code"], row.get("change", ""), id=row["file"].removesuffix(".log"))
    for row in tomllib.loads((RECORDED / "index.toml").read_text("utf-8"))["log"]
]
WRAPPER = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.74 GiB."
BANNER = "(APIServer pid=1) INFO 11-30 13:32:17 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0"


def first(log: str) -> Death:
    return find_deaths(log.splitlines())[0]


def codes(log: str) -> list[str]:
    return [problem.code for problem in judge_log(log.splitlines())]


def changes(death: Death) -> dict[str, str | None]:
    return {change.flag: change.value for remedy in death.remedies[:1] for change in remedy.changes}


@pytest.mark.parametrize(("code", "example"), EXAMPLES)
def test_the_line_that_taught_us_a_death_is_judged_as_it(code: str, example: str) -> None:
    problem = judge_log(example.splitlines())[0]
    assert problem.code == code
    assert "{" not in problem.what.replace("{ ", "")
    assert problem.fix is not None
    assert problem.fix.text


@pytest.mark.parametrize(("name", "code", "change"), LOGS)
def test_a_recorded_log_is_judged_rightly(name: str, code: str, change: str) -> None:
    deaths = find_deaths((RECORDED / name).read_text("utf-8").splitlines())
    if not code:
        assert [death.problem.code for death in deaths if death.problem.severity == "error"] == []
        return
    death = deaths[0]
    assert (death.problem.code, death.problem.severity) == (code, "error")
    if change:
        flags = changes(death) | dict(death.remedies[0].env)
        assert change in {
            f"{flag} {value}".strip() if value is not None else f"without {flag}" for flag, value in flags.items()
        }


def test_at_least_forty_five_deaths_are_known_each_with_its_source() -> None:
    deaths = [kind for kind in all_deaths() if kind.role in ("cause", "generic", "consequence")]
    assert len(deaths) >= 45
    assert len({kind.code for kind in all_deaths()}) == len(all_deaths())
    assert all(line.source and line.example for kind in all_deaths() for line in kind.lines)


def test_every_name_in_a_text_comes_from_its_pattern_or_from_what_it_derives() -> None:
    derived = {
        "context_by_ratio": {"fitting"},
        "cpu_cache_space": {"space_gib"},
        "utilization_that_fits": {"utilization"},
        "half_the_requests": {"fewer_requests"},
        "less_memory": {"utilization", "fewer_requests"},
        "largest_divisor": {"divisor"},
        "gpus_available": {"wanted", "available"},
        "next_port": {"next_port"},
        "unknown_flags": {"first_flag"},
        "package": {"package"},
        "architecture_known": set(),
        "": set(),
    }
    for kind in all_deaths():
        for line in kind.lines:
            known = set(line.pattern.groupindex) | derived[line.derive]
            texts = [line.what, line.fix, *line.commands]
            for remedy in line.remedies:
                texts += [*remedy.get("set", {}).values(), *remedy.get("drop", ()), remedy["gives_up"]]
            wanted = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
            assert wanted <= known, (kind.code, wanted - known)


def test_codes_that_rows_refer_to_exist() -> None:
    for kind in all_deaths():
        for code in kind.explained_by | kind.over | kind.masked_by | ({kind.masked_code} - {""}):
            assert find_death(code), (kind.code, code)


# ---- the root cause among other lines


@pytest.mark.parametrize(
    ("log", "code"),
    [
        pytest.param(f"{OOM}\n{WRAPPER}", "cuda-oom", id="wrapper-after"),
        pytest.param(f"{WRAPPER}\n{OOM}", "cuda-oom", id="wrapper-before"),
        pytest.param(
            "ERROR 03-19 07:27:53 [core.py:1] RuntimeError: Worker failed with error 'CUDA out of memory. Tried'",
            "cuda-oom",
            id="cause-inside-a-wrapper",
        ),
        pytest.param(
            f"TimeoutError: RPC call to execute_model timed out.\n{OOM}", "cuda-oom", id="consequence-before-the-cause"
        ),
        pytest.param(
            "RuntimeError: NCCL error: unhandled cuda error\n"
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a (size 9637888)",
            "shm-too-small",
            id="shared-memory-explains-nccl",
        ),
        pytest.param(
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n"
            "RuntimeError: Failed to infer device type",
            "driver-too-old",
            id="a-warning-explains-a-missing-device",
        ),
        pytest.param(
            "Traceback (most recent call last):\n  File \"x.py\", line 1, in get_open_port\n    s.bind(('', port))\n"
            "OSError: [Errno 98] Address already in use",
            "port-in-use-internal",
            id="a-port-among-the-workers",
        ),
        pytest.param(
            "WARNING 08-27 13:59:59 _custom_ops.py:15] Failed to import from vllm._C with "
            "ImportError('libcudart.so.12: "
            "cannot open shared object file: No such file or directory')\n" + OOM,
            "cuda-oom",
            id="a-warning-before-is-not-the-cause",
        ),
        pytest.param(
            "ValueError: Model architectures ['A'] are not supported for now. Supported architectures: ['A', 'B']",
            "unsupported-arch-masked-import",
            id="an-architecture-that-is-in-the-list",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'flash_attn'\n"
            "ValueError: Model architectures ['A'] are not supported for now. Supported architectures: ['B']",
            "unsupported-arch-masked-import",
            id="an-import-error-masks-an-architecture",
        ),
        pytest.param(
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla "
            "P40 GPU has compute "
            "capability 6.1.\nRuntimeError: GPUs with compute capability below 7.0 are not supported.",
            "gpu-too-old",
            id="too-old-for-anything",
        ),
        pytest.param(
            "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found",
            "missing-c-compiler",
            id="no-compiler-inside-torch-compile",
        ),
    ],
)
def test_the_root_cause_is_named_first(log: str, code: str) -> None:
    assert codes(log)[0] == code


def test_only_the_first_finding_is_an_error() -> None:
    problems = judge_log([OOM, "OSError: [Errno 28] No space left on device", WRAPPER])
    assert [(p.code, p.severity) for p in problems] == [("cuda-oom", "error"), ("disk-full", "warning")]


def test_an_error_that_nobody_knows_is_shown_instead_of_its_wrapper() -> None:
    problem = judge_log(["Traceback (most recent call last):", "FrobnicationError: the frob is gone", WRAPPER])[0]
    assert problem.code == "startup-failed"
    assert "the frob is gone" in problem.what


def test_a_bare_error_is_shown_with_the_code_that_raised_it() -> None:
    prefix = "(Worker_TP1 pid=185567) ERROR 11-27 22:39:46 [multiproc_executor.py:822] "
    lines = [
        '  File "/x/lora_shrink_op.py", line 180',
        "    assert token_lora_mapping.size(0) == M",
        "           ^^^^^",
        "AssertionError",
    ]
    problem = judge_log([*(prefix + line for line in lines), WRAPPER])[0]
    assert "assert token_lora_mapping.size(0) == M" in problem.what


def test_an_unknown_validation_error_is_shown_with_the_lines_that_explain_it() -> None:
    log = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation "
        "error for XConfig\n  Value error, frobs must be even"
    )
    assert "frobs must be even" in judge_log(log.splitlines())[0].what


# ---- what is no death


@pytest.mark.parametrize(
    "log",
    [
        pytest.param("", id="empty"),
        pytest.param("hello", id="any-text"),
        pytest.param("INFO 11-30 10:00:00 [x.py:1] CUDA out of memory is what this prompt is about", id="info-line"),
        pytest.param(
            "WARNING 11-30 13:42:34 [system_utils.py:255] Found ulimit of 20000 and failed to "
            "automatically increase with "
            "error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too "
            "many open files`. Consider increasing with ulimit -n",
            id="ulimit-warning",
        ),
        pytest.param(
            "WARNING 02-02 10:00:00 [interface.py:99] Using 'pin_memory=False' as WSL is detected.", id="wsl-pin-memory"
        ),
        pytest.param(
            "WARNING 02-02 10:00:00 [marlin_utils_fp8.py:80] Your GPU does not have native support for FP8 computation "
            "but FP8 quantization is being used. Weight-only FP8 compression will be used leveraging "
            "the Marlin kernel.",
            id="fp8-by-marlin",
        ),
        pytest.param(
            "INFO 02-02 10:00:00 [cuda.py:1] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.",
            id="another-attention-backend-chosen",
        ),
        pytest.param(
            "[W1130 10:00:00.1 socket.cpp:464] [c10d] The client socket has failed to connect to [localhost]:29500 "
            "(errno: 99 - Cannot assign requested address).",
            id="torch-tries-ipv6-first",
        ),
        pytest.param(f"{OOM}\nINFO:     Application startup complete.", id="came-up-after-all"),
        pytest.param(
            "INFO:     Application startup complete.\n(APIServer pid=1) INFO 11-30 13:40:23 "
            "[launcher.py:254] [shutdown] API "
            "server: shutdown triggered\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            id="stopped-on-purpose",
        ),
    ],
)
def test_a_healthy_log_brings_no_finding(log: str) -> None:
    assert judge_log(log.splitlines()) == ()


def test_a_new_start_forgets_the_death_of_the_one_before() -> None:
    problems = judge_log([BANNER, OOM, BANNER, "INFO 11-30 10:00:00 [x.py:1] Loading weights"])
    assert [(p.code, p.severity) for p in problems] == [("server-not-ready", "info")]


def test_a_kill_by_vllm_itself_is_not_taken_for_a_lack_of_memory() -> None:
    log = "FrobnicationError: no frob\nCRITICAL 02-17 20:51:49 core_client.py:158] Got fatal signal\nKilled"
    assert codes(log) == ["startup-failed"]


def test_a_death_after_a_good_start_is_found() -> None:
    assert codes(f"{BANNER}\nINFO:     Application startup complete.\n{OOM}\n{WRAPPER}")[0] == "cuda-oom"


def test_an_error_after_the_start_that_leaves_the_engine_alive_is_a_warning() -> None:
    error = "ERROR 11-30 10:00:00 [serving.py:1] PermissionError: [Errno 13] Permission denied: '/img/cat.png'"
    log = ["INFO:     Application startup complete.", error]
    assert [(p.code, p.severity) for p in judge_log(log)] == [("folder-not-writable", "warning")]
    assert judge_log([*log, WRAPPER])[0].severity == "error"


def test_a_requests_error_with_its_traceback_is_no_death_in_a_log_that_begins_after_the_start() -> None:
    traceback = ["Traceback (most recent call last):", "json.decoder.JSONDecodeError: Expecting value: line 1"]
    at = "ERROR 03-01 10:00:00 [hermes_tool_parser.py:120] "
    part = [at + line for line in ("Error in extracting tool call from response.", *traceback)]
    start = "INFO 03-01 09:59:00 [api_server.py:1] vLLM API server version 0.32.0"
    assert [(p.code, p.severity) for p in judge_log(part)] == [("tool-parser-mismatch", "warning")]
    assert judge_log([start, *part])[0].code == "startup-failed"


def test_errors_of_single_requests_are_warnings() -> None:
    access = 'INFO:     10.0.0.7:5 - "POST /chat/completions HTTP/1.1" 404 Not Found'
    log = f"INFO:     Application startup complete.\n{access}"
    assert [(p.code, p.severity) for p in judge_log(log.splitlines())] == [("base-url-missing-v1", "warning")]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages?beta=true", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("good", ["200 OK", "400 Bad Request"])
@pytest.mark.parametrize("good_first", [True, False])
def test_a_path_that_answered_once_is_offered_whatever_another_request_for_it_got(
    path: str, good: str, good_first: bool
) -> None:
    refused = f'INFO:     10.0.0.7:5 - "POST {path} HTTP/1.1" 404 Not Found'
    answered = f'INFO:     10.0.0.7:6 - "POST {path} HTTP/1.1" {good}'
    up = "INFO:     Application startup complete."
    assert [p.code.startswith("endpoint-unsupported") for p in judge_log([up, refused])] == [True]
    assert judge_log([up, answered, refused] if good_first else [up, refused, answered]) == ()


# ---- numbers


@pytest.mark.parametrize(
    ("line", "flag", "value"),
    [
        pytest.param(
            "ValueError: To serve at least one request with the models's max seq len (8192), (4.00 GiB "
            "KV cache is needed, "
            "which is larger than the available KV cache memory (1.00 GiB).",
            "--max-model-len",
            "2032",
            id="context-by-ratio",
        ),
        pytest.param(
            "ValueError: Free memory on device (7.00/10.00 GiB) on startup is less than desired GPU memory utilization "
            "(0.9, 9.0 GiB).",
            "--gpu-memory-utilization",
            "0.69",
            id="free-share-less-one-percent",
        ),
        pytest.param(
            "CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
            "--max-num-seqs",
            "512",
            id="half-the-requests",
        ),
        pytest.param(
            "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (6).",
            "--tensor-parallel-size",
            "5",
            id="largest-divisor-below",
        ),
        pytest.param(
            "ValueError: World size (8) is larger than the number of available GPUs (3) in this node.",
            "--tensor-parallel-size",
            "2",
            id="a-power-of-two-of-gpus",
        ),
        pytest.param(
            "[Errno 98] error while attempting to bind on address ('::', 8000, 0, 0): address already in use",
            "--port",
            "8001",
            id="the-next-port",
        ),
        pytest.param("vllm: error: unrecognized arguments: --a --b=1", "--a", None, id="the-unknown-flag"),
        pytest.param(
            "ValueError: Quantization method specified in the model config (gptq) does not match the "
            "quantization method "
            "specified in the `quantization` argument (awq).",
            "--quantization",
            None,
            id="no-quantization",
        ),
    ],
)
def test_numbers_in_the_line_become_the_flags_new_value(line: str, flag: str, value: str | None) -> None:
    assert FlagChange(flag, value) in first(line).remedies[0].changes


@pytest.mark.parametrize(
    ("given", "share", "requests"),
    [
        pytest.param("{'port': 8000}", "0.85", "64", id="defaults"),
        pytest.param("{'gpu_memory_utilization': 0.95, 'max_num_seqs': 1024}", "0.85", "64", id="more-than-usual"),
        pytest.param("{'gpu_memory_utilization': 0.7, 'max_num_seqs': 16}", "0.65", "8", id="less-than-usual"),
    ],
)
def test_a_lack_of_memory_lowers_what_was_given(given: str, share: str, requests: str) -> None:
    death = first(f"INFO 11-30 13:32:17 [api_utils.py:286] non-default args: {given}\n{OOM}")
    assert changes(death) == {"--gpu-memory-utilization": share, "--max-num-seqs": requests}


def test_no_remedy_is_offered_where_nothing_fits() -> None:
    line = (
        "Free memory on device (0.10/23.50 GiB) on startup is less than desired GPU memory utilization (0.9, 21.15 GiB)"
    )
    death = first(line)
    assert death.problem.code == "gpu-memory-in-use"
    assert death.remedies == ()


# ---- prefixes and noise


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"(EngineCore_DP0 pid=45) ERROR 12-20 20:13:01 [core.py:868] {OOM}", id="engine-core"),
        pytest.param(
            f"(EngineCore_0 pid=1) (VllmWorker TP0 pid=2) ERROR 08-25 11:01:23 [x.py:2] {OOM}", id="two-processes"
        ),
        pytest.param(f"(VllmWorker rank=1 pid=29) ERROR 03-19 07:27:53 [multiproc_executor.py:375] {OOM}", id="worker"),
        pytest.param(f"ERROR 10-16 05:20:48 registry.py:264] {OOM}", id="old-vllm"),
        pytest.param(f"[rank0]: {OOM}", id="rank"),
        pytest.param(f"2026-11-30T13:32:17.123456789Z {OOM}", id="docker-timestamps"),
        pytest.param(f"2026-11-30T13:32:17.123456789Z stderr F {OOM}", id="kubernetes-cri"),
        pytest.param(f"[pod/vllm-7d9f/vllm] {OOM}", id="kubectl-prefix"),
        pytest.param(f"vllm-1  | {OOM}", id="compose"),
        pytest.param(f"Nov 30 13:32:17 gpu-box vllm[812]: {OOM}", id="journald"),
        pytest.param(f"\x1b[31mERROR\x1b[0m 12-20 20:13:01 [core.py:868] \x1b[1m{OOM}\x1b[0m", id="colours"),
        pytest.param(
            json.dumps({"log": OOM + "\n", "stream": "stderr", "time": "2026-11-30T13:32:17Z"}), id="docker-json"
        ),
        pytest.param(json.dumps({"levelname": "ERROR", "message": OOM}), id="structured"),
        pytest.param(f"2026-11-30 13:32:17.890 | {OOM}", id="grafana"),
        pytest.param(f"INFO 2026-11-30T13:32:17.1Z [resource.labels.name: vllm] {OOM}", id="google-cloud"),
        pytest.param(f"gpu7 i-0ab1 whatever> (APIServer pid=1) {OOM}", id="unknown-collector"),
        pytest.param(f'ts=2026-11-30T13:32:17Z level=error msg="{OOM}"', id="logfmt"),
        pytest.param(f"[1,0]<stderr>:{OOM}", id="mpirun"),
        pytest.param(f"3: (Worker pid=4) {OOM}", id="srun"),
        pytest.param(f"\x00\x07{OOM}\ufffd", id="binary-noise"),
    ],
)
def test_what_stands_before_a_line_does_not_hide_it(line: str) -> None:
    death = first(line)
    assert death.problem.code == "cuda-oom"
    assert split_prefix(line)[0].startswith("torch.OutOfMemoryError")


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: worker died (Worker pid=55) with exit code 1",
        'torch.OutOfMemoryError: CUDA out of memory. msg="x y"',
    ],
)
def test_what_looks_like_a_collectors_words_behind_an_error_is_the_errors(line: str) -> None:
    assert split_prefix(line)[0] == line


@pytest.mark.parametrize(
    "collected",
    [
        pytest.param("INFO 2026-11-30T13:32:17.1Z [resource.labels.name: vllm] {line}", id="google-cloud"),
        pytest.param("whatever 42 {line}", id="unknown-collector"),
        pytest.param('level=error ts=2026-11-30T13:32:17Z msg="{line}"', id="logfmt"),
    ],
)
def test_a_warning_is_no_death_whatever_a_collector_calls_it(collected: str) -> None:
    warning = (
        "(APIServer pid=1) WARNING 11-30 13:32:17 [x.py:2] This can cause `OSError: [Errno 24] Too many open files`."
    )
    dead = f"(EngineCore pid=2) ERROR 11-30 13:32:36 [core.py:842] {OOM}"
    codes = [problem.code for problem in judge_log([collected.format(line=line) for line in (warning, dead)])]
    assert codes[:1] == ["cuda-oom"]


def test_evidence_is_shown_without_prefix_and_without_keys() -> None:
    key = Secret("sk-abcdef0123456789")
    line = (
        f"(EngineCore pid=45) ERROR 12-20 20:13:01 [core.py:868] "
        f"OSError: No space left on device; api_key={key.reveal()}"
    )
    saw = first(line).problem.saw[0]
    assert saw.startswith("OSError: No space left on device")
    assert key.reveal() not in saw


# ---- large logs

HEALTHY = b'(APIServer pid=1) INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    "after", [pytest.param(b"", id="at-the-end"), pytest.param(HEALTHY * 60_000, id="far-from-the-end")]
)
def test_a_death_is_found_in_a_log_that_is_only_skimmed(after: bytes) -> None:
    log = HEALTHY * 100_000 + OOM.encode() + b"\n" + after
    pieces = [log[i : i + 65_536] for i in range(0, len(log), 65_536)]
    assert [death.problem.code for death in find_deaths_in_bytes(pieces)] == ["cuda-oom"]
    assert [death.problem.code for death in find_deaths(log.decode().splitlines())] == ["cuda-oom"]


def test_a_restart_in_the_skimmed_part_forgets_what_was_before() -> None:
    log = HEALTHY * 60_000 + OOM.encode() + b"\n" + HEALTHY * 20_000 + BANNER.encode() + b"\n"
    log += (
        b"(APIServer pid=1) INFO 11-30 13:32:17 [api_utils.py:286] non-default args: {'port': 8000}\n"
        + HEALTHY * 40_000
    )
    assert find_deaths_in_bytes([log[i : i + 65_536] for i in range(0, len(log), 65_536)]) == ()


def test_a_line_without_end_is_cut() -> None:
    deaths = find_deaths_in_bytes([OOM.encode()] + [b"x" * 100_000] * 50)
    assert deaths[0].problem.code == "cuda-oom"
    assert len(deaths[0].problem.saw[0]) < 500


def test_bytes_that_are_no_text_do_no_harm() -> None:
    noise = bytes(range(256)) * 4000
    assert find_deaths_in_bytes([noise, b"\n", OOM.encode(), b"\n", noise])[0].problem.code == "cuda-oom"


def test_progress_bars_that_rewrite_their_line_do_not_hide_what_follows() -> None:
    assert codes(f"Capturing CUDA graphs:  10%|#\rCapturing CUDA graphs:  20%|##\r{OOM}")[0] == "cuda-oom"
