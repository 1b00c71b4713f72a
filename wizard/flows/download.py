"""Fetch a model from the hub before the server starts, with room checked first and a token asked for once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from wizard.effects.hub import HubCache
from wizard.effects.world import World
from wizard.flows.live import LiveLine
from wizard.flows.packages import free_gib
from wizard.i18n import t
from wizard.problems import Problem, ProblemError
from wizard.secret import Secret
from wizard.serving.download import DOWNLOAD_SCRIPT, NO_ROOM, DownloadProgress, advance_download, judge_download
from wizard.serving.install_plan import disk_problem, installer_environment
from wizard.serving.runtime import Runtime
from wizard.ui.screen import Screen

TOKEN_NAME = "hub-token"
_GATED = ("hf-gated-401",)


def ensure_model(
    world: World, screen: Screen, runtime: Runtime, model: str, *, ask_token: Callable[[str], str] | None = None
) -> None:
    """See that a hub model's files are here.

    Nothing is done for a folder, offline, with ModelScope (vLLM fetches by itself then), or when all is here. ask_token
    is asked once when the hub wants a login; the token is kept. Raises ProblemError: no room, no access, no network.
    """
    if Path(model).expanduser().is_dir() or _on(world, "HF_HUB_OFFLINE") or _on(world, "VLLM_USE_MODELSCOPE"):
        return
    snapshot = HubCache(world.env, world.home).snapshot(model)
    if snapshot is not None and _has_all_weights(snapshot):
        return
    problem = _download(world, screen, runtime, model)
    if problem is not None and problem.code in _GATED and ask_token is not None:
        text = ask_token(t("{model} is gated: a token of huggingface.co that may read it (not shown)", model=model))
        if text.strip():
            world.secrets.put(TOKEN_NAME, Secret(text.strip()))
            problem = _download(world, screen, runtime, model)
    if problem is not None:
        raise ProblemError(problem)


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
    cache = Path(world.env.get("HF_HUB_CACHE") or world.env.get("HF_HOME") or world.home / ".cache").expanduser()
    free = free_gib(cache)
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

    code = world.processes.stream(
        [runtime.python, "-c", DOWNLOAD_SCRIPT, model, str(int((free if free is not None else 1e6) * 2**30))],
        env=installer_environment(world.env) | token_environment(world),
        on_line=on_line,
    )
    live.clear()
    if code == NO_ROOM:
        what = t("the model {model}", model=model)
        return disk_problem(what, progress.missing / 2**30, free or 0.0, str(cache))
    if code != 0 or not progress.folder:
        return judge_download(model, code, lines)
    size = t("{gib} GiB", gib=f"{progress.total / 2**30:.1f}")
    screen.step("ok", t("{model} is here", model=model), size, world.clock.monotonic_s() - begun)
    return None


def _text(progress: DownloadProgress, seconds: float) -> str:
    if not progress.total:
        return t("ask the hub")
    done, total = progress.done / 2**30, progress.total / 2**30
    fetched = progress.done - (progress.total - progress.missing)
    speed = f"  {fetched / 2**20 / seconds:.0f} MiB/s" if seconds > 2 and fetched > 0 else ""
    return f"{done:.2f} / {total:.2f} GiB{speed}"
