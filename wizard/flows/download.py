"""Fetch a model from the hub before the server starts, with room checked first and a token asked for once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from wizard.effects import hub_child
from wizard.effects.hub import HubCache, hugging_face_models
from wizard.effects.world import World
from wizard.flows.live import LiveLine
from wizard.flows.packages import PackageError, free_gib, install_beside
from wizard.i18n import t
from wizard.planning.hub import HubSource, hub_source
from wizard.problems import Fix, Problem, ProblemError
from wizard.secret import Secret
from wizard.serving.download import (
    MODELSCOPE_PACKAGES,
    NO_ACCESS,
    NO_ROOM,
    DownloadProgress,
    advance_download,
    judge_download,
    modelscope_gated,
)
from wizard.serving.install_plan import disk_problem, installer_environment
from wizard.serving.runtime import Runtime
from wizard.ui.screen import Screen

TOKEN_NAME = "hub-token"
MODELSCOPE_TOKEN_NAME = "modelscope-token"
_MODELSCOPE_VARIABLE = "MODELSCOPE_API_TOKEN"
_GATED = ("hf-gated-401",)
_WHOLE = ".llm-setup-whole"


def ensure_model(
    world: World, screen: Screen, runtime: Runtime, model: str, *, ask_token: Callable[[str], str] | None = None
) -> str:
    """See that a hub model's files are here, and return what to serve: the model itself, or the folder that it is in.

    From Hugging Face or its mirror into the cache that vLLM reads; from ModelScope into a folder of our own. Nothing is
    done for a folder, offline, or when all is here. ask_token is asked once when the hub wants a login; the token is
    kept. Raises ProblemError: no room, no access, no network.
    """
    if Path(model).expanduser().is_dir():
        return model
    source = hub_source(world.env)
    if source.kind == "modelscope":
        return _ensure_from_modelscope(world, screen, runtime, model, source, ask_token)
    if _on(world, "HF_HUB_OFFLINE"):
        return model
    snapshot = HubCache(world.env, world.home).snapshot(model)
    if snapshot is not None and _has_all_weights(snapshot):
        # vLLM finds its own hub's cache by the model's name, and another's by the folder only.
        return model if snapshot.parents[1].name.startswith("models--") else str(snapshot)
    _with_token(
        world,
        lambda: _download(world, screen, runtime, model),
        TOKEN_NAME,
        t("{model} is gated: a token of huggingface.co that may read it (not shown)", model=model),
        ask_token,
    )
    return model


def _with_token(
    world: World,
    download: Callable[[], Problem | None],
    token_name: str,
    question: str,
    ask_token: Callable[[str], str] | None,
) -> None:
    """Download; where the hub wants a login, ask for a token, keep it, and try once more."""
    problem = download()
    if problem is not None and problem.code in _GATED and ask_token is not None:
        text = ask_token(question).strip()
        if text:
            world.secrets.put(token_name, Secret(text))
            problem = download()
    if problem is not None:
        raise ProblemError(problem)


def _ensure_from_modelscope(
    world: World,
    screen: Screen,
    runtime: Runtime,
    model: str,
    source: HubSource,
    ask_token: Callable[[str], str] | None,
) -> str:
    folder = world.paths.models / "modelscope" / model
    snapshot = HubCache(world.env, world.home).snapshot(model)
    if snapshot is not None and _has_all_weights(snapshot):
        return str(snapshot)
    if not (folder / _WHOLE).exists():
        client = _modelscope_client(world, screen, runtime)
        _with_token(
            world,
            lambda: _download_from_modelscope(world, screen, runtime, model, source, folder, client),
            MODELSCOPE_TOKEN_NAME,
            t("{model} needs a login: a token of {host} that may read it (not shown)", model=model, host=source.host),
            ask_token,
        )
        world.files.write_bytes(folder / _WHOLE, b"")
    return str(folder)


def _modelscope_client(world: World, screen: Screen, runtime: Runtime) -> Path:
    """A folder with ModelScope's own client for the runtime's Python; fetched once."""
    folder = world.paths.runtimes.parent / "tools" / MODELSCOPE_PACKAGES[0].replace("==", "-")
    if (folder / _WHOLE).exists():
        return folder
    screen.step("running", t("get ModelScope's own client"), MODELSCOPE_PACKAGES[0])
    try:
        install_beside(world, runtime, folder, MODELSCOPE_PACKAGES, with_requirements=True)
    except PackageError as error:
        raise ProblemError(
            Problem(
                "modelscope-client-missing",
                t("ModelScope's own client could not be got from the package index."),
                saw=error.saw,
                fix=Fix(
                    t("Set a mirror of the package index, or name a local folder with the model."),
                    ("export PIP_INDEX_URL=https://your.mirror/simple", "llm-setup serve /path/to/a/model"),
                ),
            )
        ) from error
    world.files.write_bytes(folder / _WHOLE, b"")
    return folder


def _download_from_modelscope(
    world: World, screen: Screen, runtime: Runtime, model: str, source: HubSource, folder: Path, client: Path
) -> Problem | None:
    environment = installer_environment(world.env) | {"PYTHONPATH": str(client)}
    kept = world.secrets.get(f"store:{MODELSCOPE_TOKEN_NAME}")
    if kept and not world.env.get(_MODELSCOPE_VARIABLE):
        environment[_MODELSCOPE_VARIABLE] = kept.reveal()
    hub = ("modelscope", source.endpoint, str(folder))
    code, progress, lines = _fetch(world, screen, runtime, model, hub, folder, environment)
    if code == NO_ACCESS:
        return modelscope_gated(model, source.endpoint, lines)
    return _judged(model, code, progress, lines, folder)


def token_environment(world: World) -> dict[str, str]:
    """The kept token as the hub's libraries read it; nothing where the user's own environment or login has one."""
    if HubCache(world.env, world.home).token() is not None:
        return {}
    kept = world.secrets.get(f"store:{TOKEN_NAME}")
    return {"HF_TOKEN": kept.reveal()} if kept else {}


def _on(world: World, name: str) -> bool:
    return world.env.get(name, "").strip().lower() in ("1", "true", "on", "yes")


def _has_all_weights(snapshot: Path) -> bool:
    """Whether every file that the index names is there; a link to a half fetched file is none."""
    if (snapshot / "model.safetensors").exists() or (snapshot / "pytorch_model.bin").exists():
        return True
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        try:
            names = set(json.loads((snapshot / name).read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError):
            continue
        return all((snapshot / str(each)).exists() for each in names)
    return any(snapshot.glob("*.safetensors"))


def _download(world: World, screen: Screen, runtime: Runtime, model: str) -> Problem | None:
    cache = hugging_face_models(world.env, world.home)
    environment = installer_environment(world.env) | token_environment(world)
    code, progress, lines = _fetch(world, screen, runtime, model, ("huggingface",), cache, environment)
    return _judged(model, code, progress, lines, cache)


def _fetch(
    world: World,
    screen: Screen,
    runtime: Runtime,
    model: str,
    hub: tuple[str, ...],
    place: Path,
    environment: Mapping[str, str],
) -> tuple[int, DownloadProgress, list[str]]:
    """Fetch with progress shown: the exit status, how far it came, and what else was said."""
    free = free_gib(place)
    screen.step("running", t("download {model}", model=model))
    begun = world.clock.monotonic_s()
    progress = DownloadProgress()
    lines: list[str] = []
    live = LiveLine(world, screen)

    def on_line(line: str) -> None:
        nonlocal progress
        before, progress = progress, advance_download(progress, line)
        if progress == before:
            lines.append(line)
            del lines[:-200]
        seconds = world.clock.monotonic_s() - begun
        live.show(_text(progress, seconds), progress.fraction)

    room = str(int((free if free is not None else 1e6) * 2**30))
    # By its text: the folder that it lies in has modules named as some of Python's own.
    program = Path(hub_child.__file__).read_text(encoding="utf-8")
    argv = [runtime.python, "-c", program, hub[0], model, room, *hub[1:]]
    code = world.processes.stream(argv, env={**environment, "PYTHONSAFEPATH": "1"}, on_line=on_line)
    live.clear()
    if code == 0 and progress.folder:
        size = t("{gib} GiB", gib=f"{progress.total / 2**30:.1f}")
        screen.step("ok", t("{model} is here", model=model), size, world.clock.monotonic_s() - begun)
    return code, progress, lines


def _judged(model: str, code: int, progress: DownloadProgress, lines: list[str], place: Path) -> Problem | None:
    if code == NO_ROOM:
        what = t("the model {model}", model=model)
        return disk_problem(what, progress.missing / 2**30, free_gib(place) or 0.0, str(place))
    return None if code == 0 and progress.folder else judge_download(model, code, lines)


def _text(progress: DownloadProgress, seconds: float) -> str:
    if not progress.total:
        return t("ask the hub")
    done, total = progress.done / 2**30, progress.total / 2**30
    fetched = progress.done - (progress.total - progress.missing)
    speed = f"  {fetched / 2**20 / seconds:.0f} MiB/s" if seconds > 2 and fetched > 0 else ""
    return f"{done:.2f} / {total:.2f} GiB{speed}"
